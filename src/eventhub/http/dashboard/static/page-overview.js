// How the hub does now: rates, what waits, what needs attention, and what happens this very moment.

import { h, fill, said } from "./dom.js";
import { get } from "./api.js";
import { live, onLog } from "./live.js";
import { badge, changes, empty, heading, load, mark, panel, table, tile } from "./parts.js";
import { chart } from "./charts.js";
import { at, count, hour, plural, rate, second, seconds, upTo } from "./format.js";

const KEPT_ENTRIES = 60;
const MOST_COUNTED = 100_000;
const MOST_POINTS = 120;
const SERIES = [["received", "Received", "c0"], ["completed", "Completed", "ok"], ["failed", "Failed", "bad"]];
const FIRST = `curl -X POST ${location.origin}/events -H 'content-type: application/json' \\\n`
  + "  -d '{\"title\": \"Send welcome mail\", \"tags\": \"email\", \"payload\": {\"user_id\": 12345}}'";

export function show(root, { signal }) {
  const attention = h("div", { "aria-live": "polite" });
  const rates = h("div", { class: "rates" });
  const tiles = h("div", { class: "tiles" });
  const health = h("ul", { class: "health" });
  const queues = h("div");
  const parts = h("div", {}, panel("Needs attention", attention), rates, tiles,
    h("div", { class: "columns" }, panel("Health", health), panel("Queues", queues)));
  fill(root, heading("Overview", { about: "The last hour, as it happens." }), parts, feed(signal));

  const changed = changes();
  const draw = (document) => {
    changed("attention", document.attention, () => drawAttention(attention, document.attention));
    changed("rates", [document.rates, document.chart], () => drawRates(rates, document));
    changed("tiles", [document.depth, document.messages, document.in_flight, document.oldest_waiting_seconds,
      document.dead_letters], () => drawTiles(tiles, document));
    changed("health", document.health, () => drawHealth(health, document.health));
    changed("queues", document.depth.queues, () => drawQueues(queues, document.depth.queues));
  };
  live.addEventListener("overview", (event) => draw(event.detail), { signal });
  if (live.overview) draw(live.overview);
  load(attention, signal, async () => draw(await get("/overview", {}, signal)));
}

function drawAttention(place, items) {
  if (!items.length) {
    fill(place, h("p", { class: "all-well" }, mark("ok"), "All is well: nothing asks for you."));
    return;
  }
  fill(place, h("ul", { class: "attention" }, items.map((item) => h("li", {},
    mark(item.level === "info" ? "busy" : item.level),
    h("span", { class: "unseen" }, { bad: "Urgent: ", warn: "Soon: ", info: "Note: " }[item.level] ?? ""),
    h("span", { class: "words" }, said(item.words)),
    ours(item.link) && h("a", { href: item.link, "aria-label": `Look: ${item.words}` }, "Look")))));
}

const ours = (link) => typeof link === "string" && link.startsWith("#");

function drawRates(place, { rates, chart: hourly }) {
  if (place.querySelector(".plot:hover")) { // whoever reads a chart keeps it; the figures above go on
    for (const [name] of SERIES) place.querySelector(`[data-rate="${name}"]`).firstChild.data = rate(rates[name]);
    return;
  }
  const start = new Date(hourly.from).getTime();
  const together = Math.ceil(hourly.received.length / MOST_POINTS);
  const times = averages(hourly.received, together, 1).map((_, index) => new Date(start + index * together * hourly.step_seconds * 1000));
  fill(place, SERIES.map(([name, title, look]) => {
    const values = averages(hourly[name], together, hourly.step_seconds);
    return h("section", { class: "panel rate" },
      h("h2", { class: "rate-name" }, title),
      h("p", { class: "rate-value", "data-rate": name }, rate(rates[name]), h("small", {}, " / s")),
      chart({ title: `${title} per second, the last hour`, series: [{ name: title, look, values, area: true }],
        times, show: rate, when: hour, hover: second, named: false }));
  }));
}

