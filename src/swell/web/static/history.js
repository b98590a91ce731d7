// The view History: charts of what came of ended jobs. The tables beneath them say the same without a script.

import { curves } from "/static/curves.js";
import { showTimes } from "/static/format.js";

const HEIGHT = 200;

showTimes(document);
const told = JSON.parse(document.getElementById("charts").textContent);
for (const place of document.querySelectorAll("[data-chart]")) {
  const title = place.closest("section").querySelector("h2").textContent;
  curves(place, {
    kind: "bars", x: told.names, xLabel: told.xLabel, series: told[place.dataset.chart], height: HEIGHT, title,
  });
}
