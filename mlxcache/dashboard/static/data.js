// Loads series on demand: pages from disk may load scripts, though they may not fetch.
"use strict";
const Data = (() => {
  const waiting = new Map();
  const loaded = new Map();

  globalThis.mlxcacheData = ([name, content]) => {
    loaded.set(name, content);
  };

  const script = (source) => {
    if (!waiting.has(source)) {
      waiting.set(source, new Promise((resolve, reject) => {
        const node = document.createElement("script");
        node.src = source;
        node.onload = () => resolve();
        node.onerror = () => {
          waiting.delete(source);
          reject(new Error(`${source} is not there; copy the whole folder of the site`));
        };
        document.head.append(node);
      }));
    }
    return waiting.get(source);
  };

  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

  const halfFloat = (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 0x1f;
    const fraction = bits & 0x3ff;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  };

  // A series' numbers by their place in it; the head of data/explorer.py says what the letters are.
  const reader = (packed) => {
    const from = (text) => {
      if (!text) return null;
      // Of one number only its own letters are taken apart.
      return (at, size) => {
        const first = Math.floor(at / 3);
        const view = new DataView(bytes(text.slice(4 * first, 4 * Math.floor((at + size + 2) / 3))).buffer, at - 3 * first);
        return size === 1 ? view.getUint8(0) : size === 2 ? view.getUint16(0, true) : view.getFloat32(0, true);
      };
    };
    const [v, q] = [from(packed.v), from(packed.q)];
    const end = (coarse, fine, sign) => {
      const [octaves, half] = [from(coarse), from(fine)];
      return (i) => {
        if (!octaves) return half ? halfFloat(half(2 * i, 2)) : NaN;
        const code = octaves(i, 1);
        return code ? sign * 2 ** ((code - 241) / 12) : NaN;
      };
    };
    return {
      value: q ? (i) => Number(Math.exp(packed.s[0] + ((packed.s[1] - packed.s[0]) * q(2 * i, 2)) / 65535).toPrecision(7)) : (i) => v(4 * i, 4),
      low: end(packed.i, packed.l, -1),
      high: end(packed.j, packed.h, 1),
    };
  };
  const commitsOf = (packed) => {
    const bits = bytes(packed.c);
    const commits = [];
    for (let i = 0; i < 8 * bits.length; i += 1) if (bits[i >> 3] & (0x80 >> (i & 7))) commits.push(i);
    return commits;
  };
  const one = (own, i) => {
    const value = own.value(i);
    return [value, value * (1 + own.low(i)), value * (1 + own.high(i))];
  };
  const unpack = (packed) => {
    const commits = commitsOf(packed);
    const own = reader(packed);
    const rows = commits.map((_, i) => one(own, i));
    return { commits, values: rows.map((row) => row[0]), low: rows.map((row) => row[1]), high: rows.map((row) => row[2]), changes: packed.ch || [] };
  };

  const cache = new Map();
  const compareVersions = (a, b) => a.localeCompare(b, "en", { numeric: true });

  // ---- numbers and names as all pages have them
  const SCALES = {
    seconds: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
    bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  };
  const scaleOf = (unit, size) => {
    if (unit === "ratio") return [1, ""];
    const scales = SCALES[unit];
    if (!scales) {
      const own = unit === "unit" ? "" : unit; // asv's name for none
      const large = Math.abs(size) < 1e15 && [[1e9, "billion"], [1e6, "million"]].find(([scale]) => Math.abs(size) >= scale);
      return large ? [large[0], `${large[1]} ${own}`.trim()] : [1, own];
    }
    return scales.find(([scale]) => Math.abs(size) >= scale) || scales[scales.length - 1];
  };
  const format = (value, unit) => {
    if (!Number.isFinite(value)) return "n/a";
    const [scale, name] = scaleOf(unit, value);
    const text = `${Number((value / scale).toPrecision(4))} ${name}`.trim();
    return unit === "ratio" ? `×${text}` : text;
  };
  // A change without its sign, as the other pages have it: a factor from a doubling on.
  const amount = (size) => {
    if (size === null || !Number.isFinite(size)) return "n/a";
    return size >= 1 ? `×${Number((1 + size).toPrecision(3))}` : `${(100 * Math.abs(size)).toFixed(1)} %`;
  };
  const signed = (size) => (Number.isFinite(size) ? `${size > 0 ? "▲" : size < 0 ? "▼" : ""} ${amount(size)}`.trim() : "n/a");
  const date = (seconds) => (seconds === null ? "no date" : new Date(seconds * 1000).toISOString().slice(0, 10));
  const shorten = (text, limit = 70) => (text.length > limit ? `${text.slice(0, limit - 20)}…${text.slice(-19)}` : text);
  const element = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  const save = (name, address) => element("a", { download: name, href: address }).click();
  const saveCsv = (name, lines) => {
    const quote = (cell) => {
      const text = String(cell ?? "");
      return `"${(typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
    };
    const address = URL.createObjectURL(new Blob([lines.map((line) => line.map(quote).join(",")).join("\r\n")], { type: "text/csv" }));
    save(name, address);
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const copyLink = (button, said) => button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      said.textContent = "The link is copied.";
    } catch {
      said.textContent = "Copy the address of this page: it keeps the view.";
    }
  });
  // The name that is most like one that is not there.
  const nearest = (wanted, names, most = 3) => {
    const pieces = (text) => new Set(text.toLowerCase().split(/[^a-z0-9]+/).flatMap((word) => [word, word.slice(0, 4)]).filter(Boolean));
    const own = pieces(wanted);
    const score = (name) => [...pieces(name)].filter((piece) => own.has(piece)).length / (1 + Math.abs(name.length - wanted.length) / 40);
    return [...names].map((name) => [score(name), name]).filter(([s]) => s > 0).sort((a, b) => b[0] - a[0]).slice(0, most).map(([, name]) => name);
  };

  return {
    script, save, saveCsv, copyLink, nearest, element, format, amount, signed, date, shorten, scaleOf, compareVersions,
    async load(name) {
      await script(`data/${name}.js`);
      return loaded.get(name);
    },
    async index() {
      const index = await this.load("index");
      const series = [];
      for (const [name, unit, higher, params, files, rows] of index.benchmarks) {
        for (const [id, machine, env, values, n, file, changed, gone, spread] of rows) {
          const names = params.length === values.length ? params : values.map((_, i) => `param${i + 1}`);
          series.push({
            id, benchmark: name, unit, higher: Boolean(higher), n, changed, gone: Boolean(gone), spread: spread ?? NaN,
            machine: index.machines[machine][0], env: index.envs[env][0], packages: index.envs[env][1], file: files[file],
            params: names.map((own, i) => [own, values[i]]),
          });
        }
      }
      const short = (rows, at) => new Map(rows.map((row) => [row[0], row[at]]));
      return {
        commits: index.commits, series, tags: index.tags, web: index.web,
        measured: index.measured.map(([machine, env, counts]) => [index.machines[machine][0], index.envs[env][0], new Map(counts)]),
        machines: short(index.machines, 1), envs: short(index.envs, 2), packages: short(index.envs, 1),
      };
    },
    // [value, low, high] of a series whose file is there, at one commit; null where it has none.
    at(series, commit) {
      const packed = loaded.get(series.file)[series.id];
      const i = commitsOf(packed).indexOf(commit);
      return i < 0 ? null : one(reader(packed), i);
    },
    async values(series) {
      if (!cache.has(series.id)) {
        await script(series.file);
        cache.set(series.id, unpack(loaded.get(series.file)[series.id]));
      }
      return cache.get(series.id);
    },
  };
})();
