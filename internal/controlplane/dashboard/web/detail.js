// One object: split, sides, steps, routes, conditions, endpoints and Events.
import { byId, clock, element, number, percent } from "./dom.js";
import { chart } from "./chart.js";

const maxSamples = 1800;
let samples = [], current = "", last = null, isHistoryOpen = false;

/** show shows an object. Samples of another one are dropped. */
export function show(detail) {
  const key = `${detail.namespace}/${detail.name}`;
  if (key !== current || !last) reset(key);
  last = detail;
  sample(detail);
  draw(detail);
}

/** missing shows that an object does not exist. */
export function missing(key) {
  reset(key);
  byId("detail").replaceChildren(back(), element("h2", { id: "detail-title" }, key), element("p", { role: "status" },
    "There is no such object, or it was deleted."));
}

/** denied shows that the user may not read an object. */
export function denied(key, reason) {
  reset(key);
  byId("detail").replaceChildren(back(), element("h2", { id: "detail-title" }, key), element("p", { role: "alert" }, reason));
}

/** tick moves the chart on while nothing changes. */
export function tick() {
  if (!last || byId("detail").hidden) return;
  sample(last);
  const split = byId("split");
  if (split) patch(split, splitPart(last));
}

/**
 * patch replaces the children that differ. The others keep their focus, selection and scroll position. Parts that are open
 * stay open, and an element with an id that had the focus gets it again.
 */
function patch(target, children) {
  const active = target.contains(document.activeElement) ? document.activeElement.id : "";
  children.forEach((child, i) => {
    const before = target.childNodes[i];
    if (!before) target.append(child);
    else if (!before.isEqualNode(child)) before.replaceWith(child);
  });
  while (target.childNodes.length > children.length) target.lastChild.remove();
  if (active && document.activeElement?.id !== active) byId(active)?.focus({ preventScroll: true });
}

function reset(key) {
  samples = [];
  current = key;
  last = null;
  isHistoryOpen = false;
}

const others = (backends, value) => {
  const sum = backends.reduce((total, side) => total + (value(side) ?? 0), 0);
  return sum > 0 ? 100 * (sum - (value(backends[0]) ?? 0)) / sum : null;
};

function sample(detail) {
  const now = Date.now(), sides = detail.backends;
  const isCounted = sides.some((side) => side.observed?.requests > 0);
  samples.push({
    time: now,
    desired: sides.some((side) => side.desired !== undefined) ? others(sides, (side) => side.desired) : null,
    observed: isCounted ? others(sides, (side) => side.observed?.requests) : null,
  });
  if (samples.length > maxSamples) samples.shift();
}

const back = () => element("p", {}, element("a", { href: "#/" }, "← All objects"));

function draw(detail) {
  patch(byId("detail"), [
    back(), title(detail), facts(detail),
    element("section", { id: "split", "aria-label": "Traffic split" }, splitPart(detail)),
    sides(detail), element("div", { class: "columns" }, rolloutPart(detail), routesPart(detail)),
    conditionsPart(detail), endpointsPart(detail), eventsPart(detail), notesPart(detail)].filter(Boolean));
}

function title(detail) {
  const share = element("button", { type: "button", id: "share" }, "Copy link");
  share.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    share.textContent = "Copied";
  });
  return element("div", { class: "top" },
    element("h2", { id: "detail-title" }, `${detail.namespace}/${detail.name}`),
    element("span", { class: `badge s s-${detail.state}`, "data-field": "state" }, detail.state), share);
}

