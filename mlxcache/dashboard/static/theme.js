// Light or dark: what the system says, until the button says otherwise.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = () => {
    try { return localStorage.getItem("mlxcache-theme"); } catch { return null; }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const dark = (stored() || (system.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      button.hidden = false;
      button.textContent = dark ? "Light" : "Dark";
      button.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
    }
    root.dispatchEvent(new CustomEvent("themechange"));
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    apply();
    // On a phone the pages are a row to swipe: the one that is open has to be in sight.
    const here = document.querySelector("nav [aria-current]");
    if (here) here.closest("ul").scrollLeft = here.offsetLeft - here.closest("ul").offsetLeft - 60;
    document.getElementById("theme").addEventListener("click", () => {
      try { localStorage.setItem("mlxcache-theme", root.dataset.theme === "dark" ? "light" : "dark"); } catch { return; }
      apply();
    });
  });
})();
