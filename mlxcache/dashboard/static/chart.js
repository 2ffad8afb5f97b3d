// The explorer's chart: lines in, a plotly figure out. Colours come from the page, markers and dashes differ as well.
"use strict";
const Chart = (() => {
  const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "star", "x"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const SIGNS = ["●", "■", "▲", "◆", "▼", "✚", "★", "✖"];
  const MANY = 800; // values of a line in view from which its course is drawn
  const NEWEST = 12; // of them are drawn all the same
  const BAND = 2; // so many lines have their intervals as bands, more as bars

  // plotly reads a little HTML in its texts; names are only ever text.
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = () => Array.from({ length: SYMBOLS.length }, (_, i) => css(`--series-${i}`));

  // So many places of n, evenly spaced, counted from the newest, which is always among them.
  const spaced = (places, most) => {
    const step = Math.max(1, Math.ceil(places.length / Math.max(1, most)));
    return places.filter((_, i) => (places.length - 1 - i) % step === 0);
  };

  // The two levels between which values go back and forth, with nothing between them; null where there are none.
  const modes = (values) => {
    const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
    const least = Math.ceil(0.15 * sorted.length);
    let at = 0;
    for (let i = least; i <= sorted.length - least; i += 1) if (!at || sorted[i] - sorted[i - 1] > sorted[at] - sorted[at - 1]) at = i;
    const parts = [sorted.slice(0, at), sorted.slice(at)];
    const share = (own, part) => own[Math.floor(part * (own.length - 1))];
    if (sorted.length < 12 || parts.some((own) => sorted[at] - sorted[at - 1] <= share(own, 0.9) - share(own, 0.1))) return null;
    const upper = values.map((value) => value >= sorted[at]);
    return upper.filter((is, i) => i && is !== upper[i - 1]).length >= 4 ? parts.map((own) => share(own, 0.5)) : null;
  };

  // The course of thousands of values: medians of so many neighbours and what four fifths of them lie within; null
  // where each value has room. `range` are places on the axis.
  const course = (points, range) => {
    const inside = range ? points.filter(({ x }) => x >= range[0] && x <= range[1]) : points;
    if (inside.length <= MANY) return null;
    const each = Math.ceil(inside.length / 240);
    const bins = Array.from({ length: Math.floor(inside.length / each) }, (_, i) => inside.slice(inside.length - (i + 1) * each, inside.length - i * each)).reverse();
    const share = (own, part) => own[Math.round(part * (own.length - 1))];
    return {
      each, inside,
      bins: bins.map((bin) => {
        const own = bin.map(({ value }) => value).sort((a, b) => a - b);
        return { x: bin[bin.length >> 1].x, low: share(own, 0.1), value: share(own, 0.5), high: share(own, 0.9) };
      }),
    };
  };

  const build = (node, view, lines, axis, index) => {
    const palette = colours();
    const traces = [];
    const relative = view.y === "relative";
    const every = lines.flatMap(({ points }) => points.map(({ value }) => value));
    const unit = lines.length ? lines[0].unit : "";
    const top = every.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const [scale, unitName] = relative ? [1, ""] : Data.scaleOf(unit, top || 1);
    const shapes = [];
    lines.forEach((line, number) => {
      const colour = palette[line.colour % palette.length];
      const base = relative ? (line.points.length ? line.points[0].value : 1) || 1 : scale;
      const shown = (value) => (Number.isFinite(value) ? value / base - (relative ? 1 : 0) : null);
      line.shown = shown;
      const x = line.points.map((point) => point.x);
      const along = line.course ? line.course.bins : line.points; // what line and band go through
      const known = (line.course && !line.modes) || view.interval && line.points.some((point) => Number.isFinite(point.low));
      if (known && (lines.length <= BAND || line.course) && !line.modes) {
        const edge = (pick, more) => ({
          x: along.map((point) => point.x), y: along.map((point) => shown(Number.isFinite(point[pick]) ? point[pick] : point.value)),
          mode: "lines", line: { width: 0, color: colour }, hoverinfo: "skip", showlegend: false, ...more,
        });
        traces.push(edge("low", {}), edge("high", { fill: "tonexty", fillcolor: `${colour}26` }));
      }
      const bars = known && (lines.length > BAND || line.modes) && line.points.length <= 200;
      if (line.course && !line.modes) traces.push({ x: along.map((bin) => bin.x), y: along.map((bin) => shown(bin.value)), mode: "lines", line: { color: colour, width: 2, dash: DASHES[line.dash % DASHES.length] }, hoverinfo: "skip", showlegend: false }, {
        // A bin hides what only the newest values did.
        x: x.slice(-NEWEST), y: line.points.slice(-NEWEST).map((point) => shown(point.value)), mode: "markers", hoverinfo: "skip", showlegend: false,
        marker: { color: colour, size: 6, opacity: 0.7, symbol: SYMBOLS[line.colour % SYMBOLS.length] },
      });
      traces.push({
        x,
        y: line.points.map((point) => shown(point.value)),
        name: plain(Data.shorten(line.label)),
        mode: view.lines && !line.modes && !line.course ? "lines+markers" : "markers",
        line: { color: colour, width: 1.6, dash: DASHES[line.dash % DASHES.length] },
        // More than a few dozen markers are a smear that takes long to draw; hovering finds every value.
        marker: { color: colour, size: 7, opacity: line.course && !line.modes ? 0 : 1, symbol: SYMBOLS[line.colour % SYMBOLS.length], maxdisplayed: line.modes ? 600 : line.course ? 1 : line.points.length > 150 ? 40 : 0 },
        error_y: bars ? {
          type: "data", symmetric: false, thickness: 1, width: 0, color: colour,
          array: line.points.map((point) => (Number.isFinite(point.high) ? shown(point.high) - shown(point.value) : 0)),
          arrayminus: line.points.map((point) => (Number.isFinite(point.low) ? shown(point.value) - shown(point.low) : 0)),
        } : { visible: false },
        customdata: line.points.map((_, i) => [number, i]),
        hoverinfo: "none",
      });
    });
    const marks = axis.kind === "commit" ? detected(lines, axis, shapes) : null;
    if (marks && marks.x.length) traces.push(marks);
    const range = view.range ? null : spread(lines, view, relative);
    const [from, to] = (range || [-Infinity, Infinity]).map((end) => (range && view.y === "log" ? 10 ** end : end));
    for (const line of lines) line.beyond = line.course ? line.course.inside.filter(({ value }) => line.shown(value) < from || line.shown(value) > to).length : 0;
    const text = css("--ink");
    const grid = css("--line");
    const annotations = [];
    if (axis.kind === "commit") {
      for (const [at, name] of index.tags) {
        const place = axis.places.findIndex((commit) => commit >= at);
        if (place < 0 || (place === 0 && axis.places[0] > at)) continue;
        shapes.push({ type: "line", x0: place, x1: place, yref: "paper", y0: 0, y1: 1, line: { color: css("--soft"), width: 1, dash: "dot" } });
        annotations.push({ x: place, yref: "paper", y: 1, yanchor: "bottom", showarrow: false, text: plain(Data.shorten(name, 24)), font: { size: 11, color: css("--soft") } });
      }
    }
    const x = { gridcolor: grid, linecolor: grid, zeroline: false, fixedrange: false, showspikes: true, spikethickness: 1, spikedash: "dot", spikecolor: css("--soft"), spikemode: "across", title: { text: plain(axis.title) } };
    if (axis.kind === "commit") Object.assign(x, ticksOf(node, axis, view.range, index));
    else if (axis.kind === "release") Object.assign(x, { type: "category", categoryorder: "array", categoryarray: axis.places });
    else if (axis.kind === "time") Object.assign(x, { type: "date", nticks: Math.max(2, Math.floor(node.clientWidth / 110)) });
    else Object.assign(x, { type: axis.log ? "log" : "linear", tickvals: axis.places, ticktext: axis.places.map(String) });
    if (view.range) Object.assign(x, { range: view.range, autorange: false });
    const layout = {
      uirevision: view.key, hovermode: "closest", hoverdistance: 24, showlegend: false, shapes, annotations,
      margin: { l: 66, r: 40, t: annotations.length ? 26 : 12, b: axis.kind === "commit" ? 72 : 62 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--sans"), size: 12, color: text },
      xaxis: x,
      yaxis: {
        gridcolor: grid, zerolinecolor: grid, type: view.y === "log" ? "log" : "linear", tickformat: relative ? "+,.3~%" : "",
        exponentformat: "none", automargin: true, title: { standoff: 10, text: plain(relative ? "relative to the first value shown" : unitName || (unit === "ratio" ? "ratio" : "")) },
        ...(range ? { range, autorange: false } : { autorange: true }),
      },
    };
    return { traces, layout };
  };

  // Hashes with their dates beneath, as many as there is room for; the newest shown always has one.
  const ticksOf = (node, axis, range, index) => {
    const [low, high] = range || [-Infinity, Infinity];
    const inside = axis.places.map((_, i) => i).filter((i) => i >= low && i <= high);
    const picks = spaced(inside, Math.floor((node.clientWidth - 106) / 84));
    const label = (i) => {
      const [name, seconds] = index.commits[axis.places[i]];
      return `${plain(name.slice(0, 7))}<br>${seconds === null ? "" : Data.date(seconds)}`;
    };
    return { tickvals: picks, ticktext: picks.map(label), tickangle: 0, ticklabeloverflow: "allow" };
  };

  // What the detector saw: levels as lines, the range as a shade, a triangle that leads to the change's page.
  const detected = (lines, axis, shapes) => {
    const place = new Map(axis.places.map((commit, i) => [commit, i]));
    const near = (commit) => {
      const at = axis.places.findIndex((own) => own >= commit);
      return at < 0 ? axis.places.length - 1 : at;
    };
    const found = [];
    for (const line of lines) {
      for (const [at, size, worse, state, page, before, was, is, start, end] of line.changes) {
        if (!place.has(at)) continue;
        const colour = css(worse ? "--worse" : "--better");
        const y = line.shown(line.points.find(({ commit }) => commit === at)?.value ?? is);
        if (lines.length <= 4) {
          const level = (from, to, value, own) => shapes.push({ type: "line", layer: "above", x0: near(from), x1: near(to), y0: line.shown(value), y1: line.shown(value), line: { color: own, width: 2.4 } });
          if (was !== null) level(start, before, was, css("--level"));
          if (is !== null) level(at, end, is, colour);
          if (!shapes.some(({ type, x0, x1 }) => type === "rect" && x0 === near(before) && x1 === near(at))) shapes.push({ type: "rect", layer: "below", x0: near(before), x1: near(at), yref: "paper", y0: 0, y1: 1, fillcolor: colour, opacity: 0.1, line: { width: 0 } });
        }
        if (Number.isFinite(y)) found.push({ x: place.get(at), y, up: size > 0, colour, page, text: `${state} ${worse ? "regression" : "improvement"} ${Data.signed(size)}` });
      }
    }
    return {
      x: found.map(({ x }) => x), y: found.map(({ y }) => y), mode: "markers", hoverinfo: "none", showlegend: false,
      customdata: found.map(({ page, text }) => [page, text]),
      // Filled faintly, so that its middle is the triangle's as well.
      marker: { size: 15, symbol: found.map(({ up }) => (up ? "triangle-up" : "triangle-down")), color: found.map(({ colour }) => `${colour}55`), line: { width: 2, color: found.map(({ colour }) => colour) } },
    };
  };

  // What the values span, with room: one wide interval would flatten everything else.
  const spread = (lines, view, relative) => {
    const seen = (line) => (line.course && !line.modes ? [...line.course.bins.flatMap(({ low: a, high: b }) => [a, b]), ...line.points.slice(-NEWEST).map(({ value }) => value)] : line.points.map(({ value }) => value));
    const values = lines.flatMap((line) => seen(line).map(line.shown)).filter((value) => value !== null);
    if (!values.length || (view.y === "log" && values.some((value) => value <= 0))) return null;
    let [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    if (view.y === "log") {
      const room = Math.max(0.1 * Math.log10(high / low), 0.03);
      return [Math.log10(low) - room, Math.log10(high) + room];
    }
    const room = 0.25 * Math.max(high - low, 0.06 * (relative ? 1 : Math.max(Math.abs(low), Math.abs(high))), 1e-12);
    [low, high] = [low >= 0 && !relative ? Math.max(low - room, -0.02 * high) : low - room, high + room];
    return view.zero && !relative ? [Math.min(low, 0), Math.max(high, 0)] : [low, high];
  };

  const draw = (node, view, lines, axis, index) => {
    const { traces, layout } = build(node, view, lines, axis, index);
    return Plotly.react(node, traces, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
  };

  return { draw, modes, course, MANY, ticksOf, spaced, colours, SYMBOLS, SIGNS };
})();
