// The explorer: find series, show several, keep the view in the address.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const MOST_OPTIONS = 200;
  const MOST_SERIES = 8;
  const TICKS = { circle: "●", square: "■", "triangle-up": "▲", diamond: "◆", "triangle-down": "▼", cross: "✚", star: "★", x: "✖" };

  const view = { chosen: [], y: "linear", x: "commit", interval: true, range: null, package: "", query: "" };
  const element = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };

  let index;
  try {
    index = await Data.index();
  } catch (error) {
    $("count").textContent = error.message;
    return;
  }
  const library = Data.script("static/plotly.min.js");
  const byId = new Map(index.series.map((series) => [series.id, series]));
  const several = { machine: index.machines.length > 1, env: index.envs.length > 1 };
  const shared = (texts) => {
    let n = 0;
    while (texts.every((text) => n < text.length && text[n] === texts[0][n])) n += 1;
    return n;
  };
  // Environments, and long names of machines, share most of themselves: what all begin and end with says nothing.
  const distinct = (names) => {
    const first = names.length > 1 ? names[0].slice(0, shared(names)).lastIndexOf("-") + 1 : 0;
    const rests = names.map((name) => [...name.slice(first)].reverse().join(""));
    const tail = names.length > 1 ? Math.max(0, rests[0].slice(0, shared(rests)).lastIndexOf("-") + 1) : 0;
    return new Map(names.map((name) => [name, name.slice(first, name.length - tail) || name]));
  };
  const shortEnv = distinct(index.envs.map(([name]) => name));
  const long = index.machines.some((name) => name.length > 30);
  const shortMachine = long ? distinct(index.machines) : new Map(index.machines.map((name) => [name, name]));
  const breakable = (node, text) => {
    for (const part of text.split(/(?<=[._/])(?=[^._/])/)) node.append(part, document.createElement("wbr"));
    return node;
  };
  for (const series of index.series) {
    series.label = series.params ? `${series.benchmark}(${series.params})` : series.benchmark;
    series.place = [several.machine ? Chart.shorten(shortMachine.get(series.machine), 40) : "", several.env ? Chart.shorten(shortEnv.get(series.env), 60) : ""].filter(Boolean).join(" · ");
    series.text = `${series.label} ${series.machine} ${series.env}`.toLowerCase();
  }
  // What changed last comes first, then what has the longest history.
  const newestFirst = [...index.series].sort((a, b) => b.changed - a.changed || b.n - a.n);

  // ---- packages of which several releases were measured
  const packages = new Map();
  for (const [, versions] of index.envs) {
    for (const [name, version] of Object.entries(versions)) packages.set(name, (packages.get(name) || new Set()).add(version));
  }
  const released = [...packages].filter(([, versions]) => versions.size > 1).map(([name]) => name).sort();
  released.sort((a, b) => (b === "mlx") - (a === "mlx"));
  $("by-release").hidden = released.length === 0;
  $("package").append(...released.map((name) => element("option", { value: name, textContent: name })));

  const siblings = (series) => {
    const others = (packagesOf) => JSON.stringify(Object.entries(packagesOf).filter(([name]) => name !== view.package).sort());
    const same = index.series.filter((other) => other.benchmark === series.benchmark && other.machine === series.machine
      && other.params === series.params && other.packages[view.package]);
    const exact = same.filter((other) => others(other.packages) === others(series.packages));
    const chosen = exact.length > 1 ? exact : same;
    return chosen.sort((a, b) => Chart.compareVersions(a.packages[view.package], b.packages[view.package]));
  };

  // ---- the address keeps the view
  const read = () => {
    const found = new URLSearchParams(location.hash.slice(1));
    view.chosen = (found.get("s") || "").split(",").filter((id) => byId.has(id)).slice(0, MOST_SERIES);
    view.y = ["linear", "log", "relative"].includes(found.get("y")) ? found.get("y") : "linear";
    view.x = ["commit", "time", "release"].includes(found.get("x")) ? found.get("x") : "commit";
    view.package = released.includes(found.get("p")) ? found.get("p") : released[0] || "";
    if (view.x === "release" && !released.length) view.x = "commit";
    view.interval = found.get("i") !== "0";
    view.query = found.get("q") || "";
    const range = (found.get("r") || "").split("~");
    view.range = range.length === 2 ? range.map((edge) => (view.x === "commit" ? Number(edge) : edge)) : null;
    if (view.range && view.x === "commit" && !view.range.every(Number.isFinite)) view.range = null;
  };
  const keep = () => {
    const parts = new URLSearchParams();
    if (view.chosen.length) parts.set("s", view.chosen.join(","));
    if (view.y !== "linear") parts.set("y", view.y);
    if (view.x !== "commit") parts.set("x", view.x);
    if (view.x === "release") parts.set("p", view.package);
    if (!view.interval) parts.set("i", "0");
    if (view.query) parts.set("q", view.query);
    if (view.range) parts.set("r", view.range.map((edge) => (typeof edge === "number" ? Number(edge.toFixed(2)) : edge)).join("~"));
    history.replaceState(null, "", `#${parts.toString().replaceAll("%2C", ",")}`);
  };

  // ---- the list
  let options = [];
  let active = -1;
  const list = () => {
    const words = view.query.toLowerCase().split(/\s+/).filter(Boolean);
    const found = (words.length ? index.series : newestFirst).filter(({ text }) => words.every((word) => text.includes(word)));
    options = found.slice(0, MOST_OPTIONS);
    active = -1;
    $("find").removeAttribute("aria-activedescendant");
    $("series").replaceChildren(...options.map((series, i) => {
      const node = element("li", { id: `option-${i}`, role: "option" }, breakable(element("span", { className: "name" }), Chart.shorten(series.benchmark, 90)));
      if (series.params) node.append(element("code", { textContent: Chart.shorten(series.params, 80) }));
      node.append(element("span", { className: "meta", textContent: `${series.n} ${series.n === 1 ? "value" : "values"}${series.place ? ` · ${Chart.shorten(series.place, 90)}` : ""}` }));
      node.addEventListener("click", () => toggle(series.id));
      return node;
    }));
    mark();
    const more = found.length > options.length ? `, the first ${options.length} are listed` : "";
    $("count").textContent = `${found.length.toLocaleString("en")} of ${index.series.length.toLocaleString("en")} series${more}`;
  };
  const mark = () => {
    options.forEach((series, i) => $(`option-${i}`).setAttribute("aria-selected", String(view.chosen.includes(series.id))));
  };
  const move = (to) => {
    if (!options.length) return;
    if (active >= 0) $(`option-${active}`).classList.remove("active");
    active = Math.max(0, Math.min(options.length - 1, to));
    const node = $(`option-${active}`);
    node.classList.add("active");
    node.scrollIntoView({ block: "nearest" });
    $("find").setAttribute("aria-activedescendant", node.id);
  };
  const toggle = (id) => {
    if (view.chosen.includes(id)) view.chosen = view.chosen.filter((other) => other !== id);
    else if (view.chosen.length < MOST_SERIES) view.chosen.push(id);
    else {
      $("hint").textContent = `${MOST_SERIES} series are the most that can be told apart; remove one first.`;
      return;
    }
    view.range = null;
    show();
  };
  $("find").addEventListener("input", () => { view.query = $("find").value; keep(); list(); });
  $("find").addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    if (event.key in steps) { event.preventDefault(); move(active + steps[event.key]); }
    if (event.key === "Enter" && options.length) { event.preventDefault(); toggle(options[Math.max(0, active)].id); }
    if (event.key === "Escape" && view.query) { event.preventDefault(); view.query = $("find").value = ""; keep(); list(); }
  });

  // ---- chart, chips, table
  let entries = [];
  const chips = () => {
    const colours = Chart.colours();
    $("chosen").replaceChildren(...entries.map((entry, i) => {
      const sign = element("span", { className: "sign", textContent: TICKS[Chart.SYMBOLS[i]], ariaHidden: "true" });
      sign.style.color = colours[i];
      const remove = element("button", { type: "button", textContent: "×", ariaLabel: `Remove ${entry.label}` });
      remove.addEventListener("click", () => { toggle(entry.series.id); $("find").focus(); });
      const last = entry.data.values[entry.data.values.length - 1];
      const node = element("li", {}, sign, breakable(element("span", { className: "label" }), Chart.shorten(entry.label, 110)), element("span", { className: "meta", textContent: Chart.format(last, entry.series.unit) }));
      const change = entry.series.change;
      if (entry.data.changes.length) {
        const [, size, worse, , page] = entry.data.changes.reduce((a, b) => (b[0] > a[0] ? b : a));
        node.append(element("a", { href: page, className: worse ? "worse" : "better", textContent: `${size > 0 ? "▲" : "▼"} ${Chart.amount(size)} ${worse ? "worse" : "better"}` }));
      } else if (change) node.append(element("span", { className: "meta", textContent: "no change here" }));
      node.append(remove);
      return node;
    }));
  };
  const rows = () => entries.flatMap((entry) => entry.data.commits.map((commit, i) => {
    const [name, seconds, subject] = index.commits[commit];
    return [entry.label, entry.series.machine, name, Chart.date(seconds), entry.data.values[i], entry.data.low[i], entry.data.high[i], entry.series.unit, subject];
  }));
  const table = () => {
    if (!$("values").open) return;
    const head = element("tr", {}, ...["Series", "Commit", "Date", "Value", "99 % interval"].map((name) => element("th", { scope: "col", textContent: name })));
    const all = rows().reverse();
    const body = all.slice(0, 1000).map(([label, , name, date, value, low, high, unit]) => element("tr", {}, ...[
      Chart.shorten(label, 60), name.slice(0, 10), date, Chart.format(value, unit), Number.isFinite(low) ? `${Chart.format(low, unit)} to ${Chart.format(high, unit)}` : "none",
    ].map((text) => element("td", { textContent: text }))));
    const caption = element("caption", { textContent: all.length > 1000 ? `The newest 1,000 of ${all.length} values` : `${all.length} values, newest first` });
    $("values").querySelector("div").replaceChildren(element("table", {}, caption, element("thead", {}, head), element("tbody", {}, ...body)));
  };

  let turn = 0;
  const draw = async () => {
    const mine = (turn += 1);
    const chosen = view.chosen.map((id) => byId.get(id));
    const found = await Promise.all(chosen.map(async (series) => {
      const entry = { series, label: series.place ? `${series.label} · ${series.place}` : series.label, data: await Data.values(series), siblings: [] };
      if (view.x === "release") {
        entry.siblings = await Promise.all(siblings(series).map(async (other) => ({ version: other.packages[view.package], data: await Data.values(other) })));
      }
      return entry;
    }));
    await library;
    if (mine !== turn) return;
    entries = found;
    const units = new Set(entries.map((entry) => entry.series.unit));
    const shown = { ...view, y: units.size > 1 ? "relative" : view.y };
    $("hint").textContent = units.size > 1 ? "The units differ, so all are shown relative to their first value." : "Drag to zoom, double click to see all. The address keeps the view.";
    chips();
    await Chart.draw($("chart"), shown, entries, index);
    $("chart").classList.toggle("empty", entries.length === 0);
    $("chart").dataset.drawn = view.chosen.join(",");
    table();
  };
  const show = async () => {
    document.querySelector(`[name=y][value=${view.y}]`).checked = true;
    document.querySelector(`[name=x][value=${view.x}]`).checked = true;
    $("interval").checked = view.interval;
    if (view.package) $("package").value = view.package;
    keep();
    mark();
    try {
      await draw();
    } catch (error) {
      $("hint").textContent = error.message;
    }
  };

  $("tools").addEventListener("change", (event) => {
    const form = new FormData($("tools"));
    if (event.target.name === "x" || event.target.id === "package") view.range = null;
    view.y = form.get("y");
    view.x = event.target.id === "package" ? "release" : form.get("x");
    view.package = $("package").value;
    view.interval = $("interval").checked;
    show();
  });
  $("tools").addEventListener("submit", (event) => event.preventDefault());
  $("zoom-out").addEventListener("click", () => {
    view.range = null;
    keep();
    if (globalThis.Plotly && entries.length) Plotly.relayout($("chart"), { "xaxis.autorange": true, "yaxis.autorange": true });
  });
  $("values").addEventListener("toggle", table);
  const save = (name, content) => {
    const link = element("a", { download: name, href: content });
    link.click();
  };
  for (const kind of ["svg", "png"]) {
    $(kind).addEventListener("click", async () => {
      if (entries.length) save(`series.${kind}`, await Plotly.toImage($("chart"), { format: kind, width: 1100, height: 550, scale: kind === "png" ? 2 : 1 }));
    });
  }
  $("csv").addEventListener("click", () => {
    const quote = (cell) => {
      const text = String(cell ?? "");
      return `"${(typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
    };
    const lines = [["series", "machine", "commit", "date", "value", "ci_low", "ci_high", "unit", "subject"], ...rows()];
    const address = URL.createObjectURL(new Blob([lines.map((line) => line.map(quote).join(",")).join("\r\n")], { type: "text/csv" }));
    save("series.csv", address);
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
  document.documentElement.addEventListener("themechange", () => { if (entries.length) show(); });

  read();
  $("find").value = view.query;
  list();
  if (!view.chosen.length && newestFirst.length) view.chosen = [newestFirst[0].id];
  await show();
  const attach = () => $("chart").on("plotly_relayout", (event) => {
    const [low, high] = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
    if (low !== undefined) view.range = [low, high];
    else if (event["xaxis.autorange"]) view.range = null;
    else return;
    keep();
  });
  if ($("chart").on) {
    attach();
    $("chart").on("plotly_click", ({ points }) => {
      const page = points[0].customdata;
      if (typeof page === "string") location.href = page;
    });
  }
  addEventListener("hashchange", () => { read(); $("find").value = view.query; list(); show(); });
  document.body.dataset.ready = "yes";
})();
