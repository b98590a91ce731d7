// The page of one job: the state that it was loaded with, and what has changed since.
//
// It asks for numbers of its first lines, points of its metrics and lines of its log; and for what else is said of
// the job as HTML, which the server alone renders.

import { JobActions } from "/static/job_actions.js";
import { JobCurves } from "/static/job_curves.js";
import { JobLog } from "/static/job_log.js";
import { clock, now, relative, setNow, short, showPhase, showTimes, span } from "/static/format.js";
import { ask, follow, repeat } from "/static/events.js";

// Jobs that have ended with a deadline which counts.
const KEPT = { kept: true, missed: true, "ended-late": true };
// Fields of the row that no part tells of, and those after which there may be more metrics.
const NUMBERS = new Set(["steps", "loss", "spark", "done", "expected_s"]);
const METERED = new Set(["steps", "loss", "phase"]);
// Changes of some parts come without news of the job: how long a size is held, what is on disk, CPU time.
const RENEW_EVERY_MS = 15_000;
const state = JSON.parse(document.getElementById("state").textContent);
const job = state.row;
const told = new Map();

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
  sign.hidden = job.standing === "free" || job.standing === "void";
  put("sign", job.sign);
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

const distance = (atS) => (atS === null ? "" : relative(atS - now()));

function fillDistances() {
  showPhase(field("phase"), job);
  const isOverdue = job.finished_s === null && job.expected_s !== null && job.expected_s < now() - 1;
  put("expected-in", isOverdue ? "overdue" : distance(job.finished_s ?? job.expected_s));
  put("deadline-in", job.is_open ? distance(job.deadline_s) : ""); // an ended job has nothing before it
  const hasSpare = job.deadline_s !== null && (job.is_open ? job.expected_s !== null : job.standing in KEPT);
  const spareS = hasSpare ? job.deadline_s - (job.finished_s ?? job.expected_s) : null;
  put("spare", spareS === null ? "–" : spareS < 0 ? `${span(spareS)} late` : span(spareS));
}

// ---- what the server renders

function remember(root) {
  for (const part of root.querySelectorAll("[data-live]")) told.set(part.id, part.innerHTML.trim());
}

// parts: HTML by the id of the element that holds it.
function putParts(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const place = document.getElementById(id);
    if (place === null) continue; // a newer platform's page may have further parts
    const part = new DOMParser().parseFromString(html, "text/html").body;
    if (told.get(id) === part.innerHTML.trim()) continue;
    told.set(id, part.innerHTML.trim());
    replace(place, part);
  }
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

// ---- what changes

async function readParts(signal) {
  const { told } = await ask(`/page/jobs/${encodeURIComponent(job.id)}/parts`, {}, signal);
  if (told !== null) {
    putParts(told.parts);
    drawings.mark(told.sizes);
  }
  return job.is_open || told === null ? RENEW_EVERY_MS : null;
}

function take({ now_s, jobs: [row] = [] }) {
  setNow(now_s);
  if (row === undefined) return;
  const names = Object.keys(row).filter((name) => JSON.stringify(row[name]) !== JSON.stringify(job[name]));
  const wasOpen = job.is_open;
  Object.assign(job, row);
  fill();
  if (wasOpen && !job.is_open) put("outcome", `The job has ended: ${job.phase}.`);
  if (names.includes("loss")) drawings.renew();
  if (names.some((name) => METERED.has(name))) drawings.refresh();
  if (names.length === 0 || names.some((name) => !NUMBERS.has(name))) renewParts(); // none: there is a story
}

setNow(state.now_s);
remember(document);
showTimes(document);
fill();
const drawings = new JobCurves(document.getElementById("charts"), state.sizes, job);
new JobLog(document.getElementById("log"), job);
const renewParts = repeat(readParts);
follow(state, take, () => put("outcome", "This job has been removed."), { job: job.id });
new JobActions();
setInterval(fillDistances, 1000);
