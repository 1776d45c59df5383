// Who works: alive or silent, with how much in hand; and what hangs on those who are silent.

import { h, fill, said } from "./dom.js";
import { at as path, get, post } from "./api.js";
import { badge, button, empty, heading, inUse, load, panel, table, tell } from "./parts.js";
import { ask } from "./dialogs.js";
import { ago, count, plural } from "./format.js";
import { mayAct } from "./may.js";

const MOST_WORKERS = 500;
const MOST_ORPHANS = 100;
const EVERY = 10_000;
const FIRST = `curl '${location.origin}/events/subscribe?tags=email&worker_id=me:1&wait=30'`;

export function show(root, { signal }) {
  const silent = h("div");
  const all = h("div");
  fill(root, heading("Workers", { about: "Everyone who took work in the last 30 days." }),
    panel("Claims of which nothing was heard for 30 seconds", silent), panel("Workers", all));
  const read = () => {
    load(silent, signal, async () => drawOrphans(silent, await get("/orphans", { limit: MOST_ORPHANS }, signal), read));
    load(all, signal, async () => drawWorkers(all, await get("/workers", { limit: MOST_WORKERS }, signal)));
  };
  read();
  const timer = setInterval(() => { if (!inUse(root) && !document.hidden) read(); }, EVERY);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function drawWorkers(place, { workers, total }) {
  if (!workers.length) {
    fill(place, empty("Nobody has worked yet", "A worker asks for work by tags:", FIRST));
    return;
  }
  const order = (one) => (one.stale ? 2 : one.open_claims ? 0 : 1);
  const sorted = [...workers].sort((one, other) => order(one) - order(other) || String(other.last_seen).localeCompare(String(one.last_seen)));
  fill(place, table("Workers", [
    ["Worker", (one) => said(one.worker_id)],
    ["State", (one) => badge(one.stale ? "silent" : "alive"), "tight"],
    ["Open claims", (one) => count(one.open_claims), "number"],
    ["Last seen", (one) => ago(one.last_seen), "tight"],
    ["Last action", (one) => one.last_action && badge(one.last_action.toUpperCase(), one.last_action.toLowerCase()), "tight"],
    ["First seen", (one) => ago(one.first_seen), "tight"],
    ["Queue", (one) => said(one.queue)],
  ], sorted).element,
  total > workers.length && h("p", { class: "soft more" }, `${plural(workers.length, "worker")} of ${count(total)} are shown.`));
}

function drawOrphans(place, { orphans, total }, read) {
  if (!orphans.length) {
    fill(place, h("p", { class: "soft" }, "None: everything that was taken is being worked on."));
    return;
  }
  fill(place, table("Silent claims", [
    ["Event", (one) => h("a", { href: `#/events/${one.id}` }, `#${one.id}`), "tight"],
    ["Title", (one) => (one.title ? said(one.title, "clip") : h("span", { class: "soft" }, "no title"))],
    ["Worker", (one) => one.worker_id && said(one.worker_id)],
    ["Attempt", (one) => count(one.attempt), "number"],
    ["Silent since", (one) => ago(one.silent_since), "tight"],
    ["Lease ends", (one) => ago(one.lease_expires_at), "tight"],
    ["", (one) => mayAct() && button("Reset", () => ask({
      title: `Take event ${one.id} away from its worker?`,
      words: h("p", {}, "It is ready for another worker at once; else that happens when the lease ends. ",
        "If ", said(one.worker_id ?? "the worker"), " still works on it, its report is refused."),
      yes: "Reset",
      kind: "danger",
      work: async () => {
        await post(path`/events/${one.id}/reset`, undefined, { query: { reason: "reset on the dashboard" } });
        tell(`Event ${one.id} is ready again.`);
        read();
      },
    }), { kind: "small", "aria-label": `Reset event ${one.id}` }), "tight"],
  ], orphans).element,
  total > orphans.length && h("p", { class: "soft more" }, `${plural(orphans.length, "claim")} of ${total >= 10_000 ? "10,000 or more" : count(total)} are shown.`));
}
