// Devices over time, stacked by job. A job has a colour; its class has a pattern besides, so that classes are
// told apart without colour. Times are seconds: since 1970, or, where they are small, since the beginning.
//
// timeline(element, data) shows
//   {start_s, end_s, now_s?, capacity: [[t_s, devices], ...], jobs: [{id, name, cls, segments: [[from_s, to_s,
//    devices], ...], submitted_s, deadline_s, finished_s, expected_s, state}]}
// and returns an object with update(data).

import { LEAST_S, spanAfter } from "/static/timeline_keys.js";
import { stretches } from "/static/timeline_stretches.js";

const NUM_HUES = 12;
const NUM_COLOURS = 3 * NUM_HUES; // in three lightnesses, which the stylesheet knows
const LEFT = 34;
const RIGHT = 10;
const TOP = 22;
const BOTTOM = 22;
const HEIGHT = 250;
const EPOCH_S = 1e9; // times beyond it are of the calendar
const NEAR_PX = 7;
const DEVICE_STEPS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000];
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];

const given = new Map();

// Number of a job's colour, which its id tells. No other job that is shown has its hue, or its colour, as long as
// there are enough.
export function colourNumber(id) {
  if (!given.has(id)) {
    const all = [...given.values()], hues = new Set(all.map((one) => one % NUM_HUES));
    const isTaken = (one) => (hues.size < NUM_HUES ? hues.has(one % NUM_HUES) : all.includes(one));
    let number = [...id].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 1000003, 7) % NUM_COLOURS;
    for (let tries = 0; isTaken(number) && tries < NUM_COLOURS; tries += 1) number = (number + 5) % NUM_COLOURS;
    given.set(id, number);
  }
  return given.get(id);
}

// lightness: of its level. Five numbers on, a hue is another one.
function colourOf(id, lightness) {
  const number = colourNumber(id);
  return `oklch(${lightness(Math.floor(number / NUM_HUES))} 0.13 ${(number % NUM_HUES) * (360 / NUM_HUES)})`;
}

// Colours of jobs that are not shown any more are free for others.
export function giveColours(jobs) {
  const shown = new Set([...jobs].map((job) => job.id));
  for (const id of given.keys()) if (!shown.has(id)) given.delete(id);
  for (const id of shown) colourNumber(id);
}

// A reload of the page changes no colour.
export function keepColours(storage) {
  for (const [id, number] of JSON.parse(storage.getItem("swell-colours") ?? "[]")) given.set(id, number);
  addEventListener("pagehide", () => storage.setItem("swell-colours", JSON.stringify([...given])));
}

// The stylesheet knows patterns.
export function paint(swatch, job) {
  swatch.className = `swatch ${job.cls}`;
  swatch.style.setProperty("--own", colourOf(job.id, (level) => `var(--job-l${level})`));
}

const twoDigits = (number) => String(number).padStart(2, "0");

function timeText(atS, stepS) {
  if (atS < EPOCH_S) {
    if (stepS >= 86400) return `${Math.round(atS / 86400)} d`;
    const seconds = Math.round(atS);
    return stepS >= 3600 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 60)}:${twoDigits(seconds % 60)}`;
  }
  const at = new Date(atS * 1000);
  if (stepS >= 86400) return at.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  const minutes = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`;
  return stepS >= 60 ? minutes : `${minutes}:${twoDigits(at.getSeconds())}`;
}

