// An address that means nothing.

import { h, fill } from "./dom.js";
import { heading } from "./parts.js";

export function show(root) {
  fill(root, heading("There is no such page"),
    h("p", {}, "The address may be misspelt. ", h("a", { href: "#/" }, "Go to the overview"), "."));
}
