// The explorer: choose a benchmark, then which machines, environments and parameters; the address keeps the view.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const { element } = Data;
  const A_LIST = 60; // benchmarks listed at once
  const MOST = 16; // lines that can be told apart by colour, marker and dash
  const MOST_VALUES = 40; // of a facet that are offered at once

  $("explorer").hidden = false;
  let index;
  try {
    index = await Data.index();
  } catch (error) {
    $("told").textContent = error.message;
    return;
  }
  const library = Data.script("static/plotly-basic.min.js");
  const byBenchmark = new Map();
  const ids = new Map();
  for (const series of index.series) {
    series.facets = new Map([["machine", series.machine], ["env", series.env], ...series.params]);
    const named = series.params.map(([name, value]) => `${name}=${value}`).join(" ");
    const packages = Object.entries(series.packages).map(([name, version]) => `${name} ${version}`).join(" ");
    series.text = `${series.benchmark} ${named} ${series.machine} ${index.machines.get(series.machine)} ${packages} ${series.env}`.toLowerCase();
    if (!byBenchmark.has(series.benchmark)) byBenchmark.set(series.benchmark, []);
    byBenchmark.get(series.benchmark).push(series);
    ids.set(series.id, series);
  }
  // What changed last comes first, then what has the longest history.
  const rank = new Map([...byBenchmark].map(([name, own]) => [name, [own.reduce((a, s) => Math.max(a, s.gone ? -1 : s.changed), -1), own.reduce((a, s) => Math.max(a, s.n), 0)]]));
  const inOrder = [...byBenchmark.keys()].sort((a, b) => rank.get(b)[0] - rank.get(a)[0] || rank.get(b)[1] - rank.get(a)[1]);

  const versions = new Map();
  for (const own of index.packages.values()) {
    for (const [name, version] of Object.entries(own)) versions.set(name, (versions.get(name) || new Set()).add(version));
  }
  const released = [...versions].filter(([, own]) => own.size > 1).map(([name]) => name).sort((a, b) => (b === "mlx") - (a === "mlx") || a.localeCompare(b));
  $("by-release").hidden = released.length === 0;
  $("package").append(...released.map((name) => element("option", { value: name, textContent: name })));

  const words = (facet, value) => (facet === "machine" ? index.machines.get(value) || value : facet === "env" ? index.envs.get(value) || value : value);
  const facetName = (facet) => ({ machine: "machine", env: "environment" }[facet] || facet);
  const distinct = (own, facet) => [...new Set(own.map((series) => series.facets.get(facet)))].filter((value) => value !== undefined);
  const sorted = (values) => values.sort((a, b) => (Number.isFinite(Number(a)) && Number.isFinite(Number(b)) ? Number(a) - Number(b) : Data.compareVersions(String(a), String(b))));
  const facetsOf = (own) => [...new Set(own.flatMap((series) => [...series.facets.keys()]))];
  const commitAt = (hash) => (/^[0-9a-f]{4,}$/i.test(hash) ? index.commits.findIndex(([name]) => name.startsWith(hash.toLowerCase())) : index.commits.findIndex(([name]) => name === hash));

  // ---- the view and its address: b=benchmark;facet=value,value for each benchmark shown
  const fresh = () => ({ parts: [], y: "linear", x: "commit", of: "", n: "", interval: true, zero: false, lines: true, colour: "", dash: "", range: null, query: "" });
  let view = fresh();
  let told = [];
  const clean = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const plain = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

  // Of several environments the one that a machine measured last; the rest are a click away.
  const newestEnvs = (own) => {
    const best = new Map();
    for (const series of own) {
      const key = [series.gone ? 0 : 1, series.n];
      const old = best.get(series.machine);
      if (!old || key[0] > old[0] || (key[0] === old[0] && key[1] > old[1])) best.set(series.machine, [...key, series.env]);
    }
    return [...new Set([...best.values()].map(([, , env]) => env))];
  };
  const partOf = (benchmark, facets = {}) => {
    const own = byBenchmark.get(benchmark);
    const part = { b: benchmark, f: { ...facets } };
    const machines = distinct(own, "machine");
    if (!part.f.machine && !part.f.env && machines.length > 1) {
      // The machine with the most values; several in one chart only where somebody asks for them.
      const sizes = new Map(machines.map((machine) => [machine, own.filter((series) => series.machine === machine && !series.gone).reduce((n, series) => n + series.n, 0)]));
      part.f.machine = [machines.reduce((best, machine) => (sizes.get(machine) > sizes.get(best) ? machine : best))];
    }
    if (!part.f.env) {
      const envs = newestEnvs(part.f.machine ? own.filter((series) => part.f.machine.includes(series.machine)) : own);
      if (envs.length < distinct(own, "env").length) part.f.env = envs;
    }
    return part;
  };
  const matching = (part) => (byBenchmark.get(part.b) || []).filter((series) => Object.entries(part.f).every(([facet, values]) => values.includes(series.facets.get(facet))));

  const readPart = (text) => {
    const fields = text.split(";").map((field) => field.split("="));
    const benchmark = plain(fields[0].slice(1).join("="));
    if (!byBenchmark.has(benchmark)) {
      told.push({ text: `“${Data.shorten(benchmark, 120)}” is not here.`, nearest: Data.nearest(benchmark, byBenchmark.keys()) });
      return;
    }
    const own = byBenchmark.get(benchmark);
    const facets = {};
    for (const [rawName, ...rest] of fields.slice(1)) {
      const name = plain(rawName);
      const have = distinct(own, name);
      const wanted = rest.join("=").split(",").map(plain).filter(Boolean);
      // A machine or environment may be named by its short name.
      const real = wanted.map((value) => (have.includes(value) ? value : have.find((other) => words(name, other) === value))).filter((value) => value !== undefined);
      if (!have.length && name) told.push({ text: `${benchmark} has no parameter “${Data.shorten(name, 60)}”.`, nearest: [] });
      else if (real.length < wanted.length) {
        const gone = wanted.filter((value) => !have.includes(value) && !have.some((other) => words(name, other) === value));
        told.push({ text: `${facetName(name)} ${gone.map((value) => `“${Data.shorten(value, 80)}”`).join(", ")} of ${benchmark} is not here; there ${have.length === 1 ? "is" : "are"} ${sorted(have.map((value) => words(name, value))).slice(0, 12).map((value) => Data.shorten(String(value), 60)).join(", ")}.`, nearest: [] });
      }
      if (real.length) facets[name] = real;
    }
    view.parts.push(partOf(benchmark, facets));
  };
  const read = () => {
    view = fresh();
    told = [];
    const lost = [];
    for (const field of location.hash.slice(1).split("&").filter(Boolean)) {
      const name = field.split("=")[0];
      const value = plain(field.slice(name.length + 1));
      if (name === "b") readPart(field);
      else if (name === "s") {
        for (const id of value.split(",").filter(Boolean)) {
          const series = ids.get(id);
          if (series) view.parts.push(partOf(series.benchmark, Object.fromEntries([...series.facets].map(([facet, own]) => [facet, [own]]))));
          else lost.push(id);
        }
      } else if (name === "y" && ["linear", "log", "relative"].includes(value)) view.y = value;
      else if (name === "x" && ["commit", "time", "release", "param"].includes(value)) view.x = value;
      else if (name === "of") view.of = value;
      else if (name === "n" && /^[1-9]\d{0,4}$/.test(value)) view.n = value;
      else if (name === "i") view.interval = value !== "0";
      else if (name === "zero") view.zero = value === "1";
      else if (name === "lines") view.lines = value !== "0";
      else if (name === "colour") view.colour = value;
      else if (name === "dash") view.dash = value;
      else if (name === "q") view.query = value;
      else if (name === "r") view.range = value.includes("~") ? value.split("~") : null;
      else told.push({ text: `The link has “${Data.shorten(plain(field), 60)}”, which says nothing here.`, nearest: [] });
    }
    if (lost.length) told.push({ text: `${lost.length} series of this link ${lost.length === 1 ? "is" : "are"} no longer here (${lost.slice(0, 4).map((id) => Data.shorten(id, 30)).join(", ")}): another environment, version or machine name took over. Search for the benchmark.`, nearest: [] });
    if (view.x === "release" && !released.includes(view.of)) {
      if (view.of) told.push({ text: `“${Data.shorten(view.of, 60)}” is no package with several releases here${released.length ? `; there are ${released.join(", ")}` : ""}.`, nearest: [] });
      [view.x, view.of] = released.length ? ["release", released[0]] : ["commit", ""];
    }
    // Links of an earlier form have several single series of one benchmark: they are one part.
    const joined = new Map();
    for (const part of view.parts) {
      const old = joined.get(part.b);
      if (!old) joined.set(part.b, part);
      else for (const facet of new Set([...Object.keys(old.f), ...Object.keys(part.f)])) {
        if (old.f[facet] && part.f[facet]) old.f[facet] = [...new Set([...old.f[facet], ...part.f[facet]])];
        else delete old.f[facet];
      }
    }
    view.parts = [...joined.values()];
    return told.length > 0;
  };
  const address = () => {
    const parts = view.parts.map((part) => [`b=${clean(part.b)}`, ...Object.entries(part.f).map(([name, values]) => `${clean(name)}=${values.map(clean).join(",")}`)].join(";"));
    if (view.y !== "linear") parts.push(`y=${view.y}`);
    if (view.x !== "commit") parts.push(`x=${view.x}`);
    if (view.of) parts.push(`of=${clean(view.of)}`);
    if (view.n) parts.push(`n=${view.n}`);
    if (!view.interval) parts.push("i=0");
    if (view.zero) parts.push("zero=1");
    if (!view.lines) parts.push("lines=0");
    if (view.colour) parts.push(`colour=${clean(view.colour)}`);
    if (view.dash) parts.push(`dash=${clean(view.dash)}`);
    if (view.query) parts.push(`q=${clean(view.query)}`);
    if (view.range) parts.push(`r=${view.range.map(clean).join("~")}`);
    return `#${parts.join("&")}`;
  };
  const keep = () => history.replaceState(null, "", address());

  // ---- the list of benchmarks
  let options = [];
  let active = -1;
  let limit = A_LIST;
  const list = () => {
    const typed = view.query.toLowerCase().split(/\s+/).filter(Boolean);
    options = [];
    const at = typed.length === 1 && /^[0-9a-f]{6,}$/.test(typed[0]) ? index.commits.filter(([name]) => name.startsWith(typed[0])) : [];
    for (const [name, , subject, page] of at.slice(0, 5)) options.push({ page, title: `Commit ${name.slice(0, 10)}`, more: subject || "" });
    let n = 0;
    for (const name of inOrder) {
      const own = byBenchmark.get(name).filter(({ text }) => typed.every((word) => text.includes(word)));
      if (!own.length) continue;
      n += own.length;
      options.push({ name, own, title: name, more: `${own.length} ${own.length === 1 ? "series" : "series"}, up to ${own.reduce((a, s) => Math.max(a, s.n), 0)} ${own.length === 1 && own[0].n === 1 ? "value" : "values"}` });
    }
    const total = options.length;
    options = options.slice(0, limit);
    active = -1;
    $("find").removeAttribute("aria-activedescendant");
    $("series").replaceChildren(...options.map((one, i) => {
      const node = element("li", { id: `option-${i}`, role: "option", title: one.title }, element("span", { className: "name", textContent: Data.shorten(one.title, 90) }), element("span", { className: "meta", textContent: Data.shorten(one.more, 90) }));
      node.addEventListener("click", (event) => choose(one, event.ctrlKey || event.metaKey));
      return node;
    }));
    mark();
    $("more").hidden = total <= limit;
    $("count").textContent = `${n.toLocaleString("en")} of ${index.series.length.toLocaleString("en")} series in ${total.toLocaleString("en")} ${total === 1 ? "entry" : "entries"}`;
  };
  const mark = () => {
    options.forEach((one, i) => $(`option-${i}`).setAttribute("aria-selected", String(view.parts.some((part) => part.b === one.name))));
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
  const choose = (one, add) => {
    if (one.page) { location.href = one.page; return; }
    told = [];
    // What the search named is what is shown.
    const every = byBenchmark.get(one.name);
    const facets = {};
    if (one.own.length < every.length) {
      for (const facet of facetsOf(every)) {
        const own = distinct(one.own, facet);
        if (own.length < distinct(every, facet).length) facets[facet] = own;
      }
    }
    const part = partOf(one.name, facets);
    if (!matching(part).length) { delete part.f.env; delete part.f.machine; }
    const others = view.parts.filter(({ b }) => b !== one.name);
    if (add) view.parts = others.length < view.parts.length ? others : [...others, part];
    else view.parts = [part];
    if (!add) view.range = null;
    if (view.x === "param" && !numeric().includes(view.of)) [view.x, view.of] = ["commit", ""];
    show();
  };
  $("find").addEventListener("input", () => { view.query = $("find").value; limit = A_LIST; keep(); list(); });
  $("find").addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    if (event.key in steps) { event.preventDefault(); move(active + steps[event.key]); }
    if (event.key === "Enter" && options.length) { event.preventDefault(); choose(options[Math.max(0, active)], event.ctrlKey || event.metaKey); }
    if (event.key === "Escape" && view.query) { event.preventDefault(); view.query = $("find").value = ""; keep(); list(); }
  });
  $("more").addEventListener("click", () => { limit += A_LIST; list(); });

  // ---- facets of what is shown
  const facets = () => {
    $("facets").replaceChildren(...view.parts.flatMap((part, number) => {
      const every = byBenchmark.get(part.b);
      const head = element("p", { className: "facet-of" }, element("strong", { textContent: Data.shorten(part.b, 60), title: part.b }));
      if (view.parts.length > 1) {
        const remove = element("button", { type: "button", textContent: "×", ariaLabel: `Remove ${part.b}` });
        remove.addEventListener("click", () => { view.parts.splice(number, 1); show(); $("find").focus(); });
        head.append(" ", remove);
      }
      const groups = facetsOf(every).map((facet) => {
        const values = sorted(distinct(every, facet));
        if (values.length < 2) return null;
        const chosen = part.f[facet] || values;
        const box = element("fieldset", { className: "facet" }, element("legend", { textContent: facetName(facet) }));
        const set = (own) => {
          if (own.length === values.length || !own.length) delete part.f[facet]; else part.f[facet] = own;
          if (!own.length) return;
          show();
        };
        const all = element("button", { type: "button", className: "all", textContent: "all", disabled: chosen.length === values.length, ariaLabel: `All values of ${facetName(facet)}` });
        all.addEventListener("click", () => set([...values]));
        box.append(all, ...values.slice(0, MOST_VALUES).map((value) => {
          const input = element("input", { type: "checkbox", checked: chosen.includes(value) });
          input.dataset.facet = facet;
          input.dataset.value = value;
          input.addEventListener("change", () => {
            const next = input.checked ? [...chosen, value] : chosen.filter((other) => other !== value);
            if (next.length) { set(next); return; }
            input.checked = true;
          });
          // A double click shows that value alone.
          const label = element("label", { title: `${facetName(facet)}=${value}; double click: this one alone` }, input, element("span", { textContent: Data.shorten(String(words(facet, value)), 40) }));
          label.addEventListener("dblclick", (event) => { event.preventDefault(); set([value]); });
          return label;
        }));
        if (values.length > MOST_VALUES) box.append(element("span", { className: "meta", textContent: `and ${values.length - MOST_VALUES} more: search for them` }));
        return box;
      }).filter(Boolean);
      return [head, ...groups];
    }));
  };
  const numeric = () => [...new Set(view.parts.flatMap((part) => facetsOf(byBenchmark.get(part.b)).filter((facet) => {
    const values = distinct(byBenchmark.get(part.b), facet);
    return facet !== "machine" && facet !== "env" && values.length > 2 && values.every((value) => value !== "" && Number.isFinite(Number(value)));
  })))];

  // ---- from series to lines
  let lines = [];
  let axis = { kind: "commit", places: [], title: "" };
  let notes = [];
  const groupsBy = (shown, without) => {
    const groups = new Map();
    for (const entry of shown) {
      const key = JSON.stringify([entry.series.benchmark, ...[...entry.series.facets].filter(([facet]) => !without.includes(facet))]);
      groups.set(key, [...(groups.get(key) || []), entry]);
    }
    return [...groups.values()];
  };
  const pointAt = (series, data, i, x) => ({ x, value: data.values[i], low: data.low[i], high: data.high[i], commit: data.commits[i], before: i ? data.values[i - 1] : NaN, beforeCommit: i ? data.commits[i - 1] : -1, series });

  const along = (shown) => {
    let union = [...new Set(shown.flatMap(({ data }) => data.commits))].sort((a, b) => a - b);
    if (view.n && union.length > Number(view.n)) union = union.slice(-Number(view.n));
    const place = new Map(union.map((commit, i) => [commit, i]));
    const dated = view.x === "time";
    axis = dated ? { kind: "time", places: union, title: "" } : { kind: "commit", places: union, title: `${union.length} ${union.length === 1 ? "commit" : "commits"} with results of these series` };
    return shown.map(({ series, data }) => {
      const points = [];
      data.commits.forEach((commit, i) => {
        const seconds = index.commits[commit][1];
        if (place.has(commit) && !(dated && seconds === null)) points.push(pointAt(series, data, i, dated ? new Date(seconds * 1000).toISOString() : place.get(commit)));
      });
      if (dated) points.sort((a, b) => (a.x < b.x ? -1 : 1));
      return { series, points, changes: dated ? [] : data.changes };
    });
  };

  // One commit of ours for all releases: what differs is then the package's.
  const alongReleases = async (shown) => {
    const seen = new Set();
    const wanted = groupsBy(shown, ["env"]).map(([{ series }]) => series);
    const groups = await Promise.all(wanted.map(async (series) => {
      const same = byBenchmark.get(series.benchmark).filter((other) => other.packages[view.of] && [...series.facets].every(([facet, value]) => facet === "env" || other.facets.get(facet) === value));
      return { series, same: await Promise.all(same.map(async (other) => ({ series: other, data: await Data.values(other) }))) };
    }));
    const covers = new Map();
    for (const { same } of groups) {
      for (const { series, data } of same) for (const commit of data.commits) covers.set(commit, (covers.get(commit) || new Set()).add(series.packages[view.of]));
    }
    const every = [...new Set([...covers.values()].flatMap((own) => [...own]))];
    const commit = [...covers].reduce((best, [at, own]) => (own.size > best[1] || (own.size === best[1] && at > best[0]) ? [at, own.size] : best), [-1, 0])[0];
    const own = groups.map(({ series, same }) => {
      const points = new Map();
      for (const { series: other, data } of same) {
        const i = data.commits.indexOf(commit);
        const version = other.packages[view.of];
        if (i >= 0 && (!points.has(version) || points.get(version).series.n < other.n)) points.set(version, { ...pointAt(other, data, i, version), note: `${view.of} ${version}` });
        if (i >= 0) Object.keys(other.packages).forEach((name) => seen.add(name));
      }
      return { series, points: [...points.values()].sort((a, b) => Data.compareVersions(a.x, b.x)), changes: [] };
    });
    const places = [...new Set(own.flatMap(({ points }) => points.map(({ x }) => x)))].sort(Data.compareVersions);
    const name = commit < 0 ? "" : index.commits[commit][0].slice(0, 8);
    axis = { kind: "release", places, title: `release of ${view.of}, all at commit ${name}` };
    const missing = every.filter((version) => !places.includes(version)).sort(Data.compareVersions);
    if (missing.length) notes.push(`Not measured at ${name}: ${view.of} ${missing.join(", ")}.`);
    const used = own.flatMap(({ points }) => points.map(({ series }) => series.packages));
    for (const other of seen) {
      if (other !== view.of && new Set(used.map((packages) => packages[other] || "none")).size > 1) notes.push(`${other} differs between these as well.`);
    }
    return own;
  };

  const alongParameter = (shown) => {
    const own = groupsBy(shown.filter(({ series }) => series.facets.has(view.of)), [view.of]).map((group) => {
      const counts = new Map();
      for (const { data } of group) for (const commit of data.commits) counts.set(commit, (counts.get(commit) || 0) + 1);
      const commit = [...counts].reduce((best, [at, n]) => (n > best[1] || (n === best[1] && at > best[0]) ? [at, n] : best), [-1, 0])[0];
      const points = group.filter(({ data }) => data.commits.includes(commit)).map(({ series, data }) => pointAt(series, data, data.commits.indexOf(commit), Number(series.facets.get(view.of))));
      return { series: group[0].series, points: points.sort((a, b) => a.x - b.x), changes: [], commit };
    });
    const places = [...new Set(own.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b);
    const at = [...new Set(own.map(({ commit }) => commit))];
    axis = { kind: "param", places, log: places[0] > 0 && places[places.length - 1] / places[0] >= 8, title: `${view.of}, ${at.length === 1 ? `at commit ${index.commits[at[0]]?.[0].slice(0, 8)}` : "each at the newest commit that has most of it"}` };
    return own;
  };

  // Only what varies is in a label; what all have in common stands once above.
  const name = (own) => {
    const without = axis.kind === "release" ? ["env"] : axis.kind === "param" ? [view.of] : [];
    const keys = [...new Set(own.flatMap(({ series }) => [...series.facets.keys()]))].filter((key) => !without.includes(key));
    const all = ["benchmark", ...keys];
    const valueOf = ({ series }, key) => (key === "benchmark" ? series.benchmark : series.facets.get(key));
    const differing = all.filter((key) => new Set(own.map((line) => valueOf(line, key))).size > 1);
    // An environment that goes with the machine says nothing more.
    const follows = (key, other) => [...new Set(own.map((line) => valueOf(line, other)))].every((value) => new Set(own.filter((line) => valueOf(line, other) === value).map((line) => valueOf(line, key))).size === 1);
    const varying = differing.filter((key) => !(key === "env" && differing.includes("machine") && follows("env", "machine")));
    const say = (line, key) => {
      const value = valueOf(line, key);
      if (value === undefined) return "";
      return key === "benchmark" ? value : key === "machine" || key === "env" ? words(key, value) : `${key}=${Data.shorten(String(value), 40)}`;
    };
    const dashKey = varying.includes(view.dash) ? view.dash : view.dash ? "" : varying.length > 1 ? varying.filter((key) => key !== "benchmark").find((key) => new Set(own.map((line) => valueOf(line, key))).size === 2 && key !== view.colour) || "" : "";
    const colourKeys = varying.includes(view.colour) ? [view.colour] : varying.filter((key) => key !== dashKey);
    const dashes = dashKey ? sorted([...new Set(own.map((line) => String(valueOf(line, dashKey) ?? "")))]) : [];
    const colours = new Map();
    for (const line of own) {
      const key = JSON.stringify(colourKeys.map((k) => valueOf(line, k) ?? null));
      if (!colours.has(key)) colours.set(key, colours.size);
      line.colour = colours.get(key);
      line.dash = dashKey ? dashes.indexOf(String(valueOf(line, dashKey) ?? "")) : 0;
      line.label = varying.map((key) => say(line, key)).filter(Boolean).join(" · ") || line.series.benchmark;
      line.unit = line.series.unit;
    }
    const constant = own.length ? all.filter((key) => !differing.includes(key)).map((key) => say(own[0], key)).filter(Boolean) : [];
    $("constants").replaceChildren(...constant.flatMap((text, i) => [i ? " · " : "", i ? Data.shorten(String(text), 100) : element("strong", { textContent: Data.shorten(String(text), 110) })]));
    const offer = (select, first, chosen) => {
      select.replaceChildren(element("option", { value: "", textContent: first }), ...varying.map((key) => element("option", { value: key, textContent: facetName(key) })));
      select.value = varying.includes(chosen) ? chosen : "";
    };
    offer($("colour"), "all that differs", view.colour);
    offer($("dash"), "what has two values", view.dash);
    return own;
  };

  // ---- what stands beneath the chart
  const chips = () => {
    const colours = Chart.colours();
    $("chosen").replaceChildren(...lines.map((line) => {
      const sign = element("span", { className: "sign", textContent: `${Chart.SIGNS[line.colour % Chart.SIGNS.length]}${line.dash ? "┄" : "─"}`, ariaHidden: "true" });
      sign.style.color = colours[line.colour % colours.length];
      const last = line.points[line.points.length - 1];
      const node = element("li", {}, sign, element("span", { className: "label", textContent: Data.shorten(line.label, 110), title: `${line.series.benchmark} ${line.series.machine} ${line.series.env}` }), element("span", { className: "meta", textContent: last ? Data.format(last.value, line.unit) : "no value here" }));
      if (line.changes.length) {
        const [, size, worse, , page] = line.changes.reduce((a, b) => (b[0] > a[0] ? b : a));
        node.append(element("a", { href: page, className: worse ? "worse" : "better", textContent: `${Data.signed(size)} ${worse ? "worse" : "better"}` }));
      }
      return node;
    }));
  };
  const head = () => ["benchmark", ...new Set(lines.flatMap((line) => line.series.params.map(([key]) => key))), "machine", "env", "commit", "date", "value", "ci99_low", "ci99_high", "unit", "subject"];
  const rows = () => {
    const keys = head().slice(1, -9);
    return lines.flatMap((line) => line.points.map((point) => {
      const [commit, seconds, subject] = index.commits[point.commit];
      return [line.series.benchmark, ...keys.map((key) => point.series.facets.get(key) ?? ""), point.series.machine, point.series.env, commit, Data.date(seconds), point.value, Number.isFinite(point.low) ? point.low : "", Number.isFinite(point.high) ? point.high : "", line.unit, subject];
    }));
  };
  const table = () => {
    if (!$("values").open) return;
    const extra = axis.kind === "release" || axis.kind === "param";
    const titles = ["Series", ...(extra ? [view.of] : []), "Commit", "Date", "Value", "99 % interval"];
    const all = lines.flatMap((line) => line.points.map((point) => {
      const [commit, seconds] = index.commits[point.commit];
      return [Data.shorten(line.label, 60), ...(extra ? [String(point.x)] : []), commit.slice(0, 10), Data.date(seconds), Data.format(point.value, line.unit), Number.isFinite(point.low) ? `${Data.format(point.low, line.unit)} to ${Data.format(point.high, line.unit)}` : "none"];
    })).reverse();
    const caption = element("caption", { textContent: all.length > 1000 ? `The newest 1,000 of ${all.length} values` : `${all.length} values, newest first` });
    const body = all.slice(0, 1000).map((texts) => element("tr", {}, ...texts.map((text) => element("td", { textContent: text }))));
    $("values").querySelector("div").replaceChildren(element("table", {}, caption, element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col", textContent: title })))), element("tbody", {}, ...body)));
  };

  // ---- one value: beneath the chart, so that it covers no point
  let pinned = false;
  const hint = $("point").firstElementChild;
  const tell = (target, pin) => {
    if (pinned && !pin) return;
    if (typeof target[0] === "string") {
      $("point").replaceChildren(element("p", {}, element("strong", { textContent: target[1] }), " ", element("a", { href: target[0], textContent: "its page" })));
      return;
    }
    const line = lines[target[0]];
    const point = line?.points[target[1]];
    if (!point) return;
    const [commit, seconds, subject, page, web] = index.commits[point.commit];
    const interval = Number.isFinite(point.low) ? `99 %: ${Data.format(point.low, line.unit)} to ${Data.format(point.high, line.unit)}` : "no interval";
    const before = Number.isFinite(point.before) ? `${Data.signed(point.value / point.before - 1)} against ${Data.format(point.before, line.unit)} before` : "the first value";
    const change = line.changes.find(([at]) => at === point.commit);
    const links = [element("a", { href: page, textContent: "commit" })];
    if (point.beforeCommit >= 0) links.push(element("a", { href: `compare.html#a=${clean(index.commits[point.beforeCommit][0])}&b=${clean(commit)}`, textContent: "compare with previous" }));
    if (change) links.push(element("a", { href: change[4], textContent: "change" }));
    if (web && index.web) links.push(element("a", { href: index.web + commit, textContent: "on the web" }));
    if (pin) {
      const close = element("button", { type: "button", textContent: "×", ariaLabel: "Let go of this value" });
      close.addEventListener("click", () => { pinned = false; $("point").classList.remove("pinned"); $("point").replaceChildren(hint); });
      links.push(close);
    }
    $("point").replaceChildren(
      element("p", {}, element("strong", { textContent: Data.format(point.value, line.unit) }), ` ${before} · ${interval}${point.note ? ` · ${point.note}` : ""}`),
      element("p", { className: "meta" }, Data.shorten(line.label, 90), " · ", element("span", { className: "hash", textContent: commit.slice(0, 10) }), ` ${Data.date(seconds)} ${Data.shorten(subject || "", 70)}`),
      element("p", { className: "links" }, ...links.flatMap((node) => [node, " "])));
  };

  // ---- zoom: kept as hashes, so that it means the same commits after a backfill
  const rangeOf = () => {
    if (!view.range) return null;
    if (axis.kind !== "commit") {
      const ends = axis.kind === "param" ? view.range.map(Number) : view.range;
      return axis.kind === "time" || (axis.kind === "param" && ends.every(Number.isFinite)) ? ends : null;
    }
    const known = view.range.map(commitAt);
    if (known.some((commit) => commit < 0)) {
      told.push({ text: `The range of this link ends at a commit that is not here (${view.range.map((hash) => Data.shorten(hash, 12)).join(" to ")}); all are shown.`, nearest: [] });
      view.range = null;
      return null;
    }
    const places = known.map((commit) => axis.places.findIndex((own) => own >= commit)).map((place) => (place < 0 ? axis.places.length - 1 : place));
    return [Math.min(...places) - 0.4, Math.max(...places) + 0.4];
  };
  const zoomed = (event) => {
    const [low, high] = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
    if (low === undefined && !event["xaxis.autorange"]) return;
    if (low === undefined) view.range = null;
    else if (axis.kind === "commit") {
      const at = (place) => index.commits[axis.places[Math.max(0, Math.min(axis.places.length - 1, place))]][0].slice(0, 12);
      view.range = [at(Math.ceil(low)), at(Math.floor(high))];
    } else view.range = axis.kind === "release" ? null : [String(low), String(high)];
    keep();
    if (lines.some((line) => line.points.length > Chart.MANY)) draw();
    else if (axis.kind === "commit") {
      const ticks = Chart.ticksOf($("chart"), axis, low === undefined ? null : [low, high], index);
      Plotly.relayout($("chart"), { "xaxis.tickvals": ticks.tickvals, "xaxis.ticktext": ticks.ticktext });
    }
  };

  const say = () => {
    $("told").replaceChildren(...told.map(({ text, nearest }) => {
      const node = element("p", { className: "notice", textContent: text });
      if (nearest.length) node.append(" Nearest: ", ...nearest.flatMap((own, i) => [i ? ", " : "", element("a", { href: `#b=${clean(own)}`, textContent: own })]), ".");
      return node;
    }));
  };

  let turn = 0;
  const draw = async () => {
    const mine = (turn += 1);
    notes = [];
    const every = view.parts.flatMap(matching).sort((a, b) => b.n - a.n);
    const few = every.length <= 400 || view.x === "commit" || view.x === "time" ? every.slice(0, view.x === "param" ? 400 : MOST) : every.slice(0, 400);
    const shown = await Promise.all(few.map(async (series) => ({ series, data: await Data.values(series) })));
    shown.sort((a, b) => index.series.indexOf(a.series) - index.series.indexOf(b.series));
    const own = view.x === "release" ? await alongReleases(shown) : view.x === "param" ? alongParameter(shown) : along(shown);
    await library;
    if (mine !== turn) return;
    lines = name(own.slice(0, MOST));
    const n = view.x === "param" || view.x === "release" ? own.length : every.length;
    if (n > lines.length) notes.push(`${lines.length} of ${n} are drawn; narrow them with the parameters.`);
    if (!every.length && view.parts.length) notes.push("No series has this combination.");
    for (const line of lines) {
      line.modes = axis.kind === "commit" || axis.kind === "time" ? Chart.modes(line.points.map(({ value }) => value)) : null;
      if (line.modes) notes.push(`${Data.shorten(line.label, 60)} goes back and forth between two levels, ${line.modes.map((level) => Data.format(level, line.unit)).join(" and ")}: it is drawn without a line.`);
    }
    const range = rangeOf();
    for (const line of lines) line.course = Chart.course(line.points, axis.kind === "commit" ? range : null);
    const long = lines.find((line) => line.course && !line.modes)?.course;
    if (long) notes.push(`${long.inside.length.toLocaleString("en")} values: the line is the median of ${long.each} neighbours each, the shade holds four fifths of them. Drag over a part, or take the last 50, to see every value.`);
    const units = new Set(lines.map((line) => line.unit));
    if (units.size > 1) notes.push("The units differ, so all are shown relative to their first value.");
    const state = { ...view, y: units.size > 1 ? "relative" : view.y, range, key: JSON.stringify([view.x, view.of, view.n]) };
    say();
    $("hint").textContent = notes.join(" ");
    chips();
    await Chart.draw($("chart"), state, lines, axis, index);
    const beyond = lines.reduce((n, line) => n + line.beyond, 0);
    if (beyond) $("hint").textContent += ` ${beyond.toLocaleString("en")} of them lie beyond the picture.`;
    $("chart").classList.toggle("empty", lines.length === 0);
    $("chart").dataset.drawn = String(turn);
    table();
  };
  const show = async () => {
    document.querySelector(`[name=y][value=${view.y}]`).checked = true;
    for (const input of document.querySelectorAll("[name=x]")) input.checked = input.value === view.x;
    for (const input of document.querySelectorAll("[name=n]")) input.checked = input.value === view.n;
    const parameters = numeric();
    if (view.x === "param" && !parameters.includes(view.of)) {
      told.push({ text: `“${Data.shorten(view.of, 60)}” is no numeric parameter of what is shown; it is drawn over commits.`, nearest: [] });
      [view.x, view.of] = ["commit", ""];
      return show();
    }
    $("last").hidden = view.x !== "commit" && view.x !== "time";
    $("by-param").hidden = parameters.length === 0;
    $("parameter").replaceChildren(element("option", { value: "", textContent: "none" }), ...parameters.map((own) => element("option", { value: own, textContent: own })));
    $("parameter").value = view.x === "param" ? view.of : "";
    $("package").value = view.x === "release" ? view.of : "";
    $("interval").checked = view.interval;
    $("zero").checked = view.zero;
    $("lines").checked = view.lines;
    pinned = false;
    $("point").classList.remove("pinned");
    $("point").replaceChildren(hint);
    keep();
    mark();
    facets();
    try {
      await draw();
    } catch (error) {
      $("hint").textContent = error.message;
    }
    return undefined;
  };

  $("tools").addEventListener("change", (event) => {
    const form = new FormData($("tools"));
    told = [];
    if (event.target.id === "package" || event.target.id === "parameter") {
      view.of = event.target.value;
      view.x = view.of ? (event.target.id === "package" ? "release" : "param") : "commit";
      view.range = null;
    } else if (event.target.name === "x") {
      [view.x, view.of, view.range] = [event.target.value, "", null];
    } else if (event.target.name === "n") {
      [view.n, view.range] = [event.target.value, null];
    }
    view.y = form.get("y");
    view.interval = $("interval").checked;
    view.zero = $("zero").checked;
    view.lines = $("lines").checked;
    view.colour = $("colour").value;
    view.dash = $("dash").value;
    show();
  });
  $("tools").addEventListener("submit", (event) => event.preventDefault());
  $("zoom-out").addEventListener("click", () => { view.range = null; view.n = ""; show(); });
  $("values").addEventListener("toggle", table);
  Data.copyLink($("link"), $("hint"));
  for (const kind of ["svg", "png"]) {
    $(kind).addEventListener("click", async () => {
      if (lines.length) Data.save(`series.${kind}`, await Plotly.toImage($("chart"), { format: kind, width: 1100, height: 550, scale: kind === "png" ? 2 : 1 }));
    });
  }
  $("csv").addEventListener("click", () => Data.saveCsv("series.csv", [head(), ...rows()]));
  // Paper has the light colours, whatever the screen has.
  for (const turn of ["beforeprint", "afterprint"]) addEventListener(turn, () => { if (lines.length) draw(); });
  document.documentElement.addEventListener("themechange", () => { if (lines.length) show(); });

  // On a phone the chart comes first and the list waits in a drawer.
  if (matchMedia("(max-width: 760px)").matches) $("drawer").open = false;

  const begin = async () => {
    const strange = read();
    $("find").value = view.query;
    list();
    // A link that says something which is not here shows what it can, and nothing else instead.
    if (!view.parts.length && inOrder.length && !strange) view.parts = [partOf(inOrder[0])];
    const asked = location.hash;
    await show();
    if (strange) history.replaceState(null, "", asked);
  };
  await begin();
  $("chart").on("plotly_relayout", zoomed);
  $("chart").on("plotly_hover", ({ points }) => tell((points.find(({ customdata }) => typeof customdata?.[0] === "string") || points[0]).customdata, false));
  $("chart").on("plotly_click", ({ points }) => {
    const data = (points.find(({ customdata }) => typeof customdata?.[0] === "string") || points[0]).customdata;
    if (typeof data[0] === "string") { location.href = data[0]; return; }
    pinned = false;
    tell(data, true);
    pinned = true;
    $("point").classList.add("pinned");
  });
  addEventListener("hashchange", begin);
  globalThis.Explorer = { lines: () => lines, axis: () => axis, view: () => view, tell };
  document.body.dataset.ready = "yes";
})();
