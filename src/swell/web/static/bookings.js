// Bookings: devices that are for one user, or for nobody, at some times.

import { clock, now } from "/static/format.js";

function told(booking) {
  if (booking.node) return `node ${booking.node}, for maintenance`;
  return `${booking.num_devices} ${booking.num_devices === 1 ? "device" : "devices"}${booking.user ? `, for ${booking.user}` : ""}`;
}

// Times that are not over.
const times = (booking) => booking.times_s.filter(([, endS]) => endS > now());

export function showBookings(list, bookings) {
  list.replaceChildren(...bookings.filter((one) => times(one).length > 0).map((booking) => {
    const item = document.createElement("li"), name = document.createElement("b");
    const [[beginS, endS], ...later] = times(booking);
    name.textContent = booking.id;
    item.append(name, ` ${told(booking)}: ${clock(beginS)} to ${clock(endS)}${later.length ? `, and ${later.length} more` : ""}`);
    return item;
  }));
}

// What the timeline shows ahead of now: a job that holds the devices then.
export function bookedAhead(bookings, nodes, nowS) {
  return bookings.map((booking) => {
    const devices = booking.num_devices ?? Object.keys(nodes.find((node) => node.name === booking.node)?.devices ?? {}).length;
    const segments = times(booking).map(([beginS, endS]) => [Math.max(beginS, nowS), endS, devices]);
    return { id: booking.id, name: `${booking.id}: ${told(booking)}`, cls: "booking", segments };
  });
}
