// The nodes, and which job holds each of their devices.

import { paint } from "/static/timeline.js";

function element(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

const MOST_SLOTS = 256;

// jobs: by id. A device is a square in the colour of its job.
export function showNodes(list, nodes, jobs) {
  list.replaceChildren(...nodes.map((node) => nodeItem(node, jobs)));
}

function nodeItem(node, jobs) {
  const item = element("li", node.is_lost ? "lost" : "");
  item.append(element("b", "", node.name), " ", element("small", "", surroundings(node)), " ");
  for (const mark of node.marks) item.append(element("span", `mark ${mark}`, mark), " ");
  if (!node.is_lost) item.append(element("small", "", `${node.num_devices - node.num_free} of ${node.num_devices} in use`));
  const slots = element("div", "slots");
  slots.setAttribute("role", "img");
  slots.setAttribute("aria-label", words(node, jobs));
  for (const [id, num] of node.holders) {
    for (let count = 0; count < num && slots.children.length < MOST_SLOTS; count++) {
      const slot = element("span", "slot");
      paint(slot, jobs.get(id) ?? { id, cls: "strict" });
      slot.classList.add("slot");
      slot.title = jobs.get(id)?.name ?? id;
      slots.append(slot);
    }
  }
  for (let count = 0; count < node.num_free && slots.children.length < MOST_SLOTS; count++) slots.append(element("span", "slot"));
  if (node.num_devices > 0) item.append(slots);
  for (const text of node.warnings) item.append(element("p", "", text));
  return item;
}

function surroundings(node) {
  return [node.kind, node.rack, node.islands && `islands of ${node.islands}`].filter(Boolean).join(", ");
}

function words(node, jobs) {
  const held = node.holders.map(([id, num]) => `${jobs.get(id)?.name ?? id} ${num}`);
  return [...held, `free ${node.num_free}`].join(", ");
}
