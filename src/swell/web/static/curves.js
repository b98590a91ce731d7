// Lines, steps and bars on uPlot, which is a classic script: `window.uPlot` must be there. Styles: curves.css.
//
//   const chart = curves(element, {
//     x: [0, 1, 2], xLabel: "step",            // numbers that rise, or texts: a place each
//     series: [{label: "loss", values: [3, 2, null], low: [..], high: [..], unit: "s"}],
//     marks: [{x: 1, label: "4 to 8 workers"}], log: true,
//   });
//   chart.update(data); chart.destroy();
//
// A series with `latest` has that number in the legend while no cursor reads another one, in place of its last value.
//
// More of `data`, none of it needed: `kind` "lines" (or "steps", "bars"); `xUnit` "s" (a length of time) or "date"
// (Unix seconds); `yLabel`; `yRange` [least, most]; `height` in pixels; `title`, for those who cannot see it. A series
// may have an `x` of its own; `mood` "good", "warn" or "bad": the page's colour of that; `isCount`: values are whole numbers, and so are ticks; `ticks`: texts below the places of
// `x`, each [text, what it is in], of which the latter stands only where it is another one. null is a gap. A log scale leaves out what is not above 0, and says how much that is.

import { drawMarks } from "/static/curve_marks.js";

const LIGHT = ["#0b62a4", "#c2410c", "#0f766e", "#a21caf", "#4d7c0f", "#b91c1c", "#44403c", "#4338ca", "#a16207", "#0e7490"];
const DARK = ["#60a5fa", "#fb923c", "#2dd4bf", "#e879f9", "#a3e635", "#f87171", "#d6d3d1", "#a5b4fc", "#fde047", "#22d3ee"];
// Lines that lie on each other are all seen: each further one is thinner, and broken in a way of its own.
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [14, 4], [2, 6], [8, 3, 2, 3, 2, 3]];
const MINUTE = 60, HOUR = 3600, DAY = 86400;
const LENGTHS = [[4 * DAY, DAY, "days"], [4 * HOUR, HOUR, "hours"], [4 * MINUTE, MINUTE, "minutes"], [0, 1, "seconds"]];
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].map((days) => days * DAY)];
const COUNTS = [1, 2, 5].flatMap((digit) => [0, 1, 2, 3, 4, 5, 6].map((power) => digit * 10 ** power)).sort((one, other) => one - other);
const MOST_LETTERS = 30; // of a label beside an axis
const FONT = "12px system-ui, sans-serif";

/** Colours by number that stand out from what is behind the element. */
export function palette(element) {
  const [red, green, blue] = getComputedStyle(element).color.match(/[\d.]+/g).map(Number);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 128 ? DARK : LIGHT;
}

/** A number as people read it: as many digits as tell it from its neighbours. */
export function spoken(value, unit = "") {
  if (value == null || Number.isNaN(value)) return "-";
  const size = Math.abs(value);
  const notation = size >= 1e7 || (size && size < 1e-4) ? "scientific" : "standard";
  const digits = { maximumSignificantDigits: notation === "standard" && size >= 1e4 ? 7 : 4 };
  return new Intl.NumberFormat("en", { notation, ...digits }).format(value) + (unit && ` ${unit}`);
}

function date(seconds, withDay = true, withSeconds = true) {
  const day = { day: "numeric", month: "short" }, clock = { hour: "2-digit", minute: "2-digit", hour12: false };
  const shape = { ...(withDay && day), ...clock, ...(withSeconds && { second: "2-digit" }) };
  return new Intl.DateTimeFormat("en-GB", shape).format(new Date(seconds * 1000));
}

function make(tag, attributes = {}, children = []) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const isPlace = (data) => data.x.some((value) => typeof value === "string");

function lengthUnit(span) {
  return LENGTHS.find(([least]) => span >= least);
}

