// Sets the theme before anything is painted: the user's choice if there is one, else that of the system.
"use strict";

(() => {
  const root = document.documentElement;
  let chosen = null;
  try {
    chosen = localStorage.getItem("eventhub-theme");
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
})();
