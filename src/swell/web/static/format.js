// Numbers and times as people read them, by the browser's clock and zone.

// The platform's clock minus the browser's, in seconds.
let aheadS = 0;

export function setNow(nowS) {
  aheadS = nowS - Date.now() / 1000;
}

// The present by the platform's clock.
export function now() {
  return Date.now() / 1000 + aheadS;
}

const two = (number) => String(number).padStart(2, "0");

// `14:05:22`; on another day with the day.
export function clock(atS) {
  if (atS === null || atS === undefined) return "–";
  const at = new Date(atS * 1000);
  const today = new Date(now() * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (at.toDateString() === today.toDateString()) return `${time}:${two(at.getSeconds())}`;
  return `${at.toLocaleDateString(undefined, { month: "short", day: "numeric" })} ${time}`;
}

// A time without an offset, as the same moment with one: it is of the browser's zone, and the platform may be in another.
export function withOffset(text) {
  const found = /^(?:(\d{4}-\d\d-\d\d)[T ]|(?:(today|tomorrow) +)?(?:at +)?)(\d{1,2}):(\d\d)(?::(\d\d))?$/i.exec(text);
  if (found === null || found[3] > 23 || found[4] > 59 || found[5] > 59) return text;
  const at = found[1] ? new Date(`${found[1]}T00:00`) : new Date(now() * 1000);
  if (Number.isNaN(at.getTime())) return text;
  at.setHours(found[3], found[4], found[5] ?? 0, 0);
  const isNext = !found[1] && !found[2] && at.getTime() <= now() * 1000; // `18:00` is the next one
  if (isNext || found[2]?.toLowerCase() === "tomorrow") at.setDate(at.getDate() + 1);
  return at.toISOString();
}

// A length of time as people say it: `41 s`, `3 min 20 s`, `2 h 52 min`, `9 days 4 h`. As `lengths.span` of the daemon.
export function span(seconds) {
  const length = Math.abs(seconds);
  if (length < 9.95) return fewSeconds(length);
  if (length < 99.5) return `${length.toFixed(0)} s`;
  if (length < 599.5) return inTwo(length, 60, "min", "s");
  if (length < 3570) return `${(length / 60).toFixed(0)} min`;
  if (length < 86370) return inTwo(length / 60, 60, "h", "min");
  if (length < 864000) return inTwo(length / 3600, 24, "days", "h");
  if (length < 2 * 31557600) return `${(length / 86400).toFixed(0)} days`;
  return `${Math.round(length / 31557600).toLocaleString("en")} years`;
}

function fewSeconds(length) {
  if (length < 0.0005) return "0 s";
  return length < 0.0995 ? `${Number((1000 * length).toPrecision(2))} ms` : `${Number(length.toPrecision(2))} s`;
}

function inTwo(length, factor, unit, smallUnit) {
  const whole = Math.round(length), large = Math.floor(whole / factor), small = whole % factor;
  const name = large === 1 && unit === "days" ? "day" : unit;
  return small ? `${large} ${name} ${small} ${smallUnit}` : `${large} ${name}`;
}

// The state of a job, in its place: of one that stands still also for how long.
export function showPhase(place, job) {
  const text = job.stalled_since_s === null ? job.phase_word : `running, no step for ${span(now() - job.stalled_since_s)}`;
  if (place.textContent !== text) place.textContent = text;
  place.className = `phase-word ${job.mood}`;
}

// `in 41 s`, `now`, `12 min ago`.
export function relative(seconds) {
  if (Math.abs(seconds) < 0.5) return "now";
  return seconds > 0 ? `in ${span(seconds)}` : `${span(seconds)} ago`;
}

export function percent(share) {
  return share === null ? "–" : `${Math.round(share * 100)}%`;
}

// A number to four digits.
export function short(value) {
  return value === null ? "" : String(Number(Number(value).toPrecision(4)));
}

export function showTimes(root) {
  for (const place of root.querySelectorAll("time[data-at]")) {
    place.textContent = clock(Number(place.dataset.at));
  }
}