/** Rates over some steps at a time, so that a line is a line; null where nothing was counted. */
function averages(counts, together, step) {
  return Array.from({ length: Math.ceil(counts.length / together) }, (_, place) => {
    const known = counts.slice(place * together, (place + 1) * together).filter((number) => number !== null);
    return known.length ? known.reduce((sum, number) => sum + number, 0) / (known.length * step) : null;
  });
}

function drawTiles(place, document) {
  const { depth, messages } = document;
  const dead = document.dead_letters;
  fill(place,
    tile("Work waiting", upTo(depth.pending, depth.more), { note: "for workers", href: "#/events?status=PENDING" }),
    tile("Messages waiting", upTo(messages.ready + messages.waiting + messages.behind, messages.more),
      { note: messages.behind ? `${count(messages.behind)} behind others` : "for subscribers", href: "#/subscribers" }),
    tile("Of these for later", upTo(depth.retry + messages.waiting, depth.more || messages.more), { note: "retries and delays" }),
    tile("In flight", upTo(document.in_flight, depth.more || messages.more),
      { note: `${count(messages.leased)} to subscribers`, href: "#/events?status=PROCESSING" }),
    tile("Oldest waiting", seconds(document.oldest_waiting_seconds),
      { note: "since it was due", look: document.oldest_waiting_seconds > 300 ? "warn" : "" }),
    tile("Dead letters", upTo(dead, dead >= MOST_COUNTED),
      { note: dead ? "given up" : "none", look: dead ? "bad" : "", href: "#/dead" }));
}

function drawHealth(place, parts) {
  fill(place, parts.map((one) => h("li", {}, mark(one.state === "off" ? "idle" : one.state),
    h("span", { class: "part" }, one.part, h("span", { class: "unseen" }, `: ${one.state}`)),
    h("span", { class: "soft" }, said(one.words)))));
}

function drawQueues(place, queues) {
  if (!queues?.length) {
    fill(place, empty("No queue has anything yet", "Publish a first event:", FIRST));
    return;
  }
  fill(place, table("Queues", [
    ["Queue", (queue) => said(queue.queue)],
    ["Waiting", (queue) => count(queue.pending), "number"],
    ["For later", (queue) => count(queue.retry), "number"],
    ["In work", (queue) => count(queue.processing), "number"],
    ["Oldest", (queue) => seconds(queue.oldest_waiting_seconds), "number"],
  ], queues).element);
}

/** What happens now: rows of the log as they are written, the newest on top. */
function feed(signal) {
  const list = h("ol", { "aria-label": "Newest entries of the log" });
  const note = h("span", { class: "soft" }, "Waiting for something to happen …");
  const paused = { now: false };
  const hold = h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: () => {
    paused.now = !paused.now;
    hold.setAttribute("aria-pressed", String(paused.now));
    hold.textContent = paused.now ? "Go on" : "Hold";
  } }, "Hold");
  onLog(signal, (entries, missed) => {
    if (paused.now) return;
    const newest = [...entries].sort((one, other) => other.id - one.id);
    list.prepend(...newest.map(entry));
    while (list.children.length > KEPT_ENTRIES) list.lastElementChild.remove();
    fill(note, missed ? `Busy: ${plural(missed, "entry", "entries")} left out.` : "");
  });
  return h("section", { class: "panel" },
    h("div", { class: "panel-head" }, h("h2", {}, "Happening now"), note, hold),
    h("div", { class: "feed", tabindex: "0", role: "region", "aria-label": "Happening now" }, list));
}

function entry(row) {
  return h("li", {}, at(row.created_at), h("span", {}, badge(row.action)),
    h("a", { href: `#/events/${Number(row.event_id)}` }, `#${row.event_id}`),
    h("span", { class: "what" }, row.type && said(row.type),
      row.worker && [" ", h("span", { class: "soft" }, "by "), said(row.worker, "soft")],
      row.subscriber_id && [" ", h("a", { href: `#/subscribers/${Number(row.subscriber_id)}` }, `subscriber ${row.subscriber_id}`)],
      row.error && h("span", { class: "error clip" }, said(row.error))));
}
