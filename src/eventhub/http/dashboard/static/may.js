// What the key of this session may do. The hub decides; here people are only spared buttons that it would refuse.

let scopes = new Set();

/** Takes over the scopes of a session; those that are narrowed count as the scope that they are a part of. */
export function know(session) {
  scopes = new Set(session.scopes.map((scope) => scope.split(":")[0]));
}

const has = (scope) => scopes.has(scope) || scopes.has("admin");

export const mayLook = () => has("read");
export const mayAct = () => has("admin");
