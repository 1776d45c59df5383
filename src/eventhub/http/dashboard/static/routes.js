// Which page an address such as #/events/12?logs=1 means.

const PAGES = [
  [/^\/$/, "overview", () => import("./page-overview.js")],
  [/^\/events$/, "events", () => import("./page-events.js")],
  [/^\/events\/(\d+)$/, "events", () => import("./page-event.js")],
  [/^\/subscribers$/, "subscribers", () => import("./page-subscribers.js")],
  [/^\/subscribers\/new$/, "subscribers", () => import("./page-subscriber-form.js")],
  [/^\/subscribers\/(\d+)$/, "subscribers", () => import("./page-subscriber.js")],
  [/^\/subscribers\/(\d+)\/edit$/, "subscribers", () => import("./page-subscriber-form.js")],
  [/^\/dead$/, "dead", () => import("./page-dead.js")],
  [/^\/dead\/(\d+)$/, "dead", () => import("./page-dead-letter.js")],
  [/^\/workers$/, "workers", () => import("./page-workers.js")],
  [/^\/history$/, "history", () => import("./page-history.js")],
];

/** The page's name and module, the id in the path, and the query. */
export function find(hash) {
  const [path, query] = hash.replace(/^#/, "").split("?", 2);
  const wanted = path === "" ? "/" : path;
  for (const [pattern, name, module] of PAGES) {
    const match = pattern.exec(wanted);
    if (match) return { name, module, id: match[1], query: new URLSearchParams(query) };
  }
  return { name: "", module: () => import("./page-missing.js"), query: new URLSearchParams(query) };
}

/** An address with what is given of a query. */
export function link(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `#${path}?${new URLSearchParams(given)}` : `#${path}`;
}
