// The chart of a canary: percentages over time.
import { clock, element, shape } from "./dom.js";

const width = 800, height = 220, left = 44, right = 12, top = 12, bottom = 26;

/**
 * chart returns a figure of series {name, className, points: [{time, value}], isStep}, from a time to another. Times are
 * milliseconds.
 */
export function chart(series, from, to) {
  const x = (time) => left + (width - left - right) * (time - from) / Math.max(1, to - from);
  const y = (value) => top + (height - top - bottom) * (1 - value / 100);
  const drawing = shape("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`,
    role: "img", "aria-label": describe(series) });
  for (const value of [0, 25, 50, 75, 100]) {
    drawing.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)));
  }
  for (const part of [0, 0.5, 1]) {
    drawing.append(shape("text", { x: left + part * (width - left - right), y: height - 8,
      "text-anchor": ["start", "middle", "end"][part * 2] }, clock(from + part * (to - from))));
  }
  for (const { points, className, isStep } of series) {
    const corners = [];
    let before = null;
    for (const point of points) {
      if (isStep && before !== null) corners.push(`${x(Math.max(from, point.time))},${y(before)}`);
      corners.push(`${x(Math.max(from, point.time))},${y(point.value)}`);
      before = point.value;
    }
    if (isStep && before !== null) corners.push(`${x(to)},${y(before)}`);
    drawing.append(shape("polyline", { class: className, points: corners.join(" ") }));
  }
  return element("figure", { class: "figure" }, drawing, element("figcaption", {}, legend(series)));
}

function legend(series) {
  return element("ul", { class: "legend" }, series.map(({ name, className, points }) => element("li", {},
    shape("svg", { viewBox: "0 0 28 8", "aria-hidden": "true" }, shape("line", { class: className, x1: 0, x2: 28, y1: 4, y2: 4 })),
    `${name}: ${lastOf(points)}`)));
}

const lastOf = (points) => (points.length ? `${Math.round(points[points.length - 1].value * 10) / 10} %` : "unknown");

const describe = (series) => "Percentage of requests to the canary over time. " +
  series.map(({ name, points }) => `${name}: now ${lastOf(points)}.`).join(" ");
