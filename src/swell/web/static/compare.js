// The view that compares jobs: a line for each in one chart. The table beneath it stands without a script.

import { curves } from "/static/curves.js";

const HEIGHT = 320;
const told = JSON.parse(document.getElementById("lines").textContent);
const axis = document.getElementById("axis");
let chart = null;

// Jobs of one name are told apart by their ids.
function label(line) {
  const isAlone = told.lines.filter((one) => one.name === line.name).length === 1;
  return isAlone ? line.name : line.id;
}

function data() {
  const isByTime = axis.value === "time" || told.lines.every((line) => line.steps.every((step) => step === 0));
  const lines = told.lines.filter((line) => line.values.length > 0);
  const x = (line) => (isByTime ? line.times : line.steps);
  return {
    x: [], ...(isByTime ? { xUnit: "s", xLabel: "time since the start" } : { xLabel: "step" }), yLabel: told.metric,
    series: lines.map((line) => ({ label: label(line), x: x(line), values: line.values, latest: line.latest })),
    log: false, height: HEIGHT, title: `${told.metric} of ${lines.length} jobs`,
  };
}

function draw() {
  chart?.destroy();
  chart = curves(document.getElementById("chart"), data());
}

if (document.getElementById("chart") !== null) {
  draw();
  axis.addEventListener("change", draw);
}
