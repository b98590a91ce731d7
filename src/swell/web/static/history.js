// The view History: charts of what came of ended jobs. The tables beneath them say the same without a script.

import { curves } from "/static/curves.js";
import { showTimes } from "/static/format.js";

const HEIGHT = 200;
// What is gained is not drawn in the colour of an alarm.
const MOODS = { kept: "good", missed: "bad", paused: "warn", "saved by growing": "good" };

showTimes(document);
const told = JSON.parse(document.getElementById("charts").textContent);
for (const place of document.querySelectorAll("[data-chart]")) {
  const title = place.closest("section").querySelector("h2").textContent;
  // What resizes cost is little beside what they save: on a log scale both are seen.
  const scale = place.dataset.chart === "resizes" ? { log: false } : {};
  const series = told[place.dataset.chart].map((one) => ({ ...one, mood: MOODS[one.label] }));
  const x = { x: told.names, ticks: told.ticks, xLabel: told.xLabel };
  curves(place, { kind: "bars", ...x, series, isCount: place.dataset.chart === "promises", height: HEIGHT, title, ...scale });
}
