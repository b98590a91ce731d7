// The view Now: the state that it was loaded with, and what has changed since.

import { follow } from "/static/events.js";
import { clock, now, setNow, showTimes } from "/static/format.js";
import { JobChoice } from "/static/job_choice.js";
import { JobTable } from "/static/job_table.js";
import { showNodes } from "/static/nodes.js";
import { showTenants } from "/static/tenants.js";
import { colourNumber, timeline } from "/static/timeline.js";

const SPARK_LENGTH = 40;
const MOST_STORIES = 60;
const ROWS_AT_ONCE = 200;
const HISTORY_S = 3600;
const LEAST_S = 60; // of the past
const AHEAD_SHARE = 0.6; // of the past that is shown, as much of the future at most

const place = (id) => document.getElementById(id);
const state = JSON.parse(place("state").textContent);
const jobs = new Map();
const table = new JobTable(place("jobs"), place("job-row"), state.signs);
const choice = new JobChoice(place("jobs"), arrange);
let numRows = ROWS_AT_ONCE;
let nextPlace = 0; // in the platform's table, of the jobs that are asked for next
let chart = null;

function takeState(told) {
  setNow(told.now_s);
  jobs.clear();
  for (const job of told.jobs) jobs.set(job.id, job);
  nextPlace = told.jobs.length;
  for (const job of told.jobs.toSorted((one, other) => one.submitted_s - other.submitted_s)) colourNumber(job.id);
  const { num_jobs, nodes, tenants, totals, capacity } = told;
  Object.assign(state, { num_jobs, nodes, tenants, totals, capacity });
  arrange();
  for (const job of jobs.values()) table.fill(job);
  showNodes(place("nodes"), state.nodes, jobs);
  showTenants(place("tenants"), place("tenant-row"), state.tenants);
  showTotals();
  place("stories").replaceChildren();
  told.stories.forEach(addStory);
  drawChart();
}

function takeDelta(delta) {
  setNow(delta.now_s);
  for (const job of delta.new ?? []) jobs.set(job.id, job);
  state.num_jobs = delta.num_jobs ?? state.num_jobs;
  for (const id of delta.gone ?? []) jobs.delete(id);
  for (const [id, fields] of Object.entries(delta.jobs ?? {})) {
    const job = jobs.get(id);
    if (job === undefined) continue;
    change(job, fields);
  }
  if (delta.new || delta.gone || (choice.isActive && delta.jobs)) arrange();
  const changed = [...Object.keys(delta.jobs ?? {}), ...(delta.new ?? []).map((job) => job.id)];
  for (const id of changed) if (jobs.has(id)) table.fill(jobs.get(id));
  if (delta.nodes) state.nodes = delta.nodes;
  if (delta.nodes || delta.new) showNodes(place("nodes"), state.nodes, jobs);
  if (delta.tenants) showTenants(place("tenants"), place("tenant-row"), delta.tenants);
  if (delta.totals) { state.totals = delta.totals; showTotals(); }
  if (delta.capacity) state.capacity.push(delta.capacity);
  (delta.stories ?? []).forEach(addStory);
}

function change(job, fields) {
  Object.assign(job, fields);
  if (fields.steps !== undefined && job.loss !== null) job.spark = [...job.spark, job.loss].slice(-SPARK_LENGTH);
}

function arrange() {
  const ordered = choice.of([...jobs.values()]);
  table.show(ordered.slice(0, numRows));
  choice.tell(ordered.length, jobs.size);
  place("no-jobs").hidden = jobs.size > 0;
  const numKnown = Math.max(0, ordered.length - numRows), numUnknown = Math.max(0, state.num_jobs - jobs.size);
  const isPart = choice.isActive && numKnown === 0; // of jobs that the page does not have, some may be wanted
  place("more").hidden = numKnown + numUnknown <= 0;
  place("more").textContent = isPart
    ? `Look at the other jobs, too: ${numUnknown.toLocaleString("en")}`
    : `Show more: ${(numKnown + (choice.isActive ? 0 : numUnknown)).toLocaleString("en")} jobs are left out`;
}

