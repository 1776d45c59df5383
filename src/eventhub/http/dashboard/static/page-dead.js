// Dead letters: what was given up, grouped by what it died of; retried one by one or by the group, or thrown away.

import { h, fill, said } from "./dom.js";
import { at as path, call, get, post } from "./api.js";
import { act, button, empty, heading, load, panel, table, tell } from "./parts.js";
import { ask } from "./dialogs.js";
import { ago, count, plural, upTo } from "./format.js";
import { mayAct } from "./may.js";
import { link } from "./routes.js";

const PAGE = 50;
const MOST_COUNTED = 100_000;
const REASONS = {
  retries_exhausted: "retries used up", worker_lost: "worker lost", rejected: "rejected by the handler", finalized: "finalised by others",
  manual: "given up by hand", gone: "subscriber gone", blocked_destination: "blocked address", skipped: "skipped",
  cancelled: "cancelled",
};
const TEXTS = ["subscriber", "type", "reason", "queue", "error"];

export const reasonWords = (reason) => REASONS[reason] ?? reason;

export function show(root, { query, signal }) {
  const wanted = asked(query);
  const narrow = Object.keys(wanted).length > 0;
  const groups = h("div", { class: "groups" });
  const letters = h("div");
  const read = () => {
    load(groups, signal, async () => drawGroups(groups, await get("/dlq/groups", wanted, signal), wanted, read));
    load(letters, signal, async () => drawLetters(letters, await get("/dlq", { ...wanted, limit: PAGE }, signal), wanted, signal, read));
  };
  fill(root, heading("Dead letters", {
    about: "What was given up and kept: look why, mend it, and give it another chance.",
    actions: mayAct() && [
      button(narrow ? "Retry all that fit" : "Retry all", () => retryWhere(wanted, read)),
      button("Purge …", () => purge(wanted, narrow, read), { kind: "danger" }),
    ],
  }), filters(query, narrow), h("section", { "aria-labelledby": "groups-title" }, h("h2", { id: "groups-title", class: "between" }, "By what they died of"), groups),
  panel("Letters", letters));
  read();
}

/** What is asked of the hub; times of the form are those of this machine. */
function asked(query) {
  const wanted = {};
  for (const name of TEXTS) if (query.get(name)) wanted[name] = query.get(name);
  if (query.has("fingerprint")) wanted.fingerprint = query.get("fingerprint"); // it is empty where there was no error
  // What is no number is asked for as it is, and refused: as NaN it would become null, and null means everybody.
  if (/^\d+$/.test(wanted.subscriber ?? "")) wanted.subscriber = Number(wanted.subscriber);
  for (const name of ["since", "until"]) {
    const moment = query.get(name) ? new Date(query.get(name)) : null;
    if (moment && !Number.isNaN(moment.getTime())) wanted[name] = moment.toISOString();
  }
  return wanted;
}

function filters(query, narrow) {
  const field = (words, name, more = {}) => h("label", {}, words,
    h("input", { name, value: query.get(name) ?? "", autocomplete: "off", spellcheck: "false", ...more }));
  const form = h("form", { class: "filters", role: "search", "aria-label": "Dead letters", onsubmit: (event) => {
    event.preventDefault();
    const { fingerprint, ...given } = Object.fromEntries(new FormData(form));
    const address = link("/dead", given);
    location.hash = fingerprint === undefined ? address : `${address}${address.includes("?") ? "&" : "?"}fingerprint=${encodeURIComponent(fingerprint)}`;
  } },
  field("Subscriber", "subscriber", { inputmode: "numeric", pattern: "[0-9]*", title: "Its id, a number", placeholder: "id" }),
  field("Type", "type"),
  h("label", {}, "Reason", h("select", { name: "reason" }, h("option", { value: "" }, "any"),
    Object.entries(REASONS).map(([value, words]) => h("option", { value, selected: query.get("reason") === value }, words)))),
  field("Error contains", "error"),
  field("From", "since", { type: "datetime-local" }),
  field("To", "until", { type: "datetime-local" }),
  h("input", { type: "hidden", name: "fingerprint", value: query.get("fingerprint") ?? "", disabled: !query.has("fingerprint") }),
  h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Search"), h("a", { class: "button", href: "#/dead" }, "Clear")),
  narrow && query.has("fingerprint") && h("p", { class: "soft" }, "One group of errors is shown. ", h("a", { href: "#/dead" }, "Show all")));
  return form;
}

function drawGroups(place, { groups, looked_at: looked, more }, wanted, read) {
  if (!groups.length) {
    const narrow = Object.keys(wanted).length > 0;
    fill(place, panel("", narrow ? empty("No dead letter fits") : empty("No dead letters", "Nothing was given up: every event that failed was mended by a retry, or none failed.")));
    return;
  }
  fill(place, groups.map((group) => drawGroup(group, wanted, read)),
    more && h("p", { class: "soft" }, `Grouped are the newest ${count(looked)}; there are more.`));
}

