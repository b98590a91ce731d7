// The view What if: asks for a forecast, and submits the job of the form.

import { send } from "/static/events.js";
import { clock, showTimes, span } from "/static/format.js";
import { quoted } from "/static/job_actions.js";

const $ = (id) => document.getElementById(id);
const form = $("question"), text = $("text");
// So often, and for so long, the page looks what became of so many of the submitted jobs.
const LOOK_MS = 700, LOOKS = 400, LOOKED_AT_TOGETHER = 4;

let fileName = "";
let unanswered = null; // request of which not all jobs are known to be submitted: what it asks, and its key

// ---- the job file: each field of the form is one line of it

const isList = () => /^[-[{]/.test(text.value.replace(/^\s*#.*$/gm, "").trimStart());

// A value as YAML reads it back: numbers as they are, texts in quotes only where they might be something else.
function written(value, isNumber) {
  const isPlain = isNumber || /^[A-Za-z/~.][\w/.~-]*$|^now\+\w+$/.test(value);
  return isPlain && !/^(null|true|false|\.inf|\.nan|~)$/i.test(value) ? value : JSON.stringify(value);
}

function write(key, value, isNumber) {
  const lines = text.value.split("\n").filter((line, place, all) => line !== "" || place < all.length - 1);
  const at = lines.findIndex((line) => line.startsWith(`${key}:`));
  const line = `${key}: ${written(value, isNumber)}`;
  if (value === "") {
    if (at >= 0) lines.splice(at, 1);
  } else if (at >= 0) lines[at] = line;
  else lines.push(line);
  text.value = lines.length && lines[0] !== "" ? `${lines.join("\n")}\n` : lines.filter(Boolean).join("\n");
}

// The value of a field in the job file as the form shows it; empty: it is not there, or is more than a word.
function read(key) {
  const line = text.value.split("\n").find((one) => one.startsWith(`${key}: `));
  const value = line?.slice(key.length + 2).trim() ?? "";
  try {
    const told = JSON.parse(value);
    return typeof told === "object" ? "" : String(told);
  } catch {
    return value;
  }
}

// Of a job file that the form begins with.
function readFields() {
  for (const field of $("fields").querySelectorAll("[data-field]")) field.value = read(field.dataset.field);
  const unit = ["epochs", "steps", "samples"].find((one) => read(one) !== "");
  if (unit) [$("unit").value, $("amount").value] = [unit, read(unit)];
}

function writeEnd() {
  for (const unit of ["epochs", "steps", "samples"]) write(unit, unit === $("unit").value ? $("amount").value : "", true);
}

function showFields() {
  for (const field of $("fields").querySelectorAll("input, select")) field.disabled = isList();
}

if (text !== null) {
  $("fields").addEventListener("input", ({ target }) => {
    if (target.dataset.field) write(target.dataset.field, target.value.trim(), "number" in target.dataset);
    else writeEnd();
  });
  text.addEventListener("input", showFields);
  $("file").addEventListener("change", async ({ target }) => {
    if (!target.files.length) return;
    fileName = target.files[0].name;
    text.value = await target.files[0].text();
    showFields();
  });
}

// ---- what is asked, and what is answered

// In which times are meant that have no offset.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";

function question() {
  const job = $("deadline-job")?.value, at = $("deadline-at")?.value.trim();
  return {
    policy: $("policy").value,
    add_nodes: Number($("add-nodes").value || 0),
    kind: $("kind")?.value ?? "",
    drain: [...form.querySelectorAll("input[name=drain]:checked")].map((box) => box.value),
    deadlines: job && at ? [[job, at]] : [],
    zone,
    ...jobPart(),
  };
}

function jobPart() {
  if (text === null) return {};
  return { zone, text: text.value.trim() === "" ? "" : text.value, folder: $("folder").value.trim(), file_name: fileName };
}

function complain(error) {
  $("fault").hidden = error === null;
  $("fault").textContent = error === null ? "" : error.message;
  // A message that is as wide as its section would hide what it is about; the reader is taken to it.
  if (error !== null) $("fault").scrollIntoView({ block: "nearest" });
}

function show(...parts) {
  $("answer").replaceChildren(...parts);
  showTimes($("answer"));
  $("answer").focus({ preventScroll: true });
  $("answer").scrollIntoView({ block: "nearest" });
}

// One question at a time: its buttons rest meanwhile.
async function during(word, work) {
  const buttons = form.querySelectorAll("button");
  const began = Date.now();
  const tick = () => { $("progress").textContent = `${word}, ${span(Math.round((Date.now() - began) / 1000))}`; };
  const timer = setInterval(tick, 1000);
  $("progress").textContent = `${word} …`;
  buttons.forEach((button) => { button.disabled = true; });
  complain(null);
  try {
    await work();
  } catch (error) {
    complain(error);
  } finally {
    clearInterval(timer);
    $("progress").textContent = "";
    buttons.forEach((button) => { button.disabled = false; });
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  during("forecasting", async () => {
    const told = await send("POST", "/page/what-if", question());
    // The answer is a part of the page, made by the template, in which all names are text.
    show(...new DOMParser().parseFromString(told.html, "text/html").body.childNodes);
  });
});

form.addEventListener("reset", () => {
  fileName = "";
  complain(null);
  $("answer").replaceChildren();
  setTimeout(() => text !== null && showFields());
});

// ---- submitting

function make(tag, content, attributes = {}) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}

function verdict(job) {
  if (job.phase === "rejected") {
    const offer = job.counter_offer_s === null ? "" : `; offered ${clock(job.counter_offer_s)}`;
    return `refused: ${job.reason}${offer}`;
  }
  if (job.phase === "failed") return `failed: ${job.message}`;
  if (job.is_promised) return `promised for ${clock(job.deadline_s)}`;
  if (job.is_unpromised) return `not promised, and tried: ${job.refusal}`;
  return `${job.phase}: ${job.reason}`;
}

const isOpen = (job) => ["queued", "starting"].includes(job.phase) && !job.is_promised && !job.is_unpromised;

// Says in the lines of jobs what becomes of them, until that is decided: a few at a time, each in its turn.
async function watch(waiting) {
  for (let look = 0; look < LOOKS && waiting.length > 0; look += 1) {
    for (const [id, place] of waiting.splice(0, LOOKED_AT_TOGETHER)) {
      if (!place.isConnected) return;
      const answer = await fetch(`/v1/jobs/${encodeURIComponent(id)}`).catch(() => null);
      const job = answer?.ok ? await answer.json() : null;
      if (job !== null) place.textContent = verdict(job);
      if (job === null || isOpen(job)) waiting.push([id, place]);
    }
    await new Promise((done) => { setTimeout(done, LOOK_MS); });
  }
}

// Pressed again after a failure, the same jobs are asked for, of which the platform submits each once.
function keyOf(asked) {
  const text = JSON.stringify(asked);
  if (unanswered?.text !== text) unanswered = { text, key: crypto.randomUUID() };
  return unanswered.key;
}

$("submit-job")?.addEventListener("click", ({ target }) => during("submitting", async () => {
  const asked = jobPart(), key = keyOf(asked);
  const { jobs } = await send("POST", "/page/job-file", asked);
  const list = make("ul", [], { class: "notes" });
  const command = `swell submit ${quoted(fileName || "job.yaml")}${target.dataset.state}`;
  show(make("section", [
    make("h2", [jobs.length === 1 ? "Submitted" : `Submitted ${jobs.length} jobs`]), list,
    make("p", ["The same in a terminal: ", make("code", [command])], { class: "same-by" }),
  ]));
  const waiting = [];
  try {
    for (const [place, job] of jobs.entries()) {
      const told = await send("POST", "/v1/jobs", job, { "Idempotency-Key": `${key}/${place}` });
      const said = make("span", ["submitted"]);
      list.append(make("li", [make("a", [told.id], { href: `/jobs/${encodeURIComponent(told.id)}` }), " ", said]));
      waiting.push([told.id, said]);
    }
    unanswered = null;
  } finally {
    watch(waiting);
  }
}));

if (text !== null) {
  if (text.value) readFields();
  showFields();
}