async function showMore() {
  numRows = Math.min(numRows, jobs.size) + ROWS_AT_ONCE;
  const numWanted = choice.isActive ? state.num_jobs : Math.min(numRows, state.num_jobs);
  const isHeard = await fetchMore(numWanted).catch(() => false);
  arrange();
  if (!isHeard) place("more").textContent = "Show more: the platform did not answer, try again";
}

// Until the page has so many jobs, or the table ends. Jobs change their places meanwhile, so that some may have
// been passed over: the next time it begins at the first place again.
async function fetchMore(numWanted) {
  while (jobs.size < numWanted) {
    const answer = await fetch(`/page/jobs?from=${nextPlace}`);
    if (!answer.ok) return false;
    const found = await answer.json();
    for (const job of found) if (!jobs.has(job.id)) jobs.set(job.id, job);
    nextPlace += found.length;
    if (found.length > 0 && nextPlace < state.num_jobs) continue;
    nextPlace = 0;
    break;
  }
  return true;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function addStory(story) {
  const item = document.createElement("li");
  const time = element("time", clock(story.at_s));
  time.dataset.at = story.at_s;
  const link = element("a", story.job);
  link.href = `/jobs/${encodeURIComponent(story.job_id)}`;
  item.append(time, " ", link, " ", element("span", story.text));
  place("stories").prepend(item);
  while (place("stories").children.length > MOST_STORIES) place("stories").lastElementChild.remove();
}

function showTotals() {
  const { totals } = state;
  for (const [name, text] of Object.entries(totals.facts)) {
    document.querySelector(`[data-fact=${name}]`).textContent = text;
  }
  const told = [...place("warnings").children].map((one) => one.textContent);
  if (told.join("\n") === totals.warnings.join("\n")) return; // what is put there is read out
  place("warnings").replaceChildren(...totals.warnings.map((text) => element("p", text)));
}

// ------------------------------------------------------------ the timeline
function segments(job, nowS) {
  return job.changes.map(([fromS, devices], at) => [fromS, job.changes[at + 1]?.[0] ?? job.finished_s ?? nowS, devices]);
}

function chartData() {
  const nowS = now();
  const shown = [...jobs.values()].filter((job) => (job.finished_s ?? nowS) > nowS - HISTORY_S);
  shown.sort((one, other) => one.submitted_s - other.submitted_s);
  const startS = Math.max(nowS - HISTORY_S, Math.min(nowS - LEAST_S, ...shown.map((job) => job.submitted_s)));
  const ends = shown.flatMap((job) => (job.is_open ? [job.expected_s, job.deadline_s] : [job.deadline_s]));
  const aheadS = Math.min(Math.max(5, ...ends.map((atS) => (atS ?? 0) - nowS)), AHEAD_SHARE * (nowS - startS));
  return {
    start_s: startS,
    end_s: nowS + aheadS * 1.05,
    now_s: nowS,
    capacity: state.capacity,
    jobs: shown.map((job) => ({ ...job, state: job.standing, segments: segments(job, nowS) })),
  };
}

function drawChart() {
  if (chart === null) chart = timeline(place("timeline"), chartData());
  else chart.update(chartData());
}

function choose({ target }) {
  if (target.name !== "job") return;
  const { compared } = table;
  if (target.checked) compared.add(target.value);
  else compared.delete(target.value);
  const button = place("compare").querySelector("button");
  button.disabled = compared.size === 0;
  button.textContent = compared.size ? `Compare ${compared.size}` : "Compare";
}

place("jobs").addEventListener("change", choose);
place("compare").addEventListener("submit", (event) => {
  event.preventDefault();
  location.assign(`/compare?${new URLSearchParams([...table.compared].map((id) => ["job", id]))}`);
});
place("more").addEventListener("click", showMore);
takeState(state);
showTimes(document);
follow(state, { onState: takeState, onChange: takeDelta });
setInterval(() => {
  if (document.hidden) return;
  drawChart();
  for (const [id, row] of table.rows) {
    table.showOffer(row, jobs.get(id));
    table.showTimeLeft(row, jobs.get(id));
  }
}, 1000);
