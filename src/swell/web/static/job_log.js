// The last lines of a job's log, and those that come: of rank 0, of all workers, or of its trial run.

const MOST_LINES = 2000;
const MOST_CHARACTERS = 400_000;
const LONGEST_LINE = 4000;

// A line as a terminal would show it: without colours, and what overwrote its beginning.
export function plain(line) {
  const text = line.replace(/\r+$/, "").replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "");
  const shown = text.slice(text.lastIndexOf("\r") + 1);
  return shown.length > LONGEST_LINE ? `${shown.slice(0, LONGEST_LINE)} …` : shown;
}

export class JobLog {
  // onChoice: another log is wanted, whole.
  constructor(place, onChoice) {
    this.place = place;
    this.note = document.getElementById("log-note");
    this.follow = document.getElementById("follow");
    this.whose = document.getElementById("whose");
    this.whose.addEventListener("change", () => {
      this.clear();
      onChoice();
    });
    this.follow.addEventListener("change", () => this.toEnd());
    place.addEventListener("scroll", () => { if (!this.isAtEnd()) this.follow.checked = false; });
    this.clear();
  }

  clear() {
    this.lines = [];
    this.numCharacters = 0;
    this.place.replaceChildren();
    this.note.textContent = "";
  }

  // told: pieces of a worker's number and its lines; the number is null where it is not to be shown.
  add(told) {
    const scrolled = this.place.scrollTop;
    if (told.is_whole) this.clear();
    for (const [worker, text] of told.pieces) this.append(text.split("\n").map((line) => named(worker, line)));
    if (told.is_over && !this.lines.length) this.note.textContent = this.nothing();
    if (this.follow.checked) this.toEnd();
    else if (told.is_whole) this.place.scrollTop = scrolled;
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

const named = (worker, line) => (worker === null ? plain(line) : `[${worker}] ${plain(line)}`);
