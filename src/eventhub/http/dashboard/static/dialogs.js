// Questions before something happens that cannot be taken back, and secrets that are shown once.

import { h, fill } from "./dom.js";
import { button, copyable, mark } from "./parts.js";
import { Problem } from "./api.js";

const place = document.getElementById("dialogs");

function open(title, content) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, heading, content);
  place.append(dialog);
  dialog.showModal(); // the browser gives the focus back to where it was when it closes, if that is still there
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (document.activeElement === document.body) document.querySelector("main h1")?.focus({ preventScroll: true });
  });
  return dialog;
}

/**
 * Asks; `work` is done on yes, and the dialog stays with the reason while the hub refuses.
 * Gives what the work gave, or null when it was not wanted.
 */
export function ask({ title, words, yes, kind = "primary", fields, work }) {
  return new Promise((decided) => {
    let result = null;
    const status = h("p", { class: "dialog-status", role: "alert" });
    const go = h("button", { class: kind, type: "submit" }, yes);
    const form = h("form", { method: undefined, onsubmit: async (event) => {
      event.preventDefault();
      if (go.hasAttribute("aria-busy")) return;
      go.setAttribute("aria-busy", "true");
      fill(status);
      try {
        result = (await work(form)) ?? true;
        dialog.close();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        fill(status, mark("bad"), error.message);
      } finally {
        go.removeAttribute("aria-busy");
      }
    } },
    words && h("div", { class: "dialog-words" }, words), fields, status,
    h("div", { class: "dialog-actions" }, button("Cancel", () => dialog.close()), go));
    const dialog = open(title, form);
    dialog.addEventListener("close", () => decided(result));
  });
}

/** A secret that will not be shown again. */
export function showSecret(title, secret) {
  return new Promise((seen) => {
    const dialog = open(title, h("div", {},
      h("p", {}, "It signs this subscriber's messages. Keep it now: it is never shown again."),
      copyable(secret),
      h("div", { class: "dialog-actions" }, button("I have kept it", () => dialog.close(), { kind: "primary" }))));
    dialog.addEventListener("close", () => seen());
  });
}
