// Making a subscriber, or changing one. What the hub refuses is told at the field that it means.

import { h, fill, said } from "./dom.js";
import { at as path, call, get, post, Problem } from "./api.js";
import { heading, load, mark, tell } from "./parts.js";
import { showSecret } from "./dialogs.js";
import { mayAct } from "./may.js";

const numbers = (text) => text.split(/[\s,]+/).filter(Boolean).map(Number);
const words = (text) => text.split(/[\s,]+/).filter(Boolean);

/** One field: how it is shown, read, and written to. */
const FIELDS = {
  name: { label: "Name", hint: "Unique, such as shipping.", required: true },
  url: { label: "Address", hint: "Where messages are sent: https://…", required: true, inputmode: "url" },
  event_type: { label: "Events", hint: "A pattern: * takes every event, order.* every event of an order.", start: "*" },
  description: { label: "Description", hint: "For people.", empty: null },
  format: { label: "Format", choices: ["standard", "raw", "ce-binary", "ce-structured"], hint: "How an event is put into a request." },
  filter: { label: "Filter", area: 3, empty: null, read: JSON.parse, write: (value) => JSON.stringify(value, null, 2), hint: 'As JSON: {"payload.country": "SE"}' },
  headers: { label: "Headers", area: 3, empty: {}, read: readHeaders, write: writeHeaders, hint: "One a line, Name: value. Secret values are shown as *** and stay as they are." },
  ordering_key: { label: "Order by", empty: null, hint: "ordering_key, or a path such as payload.customer.id; no order without it." },
  on_dead: { label: "When a message is dead", choices: ["skip", "park"], hint: "skip: its key goes on. park: its key waits for an operator." },
  retry_backoff_seconds: { label: "Waits before retries, in seconds", start: "5, 30, 300", empty: [], read: numbers, write: (value) => value.join(", "), hint: "One for each retry." },
  retry_on: { label: "Tried again on", empty: null, read: words, write: (value) => value.join(", "), hint: "Such as 429, 5xx, timeout, network; the usual ones without it." },
  guarantee: { label: "Guarantee", choices: ["at_least_once", "at_most_once"], hint: "at_most_once: one request, whatever comes of it." },
  connect_timeout_seconds: { label: "Seconds to connect", start: "5", read: Number, inputmode: "decimal" },
  timeout_seconds: { label: "Seconds for a request", start: "10", read: Number, inputmode: "decimal" },
  rate_per_second: { label: "Requests a second, at most", empty: null, read: Number, inputmode: "decimal", hint: "No limit without it." },
  max_in_flight: { label: "Requests at once, at most", start: "32", read: Number, inputmode: "numeric" },
};
const MORE = [["format", "description"], ["filter"], ["headers"], ["ordering_key", "on_dead"], ["retry_backoff_seconds", "retry_on"],
  ["connect_timeout_seconds", "timeout_seconds"], ["rate_per_second", "max_in_flight"], ["guarantee"]];

function readHeaders(text) {
  return Object.fromEntries(text.split("\n").filter((line) => line.trim()).map((line) => {
    const colon = line.indexOf(":");
    if (colon < 1) throw new SyntaxError(`“${line.trim()}” has no colon.`);
    return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
  }));
}

function writeHeaders(value) {
  return Object.entries(value).map(([name, text]) => `${name}: ${text}`).join("\n");
}

export function show(root, { id, signal }) {
  const place = h("div");
  fill(root, heading(id ? `Edit subscriber ${id}` : "New subscriber", {
    crumb: id ? { href: `#/subscribers/${id}`, words: "Back to it" } : { href: "#/subscribers", words: "Subscribers" },
  }), place);
  if (!mayAct()) {
    fill(place, h("p", { class: "soft" }, "The key of this session may look, but change nothing."));
    return;
  }
  load(place, signal, async () => draw(place, id ? await get(path`/subscribers/${id}`, {}, signal) : null));
}

function draw(place, subscriber) {
  const fields = Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [name, makeField(name, field, subscriber)]));
  const status = h("p", { class: "dialog-status", role: "alert" });
  const go = h("button", { type: "submit", class: "primary" }, subscriber ? "Save" : "Create subscriber");
  const more = h("details", { open: Boolean(subscriber) }, h("summary", {}, "More settings"),
    h("fieldset", {}, h("legend", { class: "unseen" }, "More settings"),
      MORE.map((names) => (names.length > 1 ? h("div", { class: "pair" }, names.map((name) => fields[name].element)) : fields[names[0]].element))));
  const form = h("form", { class: "panel form", onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    fill(status);
    Object.values(fields).forEach((field) => field.complain(""));
    try {
      await send(fields, subscriber);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      point(fields, error, status, more);
    } finally {
      go.disabled = false;
    }
  } }, fields.name.element, fields.url.element, fields.event_type.element, more, status,
  h("div", { class: "actions" }, go, h("a", { class: "button", href: subscriber ? `#/subscribers/${subscriber.id}` : "#/subscribers" }, "Cancel")));
  fill(place, form);
}

function makeField(name, field, subscriber) {
  const known = subscriber?.[name];
  const shown = known === undefined || known === null ? (subscriber ? "" : field.start ?? "") : (field.write ?? String)(known);
  const about = { id: `field-${name}`, name, "aria-describedby": `hint-${name} wrong-${name}` };
  let input;
  if (field.choices) input = h("select", about, field.choices.map((choice) => h("option", { value: choice, selected: choice === known }, choice)));
  else if (field.area) input = h("textarea", { ...about, rows: field.area, spellcheck: "false" }, shown);
  else input = h("input", { ...about, value: shown, required: field.required, inputmode: field.inputmode, autocomplete: "off", spellcheck: "false" });
  const wrong = h("span", { class: "wrong", id: `wrong-${name}` });
  const element = h("div", { class: "field" }, h("label", { for: `field-${name}` }, field.label), input,
    h("span", { class: "hint", id: `hint-${name}` }, field.hint ?? ""), wrong);
  const complain = (text) => {
    fill(wrong, text && said(text));
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  return { element, input, complain, unchanged: () => subscriber && input.value === shown && !field.choices, read: () => readField(name, field, input.value) };
}

function readField(name, field, text) {
  if (!text.trim() && "empty" in field) return field.empty;
  try {
    const value = field.read ? field.read(text) : text.trim();
    const values = [value].flat();
    if (field.read !== JSON.parse && values.some((one) => typeof one === "number" && Number.isNaN(one))) throw new SyntaxError("This is no number.");
    return value;
  } catch (error) {
    throw new Problem(422, { detail: error.message, pointer: `/${name}` });
  }
}

async function send(fields, subscriber) {
  const body = Object.fromEntries(Object.entries(fields).filter(([, field]) => !field.unchanged()).map(([name, field]) => [name, field.read()]));
  if (subscriber) {
    await call("PATCH", path`/subscribers/${subscriber.id}`, { body, headers: { "if-match": `"${subscriber.version}"` } });
    tell("The changes are saved.");
    location.hash = `#/subscribers/${subscriber.id}`;
    return;
  }
  const made = await post("/subscribers", body);
  await showSecret("The subscriber's secret", made.secret);
  location.hash = `#/subscribers/${made.id}`;
}

/** At the field that is meant, or below the form. */
function point(fields, error, status, more) {
  const field = fields[(error.pointer ?? "").split("/")[1]];
  if (!field) {
    fill(status, mark("bad"), said(error.message));
    return;
  }
  field.complain(error.message);
  if (more.contains(field.element)) more.open = true;
  field.input.focus();
}
