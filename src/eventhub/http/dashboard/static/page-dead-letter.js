// One dead letter: the event, every error, and the subscriber as it was then.

import { h, fill, said } from "./dom.js";
import { at as path, get } from "./api.js";
import { act, button, copyable, facts, heading, json, load, panel } from "./parts.js";
import { ago, count, exactly } from "./format.js";
import { mayAct } from "./may.js";
import { reasonWords, retryOne } from "./page-dead.js";

export function show(root, { id, signal }) {
  const head = h("div", {}, heading(`Dead letter ${id}`, { crumb: { href: "#/dead", words: "Dead letters" } }));
  const place = h("div");
  fill(root, head, place);
  const read = () => load(place, signal, async () => draw(head, place, await get(path`/dlq/${id}`, {}, signal), read));
  read();
}

function draw(head, place, letter, read) {
  const retried = Boolean(letter.retried_at);
  fill(head, heading(`Dead letter ${letter.id}`, {
    crumb: { href: "#/dead", words: "Dead letters" },
    about: h("span", { class: "badge bad" }, reasonWords(letter.reason)),
    actions: !retried && mayAct() && button("Retry", (event) => act(event.target, () => retryOne(letter.id, read)), { kind: "primary" }),
  }));
  fill(place,
    panel("", facts([
      ["Event", h("a", { href: `#/events/${letter.event_id}` }, `Event ${letter.event_id}`)],
      ["Type", letter.event_type && said(letter.event_type, "code")],
      ["Subscriber", letter.subscriber_id && h("a", { href: `#/subscribers/${letter.subscriber_id}` }, said(letter.subscriber?.name ?? `subscriber ${letter.subscriber_id}`))],
      ["Queue", letter.queue && said(letter.queue)],
      ["Title", letter.title && said(letter.title)],
      ["Description", letter.description && said(letter.description)],
      ["Tags", letter.tags && said(letter.tags)],
      ["Ordering key", letter.ordering_key && [said(letter.ordering_key), letter.parked && " – held until an operator acts"]],
      ["Attempts", letter.max_attempts ? `${count(letter.attempt_count)} of ${count(letter.max_attempts)}` : count(letter.attempt_count)],
      ["Last worker", letter.worker_id && said(letter.worker_id)],
      ["Published", exactly(letter.created_at)],
      ["Died", exactly(letter.dead_at)],
      ["Retried", retried && [ago(letter.retried_at), letter.retried_by && [" by ", said(letter.retried_by)]]],
      ...Object.entries(letter.metadata ?? {}).map(([name, value]) => [said(name), said(value)]),
    ].map(([name, value]) => [name, value || undefined]))),
    panel("Errors, in order", letter.errors.length
      ? h("ol", { class: "errors" }, letter.errors.map((error) => h("li", { class: "error" }, said(error))))
      : h("p", { class: "soft" }, "None was told.")),
    panel("Payload", json(letter.payload)),
    letter.subscriber && panel("The subscriber as it was then", copyable(JSON.stringify(letter.subscriber, null, 2))));
}
