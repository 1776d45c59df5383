// All subscribers, with how they do.

import { h, fill, said } from "./dom.js";
import { at as path, get } from "./api.js";
import { badge, button, empty, heading, load, panel, table } from "./parts.js";
import { compact, count, milliseconds, percent, plural } from "./format.js";
import { mayAct } from "./may.js";

const PAGE = 50;
const AT_ONCE = 4;
const FIRST = "eventhub subscribers add shipping --url https://example.com/hooks --event-type 'order.*'";

export function show(root, { signal }) {
  const place = h("div");
  const search = h("input", { type: "search", id: "subscriber-search", placeholder: "Name, address or type", autocomplete: "off", spellcheck: "false" });
  fill(root, heading("Subscribers", {
    about: "Who gets which events by webhook. Figures are those of the last hour.",
    actions: mayAct() && [h("a", { class: "button primary", href: "#/subscribers/new" }, "New subscriber")],
  }), place);
  load(place, signal, async () => {
    const { subscribers } = await get("/subscribers", {}, signal);
    if (!subscribers.length) {
      fill(place, panel("", empty("No subscribers yet", "Make one here with the button above, or on the command line:", FIRST)));
      return;
    }
    const box = h("div");
    const figures = new Figures(signal);
    const draw = () => drawRows(box, fitting(subscribers, search.value), figures);
    search.addEventListener("input", draw);
    fill(place, h("section", { class: "panel" },
      h("div", { class: "panel-head" }, h("h2", {}, plural(subscribers.length, "subscriber")),
        h("label", { class: "search", for: "subscriber-search" }, h("span", { class: "unseen" }, "Search subscribers"), search)), box));
    draw();
  });
}

function fitting(subscribers, words) {
  const wanted = words.trim().toLowerCase();
  const trouble = (one) => (one.status === "disabled" || one.circuit === "open" ? 0 : 1);
  return subscribers
    .filter((one) => [one.name, one.url, one.event_type].some((text) => text.toLowerCase().includes(wanted)))
    .sort((one, other) => trouble(one) - trouble(other));
}

function drawRows(box, all, figures) {
  const stats = new Map();
  const figure = (one, kind) => {
    const element = h("span", { class: "soft" }, "…");
    stats.set(one.id, [...(stats.get(one.id) ?? []), [element, kind]]);
    return element;
  };
  const rows = table("Subscribers", [
    ["Name", (one) => [h("a", { href: `#/subscribers/${one.id}` }, said(one.name)), h("span", { class: "under" }, said(one.url))], "wide"],
    ["Events", (one) => said(one.event_type, "code"), "name"],
    ["State", (one) => state(one), "tight"],
    ["Delivered", (one) => figure(one, (now) => compact(now.delivered_last_hour)), "number"],
    ["Failed", (one) => figure(one, failures), "number"],
    ["p50 / p99", (one) => figure(one, (now) => `${milliseconds(now.latency_p50_ms)} / ${milliseconds(now.latency_p99_ms)}`), "number"],
    ["Waiting", (one) => figure(one, (now) => count(now.pending + now.waiting_for_retry + now.behind)), "number"],
    ["Blocked", (one) => figure(one, (now) => loud(now.blocked_keys)), "number"],
    ["Dead", (one) => figure(one, (now) => loud(now.dead)), "number"],
  ], all.slice(0, PAGE));
  let shown = Math.min(PAGE, all.length);
  const foot = h("div", { class: "more" });
  const drawFoot = () => fill(foot, shown < all.length && [button("Show more", () => {
    rows.append(all.slice(shown, shown + PAGE));
    figures.fillIn(all.slice(shown, shown + PAGE), stats);
    shown = Math.min(shown + PAGE, all.length);
    drawFoot();
  }), h("span", { class: "soft" }, `${count(shown)} of ${count(all.length)} are shown`)]);
  drawFoot();
  fill(box, all.length ? rows.element : empty("No subscriber fits"), foot);
  figures.startOver();
  figures.fillIn(all.slice(0, PAGE), stats);
}

const loud = (number) => (number ? h("b", { class: "loud" }, count(number)) : "0");

function failures(now) {
  const all = now.delivered_last_hour + now.failed_last_hour;
  if (!now.failed_last_hour) return "0";
  return h("b", { class: "loud" }, `${compact(now.failed_last_hour)} (${percent(now.failed_last_hour / all)})`);
}

/** The figures of subscribers: a few are read at a time, and each once a visit, however often the rows are drawn. */
class Figures {
  #signal;
  #known = new Map();
  #drawing = 0;

  constructor(signal) {
    this.#signal = signal;
  }

  /** Rows that were drawn before are gone: nothing more is read for them. */
  startOver() {
    this.#drawing += 1;
  }

  async fillIn(subscribers, stats) {
    const left = [...subscribers];
    const drawing = this.#drawing;
    const next = async () => {
      for (let one = left.shift(); one && drawing === this.#drawing && !this.#signal.aborted; one = left.shift()) {
        const now = await this.#of(one.id);
        for (const [element, kind] of stats.get(one.id) ?? []) {
          element.className = "";
          fill(element, now ? kind(now) : "–");
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
  }

  #of(id) {
    if (!this.#known.has(id)) {
      this.#known.set(id, get(path`/subscribers/${id}/stats`, {}, this.#signal).catch(() => null));
    }
    return this.#known.get(id);
  }
}

export function state(one) {
  return [badge(one.status), one.circuit === "open" && [" ", badge("open")]];
}
