// Copies the text of an element to the clipboard.
"use strict";
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    const said = document.getElementById("copied");
    try {
      await navigator.clipboard.writeText(source.value);
      said.textContent = "Copied.";
    } catch {
      source.focus();
      source.select();
      said.textContent = "Press Ctrl+C or Cmd+C to copy the marked text.";
    }
  });
}