function timelineElement(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

class Timeline {
  constructor(element, data) {
    this.view = null; // what is zoomed into: [from_s, to_s]
    this.patterns = new Map();
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "chart");
    this.tip = timelineElement("div", "tip");
    this.tip.hidden = true;
    this.reset = timelineElement("button", "reset", "Whole time");
    this.reset.type = "button";
    this.reset.hidden = true;
    this.frame = timelineElement("div", "frame");
    this.frame.append(this.canvas, this.tip, this.reset);
    element.replaceChildren(this.frame, legend());
    this.listen();
    this.update(data);
    new ResizeObserver(() => this.draw()).observe(this.frame);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.patterns.clear(); this.draw(); });
  }

  update(data) {
    const before = this.data;
    this.data = data;
    this.stretches = stretches(data.jobs);
    const capacity = data.capacity.filter((one, at) => (data.capacity[at + 1]?.[0] ?? Infinity) > data.start_s);
    const inView = this.stretches.filter(([, toS]) => toS > data.start_s);
    this.numDevices = Math.max(1, ...capacity.map((one) => one[1]), ...inView.map((one) => one[2].reduce((sum, [, num]) => sum + num, 0)));
    if (this.view && before && this.view[1] >= before.end_s) { // what was at its end stays there
      const passed = data.end_s - this.view[1];
      this.view = [this.view[0] + passed, data.end_s];
    }
    this.draw();
  }

  get span() {
    return this.view ?? [this.data.start_s, this.data.end_s];
  }

  x(atS) {
    const [fromS, toS] = this.span;
    return LEFT + ((atS - fromS) / (toS - fromS)) * (this.width - LEFT - RIGHT);
  }

  time(x) {
    const [fromS, toS] = this.span;
    return fromS + ((x - LEFT) / (this.width - LEFT - RIGHT)) * (toS - fromS);
  }

  y(devices) {
    return HEIGHT - BOTTOM - (devices / this.numDevices) * (HEIGHT - BOTTOM - TOP);
  }

  draw() {
    this.width = this.frame.clientWidth;
    if (this.width < LEFT + RIGHT + 20) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = HEIGHT * ratio;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    this.style = getComputedStyle(document.documentElement);
    this.marks = [];
    this.drawAxes(pen);
    this.within(pen, 0, () => {
      this.drawBands(pen);
      this.drawCapacity(pen);
      this.drawNow(pen);
    });
    this.within(pen, RIGHT, () => { // a ring at the end is whole
      for (const job of this.data.jobs) this.drawMarks(pen, job);
    });
    for (const [job, box] of this.labels) this.drawLabel(pen, job, box.widest);
    this.canvas.setAttribute("aria-label", this.summary());
  }

  // Clipped to the axes, and to so many pixels on both sides of them.
  within(pen, pixels, paintIt) {
    pen.save();
    pen.beginPath();
    pen.rect(LEFT - pixels, 0, this.width - LEFT - RIGHT + 2 * pixels, HEIGHT);
    pen.clip();
    paintIt();
    pen.restore();
  }

  colour(name) {
    return this.style.getPropertyValue(`--${name}`).trim();
  }

  drawAxes(pen) {
    pen.fillStyle = this.colour("soft");
    pen.strokeStyle = this.colour("faint");
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const every = DEVICE_STEPS.find((one) => this.numDevices / one <= 8) ?? Math.ceil(this.numDevices / 8);
    for (let devices = 0; devices <= this.numDevices; devices += every) {
      const y = Math.round(this.y(devices)) + 0.5;
      line(pen, LEFT, y, this.width - RIGHT, y);
      pen.fillText(String(devices), LEFT - 7, y);
    }
    const [fromS, toS] = this.span;
    const most = Math.max(2, Math.floor((this.width - LEFT) / 90));
    const stepS = STEPS_S.find((one) => (toS - fromS) / one <= most) ?? STEPS_S.at(-1);
    const zoneS = fromS < EPOCH_S ? 0 : new Date(fromS * 1000).getTimezoneOffset() * 60;
    pen.textAlign = "center";
    for (let atS = Math.ceil((fromS - zoneS) / stepS) * stepS + zoneS; atS <= toS; atS += stepS) {
      const x = Math.round(this.x(atS)) + 0.5;
      line(pen, x, TOP, x, HEIGHT - BOTTOM);
      if (x > LEFT + 14 && x < this.width - RIGHT - 14) pen.fillText(timeText(atS, stepS), x, HEIGHT - BOTTOM / 2 + 2);
    }
  }

  drawBands(pen) {
    this.labels = new Map();
    const ratio = window.devicePixelRatio || 1;
    const snap = (at) => Math.round(at * ratio) / ratio; // else seams show between the stretches of a job
    this.bands = [];
    for (const [fromS, toS, stack] of this.stretches) {
      const left = snap(Math.max(LEFT, this.x(fromS)));
      const right = snap(Math.min(this.width - RIGHT, this.x(toS)));
      if (right <= left) continue;
      let below = 0;
      for (const [job, num] of stack) {
        const bottom = snap(this.y(below));
        const top = snap(this.y(below + num));
        const gap = bottom - top > 3 ? 1 : 0;
        pen.fillStyle = this.fill(pen, job);
        pen.fillRect(left, top + gap, right - left, bottom - top - gap);
        this.bands.push([left, right, top, bottom, job, num]);
        placeLabel(this.labels, job, left, right, top, bottom);
        below += num;
      }
    }
  }

  // Above the lines of deadlines.
  drawLabel(pen, job, [left, right, top, bottom]) {
    const width = pen.measureText(job.name).width;
    if (right - left < width + 14 || bottom - top < 14) return;
    const middle = (top + bottom) / 2;
    pen.fillStyle = this.colour("panel");
    pen.beginPath();
    pen.roundRect(left + 4, middle - 8, width + 8, 16, 3);
    pen.fill();
    pen.fillStyle = this.colour("text");
    pen.textAlign = "left";
    pen.fillText(job.name, left + 8, middle + 0.5);
  }

  // Strict: full. Soft: stripes. Best effort: dots. Booked: a grid.
  fill(pen, job) {
    const colour = colourOf(job.id, (level) => this.colour(`job-l${level}`));
    const key = `${colour} ${job.cls}`;
    if (!this.patterns.has(key)) this.patterns.set(key, this.pattern(pen, colour, job.cls));
    return this.patterns.get(key);
  }

  pattern(pen, colour, cls) {
    if (cls === "strict") return colour;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 16;
    const brush = tile.getContext("2d");
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 16, 16);
    brush.strokeStyle = brush.fillStyle = this.colour("panel");
    brush.globalAlpha = 0.5;
    if (cls === "soft") {
      brush.lineWidth = 3.4;
      for (const at of [-16, 0, 16]) line(brush, at - 2, 18, at + 18, -2);
    } else if (cls === "booking") {
      brush.globalAlpha = 0.8;
      brush.fillRect(0, 0, 16, 16);
      brush.strokeStyle = colour;
      for (const at of [-16, 0, 16]) {
        line(brush, at - 2, 18, at + 18, -2);
        line(brush, at - 2, -2, at + 18, 18);
      }
    } else {
      for (const [x, y] of [[4, 4], [12, 12]]) {
        brush.beginPath();
        brush.arc(x, y, 2.6, 0, 7);
        brush.fill();
      }
    }
    const made = pen.createPattern(tile, "repeat");
    made.setTransform(new DOMMatrix().scale(0.5));
    return made;
  }

  drawCapacity(pen) {
    pen.strokeStyle = this.colour("soft");
    pen.lineWidth = 1.2;
    pen.beginPath();
    this.data.capacity.forEach(([atS, devices], at) => {
      const untilS = this.data.capacity[at + 1]?.[0] ?? this.data.now_s ?? this.data.end_s;
      pen.lineTo(this.x(atS), this.y(devices));
      pen.lineTo(this.x(untilS), this.y(devices));
    });
    pen.stroke();
    pen.lineWidth = 1;
  }

  drawNow(pen) {
    if (this.data.now_s === undefined) return;
    const x = Math.round(this.x(this.data.now_s));
    pen.save();
    pen.globalAlpha = 0.5;
    pen.fillStyle = this.colour("faint");
    pen.fillRect(x, TOP, this.width - RIGHT - x, HEIGHT - TOP - BOTTOM);
    pen.restore();
    pen.strokeStyle = this.colour("text");
    line(pen, x + 0.5, TOP, x + 0.5, HEIGHT - BOTTOM);
  }

  // A deadline is a flag with a line to the ground; a finish is a ring at the ground, full once it has happened.
  drawMarks(pen, job) {
    const colour = colourOf(job.id, (level) => this.colour(`job-l${level}`));
    pen.strokeStyle = pen.fillStyle = colour;
    if (job.deadline_s !== null && job.deadline_s !== undefined) {
      const x = Math.round(this.x(job.deadline_s)) + 0.5;
      pen.setLineDash([3, 3]);
      line(pen, x, TOP - 4, x, HEIGHT - BOTTOM);
      pen.setLineDash([]);
      pen.beginPath();
      pen.moveTo(x, 5);
      pen.lineTo(x + 10, 9.5);
      pen.lineTo(x, 14);
      pen.fill();
      line(pen, x, 5, x, TOP);
      this.marks.push([x + 4, 10, `${job.name}: deadline ${timeText(job.deadline_s, 1)}`, job]);
    }
    const endS = job.finished_s ?? job.expected_s;
    if (endS === null || endS === undefined || (job.finished_s && !job.segments.some(([, , devices]) => devices > 0))) return; // it never ran
    const x = this.x(endS);
    pen.beginPath();
    pen.arc(x, HEIGHT - BOTTOM, 4.2, 0, 7);
    pen.fillStyle = job.finished_s ? colour : this.colour("panel");
    pen.fill();
    pen.lineWidth = 2;
    pen.stroke();
    pen.lineWidth = 1;
    this.marks.push([x, HEIGHT - BOTTOM, `${job.name}: ${job.finished_s ? "ended" : "expected to end"} ${timeText(endS, 1)}`, job]);
  }

  summary() {
    const atS = this.data.now_s ?? this.data.end_s;
    const last = this.stretches.findLast(([fromS, toS]) => fromS <= atS && toS >= atS);
    const held = (last?.[2] ?? []).map(([job, num]) => `${job.name} ${num}`);
    const use = held.length ? `In use: ${held.join(", ")}.` : "None is in use.";
    return `${this.numDevices} devices over time. ${use} Arrow keys move, + and - zoom, Escape shows all.`;
  }

  listen() {
    let from = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = event.offsetX;
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    this.canvas.addEventListener("pointerup", (event) => {
      const ends = [from ?? event.offsetX, event.offsetX].sort((one, other) => one - other);
      from = null;
      if (ends[1] - ends[0] > 12) this.zoomTo(this.time(ends[0]), this.time(ends[1]));
    });
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("dblclick", () => this.zoomTo());
    this.reset.addEventListener("click", () => this.zoomTo());
    this.canvas.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    const wanted = spanAfter(event, this.span, [this.data.start_s, this.data.end_s]);
    if (wanted === undefined) return;
    event.preventDefault();
    this.zoomTo(...wanted);
  }

  // Without times: the whole.
  zoomTo(fromS, toS) {
    const { start_s: startS, end_s: endS } = this.data;
    const untilS = Math.min(endS, Math.max(toS, fromS + LEAST_S));
    const beginS = Math.max(startS, Math.min(fromS, untilS - LEAST_S));
    const isWhole = fromS === undefined || (beginS <= startS && untilS >= endS);
    this.view = isWhole ? null : [beginS, untilS];
    this.reset.hidden = isWhole;
    this.draw();
  }

  point(x, y) {
    const mark = this.marks.find(([atX, atY]) => Math.abs(atX - x) < NEAR_PX && Math.abs(atY - y) < NEAR_PX);
    const band = this.bands.findLast(([left, right, top, bottom]) => left <= x && x < right && top <= y && y < bottom);
    const text = mark ? mark[2] : band && `${band[4].name}: ${band[5]} ${band[5] === 1 ? "device" : "devices"} at ${timeText(this.time(x), 1)}`;
    this.tip.hidden = !text;
    if (!text) return;
    this.tip.textContent = text;
    const left = Math.min(x + 12, this.width - this.tip.offsetWidth - 4);
    this.tip.style.transform = `translate(${Math.max(0, left)}px, ${y + 14}px)`;
  }
}

