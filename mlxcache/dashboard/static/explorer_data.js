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

  const halves = (text, n) => {
    const out = new Float64Array(n).fill(NaN);
    if (!text) return out;
    const view = new DataView(bytes(text).buffer);
    for (let i = 0; i < n; i += 1) out[i] = halfFloat(view.getUint16(2 * i, true));
    return out;
  };

  const unpack = (packed) => {
    const bits = bytes(packed.c);
    const commits = [];
    for (let i = 0; i < 8 * bits.length; i += 1) if (bits[i >> 3] & (0x80 >> (i & 7))) commits.push(i);
    const view = new DataView(bytes(packed.v).buffer);
    const values = commits.map((_, i) => view.getFloat32(4 * i, true));
    const low = halves(packed.l, commits.length);
    const high = halves(packed.h, commits.length);
    return {
      commits,
      values,
      low: values.map((value, i) => value * (1 + low[i])),
      high: values.map((value, i) => value * (1 + high[i])),
      changes: packed.ch || [],
    };
  };

  const cache = new Map();
  return {
    script,
    async index() {
      await script("data/index.js");
      const index = loaded.get("index");
      const series = [];
      for (const [name, unit, higher, params, files, rows, change] of index.benchmarks) {
        for (const [id, machine, env, values, n, file, changed] of rows) {
          series.push({
            id, benchmark: name, unit, higher: Boolean(higher), paramNames: params, params: values, n, change, changed,
            machine: index.machines[machine], env: index.envs[env][0], packages: index.envs[env][1], file: files[file],
          });
        }
      }
      return { commits: index.commits, series, machines: index.machines, envs: index.envs };
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
