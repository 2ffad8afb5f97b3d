// Hides list entries that lack one of the typed words.
"use strict";
(() => {
  const input = document.getElementById("filter");
  const entries = [...document.querySelectorAll(input.dataset.list)].map((node) => [node, (node.dataset.text || "").toLowerCase()]);
  const found = document.getElementById("found");
  input.closest("[hidden]")?.removeAttribute("hidden");
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const [node, text] of entries) {
      node.hidden = !words.every((word) => text.includes(word));
      n += node.hidden ? 0 : 1;
    }
    found.textContent = words.length ? `${n} of ${entries.length}` : "";
  };
  input.addEventListener("input", apply);
  apply();
})();
