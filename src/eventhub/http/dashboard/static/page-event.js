// One event: what it says, where its deliveries stand, and everything that happened to it.

import { h, fill, said } from "./dom.js";
import { at as path, get, post } from "./api.js";
import { calmly, onLog } from "./live.js";
import { badge, button, empty, facts, heading, inUse, json, load, look, mark, panel, tell } from "./parts.js";
import { ask } from "./dialogs.js";
import { ago, at, count, exactly, milliseconds, plural } from "./format.js";
import { mayAct } from "./may.js";
import { messageTable } from "./messages.js";

const MOST_MESSAGES = 100;
const MOST_CHOICES = 200;

export function show(root, { id, signal }) {
  const head = h("div", {}, heading(`Event ${id}`, { crumb: { href: "#/events", words: "Events" } }));
  const place = h("div", {}, h("p", { class: "soft" }, "Loading …"));
  fill(root, head, place);
  let known = null; // there may be thousands of subscribers: they are read once, not with all that happens to the event
  const read = () => load(place, signal, async () => {
    const [event, { messages, next_before: more }, { subscribers }] = await Promise.all([
      get(path`/events/${id}`, { include_logs: true }, signal),
      get("/messages", { event_id: id, limit: MOST_MESSAGES }, signal),
      known ?? get("/subscribers", {}, signal),
    ]);
    known = { subscribers };
    draw(head, place, { event, messages, more, subscribers, signal, read });
  });
  const again = calmly(async () => {
    const open = inUse(place) || document.querySelector("dialog, .attempts");
    if (!signal.aborted && !open) await read();
  });
  onLog(signal, (entries) => entries.some((entry) => String(entry.event_id) === id) && again());
  read();
}

function draw(head, place, { event, messages, more, subscribers, signal, read }) {
  const names = new Map(subscribers.map((one) => [one.id, one.name]));
  const focused = document.activeElement?.tagName === "H1";
  fill(head, heading(`Event ${event.id}`, {
    crumb: { href: "#/events", words: "Events" },
    about: [badge(event.status), " ", event.event_type && said(event.event_type, "code")],
    actions: mayAct() && [replayButton(event, subscribers), !event.archived && resetButton(event, read)],
  }));
  if (focused) head.querySelector("h1").focus();
  fill(place,
    panel("", about(event)),
    h("div", { class: "columns" },
      panel("Payload", json(event.payload)),
      panel("Timeline", timeline(event.logs ?? []))),
    panel("Deliveries to subscribers", messages.length
      ? [messageTable(messages, { names, signal, changed: read }).element,
        more && h("p", { class: "soft" }, `The newest ${MOST_MESSAGES}; there are more.`)]
      : empty("No subscriber got it", event.event_type
        ? "None asks for events of this type, or it has not been handed out yet."
        : "It is work for a worker: it is broadcast only if it has a type.")));
}

function about(event) {
  const replayed = event.metadata?.replay_of;
  return facts([
    ["Title", event.title && said(event.title)],
    ["Description", event.description && said(event.description)],
    ["Tags", event.tags && h("span", { class: "chips" }, event.tags.split(",").map((tag) => h("span", { class: "chip" }, said(tag.trim()))))],
    ["Published", exactly(event.created_at)],
    ["Changed", ago(event.updated_at)],
    ["Retries", event.tags && `${count(event.retry_count)} of ${count(event.max_retries)}`],
    ["Next retry", event.next_retry_at && ago(event.next_retry_at)],
    ["Ordering key", event.ordering_key && said(event.ordering_key)],
    ["Published by", event.published_by && said(event.published_by)],
    ["Idempotency key", event.idempotency_key && said(event.idempotency_key)],
    ["Replay of", /^\d+$/.test(replayed ?? "") && h("a", { href: `#/events/${replayed}` }, `Event ${replayed}`)],
    ["Where", event.archived && "In the lake: it was archived"],
    ...Object.entries(event.metadata ?? {}).filter(([name]) => name !== "replay_of").map(([name, value]) => [said(name), said(value)]),
  ].map(([name, value]) => [name, value || undefined]));
}

/** Every row of the log, in order, with the time that went by since the one before. */
function timeline(logs) {
  if (!logs.length) return h("p", { class: "soft" }, "Nothing is known of it.");
  return h("ol", { class: "timeline" }, logs.map((row, place) => {
    const gap = place ? new Date(row.created_at) - new Date(logs[place - 1].created_at) : 0;
    return h("li", {}, mark(look(row.action)),
      h("div", { class: "row" }, h("b", {}, row.action.toLowerCase()), at(row.created_at),
        place > 0 && h("span", { class: "soft" }, `+${milliseconds(gap)}`),
        row.attempt && h("span", { class: "soft" }, `attempt ${row.attempt}`),
        row.worker_id && h("span", { class: "soft" }, "by ", said(row.worker_id)),
        row.subscriber_id && h("span", { class: "soft" }, `message ${row.delivery_id} to `,
          h("a", { href: `#/subscribers/${row.subscriber_id}` }, said(row.subscriber ?? `subscriber ${row.subscriber_id}`))),
        row.status_code !== undefined && h("span", { class: "soft" }, `status ${row.status_code}`),
        row.execution_time_ms !== undefined && h("span", { class: "soft" }, `took ${milliseconds(row.execution_time_ms)}`)),
      row.error_message && h("span", { class: "error" }, said(row.error_message)));
  }));
}

function resetButton(event, read) {
  if (event.status !== "PROCESSING" || !event.tags) return null;
  return button("Reset", () => ask({
    title: `Take event ${event.id} away from its worker?`,
    words: h("p", {}, "It is ready for another worker at once. If the first one still works on it, its report is refused."),
    yes: "Reset",
    kind: "danger",
    work: async () => {
      await post(path`/events/${event.id}/reset`, undefined, { query: { reason: "reset on the dashboard" } });
      tell(`Event ${event.id} is ready again.`);
      await read();
    },
  }));
}

function replayButton(event, subscribers) {
  return button("Replay", () => {
    const shown = subscribers.slice(0, MOST_CHOICES);
    const boxes = shown.map((one) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "to", value: one.id }), said(one.name)));
    return ask({
      title: `Publish event ${event.id} again?`,
      words: h("p", {}, "A new event with the same type, payload, tags and ordering key, linked to this one. ",
        subscribers.length ? "Choose subscribers to send it to these alone; with none chosen it goes to all that want it now." : ""),
      fields: shown.length > 0 && h("fieldset", { class: "choices" }, h("legend", {}, "Only to"), boxes,
        shown.length < subscribers.length && h("p", { class: "soft" }, `The first ${plural(MOST_CHOICES, "subscriber")} of ${count(subscribers.length)}.`)),
      yes: "Replay",
      work: async (form) => {
        const chosen = new FormData(form).getAll("to").map(Number);
        const made = await post(path`/events/${event.id}/replay`, chosen.length ? { subscribers: chosen } : {});
        tell(`Published again as event ${made.id}.`);
        location.hash = `#/events/${made.id}`;
      },
    });
  });
}