function drawGroup(group, wanted, read) {
  const these = { ...wanted, reason: group.reason, fingerprint: group.fingerprint };
  return h("article", { class: "panel group" },
    h("p", { class: "group-count" }, count(group.count), h("small", {}, group.count === 1 ? "letter" : "letters")),
    h("div", { class: "group-words" },
      h("p", { class: "error" }, said(group.example_error ?? "no error was told", "clip")),
      h("div", { class: "group-line" }, h("span", { class: "badge bad" }, reasonWords(group.reason)),
        group.types.map((type) => h("span", { class: "chip" }, said(type))),
        group.subscribers.map((id) => h("a", { href: `#/subscribers/${Number(id)}` }, `subscriber ${id}`))),
      h("div", { class: "group-line" }, h("span", {}, "first ", ago(group.first_at)), h("span", {}, "last ", ago(group.last_at)),
        h("span", {}, "such as ", group.example_ids.map((id, place) => [place ? ", " : "", h("a", { href: `#/dead/${Number(id)}` }, `#${id}`)])))),
    h("div", { class: "actions" },
      h("a", { class: "button small", href: `#/dead?${new URLSearchParams(these)}`, "aria-label": `Show only the ${count(group.count)} letters of this group` }, "Show only these"),
      mayAct() && button("Retry group", () => retryWhere(these, read), { kind: "small", "aria-label": `Retry the group of ${count(group.count)}` })));
}

function drawLetters(place, page, wanted, signal, read) {
  if (!page.dead_letters.length) {
    fill(place, h("p", { class: "soft" }, "None."));
    return;
  }
  const rows = table("Dead letters", [
    ["Letter", (one) => h("a", { href: `#/dead/${one.id}` }, `#${one.id}`), "tight"],
    ["Event", (one) => [h("a", { href: `#/events/${one.event_id}` }, `#${one.event_id}`), one.event_type && h("span", { class: "under" }, said(one.event_type))]],
    ["To", (one) => (one.subscriber_id ? h("a", { href: `#/subscribers/${one.subscriber_id}` }, `subscriber ${one.subscriber_id}`) : one.queue && said(one.queue)), "tight"],
    ["Reason", (one) => [reasonWords(one.reason), one.parked && h("span", { class: "under" }, "holds key ", said(one.ordering_key ?? ""))], "tight"],
    ["Error", (one) => one.error && said(one.error, "clip"), "error wide"],
    ["Attempts", (one) => count(one.attempt_count), "number"],
    ["Died", (one) => ago(one.dead_at), "tight"],
    ["", (one) => mayAct() && button("Retry", (event) => act(event.target, () => retryOne(one.id, read)), { kind: "small", "aria-label": `Retry letter ${one.id}` }), "tight"],
  ], page.dead_letters);
  let number = page.dead_letters.length;
  const foot = h("div", { class: "more" });
  const drawFoot = (before) => fill(foot, before && button("Older", () => load(foot, signal, async () => {
    const next = await get("/dlq", { ...wanted, limit: PAGE, before }, signal);
    rows.append(next.dead_letters);
    number += next.dead_letters.length;
    drawFoot(next.next_before);
  })), h("span", { class: "soft" }, `${count(number)} of ${upTo(page.total, page.total >= MOST_COUNTED)} are shown`));
  drawFoot(page.next_before);
  fill(place, rows.element, foot);
}

export async function retryOne(id, done) {
  await post(path`/dlq/${id}/retry`);
  tell(`Letter ${id} has a fresh start.`);
  done();
}

/** Counts first, then asks, then does it. */
async function retryWhere(filter, read) {
  const { count: number } = await post("/dlq/retry", { filter, dry_run: true }).catch((error) => {
    tell(error.message, "bad");
    return { count: null };
  });
  if (number === null) return;
  if (!number) {
    tell("No dead letter fits any more.");
    read();
    return;
  }
  await ask({
    title: `Retry ${plural(number, "dead letter")}?`,
    words: h("p", {}, "Each gets a fresh start: no errors, no retries counted, due now. What they died of should be mended first."),
    yes: `Retry ${count(number)}`,
    work: async () => {
      const done = await post("/dlq/retry", { filter });
      tell(`${plural(done.count, "dead letter has", "dead letters have")} a fresh start.`);
      read();
    },
  });
}

async function purge(wanted, narrow, read) {
  const told = h("p", { role: "status" }, " ");
  const days = h("input", { name: "days", type: "number", min: "0", max: "36500", step: "any", value: "30", required: true, onchange: () => preview() });
  const preview = async () => {
    const until = new Date(Date.now() - Number(days.value) * 86_400_000).toISOString();
    const filter = { ...wanted, until: wanted.until && wanted.until < until ? wanted.until : until };
    const { count: number } = await post("/dlq/retry", { filter, dry_run: true }).catch(() => ({ count: 0 }));
    fill(told, number ? `${plural(number, "letter has", "letters have")} been dead for so long.` : "No letter has been dead for so long.");
  };
  preview();
  await ask({
    title: "Delete dead letters for good?",
    words: [h("p", {}, narrow ? "Those that fit the search and have been dead for so long are deleted. " : "Those that have been dead for so long are deleted. ",
      "This cannot be taken back. What holds an ordering key stays.")],
    fields: [h("label", { class: "field" }, "Dead for so many days, or longer", days), told],
    yes: "Delete",
    kind: "danger",
    work: async () => {
      const done = await call("DELETE", "/dlq", { query: { ...wanted, older_than_days: days.value } });
      tell(`${plural(done.count, "dead letter was", "dead letters were")} deleted.`);
      read();
    },
  });
}
