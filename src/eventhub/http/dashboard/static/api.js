// Talks to the hub: the same JSON routes that every program uses.

const BEYOND = /^-?\d+$/;

/** What the hub says when it refuses. */
export class Problem extends Error {
  constructor(status, document) {
    super(document?.detail || `The hub answered with status ${status}.`);
    this.status = status;
    this.pointer = document?.pointer ?? null;
    this.kind = String(document?.type ?? "").split(":").pop();
  }
}

/** A path whose parts are encoded: at`/events/${id}`. */
export function at(parts, ...values) {
  return parts.reduce((path, part, place) => path + encodeURIComponent(values[place - 1]) + part);
}

/** Whole numbers that JavaScript would round are kept as they were written, where the browser can. */
function exact(_key, value, context) {
  const rounded = typeof value === "number" && !Number.isSafeInteger(value) && BEYOND.test(context?.source ?? "");
  return rounded && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}

function address(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** The answer's document; a Problem is thrown when the hub refuses, or cannot be reached. */
export async function call(method, path, { query, body, headers, signal } = {}) {
  const request = { method, signal, headers: { accept: "application/json", ...headers }, credentials: "same-origin" };
  if (body !== undefined) {
    request.body = typeof body === "string" ? body : JSON.stringify(body);
    request.headers["content-type"] = "application/json";
  }
  let answer;
  let text;
  try {
    answer = await fetch(address(path, query), request);
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, { detail: "The hub does not answer. Is it running, and can this machine reach it?" });
  }
  let read = null;
  try {
    read = text ? JSON.parse(text, exact) : null;
  } catch {
    throw new Problem(answer.status, { detail: `The hub answered with status ${answer.status} and no JSON.` });
  }
  if (answer.ok) return read;
  if (answer.status === 401 && path !== "/session") document.dispatchEvent(new Event("signed-out"));
  throw new Problem(answer.status, read);
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body, options) => call("POST", path, { body, ...options });
