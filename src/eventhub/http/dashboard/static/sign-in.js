// Asks for an API key and changes it for a session; the key itself is kept nowhere.

import { h, fill } from "./dom.js";
import { post, Problem } from "./api.js";
import { mark } from "./parts.js";

/** `words` say why a key that is good is not enough. */
export function showSignIn(main, signedIn, words = "") {
  const status = h("p", { class: "dialog-status", id: "sign-in-status", role: "alert" }, words && [mark("bad"), words]);
  const key = h("input", { id: "key", name: "key", type: "password", autocomplete: "current-password", required: true,
    spellcheck: "false", "aria-describedby": "sign-in-status", placeholder: "eh_…" });
  const go = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    fill(status);
    try {
      await post("/session", { key: key.value.trim() });
      await signedIn();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(status, mark("bad"), error.status === 401 ? "This key is not known here, or it has expired." : error.message);
      key.setAttribute("aria-invalid", "true");
      key.focus();
    } finally {
      go.disabled = false;
    }
  } },
  h("label", { for: "key" }, "API key"), key, status, go);
  fill(main, h("div", { class: "sign-in" },
    h("h1", { tabindex: "-1" }, "Sign in"),
    h("p", { class: "soft" }, "This hub asks for a key. The session lasts twelve hours and ends with the key."),
    form,
    h("p", { class: "soft" }, "No key at hand? On the hub's machine: ",
      h("code", {}, "eventhub keys create me --scopes admin"))));
  key.focus();
}
