// The view New job: inputs and the text of a job file that say the same, and the command that does.

import { send } from "/static/events.js";
import { withOffset } from "/static/format.js";
import { command, parse, write } from "/static/job_file.js";

const form = document.getElementById("new-job");
const file = document.getElementById("file");
const fault = form.querySelector(".fault");
const inputs = [...form.querySelectorAll("input[data-kind]")];
let job = {};
let unread = ""; // why the text of the file is no job
let key = crypto.randomUUID(); // of one job: sent twice, it is submitted once

const words = (text) => (text.match(/"[^"]*"|'[^']*'|\S+/g) ?? []).map((word) => word.replace(/^(["'])(.*)\1$/, "$2"));
const number = (text) => (Number.isNaN(Number(text)) ? text : Number(text));
const READ = {
  list: words,
  map: (text) => Object.fromEntries(words(text).map((word) => [word.split("=")[0], word.split("=").slice(1).join("=")])),
  number,
  text: (text) => text,
};

function given(input) {
  if (input.type === "checkbox") return input.checked || undefined;
  return input.value.trim() ? READ[input.dataset.kind](input.value.trim()) : undefined;
}

function shown(value) {
  if (Array.isArray(value)) return value.map((word) => (/\s/.test(word) ? `"${word}"` : word)).join(" ");
  return typeof value === "object" ? Object.entries(value).map((each) => each.join("=")).join(" ") : String(value ?? "");
}

function complain(text) {
  fault.hidden = !text;
  fault.textContent = text;
}

// A script runs in its own folder if no other is named.
function whole() {
  const folder = /^(\/.*)\/[^/]*$/.exec(job.script ?? "")?.[1];
  return folder && !job.workdir ? { ...job, workdir: folder } : job;
}

function renew(fault = "") {
  unread = fault;
  complain(fault);
  if (fault) return;
  key = crypto.randomUUID();
  document.getElementById("command").textContent = command(whole());
}

function ofFields({ target }) {
  const value = given(target);
  if (value === undefined) delete job[target.name];
  else job[target.name] = value;
  file.value = write(job);
  renew();
}

// fields: what they say beside the text.
function ofText(fields = {}) {
  try {
    job = { ...parse(file.value), ...fields };
  } catch (error) {
    return renew(error.message);
  }
  for (const input of inputs) {
    if (input.type === "checkbox") input.checked = job[input.name] === true;
    else input.value = shown(job[input.name]);
  }
  renew();
}

// The form may be filled in before this script runs, by its user or by the browser.
function ofBoth() {
  const fields = Object.fromEntries(inputs.map((input) => [input.name, given(input)]).filter(([, value]) => value !== undefined));
  ofText(fields);
  if (!unread && Object.keys(fields).length) file.value = write(job);
}

// Times are those of the browser.
function body() {
  const times = ["deadline", "accept_until"].filter((name) => typeof job[name] === "string").map((name) => [name, withOffset(job[name])]);
  return { ...whole(), ...Object.fromEntries(times) };
}

async function submit(event) {
  event.preventDefault();
  if (unread) return;
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  try {
    const told = await send("POST", "/v1/jobs", body(), { "Idempotency-Key": key });
    location.assign(`/jobs/${encodeURIComponent(told.id)}`);
  } catch (error) {
    complain(error instanceof TypeError ? "the platform does not answer; try again when it is back" : error.message);
  } finally {
    button.disabled = false;
  }
}

for (const input of inputs) input.addEventListener("input", ofFields);
file.addEventListener("input", () => ofText());
form.addEventListener("submit", submit);
ofBoth();
form.querySelector("button[type=submit]").disabled = false;
