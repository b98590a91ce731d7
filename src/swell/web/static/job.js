// The page of one job: the state that it was loaded with, and what has changed since.
//
// Numbers of its first lines come with the page's events. What else is said of the job is rendered by the server
// alone: where an event tells that it has changed, the page is fetched again, and its parts are put in place.

import { JobActions } from "/static/job_actions.js";
import { JobCurves } from "/static/job_curves.js";
import { JobLog } from "/static/job_log.js";
import { clock, now, setNow, short, showTimes, span } from "/static/format.js";
import { follow } from "/static/events.js";

// Fields that change all the time, and of which no sentence of the page tells.
const NUMBERS = new Set(["steps", "loss", "done", "expected_s", "spark"]);
// Jobs that have ended with a deadline which counts.
const KEPT = { kept: true, missed: true, "ended-late": true };
const FETCH_EVERY_MS = 1000;
// Checkpoints, CPU time and the like change without an event.
const RENEW_EVERY_MS = 15000;

const state = JSON.parse(document.getElementById("state").textContent);
const job = state.row;
const told = new Map();
let isDue = false;
let isFetching = false;
let fetchedMs = Date.now();

const field = (name) => document.querySelector(`[data-field="${name}"]`);

function put(name, text) {
  const place = field(name);
  if (place.textContent !== text) place.textContent = text;
}

function putTime(name, atS) {
  const place = field(name);
  put(name, clock(atS));
  if (atS === null) {
    place.removeAttribute("data-at");
    place.removeAttribute("datetime");
  } else {
    place.dataset.at = atS;
    place.dateTime = new Date(atS * 1000).toISOString();
  }
}

function fill() {
  const sign = field("sign");
  sign.className = `sign ${job.standing}`;
  put("sign", state.signs[job.standing]);
  put("phase", job.phase);
  put("steps", job.steps.toLocaleString("en"));
  put("size", job.size === 0 ? "–" : String(job.size));
  put("wanted", job.wanted && `of ${job.wanted}`);
  put("loss", job.loss === null ? "–" : short(job.loss));
  put("expected-name", job.finished_s === null ? "Expected finish" : "Finished");
  putTime("expected", job.finished_s ?? job.expected_s);
  putTime("deadline", job.deadline_s);
  const bar = field("bar");
  bar.hidden = job.done === null;
  bar.value = job.done ?? 0;
  document.title = `${job.name} · ${job.phase} · Swell`;
  fillDistances();
}

const distance = (atS) => (atS === null ? "" : atS > now() ? `in ${span(atS - now())}` : `${span(now() - atS)} ago`);

function fillDistances() {
  const isOverdue = job.finished_s === null && job.expected_s !== null && job.expected_s < now() - 1;
  put("expected-in", isOverdue ? "overdue" : distance(job.finished_s ?? job.expected_s));
  put("deadline-in", distance(job.deadline_s));
  const hasSpare = job.deadline_s !== null && (job.is_open ? job.expected_s !== null : job.standing in KEPT);
  const spareS = hasSpare ? job.deadline_s - (job.finished_s ?? job.expected_s) : null;
  put("spare", spareS === null ? "–" : spareS < 0 ? `${span(spareS)} late` : span(spareS));
}

// ---- what the server renders

function remember(root) {
  for (const part of root.querySelectorAll("[data-live]")) told.set(part.id, part.innerHTML);
}

// Null: the connection is lost, which the top of the page says.
async function fetched() {
  try {
    const answer = await fetch(location.pathname, { headers: { Accept: "text/html" } });
    return { ok: answer.ok, status: answer.status, text: await answer.text() };
  } catch {
    return null;
  }
}

async function fetchParts() {
  const answer = await fetched();
  if (answer === null) {
    isDue = true;
    return;
  }
  if (!answer.ok) {
    put("outcome", answer.status === 404 ? "This job has been removed." : "This page is out of date: load it again.");
    return;
  }
  const found = new DOMParser().parseFromString(answer.text, "text/html");
  for (const part of found.querySelectorAll("[data-live]")) {
    if (told.get(part.id) === part.innerHTML) continue;
    told.set(part.id, part.innerHTML);
    const place = document.getElementById(part.id);
    if (place !== null) replace(place, part); // a newer platform's page may have further parts
  }
  const fresh = JSON.parse(found.getElementById("state").textContent);
  take(fresh.row);
  state.sizes = fresh.sizes;
  drawings.mark(state.sizes);
}

// Keeps the place in a list that is scrolled, and the focus.
function replace(place, part) {
  const scrolled = [...place.querySelectorAll("[tabindex]")].map((one) => one.scrollTop);
  const focused = [...place.querySelectorAll("[tabindex], button, a")].indexOf(document.activeElement);
  place.replaceChildren(...part.childNodes);
  showTimes(place);
  [...place.querySelectorAll("[tabindex]")].forEach((one, at) => { one.scrollTop = scrolled[at] ?? 0; });
  if (focused >= 0) place.querySelectorAll("[tabindex], button, a")[focused]?.focus();
}

async function fetchWhereDue() {
  const passedMs = Date.now() - fetchedMs;
  const isOld = job.is_open && passedMs > RENEW_EVERY_MS;
  if (isFetching || document.hidden || passedMs < FETCH_EVERY_MS || !(isDue || isOld)) return;
  [isDue, isFetching] = [false, true];
  try {
    await fetchParts();
  } finally {
    [isFetching, fetchedMs] = [false, Date.now()];
  }
}

// ---- events

function take(fields) {
  const wasOpen = job.is_open;
  Object.assign(job, fields);
  fill();
  if (wasOpen && !job.is_open) {
    put("outcome", `The job has ended: ${job.phase}.`);
    log.end();
  }
}

function takeDelta(delta) {
  setNow(delta.now_s);
  const fields = delta.jobs?.[job.id] ?? (delta.new ?? []).find((row) => row.id === job.id);
  if (fields !== undefined) {
    take(fields);
    isDue ||= Object.keys(fields).some((name) => !NUMBERS.has(name));
    drawings.wake();
    log.wake();
  }
  isDue ||= (delta.stories ?? []).some((story) => story.job_id === job.id);
}

function takeState(shown) {
  setNow(shown.now_s);
  const row = shown.jobs.find((one) => one.id === job.id);
  if (row !== undefined) take(row);
  isDue = true;
  drawings.wake();
}

setNow(state.now_s);
remember(document);
showTimes(document);
fill();
const drawings = new JobCurves(document.getElementById("charts"), job.id, state.sizes);
const log = new JobLog(document.getElementById("log"), job.id, job.is_open);
new JobActions(() => { isDue = true; });
follow(state, takeDelta, takeState);
setInterval(() => { fillDistances(); fetchWhereDue(); }, FETCH_EVERY_MS);
document.addEventListener("visibilitychange", fetchWhereDue);