// The widest stretch in which a band keeps its place takes the name of its job.
function placeLabel(labels, job, left, right, top, bottom) {
  const box = labels.get(job);
  const current = box?.current;
  const goesOn = current && current[1] === left && current[2] === top && current[3] === bottom;
  const grown = [goesOn ? current[0] : left, right, top, bottom];
  const area = (one) => (one[1] - one[0]) * Math.min(40, one[3] - one[2]);
  const widest = box && area(box.widest) > area(grown) ? box.widest : grown;
  labels.set(job, { current: grown, widest });
}

function line(pen, fromX, fromY, toX, toY) {
  pen.beginPath();
  pen.moveTo(fromX, fromY);
  pen.lineTo(toX, toY);
  pen.stroke();
}

function legend() {
  const list = timelineElement("ul", "legend");
  const parts = [["swatch plain strict", "strict"], ["swatch plain soft", "soft"], ["swatch plain best_effort", "best effort"],
    ["swatch plain booking", "booked"],
    ["key flag", "deadline"], ["key ring", "expected finish"], ["key ring full", "finished"]];
  for (const [className, text] of parts) {
    const item = timelineElement("li", "", "");
    item.append(timelineElement("span", className), text);
    list.append(item);
  }
  return list;
}

export function timeline(element, data) {
  return new Timeline(element, data);
}
