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

// `41 s`, `12 min`, `5.2 h`, `9 days`.
export function span(seconds) {
  const length = Math.abs(seconds);
  if (length < 100) return `${Math.round(length)} s`;
  if (length < 6000) return `${Math.round(length / 60)} min`;
  if (length < 48 * 3600) return `${(length / 3600).toFixed(1)} h`;
  return `${Math.round(length / 86400)} days`;
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
