// One subscriber: how it does, which ordering keys stand still, its messages, and everything that can be done to it.

import { h, fill, said } from "./dom.js";
import { at as path, call, get, post } from "./api.js";
import { calmly, onLog } from "./live.js";
import { act, badge, button, changes, copyable, empty, facts, heading, inUse, load, panel, table, tell, tile } from "./parts.js";
import { ask, showSecret } from "./dialogs.js";
import { ago, count, exactly, milliseconds, percent, plural, seconds } from "./format.js";
import { mayAct } from "./may.js";
import { messageTable } from "./messages.js";
import { state } from "./page-subscribers.js";

const MOST_KEYS = 100;
const MOST_MESSAGES = 50;
const NO_PATH = new Set([".", ".."]);

export function show(root, { id, signal }) {
  const head = h("div", {}, heading(`Subscriber ${id}`, { crumb: { href: "#/subscribers", words: "Subscribers" } }));
  const tiles = h("div", { class: "tiles" });
  const keys = h("div");
  const messages = h("div");
  const settings = h("div");
  fill(root, head, tiles, panel("Ordering keys that stand still", keys), panel("Newest messages", messages), panel("Settings", settings));
  const known = new Set();
  const changed = changes();
  const read = () => {
    load(settings, signal, async () => {
      const subscriber = await get(path`/subscribers/${id}`, {}, signal);
      changed("head", subscriber, () => drawHead(head, subscriber, read));
      drawSettings(settings, subscriber);
    });
    load(tiles, signal, async () => drawTiles(tiles, id, await get(path`/subscribers/${id}/stats`, {}, signal)));
    load(keys, signal, async () => drawKeys(keys, id, await get(path`/subscribers/${id}/keys`, { limit: MOST_KEYS }, signal), read));
    load(messages, signal, async () => {
      const page = await get("/messages", { subscriber: id, limit: MOST_MESSAGES }, signal);
      for (const message of page.messages) known.add(message.id);
      drawMessages(messages, page, signal, read);
    });
  };
  const again = calmly(async () => {
    const busy = [tiles, keys, messages].some(inUse) || document.querySelector("dialog, .attempts");
    if (!signal.aborted && !busy) read();
  }, 2000);
  // Of what happens to a message only its beginning names the subscriber.
  onLog(signal, (entries) => {
    for (const entry of entries) if (String(entry.subscriber_id) === id) known.add(entry.delivery_id);
    if (entries.some((entry) => known.has(entry.delivery_id))) again();
  });
  read();
}

function drawHead(head, subscriber, read) {
  const { id } = subscriber;
  const focused = document.activeElement?.tagName === "H1";
  const does = (words, verb, told, kind) => button(words, (event) => act(event.target, async () => {
    await post(path`/subscribers/${id}/${verb}`);
    tell(told);
    read();
  }), { kind });
  const paused = subscriber.status === "paused";
  const disabled = subscriber.status === "disabled";
  fill(head, heading(said(subscriber.name), {
    crumb: { href: "#/subscribers", words: "Subscribers" },
    about: [state(subscriber), subscriber.reason && [" ", said(subscriber.reason)],
      subscriber.circuit === "open" && [" It fails for long, so it is left in peace until ", exactly(subscriber.circuit_until), "."]],
    actions: mayAct() && [
      disabled ? does("Enable", "enable", "It is active again.", "primary")
        : paused ? does("Resume", "resume", "It is active again.", "primary") : does("Pause", "pause", "It is paused; what comes meanwhile waits."),
      testButton(subscriber),
      h("a", { class: "button", href: `#/subscribers/${id}/edit` }, "Edit"),
      rotateButton(subscriber),
      deleteButton(subscriber),
    ],
  }));
  document.title = `${subscriber.name} – Event Hub`;
  if (focused) head.querySelector("h1").focus();
}

function testButton({ id }) {
  return button("Send test", (event) => act(event.target, async () => {
    const sent = await post(path`/subscribers/${id}/test`);
    tell(["A test is on its way: ", h("a", { href: `#/events/${sent.event_id}` }, `event ${sent.event_id}`)]);
  }));
}

function rotateButton({ id, name }) {
  return button("Rotate secret", async () => {
    const made = await ask({
      title: "Make a new secret?",
      words: h("p", {}, "The messages of ", said(name), " are signed with the new one. The old one signs beside it for as long as you say, so that the receiver can change over."),
      fields: h("label", { class: "field" }, "Hours until the old one ends",
        h("input", { name: "hours", type: "number", min: "0", max: "720", step: "any", value: "24", required: true })),
      yes: "Make a new secret",
      work: (form) => post(path`/subscribers/${id}/rotate-secret`, { overlap_seconds: Number(new FormData(form).get("hours")) * 3600 }),
    });
    if (made) await showSecret("The new secret", made.secret);
  });
}

function deleteButton({ id, name }) {
  return button("Delete", () => ask({
    title: "Delete this subscriber?",
    words: h("p", {}, said(name), " is forgotten, and its open messages are cancelled. This cannot be taken back."),
    yes: "Delete",
    kind: "danger",
    work: async () => {
      const { count: cancelled } = await call("DELETE", path`/subscribers/${id}`);
      tell(`The subscriber is gone; ${plural(cancelled, "open message was", "open messages were")} cancelled.`);
      location.hash = "#/subscribers";
    },
  }), { kind: "danger" });
}

