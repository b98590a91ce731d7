// The report of `swell repro --html`: charts of `swell_papers.html_page`, a panel each.

import { curves } from "/static/curves.js";

/** Of all panels of a chart, so that they compare: bars stand on 0. */
function sharedRange(chart) {
  const known = chart.panels.flatMap((panel) => panel.series.flatMap((one) => one.values)).filter((value) => value !== null);
  const least = Math.min(...known), most = Math.max(...known), room = 0.05 * (most - Math.min(0, least));
  if (!known.length || (most === 0 && least === 0)) return undefined;
  const isFar = chart.kind === "lines" && least > 0.5 * most;
  return [isFar ? least - room : Math.min(0, least - (least < 0 ? room : 0)), most + room];
}

export function draw(data) {
  data.charts.forEach((charts, place) => charts.forEach((chart, number) => chart.panels.forEach((panel, at) => {
    const series = panel.series.filter((one) => one.values.some((value) => value !== null));
    const shape = chart.needs_log ? { log: true } : { yRange: sharedRange(chart) };
    if (!series.length) return;
    curves(document.getElementById(`chart-${place}-${number}-${at}`), { x: chart.x, xLabel: chart.x_label, yLabel: chart.y_label,
      kind: chart.kind, series, title: [chart.title, panel.title].filter(Boolean).join(", "), ...shape });
  })));
}