function facts(detail) {
  const demand = detail.demand, bound = demand.unknown ? "at least " : "";
  const rows = [
    ["Kind", detail.kind],
    ["Hosts", (detail.hosts ?? ["all"]).join(", ")],
    ["Paths", (detail.paths ?? ["all"]).join(", ")],
    ["Workload", detail.target ?? "none"],
    ["Service", detail.service],
    ["Proxies", `${detail.proxies.acked} of ${detail.proxies.ready} Ready proxies in namespace ${detail.fleet} have acknowledged it` +
      (detail.effective ? "" : "; the written split is not effective"), "proxies"],
    ["Demand", `${bound}${number(demand.requestRate)} requests/s, ${bound}${number(demand.concurrency)} active, ${demand.queued} queued` +
      (demand.metric ? `; scales by ${demand.metric}, target ${demand.target}` : ""), "demand"],
  ];
  if (demand.unknown) rows.push(["Not counted", demand.unknown]);
  if (detail.reason) rows.push(["Problem", detail.reason]);
  if (detail.replicas) {
    const r = detail.replicas;
    rows.push(["Replicas", `${r.desired} desired, ${r.total} running, ${r.updated} updated, ${r.available} available`, "replicas"]);
  }
  rows.push(["Reported by", `${detail.reportedBy ?? "no interceptor"}; requests from ${detail.reports.join(", ")}`]);
  return element("dl", { class: "facts" }, rows.flatMap(([name, value, field]) =>
    [element("dt", {}, name), element("dd", { "data-field": field }, value)]));
}

function splitPart(detail) {
  const isSplit = (detail.split ?? []).length > 1;
  if (!isSplit && detail.history.length === 0) {
    return [element("h3", {}, "Traffic split"), element("p", {}, "All requests go to one Service: no canary is running.")];
  }
  const now = Date.now();
  const history = detail.history.map((point) => ({ ...point, time: Date.parse(point.time) }));
  const from = Math.min(now - 60000, ...history.map((point) => point.time), samples[0]?.time ?? now);
  const series = [
    { name: "Written", className: "k1", isStep: true, points: history.map((p) => ({ time: p.time, value: p.written })) },
    { name: "Acknowledged by every proxy", className: "k4", isStep: true,
      points: history.filter((p) => p.effective).map((p) => ({ time: p.time, value: p.active })) },
    { name: "Observed, about one minute", className: "k2",
      points: samples.filter((s) => s.observed !== null).map((s) => ({ time: s.time, value: s.observed })) },
    { name: "Desired", className: "k3", isStep: true,
      points: samples.filter((s) => s.desired !== null).map((s) => ({ time: s.time, value: s.desired })) },
  ];
  return [element("h3", {}, "Requests to the canary, in percent"), chart(series, from, now),
    element("p", { class: "weak" }, "Written and acknowledged weights: from the interceptor, since the canary or the interceptor " +
      "started. Desired and observed: since this page was opened."), historyTable(history)];
}

function historyTable(history) {
  const part = element("details", { id: "history", open: isHistoryOpen ? "" : null },
    element("summary", { id: "history-summary" }, `Changes of the split (${history.length})`),
    table("Changes of the split", ["Time", "Written", "Active", "ACKs", "Effective"], history.toReversed().map((p) =>
      [clock(p.time), percent(p.written), percent(p.active), `${p.proxies.acked}/${p.proxies.ready}`, p.effective ? "yes" : "no"])));
  part.addEventListener("toggle", () => { isHistoryOpen = part.open; });
  return part;
}

