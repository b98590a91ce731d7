// The table of jobs: rows by id, each filled in from what the platform says of the job.

import { clock, now, percent, relative, short, showPhase } from "/static/format.js";
import { paint } from "/static/timeline.js";

const GROUPS = { running: 0, starting: 0, stopping: 0, queued: 1 };
const group = (job) => GROUPS[job.phase] ?? 2;

// Running jobs first, then waiting ones, oldest first; then the ended ones, newest first.
export function byPlace(one, other) {
  const apart = group(one) - group(other);
  if (apart !== 0) return apart;
  if (group(one) === 2) return other.finished_s - one.finished_s;
  return one.submitted_s - other.submitted_s || (one.id < other.id ? -1 : 1);
}

const field = (row, name) => row.querySelector(`[data-field=${name}]`);

function put(row, name, text) {
  const place = field(row, name);
  if (place.textContent !== text) place.textContent = text;
}

function putTime(row, name, atS) {
  const place = row.querySelector(`[data-time=${name}]`);
  place.textContent = clock(atS);
  if (atS === null) return;
  place.dataset.at = atS;
  place.dateTime = new Date(atS * 1000).toISOString();
}

export class JobTable {
  constructor(table, template) {
    this.body = table.tBodies[0];
    this.template = template;
    this.rows = new Map();
    this.compared = new Set(); // a job stays chosen while its row is not shown
    for (const row of this.body.rows) {
      this.rows.set(row.dataset.id, row);
      if (row.querySelector("input[name=job]").checked) this.compared.add(row.dataset.id); // before this script ran
    }
  }

  // Show these jobs, in their order.
  show(jobs) {
    const wanted = new Set(jobs.map((job) => job.id));
    for (const [id, row] of this.rows) {
      if (wanted.has(id)) continue;
      row.remove();
      this.rows.delete(id);
    }
    this.order(jobs.map((job) => this.rows.get(job.id) ?? this.make(job)));
  }

  // A row that is moved loses the focus of its link: the one with the focus stays, and others move about it.
  order(rows) {
    const focused = rows.indexOf(document.activeElement.closest("tr"));
    const fixed = focused >= 0 ? focused : rows.findIndex((row) => row.isConnected);
    if (fixed < 0) return this.body.append(...rows);
    for (let at = fixed - 1; at >= 0; at -= 1) {
      if (rows[at].nextElementSibling !== rows[at + 1]) rows[at + 1].before(rows[at]);
    }
    for (let at = fixed + 1; at < rows.length; at += 1) {
      if (rows[at].previousElementSibling !== rows[at - 1]) rows[at - 1].after(rows[at]);
    }
  }

  make(job) {
    const row = this.template.content.firstElementChild.cloneNode(true);
    row.dataset.id = job.id;
    this.rows.set(job.id, row);
    row.querySelector("input[name=job]").checked = this.compared.has(job.id);
    this.fill(job);
    return row;
  }

  // Bring the row of a job up to date, if it has one.
  fill(job) {
    const row = this.rows.get(job.id);
    if (row === undefined) return;
    row.dataset.phase = job.phase;
    const name = field(row, "name");
    name.textContent = job.name;
    name.href = `/jobs/${encodeURIComponent(job.id)}`;
    name.title = job.id;
    const box = row.querySelector("input[name=job]");
    box.value = job.id;
    box.ariaLabel = `Compare ${job.name}`;
    paint(row.querySelector(".swatch"), job);
    field(row, "sign").className = `sign ${job.standing}`;
    for (const name of ["short_id", "sign", "wanted", "why"]) put(row, name, job[name]);
    this.showOffer(row, job);
    put(row, "size", job.size === 0 ? "–" : String(job.size));
    put(row, "done", percent(job.done));
    put(row, "loss", short(job.loss));
    put(row, "warnings", job.warnings.join("; "));
    this.showKnown(row, job.known);
    putTime(row, "expected", job.finished_s ?? job.expected_s);
    this.showTimeLeft(row, job);
    putTime(row, "deadline", job.deadline_s);
    this.drawBar(row, job);
    drawSpark(row.querySelector(".spark polyline"), job.spark);
  }

  showKnown(row, known) {
    const place = row.querySelector("[data-known]");
    place.hidden = known.length === 0;
    const text = `${known.length} ${known.length === 1 ? "remark" : "remarks"}`;
    if (place.firstElementChild.textContent !== text) place.firstElementChild.textContent = text;
    place.lastElementChild.textContent = known.join("\n");
  }

  showTimeLeft(row, job) {
    showPhase(field(row, "phase_word"), job);
    const isExpected = job.is_open && job.expected_s !== null;
    const leftS = isExpected ? job.expected_s - now() : 0;
    put(row, "expected-in", !isExpected ? "" : leftS < -1 ? "overdue" : relative(Math.max(leftS, 0)));
  }

  // Until the time that was offered has passed.
  showOffer(row, job) {
    const isOpen = job.offer_s !== null && job.offer_s > now();
    field(row, "sign").title = isOpen ? `could be promised for ${clock(job.offer_s)}` : "";
    put(row, "offer", job.standing === "refused" && isOpen ? `offered ${clock(job.offer_s)}` : "");
  }

  // The share of its steps that is done.
  drawBar(row, job) {
    const svg = row.querySelector("td.bar svg");
    svg.classList.toggle("unknown", job.done === null);
    svg.querySelector(".passed").setAttribute("width", 100 * (job.done ?? 0));
  }
}

function drawSpark(line, values) {
  if (values.length < 2) return line.removeAttribute("points");
  const least = Math.min(...values);
  const height = Math.max(...values) - least || 1;
  const step = 60 / (values.length - 1);
  line.setAttribute(
    "points",
    values.map((value, at) => `${(at * step).toFixed(1)},${(15 - (14 * (value - least)) / height).toFixed(1)}`).join(" "),
  );
}
