// The overview: a table that has only the visible rows in the document.
import { byId, element, number, setText } from "./dom.js";

const rowHeight = 34, spare = 10;

const split = (o) => (o.split ?? []).map((side) => side.active).join(" / ");
const demandText = (o, field) => (o.demand.unknown ? "≥ " : "") + number(o.demand[field]);

const columns = [
  { title: "Namespace", text: (o) => o.namespace },
  { title: "Name", text: (o) => o.name, isLink: true },
  { title: "Hosts", text: (o) => (o.hosts ?? ["*"]).join(", ") },
  { title: "Workload", text: (o) => o.target ?? o.service },
  { title: "State", text: (o) => (o.reason ? `${o.state}, ${o.reason}` : o.state), isState: true },
  { title: "Split", text: split },
  { title: "Ready", text: (o) => String(o.endpoints), order: (o) => o.endpoints, hint: "ready endpoints" },
  { title: "ACKs", text: (o) => `${o.proxies.acked}/${o.proxies.ready}`, order: (o) => o.proxies.acked - o.proxies.ready,
    hint: "Ready proxies that have acknowledged the object" },
  { title: "Req/s", text: (o) => demandText(o, "requestRate"), order: (o) => o.demand.requestRate },
  { title: "Active", text: (o) => demandText(o, "concurrency"), order: (o) => o.demand.concurrency,
    hint: "concurrent requests, including queued ones" },
];

const objects = new Map();
let shown = [], sortBy = null, isDescending = false, scheduled = false, focused = -1;
let isChanged = false; // an object was added, removed or changed since the last filter
let keys = [], areKeysChanged = false; // the sorted keys, and whether an object was added or removed since

const body = byId("body"), spacer = byId("spacer"), head = byId("head");

/** start builds the table. */
export function start(onFilter) {
  head.append(element("div", { class: "row", role: "row" }, columns.map((column, index) => {
    const button = element("button", { type: "button", title: column.hint }, column.title);
    button.addEventListener("click", () => sort(index));
    return element("div", { role: "columnheader", class: column.order ? "n" : null, "aria-sort": "none" }, button);
  })));
  for (const id of ["search", "namespace", "state"]) {
    byId(id).addEventListener("input", () => { filter(); body.scrollTop = 0; onFilter(); });
  }
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  body.addEventListener("scroll", () => { head.scrollLeft = body.scrollLeft; schedule(); });
  body.addEventListener("keydown", onKey);
  new ResizeObserver(schedule).observe(body);
}

/** update applies an event objects of the stream. */
export function update(event) {
  if (event.whole) objects.clear();
  areKeysChanged ||= event.whole || event.gone.length > 0;
  for (const key of event.gone) objects.delete(key);
  for (const object of event.objects) {
    object.key = `${object.namespace}/${object.name}`;
    object.words = [object.key, object.target, object.service, object.reason, ...(object.hosts ?? [])].join(" ").toLowerCase();
    areKeysChanged ||= !objects.has(object.key);
    objects.set(object.key, object);
  }
  isChanged = true;
  schedule();
}

/** filter selects and sorts the rows. */
export function filter() {
  isChanged = false;
  if (areKeysChanged) {
    areKeysChanged = false;
    keys = [...objects.keys()].sort();
    setNamespaces();
  }
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const namespace = byId("namespace").value, state = byId("state").value;
  shown = keys.map((key) => objects.get(key)).filter((o) =>
    (!namespace || o.namespace === namespace) && (!state || hasState(o, state)) &&
    words.every((word) => o.words.includes(word)));
  const column = columns[sortBy];
  if (column) {
    const value = column.order ?? column.text, sign = isDescending ? -1 : 1;
    const compare = (x, y) => (x < y ? -1 : x > y ? 1 : 0);
    shown.sort((a, b) => sign * compare(value(a), value(b))); // Equal ones keep the order of their keys.
  }
  setText(byId("count"), `${shown.length} of ${objects.size}`);
  schedule();
}

const hasState = (o, state) =>
  o.state === state || (state === "active" && o.demand.active) || (state === "canary" && (o.split ?? []).length > 1);

function setNamespaces() {
  const select = byId("namespace");
  const names = [...new Set([...objects.values()].map((o) => o.namespace))].sort();
  const wanted = select.value;
  if (wanted && !names.includes(wanted)) names.push(wanted);
  if (names.length === select.options.length - 1 && names.every((name, i) => select.options[i + 1].value === name)) return;
  select.replaceChildren(element("option", { value: "" }, "all"), ...names.map((name) => element("option", { value: name }, name)));
  select.value = wanted;
}

function sort(index) {
  isDescending = sortBy === index ? !isDescending : Boolean(columns[index].order);
  sortBy = index;
  [...head.firstChild.children].forEach((cell, i) =>
    cell.setAttribute("aria-sort", i !== index ? "none" : isDescending ? "descending" : "ascending"));
  filter();
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    if (isChanged) filter();
    render();
  });
}

const rows = new Map(); // the rows in the document, by index

function render() {
  spacer.style.height = `${shown.length * rowHeight}px`;
  byId("table").setAttribute("aria-rowcount", shown.length + 1);
  const first = Math.max(0, Math.floor(body.scrollTop / rowHeight) - spare);
  const last = Math.min(shown.length, Math.ceil((body.scrollTop + body.clientHeight) / rowHeight) + spare);
  for (const [index, row] of rows) {
    if (index < first || index >= last) {
      row.remove();
      rows.delete(index);
    }
  }
  for (let index = first; index < last; index++) fill(index);
  if (focused >= 0) rows.get(focused)?.querySelector("a").focus({ preventScroll: true });
  focused = -1;
}

function fill(index) {
  let row = rows.get(index);
  if (!row) {
    row = element("div", { class: "row", role: "row", "aria-rowindex": index + 2 },
      columns.map((column) => element("div", { role: "cell", class: column.order ? "n" : null },
        column.isLink ? element("a", {}) : null)));
    row.style.top = `${index * rowHeight}px`;
    rows.set(index, row);
    const next = [...rows.keys()].filter((other) => other > index).sort((a, b) => a - b)[0];
    spacer.insertBefore(row, next === undefined ? null : rows.get(next));
  }
  const object = shown[index];
  columns.forEach((column, i) => {
    const cell = row.children[i], text = column.text(object);
    if (column.isLink) {
      cell.firstChild.setAttribute("href", `#/${object.namespace}/${object.name}`);
      setText(cell.firstChild, text);
    } else {
      setText(cell, text);
    }
    if (column.isState) {
      cell.className = `s s-${object.state}`;
      cell.title = text;
    } else if (cell.title !== text) {
      cell.title = text;
    }
  });
}

function onKey(event) {
  const page = Math.max(1, Math.floor(body.clientHeight / rowHeight) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  if (step === undefined || shown.length === 0) return;
  event.preventDefault();
  const row = document.activeElement.closest?.(".row");
  const current = row ? Number(row.getAttribute("aria-rowindex")) - 2 : Math.floor(body.scrollTop / rowHeight) - Math.sign(step);
  focused = Math.min(shown.length - 1, Math.max(0, current + step));
  const top = focused * rowHeight;
  if (top < body.scrollTop) body.scrollTop = top;
  else if (top + rowHeight > body.scrollTop + body.clientHeight) body.scrollTop = top + rowHeight - body.clientHeight;
  schedule();
}
