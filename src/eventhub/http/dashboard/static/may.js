// What the key of this session may do. The hub decides; here people are only spared buttons that it would refuse.

let scopes = new Set();

/** Takes over the scopes of a session. A narrowed read is none here: the pages tell of everything. */
export function know(session) {
  scopes = new Set(session.scopes);
}

const has = (scope) => scopes.has(scope) || scopes.has("admin");

export const mayLook = () => has("read");
export const mayAct = () => has("admin");
