"""Times `load`, `change_points` and `build_site` on a tree of the size of the largest public ones, made up.

    python tools/bench_history.py make DIR            write the tree: 1,400 files, 550 MB, 8.7 million values
    python tools/bench_history.py load DIR            time and peak memory, without and with the cache, and
                                                      after one new file that adds a value to every series
    python tools/bench_history.py site DIR            the same with a site: time of each stage and of all, for a
                                                      new site, the same again, and after one new file

Each measurement runs in a process of its own, so that peak memory is that of one load; files are in the
operating system's cache. `--files` and `--series` make smaller trees, `--steps` plants changes of 10 % or more.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FILES, SERIES = 1_400, 10_800
COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
    "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
# How many parameter sets a benchmark has, over and over; the mean is 18.
SHAPES = [(), (4,), (2, 3), (6, 4), (3, 3, 4), (2, 2, 2, 2), (8, 5)]
NAN, INF = 123456789.25, 987654321.25  # stand-ins that no value has; written as NaN and Infinity


def make(root: Path, n_files: int, n_series: int, n_steps: int = 0) -> None:
    """Write the tree: the suite grows from a sixth of its series to all of them, every file has skips.

    So many series change once, by 10 % to half, up or down, each at a file of its own.
    """
    rng = np.random.default_rng(20_240_501)
    suite = []
    total = 0
    while total < n_series:
        shape = SHAPES[len(suite) % len(SHAPES)]
        params = [
            [f"'{'abcdefgh'[i]}{k}'" if k % 2 else str(10 ** (i + 1)) for i in range(n)]
            for k, n in enumerate(shape)
        ]
        size = int(np.prod(shape, dtype=int))
        name = f"module_{len(suite) // 40}.Suite{len(suite) // 7}.time_case_{len(suite)}"
        suite.append((name, params, size, f"{rng.integers(2**62):064x}"))
        total += size
    base = 10.0 ** rng.uniform(-4, -2, total)
    starts = np.cumsum([0, *(size for _, _, size, _ in suite)])
    introduced = np.linspace(-n_files / 6, n_files, len(suite)).astype(int)
    rng.shuffle(introduced)
    moving = rng.permutation(total)[:n_steps]
    moves_at = rng.integers(n_files // 2, n_files, len(moving))
    moves_by = rng.uniform(1.1, 1.5, len(moving)) ** rng.choice([-1, 1], len(moving))
    machine = root / "bench-machine"
    machine.mkdir(parents=True, exist_ok=True)
    facts = {
        "machine": machine.name,
        "os": "Linux",
        "arch": "x86_64",
        "cpu": "cpu",
        "num_cpu": "8",
        "ram": "64",
    }
    (machine / "machine.json").write_text(json.dumps({**facts, "version": 1}))
    entries = {
        name: {"name": name, "params": params, "param_names": ["a", "b", "c", "d"][: len(params)],
               "unit": "seconds", "type": "time", "version": version}
        for name, params, _, version in suite
    }  # fmt: skip
    (root / "benchmarks.json").write_text(json.dumps({**entries, "version": 2}))
    for number in range(n_files):
        rows = {}
        base[moving[moves_at == number]] *= moves_by[moves_at == number]
        value = np.rint(base * rng.lognormal(0, 0.03, total) * 1e8) / 1e8
        spread = np.rint(value * 0.02 * 1e8) / 1e8
        columns = [value, value - 2 * spread, value + 2 * spread, value - spread, value + spread]
        columns = [np.rint(column * 1e8) / 1e8 for column in columns]
        columns[0] = columns[0] + rng.uniform(0, 1e-9, total)  # results have all their digits
        skipped = rng.random(total) < 0.01
        for column in columns:
            column[skipped] = NAN
        unsure = rng.random(total) < 0.02
        columns[1][unsure], columns[2][unsure] = -INF, INF
        for index, (name, params, size, version) in enumerate(suite):
            if introduced[index] > number:
                continue
            part = slice(starts[index], starts[index] + size)
            result, low, high, q25, q75 = (column[part].tolist() for column in columns)
            when = 1_700_000_000_000 + number
            rows[name] = [result, params, version, when, 3.2]
            if index % 3:  # a third of the suite measures memory, which has no statistics
                rows[name] += [low, high, q25, q75, [1] * size, [10] * size]
        content = {
            "commit_hash": f"{number:08x}{'ab' * 16}", "env_name": "virtualenv-py3.12", "version": 2,
            "date": 1_500_000_000_000 + number * 3_600_000, "params": facts, "python": "3.12",
            "requirements": {}, "env_vars": {}, "result_columns": COLUMNS, "results": rows, "durations": {},
        }  # fmt: skip
        text = json.dumps(content).replace(repr(NAN), "NaN").replace(repr(INF), "Infinity")
        (machine / f"{number:08x}-virtualenv-py3.12.json").write_text(text)


def one(root: Path, cache: Path | None) -> None:
    """Load once in this process and print what it took."""
    started = time.perf_counter()
    history = importlib.import_module("mlxcache.history")
    reader, detect = history.load, history.change_points
    imported = time.perf_counter()
    df = reader(root, cache=cache if cache is not None else False)
    loaded = time.perf_counter()
    changes = detect(df, cache=cache if cache is not None else False)
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    print(
        f"{done - imported:6.2f} s = {loaded - imported:.2f} load + {done - loaded:.2f} detect"
        f" (and {imported - started:.2f} imports; {time.process_time():.2f} s of CPU in all), peak {peak:.2f} GiB,"
        f" {len(df):,} rows, {df.series.nunique():,} series, {len(changes):,} changes,"
        f" {df.facts.problems.summary()}"
    )


def one_site(root: Path, cache: Path, out: Path) -> None:
    """What `mlxcache dashboard` does, in this process, and what each stage took."""
    started = time.perf_counter()
    importlib.import_module("mlxcache.commands.dashboard")
    history = importlib.import_module("mlxcache.history")
    site = importlib.import_module("mlxcache.dashboard.site")
    times = [time.perf_counter()]
    whole = history.read(root, cache=cache)
    times.append(time.perf_counter())
    changes = history.change_points(whole, cache=cache)
    times.append(time.perf_counter())
    built = site.build_site(whole, changes, out)
    times.append(time.perf_counter())
    load_s, detect_s, site_s = (b - a for a, b in itertools.pairwise(times))
    print(
        f"{times[-1] - times[0]:6.2f} s = {load_s:.2f} load + {detect_s:.2f} detect + {site_s:.2f} site"
        f" (and {times[0] - started:.2f} imports; {time.process_time():.2f} s of CPU in all),"
        f" {built.n_written:,} of {built.n_files:,} files written, {built.n_bytes / 1e6:.0f} MB"
    )


def measure(root: Path, cache: Path | None, label: str, out: Path | None = None) -> None:
    """`one`, or `one_site` where there is an `out`, in a process of its own."""
    arguments = [] if cache is None else ["--cache", str(cache)]
    arguments += [] if out is None else ["--out", str(out)]
    command = [sys.executable, __file__, "one", str(root), *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(f"{label:26}{output.strip()}", flush=True)


@contextlib.contextmanager
def one_more_file(root: Path) -> Iterator[None]:
    """Gives the tree a copy of its newest file for a commit more."""
    last = max(root.glob("bench-machine/0*.json"))
    new = last.with_name(f"ffffffff-{last.name.partition('-')[2]}")
    try:
        new.write_text(last.read_text().replace(last.name[:8], "ffffffff", 1))
        yield
    finally:
        new.unlink()


def describe(root: Path) -> None:
    """A line about the tree."""
    files = list(root.glob("*/0*.json"))
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files):,} result files, {size / 1e6:.0f} MB, on {os.cpu_count()} cores")


def load(root: Path) -> None:
    """The table of measurements of loading and detecting."""
    describe(root)
    with tempfile.TemporaryDirectory() as cache:
        measure(root, None, "no cache")
        measure(root, Path(cache), "empty cache")
        measure(root, Path(cache), "full cache")
        with one_more_file(root):
            measure(root, Path(cache), "full cache, one new file")
        used = sum(path.stat().st_size for path in Path(cache).rglob("*") if path.is_file())
        print(f"cache on disk: {used / 1e6:.0f} MB")


def site(root: Path) -> None:
    """The table of measurements of a whole build; the cache is full but for the new file."""
    describe(root)
    with tempfile.TemporaryDirectory() as folder:
        cache, out = Path(folder, "cache"), Path(folder, "site")
        measure(root, cache, "empty cache, new site", out)
        measure(root, cache, "nothing new", out)
        with one_more_file(root):
            measure(root, cache, "one new file", out)
        shutil.rmtree(out)
        measure(root, cache, "full cache, new site", out)


def main() -> None:
    """See the module's head."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["make", "load", "site", "one"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--series", type=int, default=SERIES)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.action == "make":
        started = time.perf_counter()
        make(args.folder, args.files, args.series, args.steps)
        print(f"made in {time.perf_counter() - started:.0f} s")
    elif args.action == "load":
        load(args.folder)
    elif args.action == "site":
        site(args.folder)
    elif args.out is not None:
        one_site(args.folder, args.cache, args.out)
    else:
        one(args.folder, args.cache)


if __name__ == "__main__":
    main()
