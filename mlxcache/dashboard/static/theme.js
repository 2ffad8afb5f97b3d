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
    // On a phone the pages hide behind a button; without a script they are all there.
    const menu = document.getElementById("menu");
    const pages = document.getElementById("pages");
    const narrow = matchMedia("(max-width: 760px)");
    const fold = () => {
      menu.hidden = !narrow.matches;
      pages.hidden = narrow.matches && menu.getAttribute("aria-expanded") !== "true";
    };
    menu.addEventListener("click", () => {
      menu.setAttribute("aria-expanded", String(menu.getAttribute("aria-expanded") !== "true"));
      fold();
    });
    narrow.addEventListener("change", fold);
    fold();
    document.getElementById("theme").addEventListener("click", () => {
      try { localStorage.setItem("mlxcache-theme", root.dataset.theme === "dark" ? "light" : "dark"); } catch { return; }
      apply();
    });
  });
})();
