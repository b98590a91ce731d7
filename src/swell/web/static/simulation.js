// The report of `swell simulate --html`: data of `swell.sim.html_report`, in columns, by the number of a job.

import { curves } from "/static/curves.js";
import { span } from "/static/format.js";
import { jobsInView } from "/static/jobs_in_view.js";
import { pagedTable } from "/static/paged_table.js";
import { timeline } from "/static/timeline.js";

const STATES = ["kept", "late", "done", "refused", "failed", "cancelled", "timed-out", "running", "waiting"];
/** By column: figures of which the highest is best; those with a minus are better if they are lower. */
const BETTER = {
  "DEADLINES MET": (metrics) => metrics.deadline_satisfaction, "HOURS IN TIME": (metrics) => metrics.met_device_h,
  LATE: (metrics) => -metrics.admitted_late, DONE: (metrics) => metrics.completed,
  "MEAN TIME": (metrics) => minus(0, metrics.avg_jct_s), "99% WITHIN": (metrics) => minus(0, metrics.p99_jct_s),
  "ALL WITHIN": (metrics) => (metrics.completed ? -metrics.makespan_s : null),
  "MEAN WAIT": (metrics) => minus(0, metrics.avg_queue_s), EFFICIENCY: (metrics) => metrics.cluster_efficiency,
};
const minus = (one, other) => (one == null || other == null ? null : one - other);
const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });
const spanOrNone = (seconds) => (seconds == null ? "-" : span(seconds));
const place = (name) => document.getElementById(name);

function markBest(data) {
  for (const [column, figure] of Object.entries(BETTER)) {
    const figures = data.results.map((one) => figure(one.metrics)), known = figures.filter((one) => one != null);
    const best = new Set(known).size > 1 ? Math.max(...known) : NaN;
    document.querySelectorAll(`td[data-column="${column}"]`).forEach((cell, at) => {
      cell.classList.toggle("best", figures[at] === best);
    });
  }
}

function drawUsed(data) {
  const count = data.runs[0].used.length, length = data.until_s / count;
  const x = Array.from({ length: count }, (_, part) => part * length);
  const series = data.runs.map((run) => ({ label: run.policy, values: run.used }));
  const most = Math.max(1, ...data.capacity.map(([, devices]) => devices), ...data.runs.flatMap((run) => run.used));
  curves(place("used"), { x, xUnit: "s", xLabel: "time since the first submission", yLabel: "devices in use",
    kind: "steps", series, yRange: [0, 1.05 * most], title: "Devices in use over time by policy" });
}

function drawSizes(data) {
  const { names, deadlines } = data.sizes;
  if (!names.length) return;
  const share = (kept) => kept.map((one, at) => one / deadlines[at]);
  const series = Object.entries(data.sizes.kept).map(([policy, kept]) => ({ label: policy, values: share(kept) }));
  curves(place("sizes"), { x: names, kind: "bars", yLabel: "share of deadlines kept", yRange: [0, 1], series,
    title: "Share of deadlines kept by the number of devices asked for", height: 200 });
}

/** The jobs of a run for `jobsInView`. */
function heldBy(data, run) {
  const { id, model, cls, submitted_s: submitted } = data.jobs;
  return id.map((name, job) => ({
    id: name, name: model[job] ? `${name} (${model[job]})` : name, cls: cls[job], flat: run.segments[job],
    submitted_s: submitted[job], deadline_s: run.deadline_s[job], finished_s: run.finished_s[job], expected_s: null,
    state: run.state[job],
  }));
}

/** A timeline that is given what it shows again after each zoom. */
class RunTimeline {
  constructor(element, data, run) {
    this.data = data;
    this.devices = Math.max(...data.capacity.map(([, devices]) => devices));
    this.choose(run, [0, data.until_s]);
    this.chart = timeline(element, this.shown());
    this.follow();
    for (const name of ["pointerup", "dblclick", "click", "keydown"]) element.addEventListener(name, () => this.follow());
  }

  choose(run, span) {
    this.jobs = heldBy(this.data, run);
    this.span = span;
  }

  shown() {
    const jobs = jobsInView(this.jobs, this.span, this.devices);
    return { start_s: 0, end_s: this.data.until_s, capacity: this.data.capacity, jobs };
  }

  follow() {
    const [from, to] = this.chart.span;
    if (from === this.span[0] && to === this.span[1]) return;
    this.span = [from, to];
    this.chart.update(this.shown());
  }

  update(run) {
    this.choose(run, this.span);
    this.chart.update(this.shown());
  }
}

