// The last lines of a job's log, and those that come: of rank 0, of all workers, or of its trial run.

import { ask, repeat } from "/static/events.js";

const MOST_LINES = 2000;
const MOST_CHARACTERS = 400_000;
const LONGEST_LINE = 4000;
// Of what was written since the last look, no more than the last so many bytes are shown.
const MOST_BYTES = 128 << 10;
const LOOK_EVERY_MS = 1500;
const LEFT_OUT = "[swell: lines are left out here: there were too many for a page]";

// A line as a terminal would show it: without colours, and what overwrote its beginning.
export function plain(line) {
  const text = line.replace(/\r+$/, "").replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "");
  const shown = text.slice(text.lastIndexOf("\r") + 1);
  return shown.length > LONGEST_LINE ? `${shown.slice(0, LONGEST_LINE)} …` : shown;
}

export class JobLog {
  // job: what the first lines of the page say of it.
  constructor(place, job) {
    this.place = place;
    this.job = job;
    this.note = document.getElementById("log-note");
    this.follow = document.getElementById("follow");
    this.whose = document.getElementById("whose");
    this.follow.addEventListener("change", () => this.toEnd());
    place.addEventListener("scroll", () => { if (!this.isAtEnd()) this.follow.checked = false; });
    this.clear();
    const begin = repeat((signal) => this.look(signal));
    this.whose.addEventListener("change", () => {
      this.clear();
      begin();
    });
  }

  clear() {
    this.lines = [];
    this.numCharacters = 0;
    this.offsets = { leader: new Map(), workers: new Map(), trial: new Map() };
    this.unfinished = new Map(); // of a worker, what has no end of line yet
    this.hasLeader = false;
    this.place.replaceChildren();
    this.note.textContent = "";
  }

  // Lines of the trial run are shown until workers of the job print.
  async look(signal) {
    const whose = this.whose.value;
    const isOver = !this.job.is_open;
    const logs = whose === "leader" && !this.hasLeader ? ["leader", "trial"] : [whose];
    for (const log of logs) {
      const offset = [...this.offsets[log]].map((pair) => pair.join(":")).join(",");
      const path = `/v1/jobs/${encodeURIComponent(this.job.id)}/logs`;
      const { status, told } = await ask(path, { whose: log, offset, tail: MOST_BYTES }, signal);
      if (signal.aborted) return null;
      this.note.textContent = told === null ? "the log cannot be read: it is tried again" : "";
      if (told === null) return status === 404 ? null : 5 * LOOK_EVERY_MS;
      if (this.add(log, told)) return LOOK_EVERY_MS;
    }
    if (isOver) this.end();
    return isOver ? null : LOOK_EVERY_MS;
  }

  // Whether there was something new among these chunks.
  add(log, chunks) {
    const offsets = this.offsets[log];
    const news = chunks.filter((chunk) => chunk.next_offset > (offsets.get(chunk.worker) ?? -1) && chunk.text);
    if (log === "leader" && news.length && !this.hasLeader) {
      this.hasLeader = true;
      this.unfinished.clear();
    }
    const before = new Map(offsets);
    for (const chunk of chunks) offsets.set(chunk.worker, chunk.next_offset);
    for (const { worker, offset, text } of news) {
      const isSkipped = before.has(worker) && offset > before.get(worker);
      const lines = `${isSkipped ? "" : this.unfinished.get(worker) ?? ""}${text}`.split("\n");
      this.unfinished.set(worker, lines.pop().slice(-LONGEST_LINE));
      if (isSkipped) lines.unshift(LEFT_OUT);
      this.append(lines.map((line) => this.named(log, worker, line)));
    }
    if (news.length && this.follow.checked) this.toEnd();
    return news.length > 0;
  }

  // The job has ended, and writes nothing more: last lines may lack their ends.
  end() {
    for (const [worker, text] of this.unfinished) if (text) this.append([this.named(this.whose.value, worker, text)]);
    this.unfinished.clear();
    if (!this.lines.length) this.note.textContent = this.nothing();
    this.toEnd();
  }

  named(log, worker, line) {
    return log === "leader" || this.offsets[log].size < 2 ? plain(line) : `[${worker}] ${plain(line)}`;
  }

  nothing() {
    return this.whose.value === "trial" ? "nothing was printed in its trial run" : "it has printed nothing";
  }

  append(lines) {
    for (const line of lines.slice(-MOST_LINES)) {
      const node = document.createTextNode(`${line}\n`);
      this.lines.push(node);
      this.numCharacters += node.length;
      this.place.append(node);
    }
    while (this.lines.length > MOST_LINES || this.numCharacters > MOST_CHARACTERS) {
      const first = this.lines.shift();
      this.numCharacters -= first.length;
      first.remove();
    }
  }

  isAtEnd() {
    return this.place.scrollHeight - this.place.scrollTop - this.place.clientHeight < 40;
  }

  toEnd() {
    if (this.follow.checked) this.place.scrollTop = this.place.scrollHeight;
  }
}