function sides(detail) {
  const sums = { written: 0, active: 0, desired: 0 };
  for (const side of detail.backends) for (const field of Object.keys(sums)) sums[field] += side[field] ?? 0;
  const weight = (side, field) => (side[field] === undefined ? "unknown" : percent(sums[field] ? 100 * side[field] / sums[field] : 0));
  const observed = (side, format) => (side.observed ? format(side.observed) : "–");
  const columns = [
    ["role", "Side", (side) => side.role], ["service", "Service", (side) => side.service],
    ["desired", "Desired", (side) => weight(side, "desired")], ["written", "Written", (side) => weight(side, "written")],
    ["active", "Active", (side) => weight(side, "active")],
    ["observed", "Observed", (side) => observed(side, (o) => percent(o.percent))],
    ["requests", "Requests", (side) => observed(side, (o) => String(o.requests))],
    ["errors", "5xx", (side) => observed(side, (o) => String(o.errors))],
    ["p50", "p50 ms", (side) => observed(side, (o) => number(o.p50))], ["p95", "p95 ms", (side) => observed(side, (o) => number(o.p95))],
    ["p99", "p99 ms", (side) => observed(side, (o) => number(o.p99))], ["ready", "Ready", (side) => String(side.ready)],
  ];
  return element("section", { "aria-label": "Sides" }, element("h3", {}, "Sides"), element("div", { class: "scroll", tabindex: "0",
    role: "region", "aria-label": "Sides of the split", id: "sides" },
  element("table", {},
    element("caption", {}, "Requests, errors and response times are Envoy's of about the last minute, from all proxies. " +
      "They are counted while requests are split."),
    element("thead", {}, element("tr", {}, columns.map(([, name], i) => element("th", { scope: "col", class: i > 1 ? "n" : null }, name)))),
    element("tbody", {}, detail.backends.map((side) => element("tr", { "data-side": side.role }, columns.map(([field, , text], i) =>
      element("td", { class: i > 1 ? "n" : null, "data-field": field }, text(side)))))))));
}

function rolloutPart(detail) {
  const rollout = detail.rollout;
  if (!rollout) return element("section", {}, element("h3", {}, "Rollout"), element("p", { class: "weak" }, "No Rollout is known."));
  const state = [rollout.phase, rollout.aborted ? "aborted" : null, rollout.paused ? `paused${rollout.pauseReason ? `: ${rollout.pauseReason}` : ""}` : null];
  const rows = [["Name", rollout.name], ["Phase", state.filter(Boolean).join(", "), "phase"],
    ["Step", rollout.steps ? `${rollout.step} of ${rollout.steps}${rollout.current ? `: ${rollout.current}` : ", done"}` : "no steps", "step"]];
  if (rollout.message) rows.push(["Message", rollout.message]);
  return element("section", {}, element("h3", {}, "Rollout"), element("dl", { class: "facts" }, rows.flatMap(([name, value, field]) =>
    [element("dt", {}, name), element("dd", { "data-field": field }, value)])));
}

function routesPart(detail) {
  return element("section", {}, element("h3", {}, "Header and mirror routes"), detail.routes.length === 0
    ? element("p", { class: "weak" }, "None.")
    : table("Header and mirror routes", ["Name", "Effect", "Requests with"], detail.routes.map((route) =>
      [route.name, route.mirrorPercent ? `copies ${route.mirrorPercent} % to the canary` : "goes to the canary", route.matches.join(", or ")])));
}

function conditionsPart(detail) {
  return element("section", {}, element("h3", {}, "Conditions"), table("Conditions", ["Type", "Status", "Reason", "Since", "Message"],
    detail.conditions.map((c) => [c.type, c.status, c.reason, clock(c.since), c.message])));
}

function endpointsPart(detail) {
  return element("section", {}, element("h3", {}, "Endpoints"), table("Endpoints", ["Service", "Port", "Protocol", "Ready", "Draining", "Addresses"],
    detail.backends.map((side) => [side.service, String(side.port), side.protocol, String(side.ready), String(side.draining),
      side.endpoints.join(", ") + (side.ready > side.endpoints.length ? ", …" : "")])));
}

function eventsPart(detail) {
  return element("section", {}, element("h3", {}, "Events"), detail.events.length === 0
    ? element("p", { class: "weak" }, "No Events.")
    : table("Events", ["Time", "Type", "Reason", "Object", "Count", "Message"], detail.events.map((event) =>
      [clock(event.time), event.type, event.reason, event.about, String(event.count), event.message])));
}

function notesPart(detail) {
  return detail.notes.length === 0 ? null : element("section", {}, element("h3", {}, "Not shown"),
    element("ul", {}, detail.notes.map((note) => element("li", {}, note))));
}

function table(label, columns, rows) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label, id: `table-${label.toLowerCase().replaceAll(" ", "-")}` },
    element("table", {}, element("thead", {}, element("tr", {}, columns.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, row.map((text, i) => element("td", { class: i === row.length - 1 ? "m" : null }, text)))))));
}
