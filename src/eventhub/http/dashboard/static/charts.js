// Charts of figures over time: drawn as SVG, told in words to those who cannot see them.

import { h, s, fill } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 100;
const MOST_TICKS = 5;

/** A round number that is not below the largest. */
function ceiling(largest) {
  if (!(largest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= largest);
}

/** Of the steps of a logarithmic scale the first that is not below the largest, and the one nearest to half its height. */
function rounds(steps, largest) {
  const top = steps.find((step) => step >= largest && step > 1) ?? steps.at(-1);
  const far = (step) => Math.abs(Math.log(step) - Math.log(top) / 2);
  return [top, steps.filter((step) => step > 1 && step < top).reduce((best, step) => (far(step) < far(best) ? step : best), top)];
}

/** Lines that are broken where nothing is known; `down` closes them to the ground. */
function path(values, height, down) {
  const x = (place) => ((place / Math.max(values.length - 1, 1)) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - height(value) * HEIGHT).toFixed(1);
  let drawn = "";
  let start = null;
  values.forEach((value, place) => {
    const known = value !== null && value !== undefined;
    if (known) {
      drawn += `${start === null ? "M" : "L"}${x(place)} ${y(value)}`;
      start ??= place;
    }
    const ends = start !== null && (!known || place === values.length - 1);
    if (!ends) return;
    const last = known ? place : place - 1;
    if (down) drawn += `L${x(last)} ${HEIGHT}L${x(start)} ${HEIGHT}Z`;
    else if (last === start) drawn += "h0.1";
    start = null;
  });
  return drawn;
}

/**
 * Series are {name, look, values, area}; `times` are the dates of the values, `show` and `when` put both in words.
 * What the pointer is over is told above the drawing. With `steps`, round numbers from 1 on, the scale is logarithmic.
 */
export function chart({ title, series, times, show, when, hover = when, named = true, least = 0, steps = null }) {
  const largest = Math.max(least, ...series.flatMap((one) => one.values.map((value) => value ?? 0)));
  const [top, middle] = steps ? rounds(steps, largest) : [ceiling(largest), ceiling(largest) / 2];
  const height = steps ? (value) => Math.min(Math.log(Math.max(value, 1)) / Math.log(top), 1) : (value) => value / top;
  const cursor = s("line", { class: "cursor", x1: 0, x2: 0, y1: 0, y2: HEIGHT });
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    [height(middle), 1].map((share) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT - share * HEIGHT, y2: HEIGHT - share * HEIGHT })),
    series.map((one) => [
      one.area && s("path", { class: `area ${one.look}`, d: path(one.values, height, true) }),
      s("path", { class: `line ${one.look}`, d: path(one.values, height, false) }),
    ]),
    cursor);
  const readout = h("span", { class: "readout" });
  const halfway = h("span", { class: "scale middle" }, middle < top && show(middle));
  halfway.style.top = `calc(${((1 - height(middle)) * 100).toFixed(1)}% + 3px)`;
  const plot = h("div", { class: "plot" }, drawing, h("span", { class: "scale top" }, show(top)), halfway);
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const place = Math.round(((event.clientX - box.left) / box.width) * (times.length - 1));
    if (!(place in times)) return;
    const x = (place / Math.max(times.length - 1, 1)) * WIDTH;
    cursor.classList.add("shown");
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    const words = series.map((one) => `${named ? `${one.name} ` : ""}${one.values[place] == null ? "–" : show(one.values[place])}`);
    fill(readout, `${hover(times[place])}: ${words.join(", ")}`);
  });
  plot.addEventListener("pointerleave", () => {
    fill(readout);
    cursor.classList.remove("shown");
  });
  const legend = named && h("span", { class: "legend" },
    series.map((one) => h("span", {}, h("span", { class: `key ${one.look}`, "aria-hidden": "true" }), one.name)));
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("span", { class: "chart-title" }, title), legend, readout),
    plot, axis(times, when), told(title, series, times, show, when));
}

function axis(times, when) {
  const number = Math.min(MOST_TICKS, times.length);
  const places = Array.from({ length: number }, (_, tick) => Math.round((tick / Math.max(number - 1, 1)) * (times.length - 1)));
  return h("div", { class: "axis", "aria-hidden": "true" }, places.map((place) => h("span", {}, when(times[place]))));
}

/** What a chart shows, for those who hear it: first, last and largest value of each series. */
function told(title, series, times, show, when) {
  const rows = series.map((one) => {
    const known = one.values.map((value, place) => [value, place]).filter(([value]) => value !== null && value !== undefined);
    if (!known.length) return h("tr", {}, h("th", { scope: "row" }, one.name), h("td", { colspan: 3 }, "nothing known"));
    const most = known.reduce((best, pair) => (pair[0] > best[0] ? pair : best));
    return h("tr", {}, h("th", { scope: "row" }, one.name), h("td", {}, show(known[0][0])),
      h("td", {}, show(known.at(-1)[0])), h("td", {}, `${show(most[0])} at ${when(times[most[1]])}`));
  });
  return h("div", { class: "unseen" }, h("table", {}, h("caption", {}, title),
    h("thead", {}, h("tr", {}, ["Series", "First", "Last", "Most"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows)));
}

/** A share as a small bar beside its number. */
export function bar(share, look = "c0") {
  const width = Math.max(0, Math.min(1, share || 0)) * 100;
  return s("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "bar-ground", width: 100, height: 8 }), s("rect", { class: `bar-share ${look}`, width, height: 8 }));
}
