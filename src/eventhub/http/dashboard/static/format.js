// Numbers, times and durations as people read them.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });
const exactTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockSeconds = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const calendar = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const LIMITS = [[60, 1, "s"], [3600, 60, "min"], [86_400, 3600, "h"], [Infinity, 86_400, "d"]];
const NONE = "–";

export const count = (number) => (number === null || number === undefined ? NONE : whole.format(number));

/** A number that stops being counted at a limit says so. */
export const upTo = (number, more) => (more ? `${count(number)}+` : count(number));

export const compact = (number) =>
  number === null || number === undefined ? NONE : Math.abs(number) < 10_000 ? whole.format(number) : short.format(number);

export function rate(number) {
  if (number === null || number === undefined) return NONE;
  if (number === 0) return "0";
  return number >= 100 ? whole.format(number) : number >= 10 ? number.toFixed(1) : number.toFixed(2);
}

export const percent = (share) =>
  share === null || share === undefined ? NONE : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 2 : 1)} %`;

export function seconds(number) {
  if (number === null || number === undefined) return NONE;
  if (number < 1) return `${Math.round(number * 1000)} ms`;
  if (number < 10) return `${number.toFixed(1)} s`;
  const [, unit, name] = LIMITS.find(([limit]) => number < limit);
  return `${Math.floor(number / unit)} ${name}`;
}

export const milliseconds = (number) => (number === null || number === undefined ? NONE : seconds(number / 1000));

export const hour = (date) => clock.format(date);
export const second = (date) => clockSeconds.format(date);
export const day = (date) => calendar.format(date);

function relative(date) {
  const distance = (Date.now() - date.getTime()) / 1000;
  if (Math.abs(distance) < 2) return "now";
  const words = seconds(Math.floor(Math.abs(distance))).replace(/\.0 /, " ");
  return distance > 0 ? `${words} ago` : `in ${words}`;
}

/** A time told as a distance from now, with the exact one in its title; it is kept up to date. */
export function ago(text) {
  if (!text) return h("span", { class: "soft" }, NONE);
  const date = new Date(text);
  return h("time", { datetime: text, title: exactTime.format(date), "data-ago": true }, relative(date));
}

/** A time of the day, to the second. */
export function at(text) {
  const date = new Date(text);
  return h("time", { datetime: text, title: exactTime.format(date) }, second(date));
}

/** A time, exactly. */
export function exactly(text) {
  if (!text) return h("span", { class: "soft" }, NONE);
  return h("time", { datetime: text }, exactTime.format(new Date(text)));
}

export function refreshTimes() {
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const words = relative(new Date(element.dateTime));
    if (element.textContent !== words) element.textContent = words;
  }
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