function spokenX(data, value) {
  if (isPlace(data)) return String(data.x[value] ?? "");
  if (data.xUnit === "date") return date(value);
  if (data.xUnit !== "s") return spoken(value);
  const [, unit, name] = lengthUnit(Math.abs(value));
  return spoken(value / unit, name);
}

// ---- what uPlot is given

/** Columns: x, then for each series its values, and its low and high where it has both. */
function columns(data, isLog) {
  const own = isPlace(data) ? data.x.map((_, place) => place) : data.x;
  let dropped = 0;
  const clean = (values, isCounted) => values.map((value) => {
    const isMissing = value == null || !Number.isFinite(value);
    if (!isMissing && isLog && value <= 0) dropped += isCounted ? 1 : 0;
    return isMissing || (isLog && value <= 0) ? null : value;
  });
  const tables = data.series.map((one) => [
    one.x ?? own, clean(one.values, true), ...(one.low ? [clean(one.low, false), clean(one.high, false)] : []),
  ]);
  const isShared = data.series.every((one) => !one.x);
  // join() tells a gap (null) from a place that only another series has (undefined), and draws a line over the latter.
  const joined = isShared ? [own, ...tables.flatMap((table) => table.slice(1))] : window.uPlot.join(tables);
  return { joined, dropped };
}

function lineOf(one, place, total, colours, data) {
  const { bars, stepped, linear } = window.uPlot.paths;
  const colour = colours[place % colours.length];
  const common = { label: one.label, stroke: colour, value: () => "" };
  if (data.kind === "bars") {
    const left = (u) => u.data[0].map((x) => x - 0.4 + (0.8 * place) / total);
    const disp = { x0: { unit: 1, values: left }, size: { unit: 1, values: () => [0.8 / total] } };
    return { ...common, fill: colour, width: 0, points: { show: false }, paths: bars({ disp }) };
  }
  const paths = data.kind === "steps" ? stepped({ align: 1 }) : linear();
  return { ...common, width: Math.max(1.5, 2.5 - 0.5 * place), dash: DASHES[place % DASHES.length], paths };
}

function seriesOf(data, colours) {
  const series = [{}], bands = [], members = [];
  data.series.forEach((one, place) => {
    members.push([series.length]);
    series.push(lineOf(one, place, data.series.length, colours, data));
    if (!one.low) return;
    const low = series.length;
    const edge = { width: 0, stroke: "transparent", points: { show: false }, value: () => "" };
    series.push({ ...edge, label: `${one.label}, least` }, { ...edge, label: `${one.label}, most` });
    bands.push({ series: [low + 1, low], fill: `${colours[place % colours.length]}33` });
    members[place].push(low, low + 1);
  });
  return { series, bands, members };
}

/** Names below their places: in lines of whole words where they fit, else aslant. */
function placeAxis(data) {
  const letters = (u) => Math.max(1, Math.floor(u.bbox.width / devicePixelRatio / data.x.length / 7));
  const labels = data.ticks?.map((parts) => parts.join(" ")) ?? data.x;
  const longest = Math.max(...labels.flatMap((text) => text.split(" ")).map((word) => word.length));
  const fits = (u) => longest <= letters(u);
  const lines = (u, text) => text.split(" ").reduce((found, word) => {
    const joined = found.length ? `${found.at(-1)} ${word}` : word;
    return found.length && joined.length <= letters(u) ? [...found.slice(0, -1), joined] : [...found, word];
  }, []);
  const told = (u, text) => (fits(u) ? lines(u, text).join("\n") : text);
  const most = (u) => Math.max(1, ...labels.map((text) => lines(u, text).length));
  const label = (place, before) => {
    const [text, within] = data.ticks?.[place] ?? [data.x[place] ?? ""];
    return within === undefined || data.ticks[before]?.[1] === within ? text : `${text} ${within}`;
  };
  const every = (u) => Math.max(1, Math.ceil(16 / (u.bbox.width / devicePixelRatio / data.x.length)));
  return {
    splits: (u) => data.x.map((_, place) => place).filter((place) => place % every(u) === 0),
    values: (u, at) => at.map((place, number) => told(u, label(place, at[number - 1]))),
    rotate: (u) => (fits(u) ? 0 : 45),
    size: (u) => (fits(u) ? 14 + 17 * most(u) : Math.min(120, 24 + 5 * Math.max(...labels.map((text) => text.length)))),
  };
}

