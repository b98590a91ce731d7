// Stretches of time in which no job changes its size: [from_s, to_s, [[job, devices], ...]].
export function stretches(jobs) {
  const edges = [];
  jobs.forEach((job, order) => {
    for (const [fromS, toS, devices] of job.segments) {
      if (devices <= 0 || toS <= fromS) continue;
      edges.push([fromS, order, devices], [toS, order, -devices]);
    }
  });
  edges.sort((one, other) => one[0] - other[0]);
  const held = new Map();
  const found = [];
  edges.forEach(([atS, order, devices], at) => {
    const now = (held.get(order) ?? 0) + devices;
    if (now === 0) held.delete(order);
    else held.set(order, now);
    const nextS = edges[at + 1]?.[0] ?? atS;
    if (nextS > atS && held.size > 0) {
      const stack = [...held].sort((one, other) => one[0] - other[0]);
      found.push([atS, nextS, stack.map(([which, num]) => [jobs[which], num])]);
    }
  });
  return found;
}
