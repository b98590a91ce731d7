// The last lines of a job's log, and those that come: read by offsets, as `swell logs -f` does.

const MOST_LINES = 2000;
const MOST_CHARACTERS = 400_000;
const LONGEST_LINE = 4000;
const LEAST_WAIT_MS = 1500;
const MOST_WAIT_MS = 4000;
const TICK_MS = 200;
// An answer with so much is a piece of more.
const PIECE_BYTES = 60_000;

// A line as a terminal would show it: without colours, and what overwrote its beginning.
export function plain(line) {
  const text = line.replace(/\r+$/, "").replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "");
  const shown = text.slice(text.lastIndexOf("\r") + 1);
  return shown.length > LONGEST_LINE ? `${shown.slice(0, LONGEST_LINE)} …` : shown;
}

export class JobLog {
  constructor(place, jobId, isOpen) {
    this.place = place;
    this.job = encodeURIComponent(jobId);
    this.isOpen = isOpen;
    this.note = document.getElementById("log-note");
    this.follow = document.getElementById("follow");
    this.whose = document.getElementById("whose");
    this.whose.addEventListener("change", () => this.restart());
    this.follow.addEventListener("change", () => this.toEnd());
    place.addEventListener("scroll", () => { if (!this.isAtEnd()) this.follow.checked = false; });
    this.restart();
  }

  // The job has ended: what is written by now is all.
  end() {
    this.isOpen = false;
    this.wake();
  }

  // There may be new lines.
  wake() {
    this.waitMs = LEAST_WAIT_MS;
    this.nextMs = Math.min(this.nextMs, this.readMs + this.waitMs);
  }

  restart() {
    this.reading = Symbol("reading");
    this.lines = [];
    this.numCharacters = 0;
    this.place.replaceChildren();
    this.note.textContent = "";
    [this.readMs, this.nextMs, this.waitMs] = [0, 0, LEAST_WAIT_MS];
    this.read(this.reading, this.whose.value);
  }

  // Until another log is chosen, or the job has ended and all of it was read.
  async read(reading, whose) {
    const parts = whose === "leader" ? [new Part("leader"), new Part("trial")] : [new Part(whose)];
    for (;;) {
      const wasOpen = this.isOpen;
      let hasNews = false;
      if (!document.hidden) {
        try {
          hasNews = await this.readAll(reading, parts);
          if (this.note.textContent) this.note.textContent = "";
        } catch (error) {
          this.note.textContent = error instanceof TypeError ? "no connection to the platform" : error.message;
        }
      }
      if (this.reading !== reading) return;
      if (!wasOpen && !hasNews && !document.hidden && !this.note.textContent) break;
      await this.pause(reading, hasNews, parts.some((part) => part.hasMore));
      if (this.reading !== reading) return;
    }
    parts.forEach((part) => this.add(part.rest()));
    if (!this.lines.length) this.note.textContent = "it has printed nothing";
  }

  // What is written seldom is asked for seldom.
  async pause(reading, hasNews, hasMore) {
    this.waitMs = hasNews ? LEAST_WAIT_MS : Math.min(MOST_WAIT_MS, this.waitMs * 1.5);
    this.readMs = Date.now();
    this.nextMs = this.readMs + (hasMore ? 0 : this.waitMs);
    do {
      await new Promise((resolve) => { setTimeout(resolve, TICK_MS); });
    } while (Date.now() < this.nextMs && this.reading === reading);
  }

  // The trial run's lines are shown until the job's own workers print.
  async readAll(reading, parts) {
    for (const part of parts) {
      const lines = await part.read(this.job);
      if (this.reading !== reading) return false;
      if (lines === null) continue;
      this.add(lines);
      if (part.whose === "leader") parts.length = 1;
      return true;
    }
    return false;
  }

  add(lines) {
    if (!lines.length) return;
    const follows = this.follow.checked;
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
    if (follows) this.toEnd();
  }

  isAtEnd() {
    return this.place.scrollHeight - this.place.scrollTop - this.place.clientHeight < 40;
  }

  toEnd() {
    if (this.follow.checked) this.place.scrollTop = this.place.scrollHeight;
  }
}

// Lines of rank 0, of all workers, or of the trial run.
class Part {
  constructor(whose) {
    this.whose = whose;
    this.offsets = null;
    this.hasMore = false;
    this.unfinished = new Map();
  }

  // Whole lines that are new; null: nothing is.
  async read(job) {
    this.offsets ??= new Map(Object.entries((await get(`/page/jobs/${job}/tail?whose=${this.whose}`)).offsets));
    const offset = [...this.offsets].map(([worker, bytes]) => `${worker}:${bytes}`).join(",");
    const chunks = await get(`/v1/jobs/${job}/logs?whose=${this.whose}&offset=${offset}`);
    const news = chunks.filter((chunk) => chunk.next_offset > chunk.offset || chunk.discarded_bytes > 0);
    this.hasMore = chunks.some((chunk) => chunk.next_offset - chunk.offset > PIECE_BYTES);
    return news.length ? news.flatMap((chunk) => this.take(chunk)) : null;
  }

  take(chunk) {
    const name = String(chunk.worker);
    this.offsets.set(name, chunk.next_offset);
    const lines = chunk.discarded_bytes ? [`[swell: ${chunk.discarded_bytes} bytes before this were discarded]`] : [];
    const whole = ((this.unfinished.get(name) ?? "") + chunk.text).split("\n");
    this.unfinished.set(name, whole.pop().slice(-LONGEST_LINE));
    return [...lines, ...whole.map((line) => this.named(name, line))];
  }

  // The last lines may lack their end.
  rest() {
    const found = [...this.unfinished].filter(([, line]) => line);
    this.unfinished.clear();
    return found.map(([name, line]) => this.named(name, line));
  }

  named(name, line) {
    const isAlone = this.whose === "leader" || this.offsets.size < 2;
    return isAlone ? plain(line) : `[${name}] ${plain(line)}`;
  }
}

async function get(path) {
  const answer = await fetch(path);
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}