function xAxis(data, common) {
  const axis = { ...common, size: 30, label: data.xLabel, labelSize: data.xLabel ? 20 : 0, labelFont: FONT };
  if (isPlace(data)) return { ...axis, ...placeAxis(data), grid: { show: false } };
  if (data.xUnit === "date") {
    const text = (value, at, step) => date(value, step >= DAY || value === at[0], step < MINUTE);
    const values = (u, at, number, space, step) => at.map((value) => text(value, at, step));
    return { ...axis, values, incrs: STEPS, space: 90 };
  }
  if (data.xUnit !== "s") return { ...axis, values: (u, at) => at.map((value) => spoken(value)) };
  const unit = (u) => lengthUnit(u.scales.x.max - u.scales.x.min);
  const values = (u, at) => at.map((value) => spoken(value / unit(u)[1]));
  return { ...axis, incrs: STEPS, values, label: (u) => `${data.xLabel ?? "time"} (${unit(u)[2]})`, labelSize: 20 };
}

/** What the y axis is of; one that is longer than the axis stands above it. */
function yLabel(data) {
  const units = new Set(data.series.map((one) => one.unit ?? ""));
  const unit = units.size === 1 ? [...units][0] : "";
  const text = [data.yLabel, unit && `(${unit})`].filter(Boolean).join(" ");
  return { text, isLong: text.length > MOST_LETTERS };
}

function yAxis(data, common) {
  const { text, isLong } = yLabel(data), label = isLong ? "" : text;
  const size = (u, values) => 16 + 7 * Math.max(2, ...(values ?? []).map((value) => String(value ?? "").length));
  const values = (u, at) => at.map((value) => (value === null ? "" : spoken(value)));
  const whole = data.isCount ? { incrs: COUNTS } : {};
  return { ...common, label, labelSize: label ? 20 : 0, labelFont: FONT, size, values, ...whole };
}

function yRange(data, isLog) {
  if (data.yRange) return data.yRange;
  // The least bar is to be seen too: a log scale that began at its value would leave nothing of it.
  const foot = data.kind === "bars" ? 0.5 : 1;
  if (isLog) return (u, least, most) => window.uPlot.rangeLog(foot * (least ?? 1), most ?? 10, 10, true);
  const end = { pad: 0.05, soft: 0, mode: data.kind === "bars" ? 1 : 3 };
  return (u, least, most) => window.uPlot.rangeNum(least ?? 0, most ?? 1, { min: end, max: end });
}

// ---- the chart

class Curves {
  constructor(element, data) {
    this.element = element;
    this.hidden = new Set();
    this.root = make("div", { class: "curves" });
    const told = { role: "application", "aria-roledescription": "chart" };
    this.plot = make("div", { class: "curves-plot", tabindex: "0", ...told });
    this.legend = make("div", { class: "curves-legend" });
    this.said = make("p", { class: "curves-said", role: "status" });
    this.above = make("p", { class: "curves-above" });
    this.root.append(this.above, this.plot, this.legend, this.said);
    element.append(this.root);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.build();
    this.scheme.addEventListener("change", this.redraw);
    this.plot.addEventListener("keydown", (event) => this.press(event));
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(element);
    this.data = data;
    this.isLog = Boolean(data.log);
    this.build();
  }

  get width() {
    return Math.max(120, Math.floor(this.root.clientWidth));
  }

  get height() {
    return this.data.height ?? 240;
  }

  fit() {
    if (this.u && (this.u.width !== this.width || this.u.height !== this.height)) {
      this.u.setSize({ width: this.width, height: this.height });
    }
  }

