"""Fills in every number of README and docs that comes from results/, by one rule: `make numbers`.

The rule: on each machine, with the newest release of MLX, a number is the value (asv's median) at the newest
commit that measured the whole suite, where "whole" is nine tenths of the benchmarks that the machine has ever
measured; where that commit lacks it, at the newest commit that has it. Beside it stands the range over the last
ten commits that have it. A miss of a bound is bold, by the newest value.

Between `<!-- numbers: NAME -->` and `<!-- /numbers -->` a text is made here; tests/test_numbers.py fails when text
and results part.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlxcache.history import load
from mlxcache.reports.ring_goals import goals

ROOT = Path(__file__).resolve().parent.parent
FILES = ("README.md", "docs/measuring.md")
WHOLE = 0.9
RUNS = 10
LAYERS = 32
BLOCK = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n)(.*?)(<!-- /numbers -->)", re.DOTALL)


@dataclass(frozen=True)
class Number:
    """A value, the range over the runs that have it, how many these are, and the commit of the value."""

    value: float
    low: float
    high: float
    runs: int
    commit: str


class Results:
    """The committed results of this repository's own machines."""

    def __init__(self, root: Path) -> None:
        df = load(root / "results", repo=root, cache=False)
        rows = df[(df["status"] == "ok").to_numpy() & (df["req_mlx"] == df["req_mlx"].max()).to_numpy()]
        self._by = {str(name): group for name, group in rows.groupby("machine", observed=True)}

    def machine(self, ending: str) -> str:
        """The machine whose name ends so."""
        return next(name for name in self._by if name.endswith(ending))

    def whole(self, machine: str) -> str:
        """The newest commit that measured the whole suite there."""
        rows = self._by[machine]
        counts = rows.groupby("commit_index")["benchmark"].nunique()
        index = int(counts[counts >= WHOLE * counts.max()].index.max())
        return str(rows.loc[(rows["commit_index"] == index).to_numpy(), "commit"].iloc[0])

    def number(self, machine: str, benchmark: str, params: str) -> Number | None:
        """One series' number by the rule; None where it was never measured."""
        rows = self._by[machine]
        found = rows[((rows["benchmark"] == benchmark) & (rows["params"] == params)).to_numpy()]
        if found.empty:
            return None
        # Values of an older version of a benchmark are of something else.
        found = found[(found["version"].astype("str") == str(found["version"].iloc[-1])).to_numpy()]
        medians = found.groupby("commit_index")["value"].median().sort_index().iloc[-RUNS:]
        names = dict(zip(found["commit_index"], found["commit"].astype("str"), strict=True))
        whole = [index for index, name in names.items() if name == self.whole(machine)]
        index = whole[0] if whole and whole[0] in medians.index else int(medians.index[-1])
        value = float(medians[index])
        return Number(value, float(medians.min()), float(medians.max()), len(medians), names[index])


def _us(number: Number | None, scale: float = 1e6, digits: int = 3) -> str:
    if number is None:
        return "-"
    return _with_range(number, lambda value: _figures(value * scale, digits))


def _figures(value: float, digits: int) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def _with_range(number: Number, show: Callable[[float], str]) -> str:
    if number.runs < 2:
        return show(number.value)
    return f"{show(number.value)} ({show(number.low)} to {show(number.high)})"


def _ratio(number: Number | None, bound: float | None = None) -> str:
    if number is None:
        return "-"
    shown = f"{number.value:.3f}"
    if bound is not None and number.value > bound + 5e-4:
        shown = f"**{shown}**"
    return shown if number.runs < 2 else f"{shown} ({number.low:.3f} to {number.high:.3f})"


