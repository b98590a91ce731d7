// What tenants have used lately, and of those that have quotas, how many devices their jobs hold.

// The section is there only where a tenant has a quota, or there are several.
export function showTenants(section, template, tenants) {
  section.hidden = tenants.length === 0;
  section.querySelector("tbody").replaceChildren(...tenants.map((tenant) => tenantRow(template, tenant)));
}

function tenantRow(template, { tenant, kind, num_held: held, most, used }) {
  const row = template.content.firstElementChild.cloneNode(true);
  const field = (name) => row.querySelector(`[data-field=${name}]`);
  field("tenant").textContent = tenant;
  field("kind").textContent = kind;
  field("used").textContent = used;
  field("held").textContent = most ? held : "";
  field("most").textContent = most || "";
  row.querySelector(".use").hidden = !most;
  field("over").hidden = held <= most;
  drawUse(row.querySelector(".use svg"), held, most);
  return row;
}

// The whole bar is the quota, or what is held if that is more: what is beyond the quota is in another colour then.
function drawUse(svg, held, most) {
  const x = (devices) => (100 * devices) / Math.max(held, most, 1);
  svg.querySelector(".passed").setAttribute("width", x(Math.min(held, most)));
  const beyond = svg.querySelector(".beyond");
  beyond.setAttribute("x", x(most));
  beyond.setAttribute("width", x(Math.max(0, held - most)));
}
