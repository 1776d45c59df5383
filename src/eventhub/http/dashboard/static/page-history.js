// What the pipeline made of the past: throughput, times, failures, the busiest names, and when it last ran.

import { h, fill, said } from "./dom.js";
import { get, Problem } from "./api.js";
import { badge, empty, heading, load, panel, table, tile } from "./parts.js";
import { bar, chart } from "./charts.js";
import { ago, compact, count, day, exactly, hour, milliseconds, percent } from "./format.js";
import { reasonWords } from "./page-dead.js";
import { link } from "./routes.js";

const RANGES = [1, 7, 30, 90];
const MOST_ROWS = 12;
const NONE = { "no-history": ["No history yet", "eventhub pipeline run"], "no-lake-reader": ["No history here"] };
/** Of a scale of times, in milliseconds: up to ten seconds by tens, then as clocks and calendars have them. */
const STEPS = [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 6 * 3_600_000, 86_400_000, 7 * 86_400_000, 30 * 86_400_000];

export function show(root, { query, signal }) {
  const days = RANGES.includes(Number(query.get("days"))) ? Number(query.get("days")) : 7;
  const place = h("div", {}, h("p", { class: "soft" }, "Reading the lake …"));
  const range = h("nav", { class: "segments", "aria-label": "Days" }, RANGES.map((number) =>
    h("a", { href: link("/history", { days: number }), "aria-current": number === days ? "true" : undefined }, number === 1 ? "1 day" : `${number} days`)));
  const note = h("span", {}, "What the pipeline made of the past.");
  fill(root, heading("History", { about: note, actions: [range] }), place);
  load(place, signal, async () => {
    try {
      draw(place, note, await get("/history", { days }, signal));
    } catch (error) {
      const [title, command] = (error instanceof Problem && NONE[error.kind]) || [];
      if (!title) throw error;
      fill(place, panel("", empty(title, said(error.message), command)));
    }
  });
}

function draw(place, note, figures) {
  const { total, moments } = figures;
  const times = moments.map((moment) => new Date(moment.at));
  const byHour = figures.step === "hour";
  const when = byHour && times.length <= 30 ? hour : day;
  const hover = byHour ? (date) => `${day(date)} ${hour(date)}` : day;
  const counts = (name) => moments.map((moment) => moment.counts[name]);
  const shape = (name, share) => moments.map((moment) => moment[name][share]);
  fill(note, figures.first_day === figures.last_day ? `${figures.first_day}. ` : `${figures.first_day} to ${figures.last_day}. `, lastRun(figures));
  const drawn = (title, series, more = {}) => h("section", { class: "panel" }, chart({ title, series, times, show: compact, when, hover, ...more }));
  const step = byHour ? "hour" : "day";
  fill(place,
    h("div", { class: "tiles" },
      tile("Published", compact(total.counts.published), { note: "events" }),
      tile("Completed", compact(total.counts.completed), { note: "deliveries" }),
      tile("Attempts", compact(total.counts.attempts), { note: `${compact(total.counts.retries)} retries` }),
      tile("Failure rate", percent(total.failure_rate), { note: "of all attempts" }),
      tile("Dead", compact(total.counts.dead), { note: "deliveries", look: total.counts.dead ? "bad" : "" }),
      tile("Latency p50", milliseconds(total.latency_p50), { note: `p99 ${milliseconds(total.latency_p99)}` })),
    drawn(`Throughput per ${step}: events published, deliveries completed and dead`, [
      { name: "published", look: "c0", values: counts("published"), area: true },
      { name: "completed", look: "ok", values: counts("completed") },
      { name: "dead", look: "bad", values: counts("dead") }]),
    h("div", { class: "columns" },
      drawn("Latency, on a logarithmic scale", [
        { name: "p50", look: "c0", values: shape("latency", "p50") }, { name: "p90", look: "c1", values: shape("latency", "p90") },
        { name: "p99", look: "c2", values: shape("latency", "p99") }],
      { show: milliseconds, steps: STEPS }),
      drawn("Failed attempts", [{ name: "failure rate", look: "bad", values: moments.map((moment) => moment.failure_rate), area: true }],
        { show: percent, least: 0.01 })),
    figures.depths.length > 0 && drawn(`Open work at the end of each ${step}`, figures.depths.slice(0, 4).map((depth, number) =>
      ({ name: depth.queue || "no queue", look: ["c0", "c1", "c2", "ok"][number], values: depth.depths }))),
    h("div", { class: "columns" }, names("Types", figures.types), names("Subscribers", figures.subscribers, "subscribers")),
    h("div", { class: "columns" }, names("Queues", figures.queues), names("Tags", figures.tags)),
    workers(figures.workers), h("div", { class: "columns" }, keys(figures.keys), dead(figures.dead)));
}

function lastRun({ last_run: run, made_at: made }) {
  if (run.running) return "The pipeline is running now.";
  return run.at ? ["The pipeline last ran ", ago(run.at), "."] : ["Read ", exactly(made), "."];
}

/** Rows that are too many for the page are told, not hidden. */
function cut(title, rows, columns, none) {
  return panel(title, rows.length ? table(title, columns, rows.slice(0, MOST_ROWS)).element : h("p", { class: "soft" }, none),
    rows.length > MOST_ROWS && h("p", { class: "soft more" }, `The busiest ${MOST_ROWS} of ${rows.length}.`));
}

function names(title, rows, route) {
  const most = Math.max(1, ...rows.map((row) => row.counts.attempts));
  const name = (row) => (row.name ? said(row.name) : h("span", { class: "soft" }, "none"));
  return cut(title, rows, [
    ["Name", (row) => (route && /^\d+$/.test(row.id ?? "") ? h("a", { href: `#/${route}/${row.id}` }, name(row)) : name(row))],
    ["Attempts", (row) => [compact(row.counts.attempts), bar(row.counts.attempts / most)], "number"],
    ["Failed", (row) => percent(row.failure_rate), "number"],
    ["p50 / p99", (row) => `${milliseconds(row.latency_p50)} / ${milliseconds(row.latency_p99)}`, "number"],
  ], "None in this time.");
}

function workers(rows) {
  return cut("Workers", rows, [
    ["Worker", (row) => said(row.name)],
    ["State", (row) => badge(row.stale ? "silent" : "alive", row.stale ? "silent at the end" : "at work at the end"), "tight"],
    ["Attempts", (row) => compact(row.counts.attempts), "number"],
    ["Failed", (row) => percent(row.failure_rate), "number"],
    ["Abandoned", (row) => count(row.counts.abandoned), "number"],
    ["Time p50 / p99", (row) => `${milliseconds(row.duration_p50)} / ${milliseconds(row.duration_p99)}`, "number"],
    ["Last seen", (row) => ago(row.last_seen), "tight"],
  ], "Nobody worked in this time.");
}

function keys(rows) {
  return cut("Busiest ordering keys", rows, [
    ["Key", (row) => said(row.ordering_key)],
    ["Deliveries", (row) => compact(row.deliveries), "number"],
    ["Failures", (row) => compact(row.failures), "number"],
    ["Longest wait", (row) => milliseconds(row.longest_wait_ms), "number"],
  ], "No ordering keys in this time.");
}

function dead(rows) {
  return cut("What they died of", rows, [
    ["Dead", (row) => count(row.dead), "number"],
    ["Reason", (row) => reasonWords(row.reason ?? "unknown")],
    ["Error", (row) => row.example_error && said(row.example_error, "clip"), "error"],
    ["Last", (row) => ago(row.last_at), "tight"],
  ], "No dead letters that nobody has retried.");
}