def _table(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [header, rule, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


CPU, GPU = "vm-cpu", "nvidia_h200"
_READS = "positions.Positions.time_read_32_layers"
_PATHS = "ratios.Paths.track_int64_over_int32"
_TOKENS = (1, 16, 128, 2048, 16384)
_OPTIONS = (
    ("host", "int32", "int32, the tensor's own buffer (mlxcache)"),
    ("host", "int64", "int64, narrowed with a range check (mlxcache)"),
    ("copy", "int32", "int32, copied, no check"),
    ("copy", "int64", "int64, copied, no check"),
    ("first", "int32", "int32, element 0 only"),
    ("first", "int64", "int64, element 0 only"),
    ("device_cast", "int32", "int32, cast on the device first"),
    ("device_cast", "int64", "int64, cast on the device first"),
)


def reads(results: Results, ending: str, tokens: tuple[int, ...]) -> str:
    """Microseconds of a step's 32 reads, by option and number of tokens, on one machine."""
    machine = results.machine(ending)
    rows = [
        [
            text,
            *(
                _us(
                    results.number(
                        machine, "positions.Positions.time_read_32_layers", f"'{option}', '{path}', {n}"
                    )
                )
                for n in tokens
            ),
        ]
        for option, path, text in _OPTIONS
    ]
    return _table(["us for the 32 reads of a step", *(f"T = {n:,}" for n in tokens)], rows)


def _reads_cpu(results: Results) -> str:
    machine = results.machine(CPU)
    return f"CPU, two shared cores, commit {results.whole(machine)[:8]}:\n\n{reads(results, CPU, _TOKENS)}"


def _reads_gpu(results: Results) -> str:
    machine = results.machine(GPU)
    return f"NVIDIA H200, commit {results.whole(machine)[:8]}:\n\n{reads(results, GPU, _TOKENS)}"


def _whole_step(results: Results) -> str:
    rows = []
    for n in (1, 128):
        found = [
            results.number(results.machine(e), "ratios.Paths.track_int64_over_int32", str(n)) for e in (CPU, GPU)
        ]
        rows.append([f"{n} token{'s' * (n > 1)}", *map(_ratio, found)])
    return _table(["the whole step, int64 over int32", "CPU", "NVIDIA H200"], rows)


def _instructions(results: Results) -> str:
    machine, rows = results.machine(CPU), []
    found: dict[tuple[str, str], Number | None] = {}
    for cache in ("sequence", "cell", "bare reading", "bare", "KVCache"):
        for path in ("int32", "int64"):
            params = f"'{cache}', '{path}'"
            found[cache, path] = results.number(machine, "instructions.Next.count_token", params)
    for cache, says in (
        ("sequence", "mlxcache, one sequence"),
        ("cell", "mlxcache, cells"),
        ("bare reading", "bare MLX that reads positions"),
        ("bare", "bare MLX that knows them"),
        ("KVCache", "mlx-lm's `KVCache`"),
    ):
        narrow, wide = found[cache, "int32"], found[cache, "int64"]
        assert narrow is not None
        shown = [f"{number.value / LAYERS / 1e3:.1f}" if number else "-" for number in (narrow, wide)]
        rows.append([says, *shown, f"{wide.value / narrow.value:.3f}" if wide else "-"])
    number = found["sequence", "int32"]
    assert number is not None
    header = ["thousands of instructions a layer, one token", "int32", "int64", "int64 over int32"]
    return f"CPU, commit {number.commit[:8]}:\n\n{_table(header, rows)}"


def _model(results: Results) -> str:
    rows = []
    for kind in ("sequence", "cell"):
        for path in ("host", "int32", "int64"):
            cells = []
            for ending in (CPU, GPU):
                for model in ("llama", "gemma3_text"):
                    params = f"'{model}', '{kind}', '{path}'"
                    number = results.number(results.machine(ending), "model.ModelRatio.track_over_mlx_lm", params)
                    cells.append(_ratio(number, 1.0 if path == "host" else None))
            rows.append([f"`{kind}`, {path} positions", *cells])
    header = ["a token over mlx-lm's own", "CPU, Llama", "CPU, Gemma 3", "H200, Llama", "H200, Gemma 3"]
    return _table(header, rows)


@dataclass(frozen=True)
class Promise:
    """A row of the table of promises: what, the bound if there is one, and the series."""

    text: str
    bound: float | None
    benchmark: str
    params: str


_INTS = ("int32", "int64")
_PEERS, _CELLS = "ratios.Peers.track_decode", "cells.CellRatio.track_decode"
_PREFILL = "ratios.Prefill.track_over_bare"
_BATCH, _FOOTPRINT = "cells.BatchRatio.track_over_separate", "footprint.Footprint.track_"

PROMISES = (
    *(Promise(f"one token over mlx-lm's `KVCache`, {p}", 1.0, _PEERS, f"'{p}', 'KVCache'") for p in _INTS),
    *(Promise(f"over a bare loop that reads, {p}", 1.1, _PEERS, f"'{p}', 'bare reading'") for p in _INTS),
    *(Promise(f"cells over the bare loop that reads, {p}", 1.1, _CELLS, f"'{p}', 'bare reading'") for p in _INTS),
    *(Promise(f"cells over the sequence cache, {p}", 1.3, _CELLS, f"'{p}', 'sequence'") for p in _INTS),
    *(Promise(f"context {n} over 1024", 1.1, "ratios.Context.track_over_1024", str(n)) for n in (4096, 32768)),
    Promise("32 layers over four times 8", None, "ratios.Layers.track_32_over_4_times_8", ""),
    Promise("p99 of a flat lap with a copy in it, over one without", None, "ratios.AfterCopy.track_p99", "256"),
    *(
        Promise(f"prefill of {n} over bare", 1.05, "ratios.Prefill.track_over_bare", str(n))
        for n in (128, 512, 2048)
    ),
    *(Promise(f"`Pool.write` of {n} over bare", None, "pool.Write.track_over_bare", str(n)) for n in (1, 128)),
    *(Promise(f"{n} sequences in one step over a cache each", 1.0, _BATCH, str(n)) for n in (4, 8)),
    Promise("peak at a growth step, in old pools", 3.0, f"{_FOOTPRINT}growth_peak_of_old_pool", ""),
    Promise("peak of a decode step over what is held", 1.005, f"{_FOOTPRINT}decode_peak_of_held", ""),
    Promise("what a cache holds over its cells", 1.005, f"{_FOOTPRINT}cache_of_cells", ""),
)


def _promises(results: Results) -> str:
    rows = []
    for promise in PROMISES:
        found = [results.number(results.machine(e), promise.benchmark, promise.params) for e in (CPU, GPU)]
        bound = "" if promise.bound is None else f"<= {promise.bound:g}"
        shown = [_ratio(number, promise.bound) for number in found]
        rows.append([f"{promise.text} (`{promise.benchmark.rpartition('.')[0]}`)", bound, *shown])
    return _table(["promise", "bound", "CPU", "NVIDIA H200"], rows)


def _rings(results: Results) -> str:
    rows = []
    for goal in goals():
        found = [results.number(results.machine(e), goal.benchmark, goal.params) for e in (CPU, GPU)]
        rows.append([goal.says, f"<= {goal.most:g}", *(_ratio(number, goal.most) for number in found)])
    return _table(["a ring's goal", "bound", "CPU", "NVIDIA H200"], rows)


def _commits(results: Results) -> str:
    parts = [f"{what} {results.whole(results.machine(e))[:8]}" for what, e in (("CPU", CPU), ("NVIDIA H200", GPU))]
    return f"Newest commits with the whole suite: {', '.join(parts)}.\n"


def _releases(results: Results) -> str:
    df = load(ROOT / "results", repo=ROOT, cache=False)
    from mlxcache.history import side_by_side

    cpu = df[df["machine"].astype("str").str.endswith(CPU).to_numpy()]
    lines = side_by_side(cpu, "mlx")
    wanted = [
        ("bare step, us", "control.Control.time_bare_step", "", 1e6),
        ("one token int32, us", "decode.Decode.time_step", "'int32', 128, 1024", 1e6),
        ("over the control, int32", "decode.Relative.track_over_control", "'int32', 128, 1024", 1.0),
        ("int64", "decode.Relative.track_over_control", "'int64', 128, 1024", 1.0),
        ("32 reads int32, us", "positions.Positions.time_read_32_layers", "'host', 'int32', 1", 1e6),
        ("32 casts of int64, us", "positions.Positions.time_read_32_layers", "'device_cast', 'int64', 1", 1e6),
        ("chunk of 128, us", "prefill.Prefill.time_chunk", "'int32', 128, 128", 1e6),
        ("chunk of 128 over the control", "prefill.Relative.track_over_control", "'int32', 128", 1.0),
    ]
    shown = [row for row in wanted if ((lines["benchmark"] == row[1]) & (lines["params"] == row[2])).any()]
    rows = []
    for release in lines["release"].cat.categories:
        cells = []
        for _, benchmark, params, scale in shown:
            fits = lines[
                (
                    (lines["benchmark"] == benchmark) & (lines["params"] == params) & (lines["release"] == release)
                ).to_numpy()
            ]
            cells.append("-" if fits.empty else _figures(float(fits["value"].iloc[0]) * scale, 4))
        rows.append([str(release), *cells])
    commit = str(lines["commit"].iloc[0])[:8]
    return f"Commit {commit}, CPU, medians:\n\n{_table(['MLX', *(row[0] for row in shown)], rows)}"


MAKERS: dict[str, Callable[[Results], str]] = {
    "commits": _commits,
    "instructions": _instructions,
    "model": _model,
    "promises": _promises,
    "reads-cpu": _reads_cpu,
    "reads-gpu": _reads_gpu,
    "releases": _releases,
    "rings": _rings,
    "whole-step": _whole_step,
}


def filled(text: str, results: Results) -> str:
    """The text with every block made from the results. KeyError for a block that nothing makes."""
    return BLOCK.sub(lambda found: f"{found[1]}{MAKERS[found[2]](results)}{found[4]}", text)


def main() -> int:
    """Fill in, or with --check say which files are not what the results make of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a text is out of date")
    args = parser.parse_args()
    results = Results(ROOT)
    stale = []
    for name in FILES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        made = filled(text, results)
        if made != text:
            stale.append(name)
            if not args.check:
                path.write_text(made, encoding="utf-8")
    said = "is not what results/ say; run `make numbers`" if args.check else "filled in"
    for name in stale:
        print(f"{name}: {said}", file=sys.stderr)
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