  build() {
    const kept = this.isZoomed ? { ...this.range } : null;
    this.u?.destroy();
    const { data } = this, style = getComputedStyle(this.element), ink = style.color;
    const moods = data.series.map((one) => one.mood && style.getPropertyValue(`--${one.mood}`).trim());
    const colours = palette(this.element).map((colour, place) => moods[place] || colour);
    const { joined, dropped } = columns(data, this.isLog);
    const { series, bands, members } = seriesOf(data, colours);
    const common = { stroke: ink, font: FONT, labelGap: 0, ticks: { stroke: `${colours[6]}66`, width: 1, size: 5 },
      grid: { stroke: `${colours[6]}26`, width: 1 } };
    const ends = isPlace(data) ? { range: [-0.5, data.x.length - 0.5] } : {};
    this.members = members;
    this.isZoomed = false;
    this.u = new window.uPlot({
      width: this.width, height: this.height, series, bands, legend: { show: false },
      padding: [10, 20, 0, 0],
      scales: { x: { time: false, ...ends }, y: { distr: this.isLog ? 3 : 1, range: yRange(data, this.isLog) } },
      axes: [xAxis(data, common), yAxis(data, common)],
      cursor: { y: false, drag: { x: !isPlace(data), y: false }, focus: { prox: -1 },
        points: { show: data.kind !== "bars" && undefined } },
      hooks: {
        draw: [(u) => drawMarks(u, this.data.marks ?? [], this.element)],
        setCursor: [() => this.tell()],
        setSelect: [() => { this.isZoomed = true; }],
        setScale: [(u, name) => { if (name === "x") this.range = { min: u.scales.x.min, max: u.scales.x.max }; }],
      },
    }, joined, this.plot);
    this.u.over.addEventListener("dblclick", () => { this.isZoomed = false; });
    if (kept) this.zoom(kept.min, kept.max);
    this.hidden.forEach((place) => this.show(place, false));
    this.makeLegend(colours, dropped);
    const { text, isLong } = yLabel(data);
    this.above.textContent = isLong ? text : "";
    const names = data.series.map((one) => one.label).join(", ");
    const title = data.title ?? `${names} by ${data.xLabel ?? "x"}`;
    this.plot.setAttribute("aria-label", `${title}. Arrow keys read values, + and - zoom, Escape shows all.`);
  }

  makeLegend(colours, dropped) {
    this.values = [];
    const items = this.data.series.map((one, place) => {
      const value = make("span", { class: "curves-value" });
      const button = make("button", { type: "button", "aria-pressed": String(!this.hidden.has(place)) },
        [swatch(colours[place % colours.length], place, this.data.kind), make("span", {}, [one.label]), value]);
      button.addEventListener("click", () => {
        const isShown = this.hidden.delete(place) || !this.hidden.add(place);
        button.setAttribute("aria-pressed", String(isShown));
        this.show(place, isShown);
      });
      this.values.push(value);
      return button;
    });
    this.where = make("span", { class: "curves-where" });
    this.legend.replaceChildren(this.where, ...items);
    if (this.data.log !== undefined) this.legend.append(this.logButton());
    if (dropped) this.legend.append(make("span", {}, [`not shown, as not above 0: ${dropped}`]));
    this.tell();
  }

  logButton() {
    const button = make("button", { type: "button", "aria-pressed": String(this.isLog) }, ["log scale"]);
    button.addEventListener("click", () => {
      this.isLog = !this.isLog;
      this.build();
      this.legend.querySelector("button:last-of-type").focus();
    });
    return button;
  }

  show(place, isShown) {
    this.members[place].forEach((number) => this.u.setSeries(number, { show: isShown }));
  }

