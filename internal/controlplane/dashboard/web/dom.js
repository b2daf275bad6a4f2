// Helpers for the document. Texts of objects reach it only as text nodes and attributes, never as markup.

/** element returns a new element with attributes and children. A child that is no node becomes a text. */
export function element(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  set(created, attributes);
  created.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return created;
}

/** shape returns a new SVG element. */
export function shape(name, attributes = {}, ...children) {
  const created = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(created, attributes);
  created.append(...children);
  return created;
}

function set(target, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) target.setAttribute(name, value);
  }
}

/** byId returns an element of index.html. */
export const byId = (id) => document.getElementById(id);

/** setText changes a text only if it differs, so that screen readers repeat nothing. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** number formats a number for people. */
export function number(value, digits = 1) {
  return value.toLocaleString("en", { maximumFractionDigits: value >= 100 ? 0 : digits });
}

/** percent formats a percentage. */
export const percent = (value) => `${number(value)} %`;

/** clock formats a time of day. */
export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
