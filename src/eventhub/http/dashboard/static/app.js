// The dashboard's frame: who is signed in, which page is shown, the theme, and whether the news come in.

import { fill } from "./dom.js";
import { call, get, Problem } from "./api.js";
import { live } from "./live.js";
import { heading, inUse, mark, tell, trouble } from "./parts.js";
import { compact, refreshTimes } from "./format.js";
import { know, mayAct, mayLook } from "./may.js";
import { find } from "./routes.js";
import { showSignIn } from "./sign-in.js";

const main = document.getElementById("main");
const menu = document.getElementById("menu");
const nav = document.getElementById("nav");
const liveState = document.getElementById("live-state");
const signOut = document.getElementById("sign-out");
const themeButton = document.getElementById("theme");
const START_AGAIN = 5000;

let leaving = new AbortController();
let session = null;
let first = true;
let again = 0;

/** Shows the page that the address means; what belonged to the page before ends with its signal. */
async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  closeMenu();
  if (!session) return;
  const route = find(location.hash);
  for (const link of nav.querySelectorAll("a[data-page]")) {
    if (link.dataset.page === route.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const page = await route.module().catch(() => null);
  if (signal.aborted) return;
  if (!page) { // when the hub answers again, the page is shown by itself
    const error = new Problem(0, { detail: "The hub does not answer, and this page was not fetched before." });
    fill(main, heading("Not to be had now"), trouble(error, show));
    return;
  }
  const root = document.createElement("div");
  root.className = `page page-${route.name}`;
  fill(main, root);
  scrollTo(0, 0);
  page.show(root, { id: route.id, query: route.query, signal, session });
  const title = root.querySelector("h1");
  document.title = title ? `${title.textContent} – Event Hub` : "Event Hub";
  if (!first) title?.focus({ preventScroll: true });
  first = false;
}

async function start() {
  clearTimeout(again);
  try {
    session = await get("/session");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) askForKey();
    else {
      fill(main, trouble(error, start));
      again = setTimeout(start, START_AGAIN);
    }
    return;
  }
  know(session);
  document.body.classList.remove("signed-out");
  document.getElementById("who").textContent = session.keyless
    ? `No keys yet · ${session.version}` : `${session.name}${mayAct() ? "" : ", may only look"} · ${session.version}`;
  signOut.hidden = Boolean(session.keyless);
  if (mayLook()) {
    live.open();
    await show();
  } else {
    session = null;
    document.body.classList.add("signed-out");
    showSignIn(main, start, "This key may not look at the hub: it lacks the scope read. Sign in with another.");
  }
}

function askForKey() {
  session = null;
  leaving.abort();
  live.close();
  document.body.classList.add("signed-out");
  signOut.hidden = true;
  document.title = "Sign in – Event Hub";
  showSignIn(main, start);
}

function tellLive() {
  const words = { open: ["ok", "Live"], cut: ["warn", "Connecting …"], closed: ["idle", ""] }[live.state];
  fill(liveState, words[1] && mark(words[0]), words[1]);
  const banner = document.getElementById("cut");
  if (live.state === "open" && !banner.hidden) catchUp();
  banner.hidden = live.state !== "cut";
  // The browser does not say why a stream was refused: perhaps the session has ended.
  if (live.state === "cut" && session) get("/session").catch((error) => error.status === 401 && askForKey());
}

/** What was missed while the stream was cut is read again, unless somebody is writing or reading just there. */
function catchUp() {
  const writing = main.querySelector("form.form") || document.querySelector("dialog") || inUse(main);
  if (main.querySelector(".trouble") || !writing) show();
}

function closeMenu() {
  nav.classList.remove("open");
  menu.setAttribute("aria-expanded", "false");
}

function nameTheme() {
  const chosen = document.documentElement.dataset.theme;
  themeButton.textContent = `Theme: ${chosen ?? "system"}`;
}

/** System, then light, then dark, and round again. */
function nextTheme() {
  const root = document.documentElement;
  const next = { undefined: "light", light: "dark", dark: undefined }[root.dataset.theme];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  try {
    if (next) localStorage.setItem("eventhub-theme", next);
    else localStorage.removeItem("eventhub-theme");
  } catch {
    // Storage may be forbidden; then the choice lasts as long as the page.
  }
  nameTheme();
}

menu.addEventListener("click", () => {
  const open = nav.classList.toggle("open");
  menu.setAttribute("aria-expanded", String(open));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && nav.classList.contains("open")) {
    closeMenu();
    menu.focus();
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the page's
  main.focus();
});
themeButton.addEventListener("click", nextTheme);
signOut.addEventListener("click", async () => {
  await call("DELETE", "/session").catch((error) => tell(error.message, "bad"));
  askForKey();
});
document.addEventListener("signed-out", () => session && askForKey());
live.addEventListener("state", tellLive);
live.addEventListener("overview", ({ detail }) => {
  document.getElementById("dead-count").textContent = detail.dead_letters ? compact(detail.dead_letters) : "";
});
addEventListener("hashchange", show);
setInterval(refreshTimes, 5000);
nameTheme();
start();
