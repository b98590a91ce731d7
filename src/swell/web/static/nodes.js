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

// nodes: as the API tells of them. jobs: by id. A device is a square in the colour of its job.
export function showNodes(list, nodes, lost, jobs) {
  list.replaceChildren(...nodes.map((node) => nodeItem(node, jobs)), ...lost.map(lostItem));
}

function marks(node) {
  const until = node.until_s === null ? [] : [`until ${clock(node.until_s)}`];
  return [...(node.is_borrowed ? ["borrowed"] : []), ...(node.is_joined ? ["joined"] : []), ...until];
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
  if (holders.length > 0) item.append(slots(held, numFree, jobs));
  for (const text of [...(node.leaving === null ? [] : [node.leaving.why]), ...node.lacks]) item.append(element("p", "", text));
  return item;
}

function lostItem(node) {
  const item = element("li", "lost");
  item.append(element("b", "", node.name), element("p", "", node.cause ? `lost: ${node.cause}` : "lost"));
  return item;
}

function slots(held, numFree, jobs) {
  const place = element("div", "slots");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", [...[...held].map(([id, num]) => `${jobs.get(id)?.name ?? id} ${num}`), `free ${numFree}`].join(", "));
  const owners = [...held].flatMap(([id, num]) => Array(num).fill(id));
  for (const id of owners.slice(0, MOST_SLOTS)) {
    const slot = element("span", "slot");
    paint(slot, jobs.get(id) ?? { id, cls: "strict" });
    slot.classList.add("slot");
    slot.title = jobs.get(id)?.name ?? id;
    place.append(slot);
  }
  for (let count = owners.length; count < Math.min(MOST_SLOTS, owners.length + numFree); count++) place.append(element("span", "slot"));
  return place;
}

function surroundings(node) {
  return [node.kind, node.rack, node.islands && `islands of ${node.islands}`].filter(Boolean).join(", ");
}