function outcome(data, run, job) {
  const state = run.state[job], end = run.finished_s[job], deadline = run.deadline_s[job];
  if (state === "late") return `late by ${spanOrNone(end - deadline)}`;
  if (state === "kept") return `kept, ${spanOrNone(end - data.jobs.submitted_s[job])}`;
  return state === "done" ? `done, ${spanOrNone(end - data.jobs.submitted_s[job])}` : state;
}

function jobsTable(data, run) {
  const { id, model, tenant, cls, asked, submitted_s: submitted, run_s: length } = data.jobs;
  const seconds = (label, value) => ({ label, text: (job) => spanOrNone(value(job)), value, isNumber: true });
  const plain = (label, column) => ({ label, text: (job) => column[job] });
  const columns = [
    plain("job", id), plain("model", model), ...(tenant.some(Boolean) ? [plain("tenant", tenant)] : []),
    plain("class", cls),
    { label: "devices asked for", text: (job) => asked[job], value: (job) => asked[job], isNumber: true },
    seconds("run time on them", (job) => length[job]),
    seconds("submitted", (job) => submitted[job]),
    seconds("time to deadline", (job) => minus(run.deadline_s[job], submitted[job])),
    ...data.runs.map((one) => ({ label: data.runs.length > 1 ? one.policy : "outcome", text: (job) => outcome(data, one, job) })),
    seconds("waited", (job) => minus(run.start_s[job], submitted[job])),
    { label: "device hours", text: (job) => number(run.device_s[job] / 3600), value: (job) => run.device_s[job], isNumber: true },
    { label: "resizes", text: (job) => run.resizes[job], value: (job) => run.resizes[job], isNumber: true },
    { label: "last word", text: (job) => run.why_texts[run.why[job]], isProse: true },
  ];
  return {
    caption: `Jobs; times waited, device hours, resizes and the last word are ${run.policy}'s`, columns, count: id.length,
    search: (job) => `${id[job]} ${model[job]} ${tenant[job]} ${run.why_texts[run.why[job]]}`,
    choices: [
      { label: "outcome", options: STATES, has: (job, state) => run.state[job] === state },
      { label: "class", options: [...new Set(cls)], has: (job, name) => cls[job] === name },
    ],
  };
}

function refusedTable(data, run) {
  const { id, model, submitted_s: submitted } = data.jobs;
  const jobs = id.map((_, job) => job).filter((job) => run.is_refused[job]);
  const window = (job) => (run.deadline_s[job] == null ? null : run.deadline_s[job] - submitted[job]);
  const offered = (job) => (run.offer_s[job] == null ? null : run.offer_s[job] - submitted[job]);
  const factor = (job) => (offered(job) == null || !window(job) ? null : offered(job) / window(job));
  const of = (tell) => (row) => tell(jobs[row]);
  const columns = [
    { label: "job", text: of((job) => id[job]) }, { label: "model", text: of((job) => model[job]) },
    { label: "submitted", text: of((job) => spanOrNone(submitted[job])), value: of((job) => submitted[job]), isNumber: true },
    { label: "asked to end within", text: of((job) => spanOrNone(window(job))), value: of(window), isNumber: true },
    { label: "was offered", text: of((job) => (offered(job) == null ? "no offer" : span(offered(job)))),
      value: of(offered), isNumber: true },
    { label: "of what it asked for", text: of((job) => (factor(job) == null ? "-" : `${factor(job).toFixed(2)} times`)),
      value: of(factor), isNumber: true },
    { label: "why", text: of((job) => run.why_texts[run.why[job]]), isProse: true },
  ];
  const search = of((job) => `${id[job]} ${model[job]} ${run.why_texts[run.why[job]]}`);
  return { caption: `Jobs that ${run.policy} refused, and the earliest deadline that it would have promised`,
    columns, count: jobs.length, search };
}

/** Draws all; what is of one policy follows the choice of a policy. */
export function draw(data) {
  markBest(data);
  drawUsed(data);
  drawSizes(data);
  const chosen = document.querySelector('input[name="policy"]:checked')?.value; // the browser may have restored it
  const first = data.runs.find((one) => one.policy === chosen) ?? data.runs[0];
  const devices = new RunTimeline(place("timeline"), data, first);
  const jobs = pagedTable(place("jobs"), jobsTable(data, first));
  const refused = pagedTable(place("refused"), refusedTable(data, first));
  document.querySelectorAll('input[name="policy"]').forEach((input) => input.addEventListener("change", () => {
    const run = data.runs.find((one) => one.policy === input.value);
    devices.update(run);
    jobs.update(jobsTable(data, run));
    refused.update(refusedTable(data, run));
  }));
}