function drawTiles(place, id, now) {
  const tried = now.delivered_last_hour + now.failed_last_hour;
  fill(place,
    tile("Delivered, 1 h", count(now.delivered_last_hour), { note: now.last_delivered_at ? ["last ", ago(now.last_delivered_at)] : "none yet" }),
    tile("Failed, 1 h", count(now.failed_last_hour), { note: tried ? percent(now.failed_last_hour / tried) : "", look: now.failed_last_hour ? "warn" : "" }),
    tile("Latency p50", milliseconds(now.latency_p50_ms), { note: `p99 ${milliseconds(now.latency_p99_ms)}` }),
    tile("Waiting", count(now.pending), { note: now.oldest_pending_seconds === null ? "" : `oldest ${seconds(now.oldest_pending_seconds)}` }),
    tile("For a retry", count(now.waiting_for_retry), { note: now.last_failed_at ? ["failed ", ago(now.last_failed_at)] : "" }),
    tile("Behind others", count(now.behind), { note: plural(now.blocked_keys, "key stands still", "keys stand still") }),
    tile("Dead", count(now.dead), { note: now.dead ? "look why" : "none", look: now.dead ? "bad" : "", href: `#/dead?subscriber=${id}` }));
}

function drawKeys(place, id, { keys, next_after: more }, read) {
  if (!keys.length) {
    fill(place, h("p", { class: "soft" }, "None: no ordering key waits for a message that failed."));
    return;
  }
  fill(place, table("Ordering keys that stand still", [
    ["Key", (one) => said(one.key)],
    ["State", (one) => badge(one.parked ? "DEAD" : "FAILED", one.parked ? "parked" : "failing"), "tight"],
    ["Held by", (one) => [h("a", { href: `#/events/${one.event_id}` }, `event ${one.event_id}`),
      h("span", { class: "under" }, one.next_retry_at ? ["again ", ago(one.next_retry_at)] : ["since ", ago(one.since)])], "tight"],
    ["Waiting behind", (one) => (one.waiting >= 10_000 ? "10,000+" : count(one.waiting)), "number"],
    ["Error", (one) => one.error && said(one.error, "clip"), "error"],
    ["", (one) => keyActions(id, one, read), "tight"],
  ], keys).element, more && h("p", { class: "soft more" }, `The first ${MOST_KEYS}; there are more.`));
}

function keyActions(id, key, read) {
  if (!mayAct()) return null;
  if (NO_PATH.has(key.key)) return h("span", { class: "soft" }, "only by message: see below");
  const does = (words, verb, told) => button(words, (event) => act(event.target, async () => {
    await post(path`/subscribers/${id}/keys/${key.key}/${verb}`);
    tell(told);
    read();
  }), { kind: "small", "aria-label": `${words} ${key.key}` });
  const skip = button("Skip", () => ask({
    title: "Give up the message that holds this key?",
    words: h("p", {}, `Message ${key.message_id} goes to the dead letters, and ${plural(key.waiting, "message", "messages")} of the key `, said(key.key), " go on."),
    yes: "Skip it",
    kind: "danger",
    work: async () => {
      await post(path`/subscribers/${id}/keys/${key.key}/skip`);
      tell("The message was given up; the key goes on.");
      read();
    },
  }), { kind: "small", "aria-label": `Skip ${key.key}` });
  return h("div", { class: "actions" }, does("Retry", "retry", "It is tried again now."),
    key.parked ? does("Unpark", "unpark", "The key goes on past its dead message.") : skip);
}

function drawMessages(place, { messages, next_before: more }, signal, read) {
  fill(place, messages.length
    ? [messageTable(messages, { signal, changed: read, withEvent: true }).element, more && h("p", { class: "soft more" }, `The newest ${MOST_MESSAGES}; there are more.`)]
    : empty("No messages yet", "Send a test, or publish an event of a type that it wants."));
}

function drawSettings(place, one) {
  const document = { filter: one.filter, headers: Object.keys(one.headers).length ? one.headers : null };
  fill(place, facts([
    ["Address", said(one.url)],
    ["Events", said(one.event_type, "code")],
    ["Description", one.description && said(one.description)],
    ["Format", one.format],
    ["Order", one.ordering_key ? said(one.ordering_key, "code") : "none"],
    ["When a message is dead", one.ordering_key && (one.on_dead === "park" ? "its key waits for an operator" : "its key goes on")],
    ["Retries after", one.retry_backoff_seconds.length ? one.retry_backoff_seconds.map(seconds).join(", ") : "no retries"],
    ["Retried on", one.retry_on?.join(", ")],
    ["Time limits", `${seconds(one.connect_timeout_seconds)} to connect, ${seconds(one.timeout_seconds)} in all`],
    ["At most", `${plural(one.max_in_flight, "request")} at once${one.rate_per_second ? `, ${one.rate_per_second} a second` : ""}`],
    ["Guarantee", one.guarantee.replaceAll("_", " ")],
    ["Secrets that sign", count(one.secrets)],
    ["Made", exactly(one.created_at)],
    ["Version", count(one.version)],
  ]),
  document.filter && [h("h3", { class: "sub" }, "Filter"), copyable(JSON.stringify(document.filter, null, 2))],
  document.headers && [h("h3", { class: "sub" }, "Headers"), copyable(JSON.stringify(document.headers, null, 2))]);
}
