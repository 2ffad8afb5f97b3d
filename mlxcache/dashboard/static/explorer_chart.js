// The explorer's chart: series in, a plotly figure out. Colours come from the page, markers differ as well.
"use strict";
const Chart = (() => {
  const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "star", "x"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "1px,3px"];
  const SCALES = {
    seconds: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
    bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  };

  // plotly reads a little HTML in its texts; names are only ever text.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const shorten = (text, limit = 70) => (text.length > limit ? `${text.slice(0, limit - 20)}…${text.slice(-19)}` : text);

  const scaleOf = (unit, size) => {
    const scales = SCALES[unit];
    if (!scales) return [1, unit];
    return scales.find(([scale]) => Math.abs(size) >= scale) || scales[scales.length - 1];
  };

  const format = (value, unit) => {
    if (!Number.isFinite(value)) return "n/a";
    const [scale, name] = scaleOf(unit, value);
    return `${Number((value / scale).toPrecision(4))} ${name}`.trim();
  };

  // A change without its sign, as the other pages have it: a factor from a doubling on.
  const amount = (size) => {
    if (size === null) return "n/a";
    return size >= 1 ? `×${Number((1 + size).toPrecision(3))}` : `${(100 * Math.abs(size)).toFixed(1)} %`;
  };

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = () => Array.from({ length: SYMBOLS.length }, (_, i) => css(`--series-${i}`));

  const median = (numbers) => {
    const sorted = [...numbers].sort((a, b) => a - b);
    return sorted[sorted.length >> 1];
  };

  const date = (seconds) => (seconds === null ? "no date" : new Date(seconds * 1000).toISOString().slice(0, 10));

  // Points of one series in the order of x: {x, value, low, high, commit, note}.
  const along = (view, entry, index) => {
    if (view.x === "release") return releases(view, entry);
    const { commits, values, low, high } = entry.data;
    const points = commits.map((commit, i) => ({
      x: view.x === "time" ? (index.commits[commit][1] === null ? null : new Date(index.commits[commit][1] * 1000).toISOString()) : commit,
      value: values[i], low: low[i], high: high[i], commit, note: "",
    }));
    return view.x === "time" ? points.filter((point) => point.x !== null).sort((a, b) => (a.x < b.x ? -1 : 1)) : points;
  };

  const releases = (view, entry) => entry.siblings.map(({ version, data }) => {
    const last = data.commits.length - 1;
    return { x: version, value: data.values[last], low: data.low[last], high: data.high[last], commit: data.commits[last], note: `${view.package} ${version}` };
  });

  const compareVersions = (a, b) => a.localeCompare(b, "en", { numeric: true });

  const build = (view, entries, index) => {
    const palette = colours();
    const traces = [];
    const relative = view.y === "relative";
    const sizes = entries.flatMap((entry) => entry.data.values.map(Math.abs)).filter((size) => size > 0);
    const unit = entries.length ? entries[0].series.unit : "";
    const [scale, unitName] = relative ? [1, ""] : scaleOf(unit, sizes.length ? median(sizes) : 1);
    entries.forEach((entry, number) => {
      const colour = palette[number % palette.length];
      const points = along(view, entry, index);
      const base = relative ? (points.length ? points[0].value : 1) || 1 : scale;
      const shift = relative ? -1 : 0;
      const shown = (value) => (Number.isFinite(value) ? value / base + shift : null);
      const name = plain(shorten(entry.label));
      if (view.interval && points.some((point) => Number.isFinite(point.low))) {
        const edge = (pick, more) => ({
          x: points.map((point) => point.x), y: points.map((point) => shown(Number.isFinite(point[pick]) ? point[pick] : point.value)),
          mode: "lines", line: { width: 0, color: colour }, hoverinfo: "skip", showlegend: false, ...more,
        });
        traces.push(edge("low", {}), edge("high", { fill: "tonexty", fillcolor: `${colour}${entries.length > 2 ? "10" : "26"}` }));
      }
      traces.push({
        x: points.map((point) => point.x),
        y: points.map((point) => shown(point.value)),
        name,
        mode: "lines+markers",
        line: { color: colour, width: 1.6, dash: DASHES[number % DASHES.length] },
        // More than a few dozen markers are a smear that takes long to draw; hovering finds every value.
        marker: { color: colour, size: 7, symbol: SYMBOLS[number % SYMBOLS.length], maxdisplayed: points.length > 150 ? 40 : 0 },
        customdata: points.map((point) => {
          const [commit, seconds, subject] = index.commits[point.commit];
          const interval = Number.isFinite(point.low) ? `99 %: ${format(point.low, entry.series.unit)} to ${format(point.high, entry.series.unit)}` : "no interval";
          const change = relative ? ` (${(100 * shown(point.value)).toFixed(1)} %)` : "";
          return [plain(`${format(point.value, entry.series.unit)}${change}`), plain(interval), plain(`${commit.slice(0, 10)}  ${date(seconds)} ${point.note}`), plain(shorten(subject || "", 60)), name];
        }),
        hovertemplate: "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{customdata[2]}<br>%{customdata[3]}<extra>%{customdata[4]}</extra>",
      });
    });
    const range = view.range || view.y === "log" ? null : spread(traces);
    const text = css("--ink");
    const grid = css("--line");
    const x = { gridcolor: grid, linecolor: grid, zeroline: false, fixedrange: false, title: { text: "" } };
    if (view.x === "commit") {
      const used = [...new Set(entries.flatMap((entry) => entry.data.commits))].sort((a, b) => a - b);
      const step = Math.max(1, Math.ceil(used.length / 6));
      const ticks = used.filter((_, i) => i % step === 0);
      Object.assign(x, { tickvals: ticks, ticktext: ticks.map((i) => plain(index.commits[i][0].slice(0, 7))), title: { text: "commits, oldest first" } });
    } else if (view.x === "release") {
      const versions = [...new Set(entries.flatMap((entry) => entry.siblings.map(({ version }) => version)))].sort(compareVersions);
      Object.assign(x, { type: "category", categoryorder: "array", categoryarray: versions, title: { text: plain(`release of ${view.package}, newest commit of each`) } });
    } else Object.assign(x, { type: "date" });
    if (view.range) Object.assign(x, { range: view.range, autorange: false });
    if (view.x === "commit" && entries.length) traces.push(marks(entries, scale, relative));
    const layout = {
      uirevision: "keep", hovermode: "closest", showlegend: false,
      margin: { l: 64, r: 16, t: 12, b: 60 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--sans"), size: 12, color: text },
      hoverlabel: { bgcolor: css("--card"), bordercolor: grid, font: { color: text }, align: "left", namelength: -1 },
      xaxis: x,
      yaxis: {
        gridcolor: grid, zerolinecolor: grid, type: view.y === "log" ? "log" : "linear", tickformat: relative ? "+.0%" : "",
        title: { text: plain(relative ? "relative to the first value shown" : unitName) }, ...(range ? { range, autorange: false } : { autorange: true }),
      },
    };
    return { traces, layout };
  };

  // Changes as triangles that point where the value went; words and the page behind a click say the rest.
  const marks = (entries, scale, relative) => {
    const found = entries.flatMap((entry) => entry.data.changes.map(([at, size, worse, state, page]) => {
      const value = entry.data.values[entry.data.commits.indexOf(at)];
      const y = relative ? value / (entry.data.values[0] || 1) - 1 : value / scale;
      return { x: at, y, up: size > 0, worse, text: `${state} ${worse ? "regression" : "improvement"} ${size > 0 ? "▲" : "▼"} ${amount(size)}`, page };
    })).filter(({ y }) => Number.isFinite(y));
    return {
      x: found.map(({ x }) => x), y: found.map(({ y }) => y), mode: "markers", customdata: found.map(({ page }) => page),
      text: found.map(({ text }) => plain(text)), hovertemplate: "%{text}<br>click for its page<extra></extra>",
      marker: {
        size: 13, symbol: found.map(({ up }) => (up ? "triangle-up-open" : "triangle-down-open")),
        color: found.map(({ worse }) => css(worse ? "--worse" : "--better")), line: { width: 2 },
      },
    };
  };

  // What the values span, with room: one wide interval would flatten everything else.
  const spread = (traces) => {
    const values = traces.filter(({ name }) => name).flatMap(({ y }) => y).filter((value) => value !== null);
    if (!values.length) return null;
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = 0.35 * Math.max(high - low, 0.06 * Math.max(Math.abs(low), Math.abs(high)), 1e-12);
    return [low >= 0 ? Math.max(low - room, -0.02 * high) : low - room, high + room];
  };

  const draw = (node, view, entries, index) => {
    const { traces, layout } = build(view, entries, index);
    return Plotly.react(node, traces, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
  };

  return { draw, format, amount, shorten, compareVersions, date, SYMBOLS, colours };
})();
