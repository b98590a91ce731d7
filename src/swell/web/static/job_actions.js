// What a job's owner may do: each change is asked for in a dialog, which shows the command that does the same.

import { clock, withOffset } from "/static/format.js";
import { send } from "/static/events.js";
import { quoted } from "/static/job_file.js";

// The answer to a changed deadline that says no; null: it does not.
function refusal(view) {
  const isTaken = view.is_promised && Math.abs(view.deadline_s - view.counter_offer_s) < 1e-3;
  if (!view.refusal || view.asked_deadline_s !== null || isTaken) return null;
  const offer = view.counter_offer_s === null ? "" : `; it could be promised for ${clock(view.counter_offer_s)}`;
  return `refused: ${view.refusal}${offer}`;
}

export class JobActions {
  constructor() {
    document.addEventListener("click", (event) => this.click(event));
    for (const dialog of document.querySelectorAll("dialog[data-path]")) {
      dialog.querySelector("form").addEventListener("submit", (event) => {
        event.preventDefault();
        this.perform(dialog);
      });
      dialog.addEventListener("input", () => this.renew(dialog));
    }
  }

  click(event) {
    const opener = event.target.closest("[data-opens]");
    if (opener) this.open(document.getElementById(opener.dataset.opens), opener.dataset);
    if (event.target.closest("[data-closes]")) event.target.closest("dialog").close();
    const file = event.target.closest("[data-file]");
    if (file) showFile(file.dataset.file, file.textContent);
  }

  // names, value: what is sent without being asked for, and with what the field begins.
  open(dialog, { names, value }) {
    const input = dialog.querySelector("input");
    if (input && value !== undefined) input.value = value;
    dialog.dataset.names = names ?? "[]";
    this.renew(dialog);
    this.complain(dialog, "");
    dialog.showModal();
    (input ?? dialog.querySelector("[data-closes]")).focus();
  }

  // A request of its own: sent twice, it is done once.
  renew(dialog) {
    const input = dialog.querySelector("input"), given = input?.value.trim() ?? "";
    dialog.dataset.key = crypto.randomUUID();
    const words = JSON.parse(dialog.dataset.names).map((name) => ` ${quoted(name)}`);
    const option = given ? ` --${input.name} ${quoted(given)}` : "";
    dialog.querySelector(".command").textContent = dialog.dataset.command + words.join("") + dialog.dataset.state + option;
  }

  // What the platform is asked with.
  body(dialog) {
    const input = dialog.querySelector("input"), given = input?.value.trim() ?? "";
    const names = JSON.parse(dialog.dataset.names);
    if (names.length) return { names };
    if (!given) return {};
    return { [input.name]: input.type === "number" ? Number(given) : withOffset(given) };
  }

  complain(dialog, text) {
    const place = dialog.querySelector(".error");
    place.hidden = !text;
    place.textContent = text;
  }

  async perform(dialog) {
    const button = dialog.querySelector(".does");
    button.disabled = true;
    this.complain(dialog, "");
    try {
      const told = await send("POST", dialog.dataset.path, this.body(dialog), { "Idempotency-Key": dialog.dataset.key });
      this.finish(dialog, told);
    } catch (error) {
      const isLost = error instanceof TypeError;
      this.complain(dialog, isLost ? "the platform does not answer; try again when it is back" : error.message);
    } finally {
      button.disabled = false;
    }
  }

  finish(dialog, told) {
    if (told.id !== document.querySelector("main").dataset.job) {
      location.assign(`/jobs/${encodeURIComponent(told.id)}`);
      return;
    }
    const no = dialog.id === "do-promise" ? refusal(told) : null;
    if (no === null) dialog.close();
    else this.complain(dialog, no);
  }
}

// A file of the job's snapshot, as text.
async function showFile(path, name) {
  const dialog = document.getElementById("file");
  const text = dialog.querySelector("pre");
  dialog.querySelector("h2").textContent = name;
  text.textContent = "…";
  dialog.showModal();
  try {
    const answer = await fetch(`/page${location.pathname}/code?file=${encodeURIComponent(path)}`);
    const told = await answer.json();
    text.textContent = answer.ok ? told.text : told.error;
  } catch {
    text.textContent = "the platform does not answer; try again when it is back";
  }
}
