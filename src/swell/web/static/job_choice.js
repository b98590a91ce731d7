// Which jobs the table of the view Now shows, and in which order: a search, filters, and headings to sort by.

import { now } from "/static/format.js";
import { byPlace } from "/static/job_table.js";

const WAITING = ["queued"];
const isOf = {
  running: (job) => job.is_open && !WAITING.includes(job.phase),
  waiting: (job) => WAITING.includes(job.phase),
  trial: (job) => job.phase_word === "trial",
  held: (job) => job.phase_word.endsWith("held"),
  following: (job) => job.phase_word.startsWith("after "),
  stalled: (job) => job.stalled_since_s !== null,
  ended: (job) => !job.is_open,
  any: () => true,
};
// What each heading sorts by; null comes last in either direction.
const KEYS = {
  name: (job) => job.name.toLowerCase(),
  sign: (job) => job.standing,
  phase: (job) => job.phase_word,
  size: (job) => job.size,
  done: (job) => job.done,
  finish: (job) => job.finished_s ?? job.expected_s,
  deadline: (job) => job.deadline_s,
  loss: (job) => job.loss,
};

function compare(one, other, sign) {
  if (one === other) return 0;
  if (one === null) return 1;
  if (other === null) return -1;
  return one < other ? -sign : sign;
}

export class JobChoice {
  // onChange: other jobs are chosen, or in another order.
  constructor(table, justEndedS, onChange) {
    this.justEndedS = justEndedS;
    this.onChange = onChange;
    this.headings = [...table.querySelectorAll("th[data-sort]")];
    this.sorted = { key: null, sign: 1 };
    this.search = document.getElementById("search");
    this.phase = document.getElementById("phase");
    this.cls = document.getElementById("class");
    this.found = document.getElementById("found");
    for (const field of [this.search, this.phase, this.cls]) field.addEventListener("input", onChange);
    for (const heading of this.headings) {
      heading.querySelector("button").addEventListener("click", () => this.sortBy(heading.dataset.sort));
    }
  }

  get isActive() {
    return this.isFilter || this.sorted.key !== null;
  }

  get isFilter() {
    return Boolean(this.search.value.trim() || this.phase.value || this.cls.value);
  }

  // Rising, falling, and then the order of the platform again.
  sortBy(key) {
    if (this.sorted.key !== key) this.sorted = { key, sign: 1 };
    else if (this.sorted.sign === 1) this.sorted = { key, sign: -1 };
    else this.sorted = { key: null, sign: 1 };
    for (const heading of this.headings) {
      const isSorted = heading.dataset.sort === this.sorted.key;
      heading.ariaSort = isSorted ? (this.sorted.sign === 1 ? "ascending" : "descending") : "none";
    }
    this.onChange();
  }

  // Of what is now: it is open, or has just ended.
  isNow(job) {
    return job.is_open || job.finished_s > now() - this.justEndedS;
  }

  isWanted(job) {
    const isPhase = isOf[this.phase.value]?.(job) ?? this.isNow(job);
    return isPhase && (!this.cls.value || job.cls === this.cls.value) && has(job, this.words);
  }

  get words() {
    return this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  // Those of all that are wanted, in order.
  of(jobs) {
    const chosen = jobs.filter((job) => this.isWanted(job));
    const { key, sign } = this.sorted;
    if (key === null) return chosen.sort(byPlace);
    return chosen.sort((one, other) => compare(KEYS[key](one), KEYS[key](other), sign) || byPlace(one, other));
  }

  // numFound of numJobs match.
  tell(numFound, numJobs) {
    const text = this.isFilter ? `${numFound.toLocaleString("en")} of ${numJobs.toLocaleString("en")} jobs` : "";
    if (this.found.textContent !== text) this.found.textContent = text;
  }
}

// Each word is somewhere in what names the job.
function has(job, words) {
  if (!words.length) return true;
  const text = [job.name, job.id, job.tenant, job.user, job.group, ...job.tags].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
