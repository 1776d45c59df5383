// What pages are made of: headings, badges, tables, tiles, empty states, status lines.

import { h, fill, said, visible } from "./dom.js";
import { Problem } from "./api.js";

/** How a state looks and sounds: a shape and a word, never a colour alone. */
const LOOKS = {
  PENDING: ["idle", "pending"], PROCESSING: ["busy", "processing"], COMPLETED: ["ok", "completed"],
  COMPLETED_WITH_ERRORS: ["warn", "completed with errors"], FAILED: ["bad", "failed"],
  active: ["ok", "active"], paused: ["idle", "paused"], disabled: ["bad", "disabled"],
  open: ["bad", "circuit open"], alive: ["ok", "alive"], silent: ["warn", "silent"],
  ok: ["ok", "ok"], warn: ["warn", "warning"], bad: ["bad", "trouble"], off: ["idle", "off"], info: ["busy", "note"],
  PUBLISHED: ["idle", "published"], PICKED: ["busy", "picked"], STARTED: ["busy", "started"],
  ABANDONED: ["warn", "abandoned"], RESET: ["warn", "reset"], RELEASED: ["idle", "released"], DEAD: ["bad", "dead"],
  RETRIED: ["busy", "retried"], SKIPPED: ["warn", "skipped"], CANCELLED: ["idle", "cancelled"],
};

export function badge(state, words) {
  const [look, name] = LOOKS[state] ?? ["idle", String(state)];
  return h("span", { class: `badge ${look}` }, mark(look), words ?? name);
}

export const look = (state) => (LOOKS[state] ?? ["idle"])[0];
export const mark = (name) => h("span", { class: `mark ${name}`, "aria-hidden": "true" });

/** The head of a page. What is done on it stands to the right. */
export function heading(title, { about, actions, crumb } = {}) {
  return h("header", { class: "head" },
    h("div", { class: "head-words" },
      crumb && h("a", { class: "crumb", href: crumb.href }, "‹ ", crumb.words),
      h("h1", { tabindex: "-1" }, title),
      about && h("p", { class: "soft" }, about)),
    actions && h("div", { class: "actions" }, actions));
}

export function button(words, onclick, { kind = "", ...rest } = {}) {
  return h("button", { type: "button", class: kind, onclick, ...rest }, words);
}

export function panel(title, ...children) {
  return h("section", { class: "panel" }, title && h("h2", {}, title), children);
}

/** Columns are [title, row → content, class]. On narrow screens each row becomes a card. */
export function table(caption, columns, rows) {
  const body = h("tbody", { role: "rowgroup" });
  const element = h("div", { class: "table-box" },
    h("table", { role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
        columns.map(([title, , kind]) => h("th", { scope: "col", role: "columnheader", class: kind }, title)))),
      body));
  const row = (item) => h("tr", { role: "row" }, columns.map(([title, cell, kind]) =>
    h("td", { role: "cell", class: kind, "data-label": title }, cell(item))));
  fill(body, rows.map(row));
  return { element, body, append: (more) => body.append(...more.map(row)), replace: (all) => fill(body, all.map(row)) };
}

/** Names and values below each other; values that are missing are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h("dl", { class: "facts" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function tile(name, value, { note, look: kind, href } = {}) {
  const words = [h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value),
    h("span", { class: "tile-note" }, note ?? "")];
  return h(href ? "a" : "div", { class: `tile ${kind ?? ""}`, href }, words);
}

/** Nothing is there yet: what to do first, with a command to copy. */
export function empty(title, words, command) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), words && h("p", {}, words),
    command && copyable(command));
}

/** A text to read and to copy: what cannot be seen in it is written out, and copied as it is. */
export function copyable(text, { wrap = true } = {}) {
  const words = h("code", {}, visible(text));
  return h("div", { class: `copyable${wrap ? " wraps" : ""}` },
    h("pre", { tabindex: "0" }, words), copyButton(text));
}

export function copyButton(text) {
  const element = button("Copy", async () => {
    const copied = await copy(text, element);
    element.textContent = copied ? "Copied" : "Selected: now copy it";
    setTimeout(() => { element.textContent = "Copy"; }, copied ? 1500 : 6000);
  }, { kind: "small" });
  return element;
}

/** Whether it is in the clipboard, which is there on https and on this machine only; elsewhere the text is selected. */
async function copy(text, beside) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const code = beside.parentElement?.querySelector("code");
    if (code) getSelection().selectAllChildren(code);
    return false;
  }
}

/** A value as JSON, indented. */
export function json(value) {
  const text = JSON.stringify(value, null, 2) ?? "null";
  return copyable(text, { wrap: true });
}

export const notice = document.getElementById("notice");
let fading = 0;

/** Says at the foot of the page what came of an action. */
export function tell(words, kind = "ok") {
  clearTimeout(fading);
  fill(notice, h("span", { class: `notice ${kind}` }, mark(kind), words,
    kind === "bad" && button("Dismiss", () => fill(notice), { kind: "small" })));
  if (kind !== "bad") fading = setTimeout(() => fill(notice), 6000);
}

/** Does what a button stands for, once at a time; trouble is told. A button that is disabled would lose the focus. */
export async function act(element, work) {
  if (element.hasAttribute("aria-busy")) return undefined;
  element.setAttribute("aria-busy", "true");
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    tell(error.message, "bad");
    return undefined;
  } finally {
    element.removeAttribute("aria-busy");
  }
}

/** Whether somebody has the focus on something in a place. Headings, and places themselves, have it for want of better. */
export function inUse(place) {
  return place.contains(document.activeElement) && document.activeElement.tabIndex >= 0;
}

/** In place of what could not be read: why, and a way to try again. */
export function trouble(error, again) {
  return h("div", { class: "trouble", role: "alert" }, mark("bad"),
    h("p", {}, said(error.message)), again && button("Try again", again));
}

/** For parts that are drawn again only when what they show has changed: whoever has the focus on something keeps it. */
export function changes() {
  const before = new Map();
  return (part, value, draw) => {
    const text = JSON.stringify(value);
    if (before.get(part) === text) return;
    before.set(part, text);
    draw();
  };
}

let focused = null;
let around = [];
document.addEventListener("focusin", ({ target }) => {
  focused = target;
  around = [];
  for (let place = target.parentElement; place; place = place.parentElement) around.push(place);
});

/** If what had the focus went when a place was drawn anew, the place has it, so that a keyboard goes on from there. */
function keepFocus(place) {
  if (document.activeElement !== document.body || focused?.isConnected !== false || !around.includes(place)) return;
  place.tabIndex = -1;
  place.focus({ preventScroll: true });
}

/** Reads and shows a part of a page; trouble stands in its place. Whoever had the focus there keeps it near. */
export async function load(place, signal, work) {
  place.setAttribute("aria-busy", "true");
  try {
    await work();
    keepFocus(place);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) fill(place, trouble(error, () => load(place, signal, work)));
  } finally {
    place.removeAttribute("aria-busy");
  }
}
