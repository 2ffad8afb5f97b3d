// The list of changes, sorted and filtered, fifty at a time; without a script the page has them in the order of kinds.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const { element } = Data;
  const A_PAGE = 50;
  let data;
  try {
    data = await Data.load("changes");
  } catch (error) {
    $("found").textContent = error.message;
    return;
  }
  const rows = data.rows.map(([page, benchmark, word, worse, size, section, state, sure, amount, course, at, machines, params, n]) => {
    const [hash, date, subject] = data.commits[at];
    const names = machines.map((i) => data.machines[i]);
    return { page, benchmark, word, worse, size, section, state, sure, amount, course, at, machines, params, n, hash, date, subject, names,
      text: `${benchmark} ${params} ${hash} ${subject} ${names.join(" ")}`.toLowerCase() };
  });
  const option = (value, textContent) => element("option", { value, textContent });
  $("kind").append(option("", "all"), ...data.sections.map((name, i) => option(String(i), name)));
  $("machine").append(option("", "all"), ...data.machines.map((name, i) => option(String(i), Data.shorten(name, 40))));
  const view = { q: "", kind: "", machine: "", sort: "date", page: 0 };
  const read = () => {
    const found = new URLSearchParams(location.hash.slice(1));
    view.q = found.get("q") || "";
    view.kind = data.sections[Number(found.get("kind"))] && found.has("kind") ? found.get("kind") : "";
    view.machine = found.has("machine") ? String(Math.max(-1, data.machines.indexOf(found.get("machine")))) : "";
    if (view.machine === "-1") view.machine = "";
    view.sort = ["date", "size", "sure", "name"].includes(found.get("sort")) ? found.get("sort") : "date";
    view.page = Math.max(0, Number.parseInt(found.get("page") || "1", 10) - 1 || 0);
    $("filter").value = view.q; $("kind").value = view.kind; $("machine").value = view.machine; $("sort").value = view.sort;
  };
  const keep = () => {
    const parts = new URLSearchParams();
    if (view.q) parts.set("q", view.q);
    if (view.kind) parts.set("kind", view.kind);
    if (view.machine) parts.set("machine", data.machines[Number(view.machine)]);
    if (view.sort !== "date") parts.set("sort", view.sort);
    if (view.page) parts.set("page", view.page + 1);
    history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname);
  };
  const factor = ({ size }) => (size === null ? 0 : Math.abs(Math.log1p(Math.max(size, -0.999999))));
  const orders = {
    date: (a, b) => a.section - b.section || b.at - a.at || factor(b) - factor(a), size: (a, b) => factor(b) - factor(a),
    sure: (a, b) => b.sure - a.sure || factor(b) - factor(a), name: (a, b) => a.benchmark.localeCompare(b.benchmark) || b.at - a.at,
  };
  const line = (row) => {
    const kind = row.worse ? "worse" : "better";
    const more = row.machines.length > 1 ? ` and ${row.machines.length - 1} more` : "";
    return element("li", { className: "change flat" },
      element("div", { className: "what" },
        element("a", { className: "name", href: row.page, textContent: Data.shorten(row.benchmark, 110) }),
        element("p", { className: "meta" }, element("span", { className: `badge ${row.state}`, textContent: row.state }),
          ` ${data.sections[row.section]} · since `, element("span", { className: "hash", textContent: row.hash.slice(0, 8), title: row.subject }), ` ${row.date} · `,
          row.params ? `${row.params} · ` : "", `${Data.shorten(row.names[0] || "", 40)}${more}`, row.n > 1 ? ` · ${row.n} series` : "")),
      element("div", { className: "much" }, element("span", { className: `amount ${kind}`, textContent: row.amount }),
        element("span", { className: "word", textContent: row.word }), element("span", { className: "values", textContent: row.course })));
  };
  const show = () => {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const own = rows.filter((row) => words.every((word) => row.text.includes(word)) && (view.kind === "" || row.section === Number(view.kind))
      && (view.machine === "" || row.machines.includes(Number(view.machine)))).sort(orders[view.sort]);
    view.page = Math.min(view.page, Math.max(0, Math.ceil(own.length / A_PAGE) - 1));
    const first = view.page * A_PAGE;
    const plain = !words.length && view.kind === "" && view.machine === "" && view.sort === "date" && view.page === 0;
    $("written").hidden = !plain;
    $("listed").hidden = plain;
    $("listed").replaceChildren(...(plain ? [] : [element("ol", { className: "flat" }, ...own.slice(first, first + A_PAGE).map(line))]));
    const last = Math.min(own.length, first + A_PAGE);
    $("found").textContent = plain ? "" : own.length ? `${first + 1} to ${last} of ${own.length.toLocaleString("en")}` : "nothing is like that";
    $("pager").hidden = plain || own.length <= A_PAGE;
    $("back").disabled = view.page === 0;
    $("next").disabled = last >= own.length;
  };
  const change = () => {
    Object.assign(view, { q: $("filter").value, kind: $("kind").value, machine: $("machine").value, sort: $("sort").value, page: 0 });
    keep();
    show();
  };
  $("tools").addEventListener("input", change);
  $("tools").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, step] of [["back", -1], ["next", 1]]) {
    $(id).addEventListener("click", () => { view.page += step; keep(); show(); $("found").scrollIntoView({ block: "nearest" }); });
  }
  $("tools").hidden = rows.length === 0;
  // An address that names a section of the written list is left to the browser.
  if (location.hash.includes("=")) { read(); show(); } else { $("sort").value = "date"; }
  document.body.dataset.ready = "yes";
})();
