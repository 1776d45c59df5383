// Events, newest first: searched by id, type, tag, status and time.

import { h, fill, said } from "./dom.js";
import { get } from "./api.js";
import { calmly, onLog } from "./live.js";
import { badge, button, empty, heading, inUse, load, table } from "./parts.js";
import { ago, count, plural } from "./format.js";
import { link } from "./routes.js";

const PAGE = 50;
const STATUSES = ["PENDING", "PROCESSING", "COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED"];
const FILTERS = ["status", "type", "tags", "since", "until"];
const FIRST = "eventhub publish --type order.created --data '{\"order_id\": 1}'";

export function show(root, { query, signal }) {
  const place = h("div", { class: "panel" });
  fill(root, heading("Events", { about: "Everything that was published, newest first." }), filters(query), place);
  const wanted = asked(query);
  const filtered = FILTERS.some((name) => query.get(name));
  let shown = null;
  let far = false;
  const note = h("div", { role: "status" });

  const first = () => load(place, signal, async () => {
    const page = await get("/events", { ...wanted, limit: PAGE, cursor: "start" }, signal);
    fill(note);
    far = false;
    if (page.events.length) shown = list(place, page, note, wanted, signal, () => { far = true; });
    else fill(place, nothing(filtered));
  });
  // News are drawn at once, unless somebody reads further below or has the focus in the list.
  const again = calmly(async () => {
    if (signal.aborted) return;
    if (!far && !inUse(place)) await first();
    else if (shown) fill(note, button("There is news – show it", first, { kind: "small" }));
  });
  onLog(signal, (entries) => entries.length && again());
  first();
}

/** What is asked of the hub; times of the form are those of this machine. */
function asked(query) {
  const wanted = {};
  for (const name of FILTERS) {
    const value = query.get(name);
    if (!value) continue;
    const moment = name === "since" || name === "until" ? new Date(value) : null;
    wanted[name] = moment === null ? value : Number.isNaN(moment.getTime()) ? value : moment.toISOString();
  }
  return wanted;
}

function filters(query) {
  const field = (words, name, more = {}) => h("label", {}, words,
    h("input", { name, value: query.get(name) ?? "", autocomplete: "off", spellcheck: "false", ...more }));
  const form = h("form", { class: "filters", role: "search", "aria-label": "Events", onsubmit: (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form));
    const id = given.id.trim().replace(/^#/, "");
    location.hash = id ? link(`/events/${id}`) : link("/events", { ...given, id: undefined });
  } },
  field("Id", "id", { inputmode: "numeric", pattern: "#?[0-9]*", title: "A number" }),
  field("Type", "type", { placeholder: "order.created" }),
  field("Any of the tags", "tags", { placeholder: "email, sms" }),
  h("label", {}, "Status", h("select", { name: "status" }, h("option", { value: "" }, "any"),
    STATUSES.map((status) => h("option", { value: status, selected: query.get("status") === status },
      status.toLowerCase().replaceAll("_", " "))))),
  field("From", "since", { type: "datetime-local" }),
  field("To", "until", { type: "datetime-local" }),
  h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Search"),
    h("a", { class: "button", href: "#/events" }, "Clear")));
  return form;
}

function list(place, page, note, wanted, signal, goFar) {
  const rows = table("Events", [
    ["Event", (event) => h("a", { href: `#/events/${event.id}` }, `#${event.id}`), "tight"],
    ["What", (event) => [event.event_type && said(event.event_type, "code"),
      event.title && h("span", { class: event.event_type ? "under" : "" }, said(event.title, "clip")),
      !event.event_type && !event.title && h("span", { class: "soft" }, "no title")], "wide"],
    ["Tags", (event) => event.tags && h("span", { class: "chips" },
      event.tags.split(",").map((tag) => h("span", { class: "chip" }, said(tag.trim()))))],
    ["Status", (event) => [badge(event.status), event.next_retry_at && h("span", { class: "under" }, "again ", ago(event.next_retry_at))], "tight"],
    ["Retries", (event) => (event.retry_count ? count(event.retry_count) : ""), "number"],
    ["Published", (event) => ago(event.created_at), "tight"],
  ], page.events);
  let number = page.events.length;
  const foot = h("div", { class: "more" });
  const drawFoot = (cursor) => fill(foot, cursor && button("Older", async () => {
    goFar();
    await load(foot, signal, async () => {
      const next = await get("/events", { ...wanted, limit: PAGE, cursor }, signal);
      rows.append(next.events);
      number += next.events.length;
      drawFoot(next.next_cursor);
    });
  }), h("span", { class: "soft" }, cursor ? `${plural(number, "event")} shown; there are more` : `${plural(number, "event")}, and no more`));
  drawFoot(page.next_cursor);
  fill(place, note, rows.element, foot);
  return rows;
}

function nothing(filtered) {
  if (filtered) return empty("No event fits", "Search for less, or for another time.");
  return empty("No events yet", "Publish the first one; it appears here at once.", FIRST);
}
