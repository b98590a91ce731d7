// The nodes, and which job holds each of their devices.

import { clock } from "/static/format.js";
import { paint } from "/static/timeline.js";

function element(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

const MOST_SLOTS = 256;

// nodes: as the API tells of them. jobs: by id. A device is a square in the colour of its job, filled as far as it is used.
export function showNodes(list, nodes, lost, jobs) {
  list.replaceChildren(...nodes.map((node) => nodeItem(node, jobs)), ...lost.map(lostItem));
}

function marks(node) {
  const until = node.until_s === null ? [] : [`until ${clock(node.until_s)}`];
  return [...(node.is_borrowed ? ["borrowed"] : []), ...(node.is_joined ? ["joined"] : []), ...(node.leaving?.is_ill ? ["ill"] : []), ...until];
}

function nodeItem(node, jobs) {
  const item = element("li", "");
  const holders = Object.values(node.devices);
  const held = new Map();
  for (const id of holders) if (id !== null) held.set(id, (held.get(id) ?? 0) + 1);
  const numFree = holders.filter((id) => id === null).length;
  item.append(element("b", "", node.name), " ", element("small", "", surroundings(node)), " ");
  for (const mark of marks(node)) item.append(element("span", `mark ${mark}`, mark), " ");
  item.append(element("small", "", `${holders.length - numFree} of ${holders.length} in use`));
  if (holders.length > 0) item.append(slots(node, held, numFree, jobs));
  for (const text of [...(node.leaving === null ? [] : [node.leaving.why]), ...node.lacks]) item.append(element("p", "", text));
  return item;
}

function lostItem(node) {
  const item = element("li", "lost");
  item.append(element("b", "", node.name), element("p", "", node.cause ? `lost: ${node.cause}` : "lost"));
  return item;
}

function slots(node, held, numFree, jobs) {
  const place = element("div", "slots");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", [...[...held].map(([id, num]) => `${jobs.get(id)?.name ?? id} ${num}`), `free ${numFree}`].join(", "));
  const order = [...held.keys(), null];
  const devices = Object.entries(node.devices).sort(([, one], [, other]) => order.indexOf(one) - order.indexOf(other));
  for (const [device, id] of devices.slice(0, MOST_SLOTS)) {
    const slot = element("span", "slot");
    if (id !== null) paint(slot, jobs.get(id) ?? { id, cls: "strict" });
    slot.classList.add("slot");
    slot.title = [id === null ? "free" : (jobs.get(id)?.name ?? id), ...reading(node.readings[device]), ...(device in node.slow ? [node.slow[device]] : [])].join(", ");
    if (id !== null && device in node.readings) slot.style.setProperty("--use", node.readings[device].use);
    place.append(slot);
  }
  return place;
}

// What a device does, in words.
function reading(read) {
  if (read === undefined) return [];
  const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
  const told = [`${Math.round(100 * read.use)} % used`];
  if (read.memory_bytes !== null && read.total_memory_bytes !== null) told.push(`${gib(read.memory_bytes)} of ${gib(read.total_memory_bytes)} GiB`);
  if (read.power_w !== null) told.push(`${Math.round(read.power_w)} W`);
  if (read.temperature_c !== null) told.push(`${read.temperature_c} °C`);
  if (read.slowed_by !== null) told.push(`slowed down by ${read.slowed_by}`);
  return told;
}

function surroundings(node) {
  return [node.kind, node.rack, node.islands && `islands of ${node.islands}`].filter(Boolean).join(", ");
}
