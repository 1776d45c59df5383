// Messages to subscribers: a table of them, every attempt at one, and what can be done about it.

import { h, fill, said } from "./dom.js";
import { at as path, get, post } from "./api.js";
import { act, badge, button, copyable, load, table, tell } from "./parts.js";
import { ask } from "./dialogs.js";
import { ago, at, count, milliseconds } from "./format.js";
import { mayAct } from "./may.js";

const OPEN = new Set(["PENDING", "PROCESSING"]);

/** A table of messages; `changed` is called when one was acted upon. */
export function messageTable(messages, { names, signal, changed, withEvent = false }) {
  const name = (message) => {
    const known = names?.get(message.subscriber_id);
    return h("a", { href: `#/subscribers/${message.subscriber_id}` }, known ? said(known) : `subscriber ${message.subscriber_id}`);
  };
  const columns = [
    ["Message", (message) => `#${message.id}`, "tight"],
    withEvent
      ? ["Event", (message) => [h("a", { href: `#/events/${message.event_id}` }, `#${message.event_id}`), " ", said(message.event_type, "soft")]]
      : ["Subscriber", name],
    ["Status", (message) => [badge(message.status, message.blocked ? "behind another" : undefined), waiting(message)], "tight"],
    ["Key", (message) => message.ordering_key && said(message.ordering_key), "name"],
    ["Attempts", (message) => (message.max_attempts ? `${message.attempt_count} of ${message.max_attempts}` : count(message.attempt_count)), "number"],
    ["Last error", (message) => message.errors?.length && said(message.errors.at(-1), "clip"), "error"],
    ["Created", (message) => ago(message.created_at), "tight"],
    ["", (message) => actions(message, signal, changed), "tight"],
  ];
  return table("Messages", columns, messages);
}

function waiting(message) {
  return message.status === "PENDING" && message.next_retry_at && h("span", { class: "under" }, "again ", ago(message.next_retry_at));
}

function actions(message, signal, changed) {
  const does = async (verb, told) => {
    await post(path`/messages/${message.id}/${verb}`);
    tell(told);
    changed();
  };
  const name = (words) => ({ kind: "small", "aria-label": `${words} message ${message.id}` });
  const retry = message.status === "FAILED" || (message.status === "PENDING" && message.next_retry_at);
  return h("div", { class: "actions" },
    retry && mayAct() && button("Retry", (event) => act(event.target, () => does("retry", `Message ${message.id} is tried again now.`)), name("Retry")),
    OPEN.has(message.status) && mayAct() && button("Cancel", () => ask({
      title: `Send message ${message.id} no more?`,
      words: h("p", {}, "The subscriber does not get it, unless a request is under way already. This cannot be taken back."),
      yes: "Do not send it",
      kind: "danger",
      work: () => does("cancel", `Message ${message.id} is not sent any more.`),
    }), name("Cancel")),
    attemptsButton(message, signal));
}

/** Shows the attempts in a row below, and hides them again. */
function attemptsButton(message, signal) {
  let below = null;
  const element = button("Attempts", async () => {
    if (below) {
      below.remove();
      below = null;
      element.setAttribute("aria-expanded", "false");
      return;
    }
    const row = element.closest("tr");
    const place = h("div", { class: "attempts" });
    below = h("tr", { role: "row" }, h("td", { role: "cell", colspan: row.children.length }, place));
    row.after(below);
    element.setAttribute("aria-expanded", "true");
    await load(place, signal, async () => {
      const whole = await get(path`/messages/${message.id}`, {}, signal);
      fill(place, whole.attempts.length ? whole.attempts.map(attempt) : h("p", { class: "soft" }, "Not tried yet."));
    });
  }, { kind: "small", "aria-expanded": "false", "aria-label": `Attempts at message ${message.id}` });
  return element;
}

function attempt(one) {
  const times = [["name", one.dns_ms], ["connection", one.connect_ms], ["first byte", one.first_byte_ms], ["in all", one.total_ms]]
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name} ${milliseconds(value)}`);
  const answered = one.response_headers || one.response_body;
  return h("div", {},
    h("div", { class: "group-line" }, badge(one.action), at(one.created_at),
      one.attempt && h("span", {}, `attempt ${one.attempt}`), one.status_code && h("b", {}, `status ${one.status_code}`),
      times.length > 0 && h("span", {}, times.join(", ")), one.worker_id && h("span", {}, "by ", said(one.worker_id))),
    (one.failure || one.error) && h("p", { class: "error" }, said([one.failure, one.error].filter(Boolean).join(": "))),
    one.request_headers && folded("What was sent", [one.url ? `POST ${one.url}` : "", headers(one.request_headers)]),
    answered && folded("What was answered", [headers(one.response_headers), one.response_body ?? ""]));
}

const headers = (given) => Object.entries(given ?? {}).map(([name, value]) => `${name}: ${value}`).join("\n");

function folded(title, texts) {
  return h("details", {}, h("summary", {}, title), copyable(texts.filter(Boolean).join("\n\n")));
}
