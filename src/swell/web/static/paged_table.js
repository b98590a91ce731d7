// A table of many rows that stays fluent: only a page of them is in the document.
//
//   const table = pagedTable(element, {
//     caption: "Jobs", count: 10000, search: (row) => text,
//     columns: [{label: "job", text: (row) => "..", value: (row) => number or text to sort by, isNumber: true,
//               isProse: true}],                        // a number is on the right; prose wraps
//     choices: [{label: "state", options: ["kept", "late"], has: (row, option) => true}],
//   });
//   table.update({...});   // other rows or columns; the words searched for, the choices and the order stay
//
// A row is its number, 0 to count - 1. null is sorted last.

const ROWS_A_PAGE = 50;

function tableElement(tag, attributes = {}, children = []) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function compare(one, other) {
  if (one === other) return 0;
  if (one == null) return 1;
  if (other == null) return -1;
  return one < other ? -1 : 1;
}

function kind(column) {
  if (column.isNumber) return "number";
  return column.isProse ? "prose" : "";
}

class PagedTable {
  constructor(element, shape) {
    this.page = 0;
    this.words = "";
    this.chosen = new Map();
    this.order = null;
    this.tools = tableElement("div", { class: "paged-tools" });
    this.frame = tableElement("div", { class: "paged-frame", tabindex: "0", role: "region", "aria-label": shape.caption });
    this.foot = tableElement("div", { class: "paged-foot" });
    element.replaceChildren(this.tools, this.frame, this.foot);
    this.shape = shape;
    this.makeTools();
    this.makeFoot();
    this.select();
  }

  update(shape) {
    this.shape = shape;
    this.select(false);
  }

  makeTools() {
    const search = tableElement("input", { type: "search", size: "20" });
    search.addEventListener("input", () => {
      this.words = search.value.trim().toLowerCase();
      this.select();
    });
    this.tools.append(tableElement("label", {}, ["search ", search]));
    (this.shape.choices ?? []).forEach(({ label, options }) => {
      const choice = tableElement("select", {}, ["all", ...options].map((text) => tableElement("option", { value: text }, [text])));
      choice.addEventListener("change", () => {
        this.chosen.set(label, choice.selectedIndex ? choice.value : null);
        this.select();
      });
      this.tools.append(tableElement("label", {}, [`${label} `, choice]));
    });
  }

  makeFoot() {
    const turn = (label, to) => {
      const button = tableElement("button", { type: "button" }, [label]);
      button.addEventListener("click", () => this.turn(to()));
      return button;
    };
    this.first = turn("first", () => 0);
    this.before = turn("previous", () => this.page - 1);
    this.next = turn("next", () => this.page + 1);
    this.last = turn("last", () => this.numPages - 1);
    this.said = tableElement("span", { role: "status" });
    this.foot.append(this.first, this.before, this.said, this.next, this.last);
  }

  get numPages() {
    return Math.max(1, Math.ceil(this.rows.length / ROWS_A_PAGE));
  }

  turn(page) {
    this.page = Math.min(this.numPages - 1, Math.max(0, page));
    this.draw();
  }

  /** Rows that are searched for and chosen, in order. */
  select(goesToFirst = true) {
    const { count, search, choices = [] } = this.shape;
    const active = choices.filter(({ label }) => this.chosen.get(label));
    this.rows = [];
    for (let row = 0; row < count; row += 1) {
      if (this.words && !search(row).toLowerCase().includes(this.words)) continue;
      if (active.every(({ label, has }) => has(row, this.chosen.get(label)))) this.rows.push(row);
    }
    this.sort();
    this.turn(goesToFirst ? 0 : this.page);
  }

  sort() {
    if (this.order === null) return;
    const { label, isDescending } = this.order;
    const column = this.shape.columns.find((one) => one.label === label);
    if (!column) return;
    const key = column.value ?? column.text, keys = new Map(this.rows.map((row) => [row, key(row)]));
    const sign = isDescending ? -1 : 1;
    this.rows.sort((one, other) => {
      const [mine, theirs] = [keys.get(one), keys.get(other)];
      return mine == null || theirs == null ? compare(mine, theirs) : sign * compare(mine, theirs);
    });
  }

  orderBy(label) {
    const isDescending = this.order?.label === label && !this.order.isDescending;
    this.order = { label, isDescending };
    this.select();
    this.frame.querySelector('th[aria-sort]:not([aria-sort="none"]) button')?.focus();
  }

  heading(column) {
    const isOrdered = this.order?.label === column.label;
    const sort = isOrdered ? (this.order.isDescending ? "descending" : "ascending") : "none";
    const button = tableElement("button", { type: "button" }, [column.label]);
    button.addEventListener("click", () => this.orderBy(column.label));
    return tableElement("th", { scope: "col", "aria-sort": sort, class: kind(column) }, [button]);
  }

  draw() {
    const { columns, caption } = this.shape, from = this.page * ROWS_A_PAGE;
    const shown = this.rows.slice(from, from + ROWS_A_PAGE);
    const cell = (column, row) => tableElement("td", { class: kind(column) }, [String(column.text(row))]);
    const body = shown.map((row) => tableElement("tr", {}, columns.map((column) => cell(column, row))));
    this.frame.replaceChildren(tableElement("table", {}, [
      tableElement("caption", {}, [caption]),
      tableElement("thead", {}, [tableElement("tr", {}, columns.map((column) => this.heading(column)))]),
      tableElement("tbody", {}, body),
    ]));
    const count = this.rows.length.toLocaleString("en");
    const last = Math.min(from + ROWS_A_PAGE, this.rows.length);
    this.said.textContent = this.rows.length ? `${from + 1} to ${last} of ${count}` : "none";
    this.first.disabled = this.before.disabled = this.page === 0;
    this.next.disabled = this.last.disabled = this.page >= this.numPages - 1;
  }
}

export function pagedTable(element, shape) {
  return new PagedTable(element, shape);
}