  /** What the legend says: values where the cursor is, else the last ones of lines. */
  tell() {
    if (!this.values || !this.u) return;
    const { idx } = this.u.cursor, hasPlace = idx != null;
    this.where.textContent = hasPlace ? spokenX(this.data, this.u.data[0][idx]) : "";
    this.data.series.forEach((one, place) => {
      const [values, low, high] = this.members[place].map((number) => this.u.data[number]);
      const hasLast = (this.data.kind ?? "lines") === "lines";
      if (!hasPlace && one.latest !== undefined) {
        this.values[place].textContent = spoken(one.latest, one.unit);
        return;
      }
      const last = hasLast ? values.findLastIndex((value) => value != null) : -1;
      const at = hasPlace ? idx : last;
      const range = hasPlace && low && low[at] != null ? ` (${spoken(low[at])} to ${spoken(high[at])})` : "";
      this.values[place].textContent = at < 0 ? "" : spoken(values[at], one.unit) + range;
    });
  }

  zoom(min, max) {
    this.isZoomed = true;
    this.u.setScale("x", { min, max });
  }

  showAll() {
    this.isZoomed = false;
    this.u.setData(this.u.data);
  }

  press(event) {
    const { u } = this, xs = u.data[0], { min, max } = u.scales.x;
    const first = xs.findIndex((x) => x >= min), last = xs.findLastIndex((x) => x <= max);
    const now = u.cursor.idx ?? (event.key === "ArrowLeft" ? last + 1 : first - 1);
    const places = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: first, End: last };
    const factors = { "+": 0.5, "-": 2 };
    if (event.ctrlKey || event.metaKey || event.altKey || !xs.length) return;
    if (event.key in places) this.read(Math.min(last, Math.max(first, places[event.key])));
    else if (event.key in factors && !isPlace(this.data)) {
      const middle = xs[u.cursor.idx] ?? (min + max) / 2, half = ((max - min) / 2) * factors[event.key];
      if (factors[event.key] > 1 && 2 * half >= xs.at(-1) - xs[0]) this.showAll();
      else this.zoom(Math.max(xs[0], middle - half), Math.min(xs.at(-1), middle + half));
    } else if (event.key === "Escape") this.showAll();
    else return;
    event.preventDefault();
  }

  read(place) {
    const { u } = this;
    u.setCursor({ left: u.valToPos(u.data[0][place], "x"), top: 10 });
    const told = this.data.series.map((one, number) => `${one.label} ${this.values[number].textContent}`);
    const marks = (this.data.marks ?? []).filter((mark) => mark.x === u.data[0][place]).map((mark) => mark.label);
    this.said.textContent = [this.where.textContent, ...told, ...marks].join("; ");
  }

  /** Draws what is new. A zoom, hidden series and a chosen scale stay. */
  update(data) {
    const shape = (of) => JSON.stringify([of.kind, of.xLabel, of.xUnit, of.height, of.yRange, isPlace(of) && of.x,
      of.series.map((one) => [one.label, one.unit, Boolean(one.low)])]);
    const isSame = shape(data) === shape(this.data) && !this.isLog;
    this.data = data;
    if (!isSame) this.build();
    else {
      this.u.setData(columns(data, false).joined, !this.isZoomed);
      if (this.isZoomed) this.u.redraw();
      this.tell();
    }
  }

  destroy() {
    this.observer.disconnect();
    this.scheme.removeEventListener("change", this.redraw);
    this.u.destroy();
    this.root.remove();
  }
}

function swatch(colour, place, kind) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const [width, dash] = kind === "bars" ? [10, ""] : [2.5, DASHES[place % DASHES.length].join(" ")];
  const ends = { x1: 0, x2: 24, y1: 6, y2: 6, stroke: colour, "stroke-width": width, "stroke-dasharray": dash };
  for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
  const frame = { width: 24, height: 12, "aria-hidden": "true" };
  for (const [name, value] of Object.entries(frame)) svg.setAttribute(name, value);
  svg.append(line);
  return svg;
}

/** Draw into the element, which gives the width. */
export function curves(element, data) {
  return new Curves(element, data);
}
