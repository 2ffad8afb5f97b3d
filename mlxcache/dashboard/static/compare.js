// Two places side by side: commits, machines or environments, from the packed values of the series that both have.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const { element } = Data;
  const A_PAGE = 100;
  const Z = 2.576; // 99 %, both sides

  $("compare").hidden = false;
  let index;
  try {
    index = await Data.index();
  } catch (error) {
    $("said").textContent = error.message;
    return;
  }
  const hashes = index.commits.map(([name]) => name);
  const find = (text) => hashes.findIndex((name) => name === text || (/^[0-9a-f]{6,}$/i.test(text) && name.startsWith(text.toLowerCase())));
  const places = new Map(); // machine -> environment -> series
  for (const series of index.series) {
    if (!places.has(series.machine)) places.set(series.machine, new Map());
    const envs = places.get(series.machine);
    if (!envs.has(series.env)) envs.set(series.env, []);
    envs.get(series.env).push(series);
  }
  const commitsOf = new Map(index.measured.map(([machine, env, counts]) => [`${machine}\0${env}`, counts]));
  const countsAt = (side) => commitsOf.get(`${side.machine}\0${side.env}`) || new Map();

  const ownWidth = (value, low, high) => (low > 0 && high > 0 ? Math.max(Math.log(high / value), Math.log(value / low), 0) : 0);

  // ---- the view
  const view = { a: {}, b: {}, by: "module", q: "", only: false, sort: "change", down: true, n: A_PAGE };
  let told = [];
  const shortest = (name, own) => [...own].find((other) => index.machines.get(other) === name || index.envs.get(other) === name);
  const biggest = (entries) => [...entries].reduce((best, one) => (one[1] > best[1] ? one : best), [undefined, -1])[0];
  const settle = (side, asked, other) => {
    const { machine, env, commit } = asked;
    const machines = [...places.keys()];
    const sizes = machines.map((own) => [own, [...places.get(own).values()].reduce((n, rows) => n + rows.length * rows.reduce((a, { n: k }) => Math.max(a, k), 0), 0)]);
    side.machine = places.has(machine) ? machine : shortest(machine, machines);
    if (!side.machine) {
      if (machine) told.push(`Machine “${Data.shorten(machine, 60)}” is not here; ${machines.length === 1 ? "there is" : "there are"} ${machines.map((own) => index.machines.get(own)).slice(0, 8).join(", ")}.`);
      const wanted = commit && find(commit) >= 0 ? sizes.filter(([own]) => [...places.get(own).keys()].some((e) => commitsOf.get(`${own}\0${e}`).has(find(commit)))) : sizes;
      side.machine = other.machine || biggest(wanted.length ? wanted : sizes);
    }
    const envs = [...places.get(side.machine).keys()];
    side.env = envs.includes(env) ? env : shortest(env, envs);
    if (!side.env) {
      if (env) told.push(`Environment “${Data.shorten(env, 80)}” is not on ${index.machines.get(side.machine)}; there is ${envs.map((own) => index.envs.get(own)).slice(0, 8).join("; ")}.`);
      const at = commit ? find(commit) : -1;
      const ranked = envs.map((own) => [own, (at >= 0 && commitsOf.get(`${side.machine}\0${own}`).has(at) ? 1e9 : 0) + places.get(side.machine).get(own).reduce((n, s) => n + s.n, 0)]);
      side.env = (envs.includes(other.env) && (at < 0 || countsAt({ machine: side.machine, env: other.env }).has(at)) && other.env) || biggest(ranked);
    }
    const have = [...countsAt(side).keys()].sort((x, y) => x - y);
    side.commit = commit ? find(commit) : -1;
    if (commit && side.commit < 0) told.push(`Commit “${Data.shorten(commit, 44)}” is not here.`);
    if (side.commit >= 0 && !have.includes(side.commit)) {
      const near = have.reduce((best, own) => (Math.abs(own - side.commit) < Math.abs(best - side.commit) ? own : best), have[0]);
      told.push(`${hashes[side.commit].slice(0, 8)} was not measured on ${index.machines.get(side.machine)}, ${index.envs.get(side.env)}; the nearest that was, ${hashes[near].slice(0, 8)}, is shown.`);
      side.commit = near;
    }
    // The newest that was measured in most of its breadth: a run of a part of the suite compares little.
    const most = Math.max(...countsAt(side).values());
    if (side.commit < 0) side.commit = side === view.b || have.length < 2 ? have.filter((own) => countsAt(side).get(own) > most / 2).pop() : -1;
  };
  const read = () => {
    const found = new URLSearchParams(location.hash.slice(1));
    told = [];
    view.a = {}; view.b = {};
    settle(view.b, { machine: found.get("bm") || found.get("m"), env: found.get("be") || found.get("e"), commit: found.get("b") }, {});
    settle(view.a, { machine: found.get("am") || found.get("m"), env: found.get("ae") || found.get("e"), commit: found.get("a") }, view.b);
    if (view.a.commit < 0) {
      // The one before that has most in common with the head.
      const own = countsAt(view.a);
      const before = [...own.keys()].filter((commit) => commit < view.b.commit).sort((x, y) => y - x);
      const most = Math.max(...before.map((commit) => own.get(commit)), 0);
      view.a.commit = before.find((commit) => own.get(commit) > most / 2) ?? [...own.keys()][0];
    }
    view.by = found.get("by") || "module";
    view.q = found.get("q") || "";
    view.only = found.get("only") === "1";
    view.sort = ["name", "base", "head", "change", "verdict"].includes(found.get("sort")) ? found.get("sort") : "change";
    view.down = found.get("up") !== "1";
    view.n = A_PAGE;
    $("filter").value = view.q;
    $("only").checked = view.only;
  };
  const keep = () => {
    const parts = new URLSearchParams();
    parts.set("a", hashes[view.a.commit]); parts.set("b", hashes[view.b.commit]);
    parts.set("am", view.a.machine); parts.set("ae", view.a.env);
    parts.set("bm", view.b.machine); parts.set("be", view.b.env);
    if (view.by !== "module") parts.set("by", view.by);
    if (view.q) parts.set("q", view.q);
    if (view.only) parts.set("only", "1");
    if (view.sort !== "change") parts.set("sort", view.sort);
    if (!view.down) parts.set("up", "1");
    history.replaceState(null, "", `#${parts}`);
  };
  const pickers = () => {
    for (const [letter, side] of [["a", view.a], ["b", view.b]]) {
      const fill = (node, options, chosen) => { node.replaceChildren(...options.map(([value, textContent]) => element("option", { value, textContent }))); node.value = chosen; };
      fill($(`${letter}m`), [...places.keys()].map((name) => [name, Data.shorten(index.machines.get(name), 60)]), side.machine);
      fill($(`${letter}e`), [...places.get(side.machine).keys()].map((name) => [name, Data.shorten(index.envs.get(name), 80)]), side.env);
      const tags = new Map(index.tags);
      const counts = countsAt(side);
      fill($(letter), [...counts.keys()].sort((x, y) => y - x).map((commit) => {
        const [name, seconds, subject] = index.commits[commit];
        return [String(commit), `${tags.has(commit) ? `${tags.get(commit)} ` : ""}${name.slice(0, 8)} ${Data.date(seconds)} ${Data.shorten(subject || "", 50)} (${counts.get(commit)})`];
      }), String(side.commit));
    }
  };

  // ---- the comparison
  let rows = [];
  let begun = 0; // comparisons: one that still loads gives way to a newer one
  const pairs = () => {
    const key = (series) => `${series.benchmark}\0${JSON.stringify(series.params)}`;
    const heads = new Map((places.get(view.b.machine)?.get(view.b.env) || []).map((series) => [key(series), series]));
    const found = [];
    for (const base of places.get(view.a.machine)?.get(view.a.env) || []) {
      const head = heads.get(key(base));
      if (head && head.unit === base.unit) found.push([base, head]);
    }
    return found;
  };
  const load = async (both, number) => {
    const files = [...new Set(both.flat().map(({ file }) => file))];
    let n = 0;
    await Promise.all(files.map(async (file) => {
      await Data.script(file);
      n += 1;
      if (number === begun) $("said").textContent = n < files.length ? `Loading the values: ${n} of ${files.length} files` : "";
    }));
  };
  const compare = (both) => {
    rows = [];
    for (const [base, head] of both) {
      const [from, to] = [Data.at(base, view.a.commit), Data.at(head, view.b.commit)];
      if (!from || !to) continue;
      const [old, now] = [from[0], to[0]];
      const ratio = old > 0 && now > 0 ? now / old : NaN;
      const own = Math.hypot(ownWidth(...from), ownWidth(...to));
      const width = Math.max(own, Z * Math.hypot(base.spread, head.spread));
      const [low, high] = [ratio * Math.exp(-width), ratio * Math.exp(width)];
      const verdict = !Number.isFinite(ratio) ? "no ratio" : !Number.isFinite(width) ? "not judged" : low > 1 || high < 1 ? ((ratio > 1) === base.higher ? "better" : "worse") : "no difference seen";
      const params = base.params.map(([name, value]) => `${name}=${value}`).join(" ");
      rows.push({ series: head, base: old, head: now, ratio, low, high, verdict, params, text: `${base.benchmark} ${params}`.toLowerCase(), unit: base.unit });
    }
  };
  const mean = (own) => { const logs = own.map(({ ratio }) => Math.log(ratio)).filter(Number.isFinite); return logs.length ? Math.exp(logs.reduce((a, b) => a + b, 0) / logs.length) : NaN; };
  const count = (own, verdict) => own.filter((row) => row.verdict === verdict).length;
  const factor = (ratio) => (Number.isFinite(ratio) ? `×${ratio < 10 ? ratio.toFixed(3) : Number(ratio.toPrecision(4)).toLocaleString("en")}` : "n/a");
  const table = (node, caption, titles, body) => node.replaceChildren(
    element("caption", { className: "unseen", textContent: caption }),
    element("thead", {}, element("tr", {}, ...titles)), element("tbody", {}, ...body));
  const th = (text, number) => element("th", { scope: "col", textContent: text, className: number ? "number" : "" });
  const td = (text, className = "", title = "") => element("td", { textContent: text, className, title });

  const groups = () => {
    const names = ["module", "benchmark", ...new Set(rows.flatMap(({ series }) => series.params.map(([name]) => name)))];
    if (!names.includes(view.by)) view.by = "module";
    $("by").replaceChildren(...names.map((name) => element("option", { value: name, textContent: name })));
    $("by").value = view.by;
    const found = new Map();
    for (const row of rows) {
      const key = view.by === "module" ? row.series.benchmark.split(".")[0] : view.by === "benchmark" ? row.series.benchmark : row.series.params.find(([name]) => name === view.by)?.[1];
      if (key === undefined) continue;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(row);
    }
    const entries = [["all", rows], ...[...found].sort((a, b) => Data.compareVersions(a[0], b[0]))].slice(0, 80);
    table($("means"), "Geometric means of head over base", [th(view.by), th("mean", true), th("series", true), th("worse", true), th("better", true)], entries.map(([name, own]) => element("tr", {},
      element("th", { scope: "row", textContent: Data.shorten(name, 50), title: name }), td(factor(mean(own)), "number"), td(String(own.length), "number"), td(String(count(own, "worse")), count(own, "worse") ? "worse number" : "number"), td(String(count(own, "better")), count(own, "better") ? "better number" : "number"))));
  };

  const scatter = () => {
    const own = rows.filter(({ ratio, base }) => Number.isFinite(ratio) && base > 0);
    if (!own.length) { $("scatter").replaceChildren(); return; }
    const [W, H, L, B] = [560, 330, 58, 36];
    const same = own.filter(({ unit }) => unit === "seconds").length > own.length / 2 ? own.filter(({ unit }) => unit === "seconds") : own;
    const unit = same.every((row) => row.unit === same[0].unit) ? same[0].unit : "";
    const xs = same.map(({ base }) => Math.log(base));
    // What is far beyond the others lies on the edge, so that it does not flatten them.
    const sizes = same.map(({ ratio }) => Math.abs(Math.log(ratio))).sort((p, q) => p - q);
    const most = Math.max(0.1, Math.min(sizes[sizes.length - 1], 2.5 * sizes[Math.floor(0.95 * (sizes.length - 1))])) * 1.05;
    const [low, high] = [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))];
    const x = (value) => L + 10 + ((Math.log(value) - low) / ((high - low) || 1)) * (W - L - 24);
    const y = (ratio) => (H - B) / 2 - Math.max(-1, Math.min(1, Math.log(ratio) / most)) * ((H - B) / 2 - 8);
    const node = (tag, attributes, ...children) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      made.append(...children);
      return made;
    };
    const svg = node("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-label": `${same.length} series: head over base against base` });
    const steps = [1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 1000].filter((factor) => Math.log(factor) < most && Math.log(factor) > most / 6).filter((_, i, own) => (own.length - 1 - i) % 2 === 0);
    for (const ratio of [1, ...steps.flatMap((factor) => [factor, 1 / factor])]) {
      svg.append(node("path", { class: ratio === 1 ? "reference" : "grid", d: `M${L} ${y(ratio).toFixed(1)}H${W - 8}` }), node("text", { class: "tick", x: L - 6, y: y(ratio) + 4, "text-anchor": "end" }, `×${Number(ratio.toPrecision(2))}`));
    }
    for (let i = 0; i <= 3; i += 1) {
      const value = Math.exp(low + ((high - low) * i) / 3);
      svg.append(node("text", { class: "tick", x: x(value), y: H - 12, "text-anchor": i === 3 ? "end" : i ? "middle" : "start" }, Data.format(Number(value.toPrecision(2)), unit)));
    }
    for (const row of same.slice(0, 4000)) {
      const sure = row.verdict === "worse" || row.verdict === "better";
      const mark = row.ratio > 1 ? "M0-4.500 4 3.500H-4Z" : "M0 4.500 4-3.500H-4Z";
      svg.append(node("g", { transform: `translate(${x(row.base).toFixed(1)} ${y(row.ratio).toFixed(1)})`, class: `dot ${sure ? row.verdict : "same"}` }, sure ? node("path", { d: mark }) : node("circle", { r: 2.4 }), node("title", {}, `${row.series.benchmark} ${row.params}: ${factor(row.ratio)}, ${row.verdict}`)));
    }
    $("scatter").replaceChildren(svg);
  };

  const ORDER = { worse: 0, better: 1, "no difference seen": 2, "not judged": 3, "no ratio": 4 };
  const sorts = {
    name: (a, b) => a.series.benchmark.localeCompare(b.series.benchmark) || Data.compareVersions(a.params, b.params),
    base: (a, b) => b.base - a.base, head: (a, b) => b.head - a.head,
    change: (a, b) => (ORDER[a.verdict] > 1) - (ORDER[b.verdict] > 1) || Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio)) || 0,
    verdict: (a, b) => ORDER[a.verdict] - ORDER[b.verdict] || Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio)) || 0,
  };
  const chosen = () => {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const own = rows.filter((row) => words.every((word) => row.text.includes(word)) && (!view.only || row.verdict === "worse" || row.verdict === "better")).sort(sorts[view.sort]);
    return view.down ? own : own.reverse();
  };
  const list = () => {
    const own = chosen();
    const title = (name, text, number) => {
      const button = element("button", { type: "button", className: "sort", textContent: `${text}${view.sort === name ? (view.down ? " ↓" : " ↑") : ""}` });
      button.addEventListener("click", () => { if (view.sort === name) view.down = !view.down; else { view.sort = name; view.down = true; } keep(); list(); });
      return element("th", { scope: "col", className: number ? "number" : "", ariaSort: view.sort === name ? (view.down ? "descending" : "ascending") : "none" }, button);
    };
    const link = (row) => `explorer.html#b=${[row.series.benchmark, ...row.series.params.map(([name, value]) => [name, value])].map((part) => (Array.isArray(part) ? part.map(encodeURIComponent).join("=") : encodeURIComponent(part))).join(";")}`;
    table($("rows"), "Every series of both sides", [title("name", "Benchmark"), title("base", "Base", true), title("head", "Head", true), title("change", "Head over base", true), th("99 % interval", true), title("verdict", "Verdict")], own.slice(0, view.n).map((row) => element("tr", {},
      element("th", { scope: "row" }, element("a", { href: link(row), textContent: Data.shorten(row.series.benchmark, 70) }), " ", element("code", { textContent: Data.shorten(row.params, 70) })),
      td(Data.format(row.base, row.unit), "number"), td(Data.format(row.head, row.unit), "number"), td(`${row.ratio > 1 ? "▲ " : row.ratio < 1 ? "▼ " : ""}${factor(row.ratio)}`, `number ${row.verdict === "worse" || row.verdict === "better" ? row.verdict : ""}`),
      td(Number.isFinite(row.low) ? `${factor(row.low)} to ${factor(row.high)}` : "unknown", "number"), td(row.verdict, row.verdict === "worse" || row.verdict === "better" ? row.verdict : "muted"))));
    $("found").textContent = `${own.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    $("more").hidden = own.length <= view.n;
  };
  const show = async () => {
    begun += 1;
    const number = begun;
    pickers();
    keep();
    const both = pairs();
    try {
      await load(both, number);
    } catch (error) {
      $("said").textContent = error.message;
      return;
    }
    if (number !== begun) return;
    compare(both);
    const judged = rows.filter(({ verdict }) => verdict !== "not judged" && verdict !== "no ratio").length;
    $("sentence").textContent = rows.length
      ? `${count(rows, "worse")} worse, ${count(rows, "better")} better of ${judged.toLocaleString("en")} series that could be judged (${rows.length.toLocaleString("en")} on both sides); geometric mean ${factor(mean(rows))}.`
      : "Nothing was measured on both sides: choose another commit.";
    $("told").replaceChildren(...told.map((text) => element("p", { className: "notice", textContent: text })));
    groups();
    scatter();
    list();
    document.body.dataset.shown = String(rows.length);
  };

  $("pick").addEventListener("change", (event) => {
    const letter = event.target.id[0];
    const side = view[letter];
    const other = letter === "a" ? view.b : view.a;
    told = [];
    const asked = { machine: $(`${letter}m`).value, env: event.target.id.endsWith("m") ? undefined : $(`${letter}e`).value, commit: hashes[Number($(letter).value)] };
    settle(side, asked, event.target.id.endsWith("m") ? {} : other);
    if (side.commit < 0) side.commit = [...countsAt(side).keys()][0];
    view.n = A_PAGE;
    show();
  });
  $("pick").addEventListener("submit", (event) => event.preventDefault());
  $("swap").addEventListener("click", () => { [view.a, view.b] = [view.b, view.a]; told = []; show(); });
  $("by").addEventListener("change", () => { view.by = $("by").value; keep(); groups(); });
  $("filter").addEventListener("input", () => { view.q = $("filter").value; view.n = A_PAGE; keep(); list(); });
  $("only").addEventListener("change", () => { view.only = $("only").checked; view.n = A_PAGE; keep(); list(); });
  $("more").addEventListener("click", () => { view.n += A_PAGE; list(); });
  Data.copyLink($("link"), $("said"));
  $("csv").addEventListener("click", () => Data.saveCsv("comparison.csv", [["benchmark", "params", "base_machine", "base_env", "base_commit", "head_machine", "head_env", "head_commit", "base", "head", "unit", "ratio", "low", "high", "verdict"],
    ...chosen().map((row) => [row.series.benchmark, row.params, view.a.machine, view.a.env, hashes[view.a.commit], view.b.machine, view.b.env, hashes[view.b.commit], row.base, row.head, row.unit, row.ratio, row.low, row.high, row.verdict])]));
  addEventListener("hashchange", () => { read(); show(); });
  read();
  await show();
  globalThis.Compare = { rows: () => rows, view };
  document.body.dataset.ready = "yes";
})();
