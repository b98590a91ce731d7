// Marks of curves.js: where something happened, with a word on it.

/** Colour of what is behind the element. */
function behind(element) {
  const colour = getComputedStyle(element).backgroundColor;
  if (element.parentElement && /^rgba\(.*, 0\)$|^transparent$/.test(colour)) return behind(element.parentElement);
  return colour;
}

/** Marks as broken lines over the whole height. A label stands on what is behind the plot, right of its line, or left
 *  of it at the end, and only where it covers no other label. */
export function drawMarks(u, marks, element) {
  const colour = getComputedStyle(element).color, paper = behind(element);
  const { ctx, bbox } = u, unit = devicePixelRatio, right = bbox.left + bbox.width;
  const shown = marks.map(({ x, label }) => ({ at: Math.round(u.valToPos(x, "x", true)), label }))
    .filter(({ at }) => at >= bbox.left && at <= right).sort((one, other) => one.at - other.at);
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = unit;
  ctx.setLineDash([3 * unit, 3 * unit]);
  for (const { at } of shown) {
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.font = `${11 * unit}px system-ui, sans-serif`;
  let free = bbox.left;
  for (const { at, label } of shown) {
    const width = label ? ctx.measureText(label).width + 6 * unit : 0;
    const left = at + unit + width <= right ? at + unit : at - unit - width;
    if (!label || left < free) continue;
    ctx.fillStyle = paper;
    ctx.fillRect(left, bbox.top + unit, width, 14 * unit);
    ctx.fillStyle = colour;
    ctx.fillText(label, left + 3 * unit, bbox.top + 12 * unit);
    free = left + width + 2 * unit;
  }
  ctx.restore();
}
