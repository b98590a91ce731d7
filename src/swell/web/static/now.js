// The view Now: the state that it was loaded with, and what has changed since.

import { bookedAhead, showBookings } from "/static/bookings.js";
import { follow } from "/static/events.js";
import { clock, now, setNow, showTimes } from "/static/format.js";
import { JobChoice } from "/static/job_choice.js";
import { JobTable } from "/static/job_table.js";
import { showNodes } from "/static/nodes.js";
import { showTenants } from "/static/tenants.js";
import { giveColours, keepColours, timeline } from "/static/timeline.js";

const MOST_STORIES = 60;
const ROWS_AT_ONCE = 200;
const HISTORY_S = 3600;
const LEAST_S = 60; // of the past
const AHEAD_SHARE = 0.6; // of the past that is shown, as much of the future at most

const place = (id) => document.getElementById(id);
const state = JSON.parse(place("state").textContent); // what is not of one job: the latest of each part
const jobs = new Map();
const table = new JobTable(place("jobs"), place("job-row"));
const choice = new JobChoice(place("jobs"), state.just_ended_s, arrange);
let numRows = ROWS_AT_ONCE;
let nextPlace = 0; // in the platform's table, of the jobs that are asked for next
let chart = null;

// told: what has changed; with a version it is all that there is.
function take(told) {
  setNow(told.now_s);
  const { jobs: changed = [], gone = [], stories = [], ...parts } = told;
  if (told.version) {
    jobs.clear();
    place("stories").replaceChildren();
    nextPlace = changed.length;
  }
  Object.assign(state, parts);
  const isOther = told.version || gone.length > 0 || changed.some((job) => jobs.get(job.id)?.phase !== job.phase);
  for (const job of changed) jobs.set(job.id, job);
  for (const id of gone) jobs.delete(id);
  if (isOther) giveColours(new Set([...shownInChart(), ...[...jobs.values()].filter((job) => choice.isNow(job))]));
  if (isOther || parts.num_jobs !== undefined || choice.isActive) arrange();
  for (const { id } of changed) if (jobs.has(id)) table.fill(jobs.get(id));
  if (isOther || parts.nodes || parts.lost_nodes) showNodes(place("nodes"), state.nodes ?? [], state.lost_nodes ?? [], jobs);
  if (parts.bookings) showBookings(place("bookings"), parts.bookings);
  if (parts.tenants) showTenants(place("tenants"), place("tenant-row"), parts.tenants);
  if (parts.totals) showTotals();
  stories.forEach(addStory);
  if (told.version) drawChart();
}

function arrange() {
  const ordered = choice.of([...jobs.values()]);
  table.show(ordered.slice(0, numRows));
  choice.tell(ordered.length, jobs.size);
  place("no-jobs").hidden = ordered.length > 0 || choice.isFilter;
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

// Jobs that held devices lately, and those that are open. A job that never ran has no end to show.
function shownInChart() {
  const startS = now() - HISTORY_S;
  const shown = [...jobs.values()].filter((job) => job.is_open || (job.changes.some(([, devices]) => devices > 0) && job.finished_s > startS));
  return shown.sort((one, other) => one.submitted_s - other.submitted_s);
}

// The past begins with the oldest job of the table that runs, or has just ended: not with what is in History.
function chartData() {
  const nowS = now();
  const shown = shownInChart();
  const begins = shown.filter((job) => choice.isNow(job)).map((job) => job.changes[0]?.[0] ?? nowS);
  const startS = Math.max(nowS - HISTORY_S, Math.min(nowS - LEAST_S, ...begins));
  const inView = shown.filter((job) => job.is_open || job.finished_s > startS);
  const booked = bookedAhead(state.bookings ?? [], state.nodes ?? [], nowS);
  const bookedS = booked.flatMap((one) => one.segments.slice(0, 1).flatMap(([fromS, toS]) => (fromS > nowS ? [fromS + LEAST_S] : [toS])));
  const ends = inView.flatMap((job) => (job.is_open ? [job.expected_s, job.deadline_s] : [job.deadline_s])).concat(bookedS);
  const aheadS = Math.min(Math.max(5, ...ends.map((atS) => (atS ?? 0) - nowS)), AHEAD_SHARE * (nowS - startS));
  return {
    start_s: startS,
    end_s: nowS + aheadS * 1.05,
    now_s: nowS,
    capacity: state.capacity,
    jobs: [...inView.map((job) => ({ ...job, state: job.standing, segments: segments(job, nowS) })), ...booked],
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
  showCompared();
}

function showCompared() {
  const { compared } = table;
  const button = place("compare").querySelector("button");
  button.disabled = compared.size === 0;
  button.textContent = compared.size ? `Compare ${compared.size}` : "Compare";
}

place("jobs").addEventListener("change", choose);
showCompared();
place("compare").addEventListener("submit", (event) => {
  event.preventDefault();
  location.assign(`/compare?${new URLSearchParams([...table.compared].map((id) => ["job", id]))}`);
});
place("more").addEventListener("click", showMore);
keepColours(sessionStorage);
take(state);
showTimes(document);
follow(state, take);
setInterval(() => {
  if (document.hidden) return;
  drawChart();
  if ([...table.rows.keys()].some((id) => !choice.isWanted(jobs.get(id)))) arrange();
  for (const [id, row] of table.rows) {
    table.showOffer(row, jobs.get(id));
    table.showTimeLeft(row, jobs.get(id));
  }
}, 1000);
