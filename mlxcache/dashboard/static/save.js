// Saves a drawing of the page as a file of its own: its styles are written into it, so that it looks the same elsewhere.
"use strict";
(() => {
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "fill-opacity", "stroke-opacity", "font-size", "font-family", "font-weight", "text-anchor"];
  const standalone = (drawing) => {
    const copy = drawing.cloneNode(true);
    const [from, to] = [[drawing, ...drawing.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
    from.forEach((node, i) => {
      const style = getComputedStyle(node);
      to[i].setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
      to[i].removeAttribute("class");
      if (to[i].localName === "a") to[i].removeAttribute("href");
    });
    const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
    const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ width, height, fill: getComputedStyle(document.body).backgroundColor })) paper.setAttribute(name, value);
    copy.prepend(paper);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return [new XMLSerializer().serializeToString(copy), width, height];
  };
  const save = (name, address) => Object.assign(document.createElement("a"), { download: name, href: address }).click();
  for (const row of document.querySelectorAll(".save")) {
    const drawing = row.parentElement.querySelector("svg");
    const title = row.previousElementSibling.getAttribute("aria-label");
    const name = title.replace(/[^A-Za-z0-9.]+/g, "-").slice(0, 80);
    row.hidden = false;
    for (const kind of ["svg", "png"]) {
      const button = Object.assign(document.createElement("button"), { type: "button" });
      button.dataset.save = kind;
      button.append(kind.toUpperCase(), Object.assign(document.createElement("span"), { className: "unseen", textContent: ` of ${title}` }));
      row.append(button, " ");
      button.addEventListener("click", () => {
        const [text, width, height] = standalone(drawing);
        const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
        if (kind === "svg") return save(`${name}.svg`, address);
        const image = new Image();
        image.onload = () => {
          const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
          canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
          save(`${name}.png`, canvas.toDataURL("image/png"));
          row.dataset.saved = "png";
        };
        image.src = address;
        return undefined;
      });
    }
  }
})();
