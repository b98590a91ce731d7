// The view Now: the state that it was loaded with, and what has changed since.

import { byPlace, JobTable } from "/static/job_table.js";
import { clock, setNow, showTimes } from "/static/format.js";
import { follow } from "/static/events.js";

const SPARK_LENGTH = 40;
const MOST_STORIES = 60;
const ROWS_AT_ONCE = 200;

const state = JSON.parse(document.getElementById("state").textContent);
const jobs = new Map();
let numRows = ROWS_AT_ONCE;
const table = new JobTable(document.getElementById("jobs"), document.getElementById("job-row"), state.signs);

function takeState(told) {
  setNow(told.now_s);
  jobs.clear();
  for (const job of told.jobs) jobs.set(job.id, job);
  Object.assign(state, { nodes: told.nodes, totals: told.totals, capacity: told.capacity });
  arrange();
  for (const job of jobs.values()) table.fill(job);
  showNodes();
  showTotals();
  document.getElementById("stories").replaceChildren();
  told.stories.forEach(addStory);
}

function takeDelta(delta) {
  setNow(delta.now_s);
  for (const job of delta.new ?? []) jobs.set(job.id, job);
  for (const id of delta.gone ?? []) jobs.delete(id);
  let moves = Boolean(delta.new || delta.gone);
  for (const [id, fields] of Object.entries(delta.jobs ?? {})) {
    const job = jobs.get(id);
    if (job === undefined) continue;
    moves ||= fields.phase !== undefined;
    change(job, fields);
  }
  if (moves) arrange();
  for (const id of Object.keys(delta.jobs ?? {})) if (jobs.has(id)) table.fill(jobs.get(id));
  if (delta.nodes) { state.nodes = delta.nodes; showNodes(); }
  if (delta.totals) { state.totals = delta.totals; showTotals(); }
  if (delta.capacity) state.capacity.push(delta.capacity);
  (delta.stories ?? []).forEach(addStory);
}

function change(job, fields) {
  Object.assign(job, fields);
  if (fields.steps !== undefined && job.loss !== null) job.spark = [...job.spark, job.loss].slice(-SPARK_LENGTH);
}

function arrange() {
  const ordered = [...jobs.values()].sort(byPlace);
  table.show(ordered.slice(0, numRows));
  document.getElementById("no-jobs").hidden = ordered.length > 0;
  const more = document.getElementById("more");
  more.hidden = ordered.length <= numRows;
  more.textContent = `Show more: ${(ordered.length - numRows).toLocaleString()} jobs are left out`;
}

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function addStory(story) {
  const item = document.createElement("li");
  const time = element("time", clock(story.at_s));
  time.dataset.at = story.at_s;
  const link = element("a", story.job);
  link.href = `/jobs/${encodeURIComponent(story.job_id)}`;
  item.append(time, " ", link, " ", element("span", story.text));
  const list = document.getElementById("stories");
  list.prepend(item);
  while (list.children.length > MOST_STORIES) list.lastElementChild.remove();
}

function showNodes() {
  document.getElementById("nodes").replaceChildren(...state.nodes.map((node) => {
    const item = document.createElement("li");
    item.append(element("b", node.name), " ", element("small", [node.kind, ...node.marks].join(", ")), " ");
    item.append(`${node.num_devices - node.num_free}/${node.num_devices}`);
    return item;
  }));
}

function showTotals() {
  const { totals } = state;
  const put = (name, text) => { document.querySelector(`[data-fact=${name}]`).textContent = text; };
  put("devices", `${totals.num_devices - totals.num_free} of ${totals.num_devices} devices in use`);
  put("policy", totals.policy);
  document.getElementById("warnings").replaceChildren(...totals.warnings.map((text) => element("p", text)));
}

document.getElementById("more").addEventListener("click", () => { numRows += ROWS_AT_ONCE; arrange(); });
takeState(state);
showTimes(document);
follow(state.id, takeDelta, takeState);
setInterval(() => {
  for (const job of jobs.values()) if (job.is_open && table.rows.has(job.id)) table.drawBar(table.rows.get(job.id), job);
}, 1000);
