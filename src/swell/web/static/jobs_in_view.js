// What a timeline of thousands of jobs shows of a stretch of time: as many pieces as it has pixels, the jobs that
// hold most of it each for itself, and the others together by class. A closer look shows more of them.

const NUM_TIMES = 2000;
const MOST_JOBS = 150;
// A job that never holds so large a share of the devices is thinner than two pixels.
const LEAST_SHARE = 0.008;
// Flags and rings of more jobs would hide what they mark.
const MOST_MARKED = 40;

/**
 * Devices by cell of the grid: a cell has what the job held in its middle, so that together jobs hold no more than
 * there is. Null for a job that holds nothing there.
 */
function cells(flat, from, step) {
  let held = null;
  for (let at = 0; at < flat.length; at += 3) {
    const first = Math.max(0, Math.round((flat[at] - from) / step));
    const last = Math.min(NUM_TIMES, Math.round((flat[at + 1] - from) / step));
    if (last <= first) continue;
    held ??= new Map();
    for (let cell = first; cell < last; cell += 1) held.set(cell, flat[at + 2]);
  }
  return held;
}

/** Pieces [from, to, devices] of what cells hold, in time's order. */
function pieces(held, from, step) {
  const found = [];
  for (const [cell, devices] of [...held].sort((one, other) => one[0] - other[0])) {
    const at = (number) => from + number * step, last = found.at(-1); // one number for one time
    if (last && last[2] === devices && last[3] === cell) [last[1], last[3]] = [at(cell + 1), cell + 1];
    else found.push([at(cell), at(cell + 1), devices, cell + 1]);
  }
  return found.map((piece) => piece.slice(0, 3));
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

function together(jobs, cls) {
  const held = new Map();
  for (const job of jobs) for (const [cell, devices] of job.held) held.set(cell, (held.get(cell) ?? 0) + devices);
  const count = jobs.length.toLocaleString("en");
  return { id: `smaller ${cls}`, name: `${count} smaller ${cls.replace("_", "-")} jobs`, cls, held, state: "",
    submitted_s: 0, deadline_s: null, finished_s: null, expected_s: null };
}

/**
 * Jobs as `timeline.js` wants them.
 *
 * @param jobs with `flat`: from, to, devices, from, to, devices, ... in time's order.
 */
export function jobsInView(jobs, [from, to], numDevices) {
  const step = (to - from) / NUM_TIMES;
  const inView = jobs.map((job) => ({ ...job, held: cells(job.flat, from, step) })).filter((job) => job.held);
  for (const job of inView) {
    job.most = Math.max(...new Set(job.held.values()));
    job.sum = sum(job.held.values());
  }
  const large = inView.filter((job) => job.most >= LEAST_SHARE * numDevices);
  const kept = new Set(large.sort((one, other) => other.sum - one.sum).slice(0, MOST_JOBS));
  const rest = inView.filter((job) => !kept.has(job)), classes = [...new Set(rest.map((job) => job.cls))];
  const others = classes.map((cls) => together(rest.filter((job) => job.cls === cls), cls));
  const shown = [...inView.filter((job) => kept.has(job)), ...others];
  const hasMarks = inView.length <= MOST_MARKED;
  return shown.map(({ held, flat, most, sum: total, ...job }) => ({
    ...job, segments: pieces(held, from, step),
    deadline_s: hasMarks ? job.deadline_s : null, finished_s: hasMarks ? job.finished_s : null,
  }));
}
