// Makes elements. Text only ever becomes text nodes, and attributes come from a list of harmless ones.

const ATTRIBUTES = new Set([
  "autocomplete", "autofocus", "checked", "class", "colspan", "datetime", "dir", "disabled", "for", "href", "id",
  "inputmode", "lang", "max", "maxlength", "min", "name", "open", "pattern", "placeholder", "readonly", "required",
  "role", "rows", "scope", "selected", "spellcheck", "step", "tabindex", "title", "type", "value",
]);
const DRAWN = new Set(["class", "cx", "cy", "d", "height", "points", "preserveAspectRatio", "r", "role", "viewBox",
  "width", "x", "x1", "x2", "y", "y1", "y2"]);
const SVG = "http://www.w3.org/2000/svg";
const OWN_LINK = /^(#|\/(?!\/))/;
// Characters that draw nothing, or turn the direction of what stands beside them.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** An element with attributes, listeners (`onclick: …`) and children: nodes, texts, or lists of them. */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  add(element, children);
  return element;
}

/** The same for a drawing. */
export function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (!DRAWN.has(name) && !name.startsWith("aria-")) throw new Error(`No drawing has the attribute ${name}.`);
    element.setAttribute(name, String(value));
  }
  add(element, children);
  return element;
}

function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith("on") && typeof value === "function") {
    element.addEventListener(name.slice(2), value);
    return;
  }
  if (!ATTRIBUTES.has(name) && !name.startsWith("aria-") && !name.startsWith("data-")) {
    throw new Error(`The attribute ${name} is not allowed.`);
  }
  if (name === "href" && !OWN_LINK.test(value)) throw new Error("Links lead to this hub only.");
  element.setAttribute(name, value === true ? "" : String(value));
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Puts children in place of all that an element has. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Text with what cannot be seen written out, so that nobody is deceived by it. */
export function visible(text) {
  return String(text).replace(UNSEEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** What somebody else wrote: kept apart from the text around it, whatever direction it is written in. */
export function said(text, className = "") {
  return h("bdi", { class: `said ${className}`.trim() }, visible(text));
}
