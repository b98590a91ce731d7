// The metrics of a job, a chart each: means with the range of values, and its changes of size as marks.

import { curves } from "/static/curves.js";
import { ask, repeat } from "/static/events.js";

const CHARTS_AT_ONCE = 8;
// Where nothing else tells that there is more: a metric may be reported without a step.
const LOOK_EVERY_MS = 15_000;
// A platform of many metrics needs a while to answer: this times as long it is left alone.
const REST_SHARE = 20;
// Reports of so late are read again: they may have come in another order.
const AGAIN_S = 60;
const COLUMNS = ["first_step", "last_step", "at_s", "not_finite", "mean", "min", "max"];

const blank = () => Object.fromEntries(COLUMNS.map((name) => [name, []]));

// Puts new points behind those that are known; steps that were done again replace the ones of before.
export function extend(known, told) {
  const [firstStep, firstS] = [told.first_step[0], told.at_s[0]];
  let kept = known.at_s.length;
  while (kept > 0 && (known.at_s[kept - 1] >= firstS || known.last_step[kept - 1] > firstStep)) kept -= 1;
  for (const name of COLUMNS) known[name] = [...known[name].slice(0, kept), ...told[name]];
}

export class JobCurves {
  // job: what the first lines of the page say of it. Its loss is a mean of its latest steps.
  constructor(root, sizes, job) {
    this.root = root;
    this.sizes = sizes;
    this.job = job;
    this.series = new Map();
    this.charts = new Map();
    this.numShown = CHARTS_AT_ONCE;
    this.restUntilMs = 0;
    this.more = document.getElementById("more-metrics");
    this.more.addEventListener("click", () => { this.numShown += CHARTS_AT_ONCE; this.draw(); });
    document.getElementById("axis").addEventListener("change", () => this.draw());
    this.read = repeat((signal) => this.look(signal));
  }

  async look(signal) {
    const lastS = Math.max(0, ...[...this.series.values()].map((one) => one.at_s.at(-1) ?? 0));
    const begunMs = Date.now();
    const since = lastS ? { since_s: lastS - AGAIN_S } : {};
    const { status, told } = await ask(`/v1/jobs/${encodeURIComponent(this.job.id)}/metrics`, since, signal);
    if (signal.aborted || status === 404) return null;
    if (told !== null) this.add(told.series);
    this.restUntilMs = Date.now() + REST_SHARE * (Date.now() - begunMs);
    return this.job.is_open ? Math.max(LOOK_EVERY_MS, this.restUntilMs - Date.now()) : null;
  }

  // The job has gone on.
  refresh() {
    if (Date.now() >= this.restUntilMs || !this.job.is_open) this.read();
  }

  // told: series of points, which go behind those before or take their place.
  add(told) {
    for (const one of told) {
      if (!this.series.has(one.name)) this.series.set(one.name, blank());
      if (one.at_s.length) extend(this.series.get(one.name), one);
    }
    this.draw();
  }

  // The numbers of the first lines have changed.
  renew() {
    if (this.charts.has("loss")) this.drawOne("loss", this.series.get("loss"));
  }

  mark(sizes) {
    if (JSON.stringify(sizes) === JSON.stringify(this.sizes)) return;
    this.sizes = sizes;
    this.draw();
  }

  draw() {
    const names = [...this.series.keys()].sort((one, other) => (other === "loss") - (one === "loss") || (one < other ? -1 : 1));
    names.slice(0, this.numShown).forEach((name) => this.drawOne(name, this.series.get(name)));
    const numLeft = Math.max(0, names.length - this.numShown);
    this.more.hidden = numLeft === 0;
    this.more.textContent = `Show more metrics: ${numLeft} are left out`;
    document.getElementById("no-metrics").hidden = names.length > 0;
  }

  drawOne(name, one) {
    const hasSteps = one.last_step.some((step) => step > 0);
    const isByTime = document.querySelector("#axis input:checked").value === "time" || !hasSteps;
    const data = {
      ...(isByTime ? { x: one.at_s, xUnit: "date", xLabel: "" } : { x: one.last_step, xLabel: "step" }),
      series: [{ label: name, values: one.mean, low: one.min, high: one.max, ...this.latest(name) }],
      marks: this.marks(one, isByTime), log: false, height: 200, title: `${name} by ${isByTime ? "time" : "step"}`,
    };
    if (!this.charts.has(name)) this.charts.set(name, this.place(name, data));
    else this.charts.get(name).chart.update(data);
    const numOdd = one.not_finite.reduce((sum, number) => sum + number, 0);
    const note = this.charts.get(name).note;
    note.hidden = numOdd === 0;
    note.textContent = `${numOdd} ${numOdd === 1 ? "value was" : "values were"} NaN or infinite`;
  }

  // One loss on one page, wherever it stands.
  latest(name) {
    return name === "loss" && this.job.loss !== null ? { latest: this.job.loss } : {};
  }

  place(name, data) {
    const figure = document.createElement("figure");
    const note = document.createElement("figcaption");
    figure.dataset.metric = name;
    this.root.append(figure);
    const chart = curves(figure, data);
    figure.append(note);
    return { chart, note };
  }

  // Where the number of workers changed: at the first point that was reported later.
  marks(one, isByTime) {
    const [first, last] = [one.at_s[0], one.at_s.at(-1)];
    const changes = this.sizes.map(([atS, workers], at) => ({ atS, workers, before: at ? this.sizes[at - 1][1] : 0 }));
    return changes.filter(({ atS }) => atS > first && atS <= last).map(({ atS, workers, before }) => ({
      x: isByTime ? atS : one.first_step[one.at_s.findIndex((time) => time >= atS)],
      label: `${before} → ${workers}`,
    }));
  }
}
