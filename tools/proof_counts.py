"""Slowdowns of one per cent, planted in a clone of this repository, and counted: are they named, and nothing else?

    python tools/proof_counts.py --folder .asv/proof-counts     # `make proof-counts`; goes on where it was stopped
    python tools/proof_counts.py --folder DIR --part seconds    # a piece of it: history, pulls or seconds
    python tools/proof_counts.py --folder DIR --size small      # two plants, ten quiet commits

Twenty pieces of code, each in another place of the decode step or of another kind, are sized to one per cent of
its instructions by counting them, and planted one after the other among commits that do nothing: comments, blank
lines, renamed functions, new functions, documents. Every commit is counted, and `mlxcache regressions` says what
it finds. Then each plant, and some commits that do nothing, are counted twice beside the commit that they start
from, and judged as `compare --measure --count` judges a pull request. Four busy processes run all the while.
`--part seconds` takes the ratio of seconds to bare MLX instead, of the first commits of the same line.

A count is taken as `mlxcache bench --count` takes it, by the same lines, but nothing is built or installed: each
commit's files are imported in a fork of one process that valgrind runs, with MLX and NumPy imported already. That
makes 300 counts a matter of half an hour.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mlxcache.counters.choosing import choose, series_name
from mlxcache.history.comparing.comparison import compare_rounds

try:
    from tools.proof import ROOT, Made, commit, concluded, git, judged, say
except ImportError:  # as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tools.proof import ROOT, Made, commit, concluded, git, judged, say

SHARE = 0.01
BUSY = 4
LAUNCH = str(ROOT / "mlxcache" / "counters" / "launch.py")
COUNT, RATIO = "decode.Decode.count_step", "decode.Relative.track_over_control"
UNITS = {COUNT: "instructions", RATIO: "ratio"}


@dataclass(frozen=True)
class Piece:
    """Code at the start of a function; `{n}` says how much of it."""

    name: str
    module: str
    function: str
    code: str


def _often(line: str) -> str:
    return "for _ in range({n}):\n    " + line


def _lines(line: str) -> str:
    return "{n} times " + line


def _layers(line: str) -> str:
    return "if layer < {n}:\n    " + line.replace("\n", "\n    ")


_FETCH, _SEQUENCE, _LAYOUT = ("kv/cache", "MLXCache.update_and_fetch"), "kv/sequence", "kv/storage/layout"
PIECES = (
    Piece("an extra slice of the keys", *_FETCH, _layers("k[:, :, :1]")),
    Piece("an extra slice of the values' heads", *_FETCH, _layers("v[:, :1]")),
    Piece("a message that nobody reads", *_FETCH, _layers('f"layer {layer} of {self._n_layers}"')),
    Piece("a dictionary for a layer", *_FETCH, _layers("dict(layer=layer, cache=self)")),
    Piece("a shape compared again", *_FETCH, _layers("tuple(k.shape) != tuple(v.shape)")),
    Piece("a sort of what is sorted", *_FETCH, _layers("sorted(positions)")),
    Piece(
        "an exception raised and caught",
        *_FETCH,
        _layers("try:\n    raise KeyError(layer)\nexcept KeyError:\n    pass"),
    ),
    Piece("an attribute looked up by name", *_FETCH, _often('getattr(self, "config", None)')),
    Piece("a dtype asked for again", "kv/cache", "_check_dtypes", _often("k.ndim")),
    Piece("a check in positions", "kv/positions", "host_positions", _lines("isinstance(position, mx.array)")),
    Piece("positions counted again", "kv/positions", "host_positions", _lines("position.size")),
    Piece("a check of a position in each layer", _LAYOUT, "SequenceLayout.lies", _lines("len(())")),
    Piece("positions as a list", _SEQUENCE, "MLXSequenceCache._step_of", _often("list(positions)")),
    Piece("positions as an array", _SEQUENCE, "MLXSequenceCache._step_of", _often("np.asarray(positions)")),
    Piece("a range made anew", _LAYOUT, "SequenceLayout.plan", _often("list(range(10))")),
    Piece("a mask made on the host", "kv/masks", "run_mask", _often("np.zeros((1, 1, 1, 16), bool)")),
    Piece("a mask as an array of MLX", "kv/masks", "run_mask", _often("mx.array([True, False])")),
    Piece("a copy of the layers' work", _SEQUENCE, "MLXSequenceCache._work_of", _often("list(step.works)")),
    Piece("a copy of the pools", _SEQUENCE, "MLXSequenceCache._commit", _often("list(self._key_pools)")),
    Piece("a string of the layout", _LAYOUT, "SequenceLayout.commit", _often("str(id(self))")),
)


def planted(text: str, piece: Piece, n: int) -> str:
    """The module's text with the piece at the start of its function; SystemExit if there is no such function."""
    nodes: list[ast.stmt] = ast.parse(text).body
    found: ast.stmt | None = None
    for name in piece.function.split("."):
        found = next((node for node in nodes if getattr(node, "name", "") == name), None)
        nodes = found.body if isinstance(found, ast.ClassDef | ast.FunctionDef) else []
    if not isinstance(found, ast.FunctionDef):
        raise SystemExit(f"proof: {piece.module} has no {piece.function}")
    documented = ast.get_docstring(found) is not None and len(found.body) > 1
    first = found.body[1 if documented else 0]
    lines = text.splitlines(keepends=True)
    line = piece.code.removeprefix("{n} times ")
    code = line.replace("{n}", str(n)) if line == piece.code else "\n".join([line] * n)
    indent = " " * first.col_offset
    lines[first.lineno - 1 : first.lineno - 1] = [f"{indent}{line}\n" for line in code.splitlines()]
    return "".join(lines)


@dataclass(frozen=True)
class Size:
    """What one run does: plants in the history, quiet commits beside each, quiet pull requests, commits timed."""

    plants: int
    quiet: int
    pulls: int
    timed: int


SIZES = {"small": Size(2, 4, 1, 0), "full": Size(20, 10, 10, 66)}


def quiet_commit(clone: Path, number: int) -> str:
    """A commit that changes nothing which a step executes, most of them in the cache's own files."""
    kv = clone / "mlxcache" / "kv"
    kind = number % 7
    what = ("comment", "document", "blank lines", "renamed function", "new function", "docstring", "test")[kind]
    if kind == 0:
        path = kv / ("sequence.py", "cache.py", "positions.py")[number // 7 % 3]
        path.write_text(f"# Remark {number}: nothing below depends on it.\n" + path.read_text())
    elif kind == 1:
        (clone / "docs" / "remarks.md").write_text(f"# Remarks\n\nNumber {number}.\n")
    elif kind == 2:
        path = kv / ("step.py", "masks.py")[number // 7 % 2]
        path.write_text(re.sub(r"\n\n\n(?=class|def|@)", "\n\n\n\n", path.read_text(), count=1 + number % 3))
    elif kind == 3:
        for path in kv.rglob("*.py"):
            text = path.read_text()
            renamed = re.sub(r"\b_check_dtypes(_\d+)?\b", f"_check_dtypes_{number}", text)
            if renamed != text:
                path.write_text(renamed)
    elif kind == 4:
        path = kv / "sequence.py"
        path.write_text(
            path.read_text() + f'\n\ndef _unused_{number}() -> int:\n    """Not called."""\n    return {number}\n'
        )
    elif kind == 5:
        path = kv / "storage" / "layout.py"
        path.write_text(re.sub(r'^"""', f'"""Edition {number}. ', path.read_text(), count=1))
    else:
        (clone / "tests" / f"test_quiet_{number}.py").write_text(f'"""Nothing {number}."""\n')
    return commit(clone, f"Quiet {number}: {what}")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that compute all the while."""
    running = [
        subprocess.Popen([sys.executable, "-c", "import os\nos.nice(10)\nwhile True: pass"])
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


# Counts [[tree, result], ...] in forks; what no commit changes is imported once.
COUNTING = """
import json, os, runpy, sys, time
from pathlib import Path
launch, dumps, jobs, minutes = sys.argv[1:]
counters = runpy.run_path(launch)["counters"]()
import mlx.core, numpy, statistics, timeit
ends = time.monotonic() + 60 * float(minutes)

def count(tree, out):
    reader = counters.choosing.named("valgrind").open(Path(dumps))
    sys.path.insert(0, tree)
    from benchmarks.decode import Decode
    step, params = Decode(), ("int32", 128, 128)
    found = counters.sampling.sample(
        lambda: step.time_step(*params), reader, lambda: step.setup(*params), False, 1)
    Path(out).write_text(json.dumps({**found, "load": os.getloadavg()[0]}))

for tree, out in json.loads(Path(jobs).read_text()):
    if not Path(out).exists() and time.monotonic() < ends:
        child = os.fork()
        if child == 0:
            try:
                count(tree, out)
            finally:
                sys.stderr.flush()
                os._exit(0)
        os.waitpid(child, 0)
"""
TIMING = """
import sys
sys.path.insert(0, sys.argv[1])
from benchmarks.decode import Relative
print(Relative().track_over_control("int32", 128, 1024))
"""


class CountProof:
    """One run in a folder; what it found is kept piece by piece."""

    def __init__(self, folder: Path, size: Size, say: Callable[[str], None], minutes: float) -> None:
        self.folder, self.plan, self.say, self.minutes = folder, size, say, minutes
        self.clone = folder / "clone"

    def part(self, name: str) -> None:
        """Do a part, or go on with it."""
        facts = self.kept("made.json", self.make)
        made = [Made(**each) for each in facts["made"]]
        if name == "history":
            self.keep("history.json", self.history(made))
        elif name == "pulls":
            self.keep("pulls.json", self.judge(made[0].commit, facts["pulls"]))
        elif self.plan.timed:
            self.keep("seconds.json", self.seconds(made[: self.plan.timed]))

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, from the folder if an earlier run got there."""
        path = self.folder / name
        if not path.exists():
            self.keep(name, make())
        return json.loads(path.read_text())

    def keep(self, name: str, value: Any) -> None:
        """Put it into the folder, whole or not at all."""
        beside = self.folder / f"{name}.part"
        beside.write_text(json.dumps(value))
        beside.replace(self.folder / name)

    def make(self) -> dict[str, Any]:
        """Clone, size the pieces, plant them."""
        shutil.rmtree(self.clone, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(self.clone)], check=True)
        git(self.clone, "checkout", "-q", "-b", "main-line")
        pieces = PIECES[:: len(PIECES) // self.plan.plants][: self.plan.plants]
        sizes = self.sized(pieces)
        self.say("sized: " + ", ".join(f"{piece.name} {sizes[piece.name]}" for piece in pieces))
        made, numbers = [], itertools.count()
        for piece in pieces:
            made += [Made(quiet_commit(self.clone, next(numbers)), "") for _ in range(self.plan.quiet)]
            made.append(Made(self.plant(piece, sizes[piece.name]), piece.name))
        made += [Made(quiet_commit(self.clone, next(numbers)), "") for _ in range(2)]
        start, pulls = made[0].commit, []
        for piece in pieces:
            git(self.clone, "checkout", "-q", "--detach", start)
            pulls.append((piece.name, self.plant(piece, sizes[piece.name])))
        for place in range(self.plan.pulls):
            git(self.clone, "checkout", "-q", "--detach", start)
            pulls.append(("", quiet_commit(self.clone, 1000 + place)))
        for name, (_, head) in zip(itertools.count(), pulls, strict=False):
            git(self.clone, "branch", f"pull-{name}", head)
        git(self.clone, "checkout", "-q", "main-line")
        return {"made": [asdict(each) for each in made], "pulls": pulls, "sizes": sizes}

    def plant(self, piece: Piece, n: int) -> str:
        """Plant it; the commit."""
        path = self.clone / "mlxcache" / f"{piece.module}.py"
        # A quiet commit may have renamed it.
        renamed = re.search(rf"\b{re.escape(piece.function)}_\d+\b", path.read_text())
        there = Piece(piece.name, piece.module, renamed[0] if renamed else piece.function, piece.code)
        path.write_text(planted(path.read_text(), there, n))
        return commit(self.clone, f"Refactor {piece.module}")

    def sized(self, pieces: Sequence[Piece]) -> dict[str, int]:
        """How much of each piece makes a per cent of the step."""
        tried = 8
        trees = {"plain": self.tree("HEAD", "plain")}
        for place, piece in enumerate(pieces):
            tree = trees[piece.name] = self.tree("HEAD", f"piece-{place}")
            path = tree / "mlxcache" / f"{piece.module}.py"
            path.write_text(planted(path.read_text(), piece, tried))
        counts = self.counted("sizing", [(tree, tree.name) for tree in trees.values()])
        step = counts["plain"]
        more = {piece.name: counts[trees[piece.name].name] / step - 1 for piece in pieces}
        return {name: max(1, round(tried * SHARE / share)) for name, share in more.items()}

    def tree(self, revision: str, name: str) -> Path:
        """The files of a commit that a step imports, compiled."""
        folder = self.folder / "trees" / name
        if not folder.exists():
            beside = self.folder / "trees" / "part"
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(parents=True)
            parts = ("mlxcache/__init__.py", "mlxcache/kv", "benchmarks")
            packed = subprocess.run(
                ["git", "-C", str(self.clone), "archive", revision, *parts], stdout=subprocess.PIPE, check=True
            )
            subprocess.run(["tar", "x", "-C", str(beside)], input=packed.stdout, check=True)
            subprocess.run([sys.executable, "-m", "compileall", "-q", "mlxcache"], cwd=beside, check=True)
            beside.replace(folder)
        return folder

    def counted(self, part: str, jobs: Sequence[tuple[Path, str]]) -> dict[str, float]:
        """The counts of trees, by the name given; without those that there was no time for."""
        folder = self.folder / part
        folder.mkdir(exist_ok=True)
        (folder / "counting.py").write_text(COUNTING)
        (folder / "jobs.json").write_text(json.dumps([(str(tree), str(folder / f"{n}.json")) for tree, n in jobs]))
        given = [LAUNCH, str(folder), str(folder / "jobs.json"), str(self.minutes)]
        subprocess.run(
            [sys.executable, LAUNCH, "valgrind", str(folder), str(folder / "counting.py"), *given], check=True
        )
        there = [name for _, name in jobs if (folder / f"{name}.json").exists()]
        self.say(f"{part}: {len(there)} of {len(jobs)} counted")
        texts = ((folder / f"{name}.json").read_text() for name in there)
        return {
            name: statistics.median(json.loads(text)["samples"]) for name, text in zip(there, texts, strict=True)
        }

    def history(self, made: list[Made]) -> dict[str, Any]:
        """Count every commit of the line, and judge it."""
        # A run that is ended early has all plants, and quiet commits on both sides of each.
        length = self.plan.quiet + 1
        ranks = {last: rank for rank, last in enumerate((length - 1, length - 2, 0))}
        order = sorted(
            range(len(made)), key=lambda place: (ranks.get(place % length, length), place % length, place)
        )
        jobs = [
            (self.tree(made[place].commit, made[place].commit[:10]), made[place].commit[:10]) for place in order
        ]
        counts = self.counted("history", jobs)
        made = [each for each in made if each.commit[:10] in counts]
        values = [counts[each.commit[:10]] for each in made]
        texts = [(self.folder / "history" / f"{each.commit[:10]}.json").read_text() for each in made]
        loads = [json.loads(text)["load"] for text in texts]
        levels: list[list[float]] = [[]]
        for each, value in zip(made, values, strict=True):
            if each.planted:
                levels.append([])
            levels[-1].append(value)
        return {
            **self.named(COUNT, dict(zip(made, values, strict=True))),
            "counts": values,
            "load": [min(loads), statistics.median(loads), max(loads)],
            "apart": [max(level) / min(level) - 1 for level in levels if len(level) > 1],
            "rises": [statistics.median(b) / statistics.median(a) - 1 for a, b in itertools.pairwise(levels)],
        }

    def seconds(self, made: list[Made]) -> dict[str, Any]:
        """Time the line instead."""
        values = {}
        for each in made:
            tree = str(self.tree(each.commit, each.commit[:10]))
            said = subprocess.run(
                [sys.executable, "-c", TIMING, tree], stdout=subprocess.PIPE, text=True, check=True
            )
            values[each] = float(said.stdout)
        return {**self.named(RATIO, values), "ratios": list(values.values())}

    def named(self, benchmark: str, values: Mapping[Made, float]) -> dict[str, Any]:
        """What `mlxcache regressions` says of these results."""
        results = self.folder / "results" / benchmark
        machine = results / "proof"
        machine.mkdir(parents=True, exist_ok=True)
        (machine / "machine.json").write_text(json.dumps({"machine": "proof", "version": 1}))
        entry = {"name": benchmark, "param_names": [], "params": [], "type": "track", "version": "1"}
        suite = {benchmark: {**entry, "unit": UNITS[benchmark]}, "version": 2}
        (results / "benchmarks.json").write_text(json.dumps(suite))
        label = series_name(choose("valgrind"))
        env = f"python-MLXCACHE_COUNTER{label}" if benchmark == COUNT else "python"
        for place, (each, value) in enumerate(values.items()):
            document = {
                "commit_hash": each.commit,
                "env_name": env,
                "date": 1_700_000_000_000 + 60_000 * place,
                "params": {"machine": "proof"},
                "python": "",
                "requirements": {},
                "env_vars": {},
                "result_columns": ["result", "params", "version"],
                "results": {benchmark: [[value], [], "1"]},
                "durations": {},
                "version": 2,
            }
            (machine / f"{each.commit[:8]}-python.json").write_text(json.dumps(document))
        program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from mlxcache.cli import main; sys.exit(main())"
        given = ["regressions", "--results", str(results), "--repo", str(self.clone), "--branch", "main-line"]
        done = subprocess.run(
            [sys.executable, "-c", program, *given, "--format", "json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode == 2:
            raise SystemExit("proof: mlxcache regressions could not be done")
        return judged(list(values), json.loads(done.stdout)["changes"])

    def judge(self, base: str, pulls: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Each pull request beside the commit that it starts from, in two rounds."""
        jobs = []
        for place, (_, head) in enumerate(pulls):
            for number, sides in enumerate((("base", "head"), ("head", "base"))):
                for side in sides:
                    tree = base if side == "base" else head
                    jobs.append((self.tree(tree, tree[:10]), f"{place}-{number}-{side}"))
        counts = self.counted("pulls", jobs)
        found = []
        for place, (what, _) in enumerate(pulls):
            if not all(f"{place}-{number}-{side}" in counts for number in range(2) for side in ("base", "head")):
                continue
            rows = [
                {"machine": "proof", "env": "python", "benchmark": COUNT, "params": "", "version": "1",
                 "unit": UNITS[COUNT], "round": number, "side": side, "value": counts[f"{place}-{number}-{side}"]}
                for number in range(2)
                for side in ("base", "head")
            ]  # fmt: skip
            series = compare_rounds(pd.DataFrame(rows)).iloc[0]
            facts = {key: float(series[key]) for key in ("change", "low", "high")}
            found.append({"planted": what, "verdict": str(series["verdict"]), **facts})
        return found

    def facts(self) -> dict[str, Any]:
        """What there is so far."""
        paths = {name: self.folder / f"{name}.json" for name in ("made", "history", "seconds", "pulls")}
        return {name: json.loads(path.read_text()) if path.exists() else None for name, path in paths.items()}


def report(facts: dict[str, Any]) -> str:
    """The facts as Markdown."""
    lines = ["| | planted | named | at the very commit | quiet | named by mistake |", "|---|---|---|---|---|---|"]
    for name, key in (("counts, history", "history"), ("seconds, history", "seconds")):
        part = facts[key]
        if part:
            hits = part["history"]
            named = [sum(hit[what] for hit in hits) for what in ("found", "exact")]
            lines.append(
                f"| {name} | {len(hits)} | {named[0]} | {named[1]} | {part['quiet']} | {len(part['false'])} |"
            )
    if facts["pulls"]:
        slow, quiet = ([p for p in facts["pulls"] if bool(p["planted"]) is is_slow] for is_slow in (True, False))
        named = [sum(p["verdict"] == "regression" for p in part) for part in (slow, quiet)]
        lines.append(f"| counts, pull requests | {len(slow)} | {named[0]} | | {len(quiet)} | {named[1]} |")
    if facts["history"]:
        part = facts["history"]
        lines += [
            "",
            f"Counts of the same code, all between two plants, lay at most {max(part['apart']):.2%} apart, in the "
            f"middle {statistics.median(part['apart']):.2%}.",
            "",
            "| planted | in the history | as a pull request (95 %) |",
            "|---|---:|---:|",
        ]
        pulls = {pull["planted"]: pull for pull in facts["pulls"] or ()}
        for hit, rise in zip(part["history"], part["rises"], strict=True):
            pull = pulls.get(hit["planted"])
            told = f"{pull['change']:+.2%} ({pull['low']:+.2%} to {pull['high']:+.2%})" if pull else ""
            lines.append(f"| {hit['planted']} | {rise:+.2%} | {told} |")
    return "\n".join(lines) + "\n"


def missed(facts: dict[str, Any]) -> list[str]:
    """What counts must reach; empty if they did."""
    part = facts["history"]
    wrong = []
    if part:
        wrong += [
            f"the history does not name {hit['planted']} at {hit['commit']}"
            for hit in part["history"]
            if not hit["exact"]
        ]
        wrong += [f"the history names {false['commit']}, which does nothing" for false in part["false"]]
        wrong += [f"counts of one code lie {apart:.2%} apart" for apart in part["apart"] if apart >= 0.003]
    for pull in facts["pulls"] or ():
        if (pull["verdict"] == "regression") is not bool(pull["planted"]):
            wrong.append(f"a pull request with {pull['planted'] or 'nothing'} is {pull['verdict']}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 1 if counts missed something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where to work, and to go on")
    parser.add_argument("--size", choices=tuple(SIZES), default="full")
    parser.add_argument("--part", action="append", choices=("history", "pulls", "seconds"), help="default: all")
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="count no longer; judge what there is by then"
    )
    parser.add_argument("--out", type=Path, help="write all facts to this file, as JSON")
    args = parser.parse_args(arguments)

    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    proof = CountProof(folder, SIZES[args.size], say, args.minutes)
    with busy(BUSY):
        for part in args.part or ("history", "pulls", "seconds"):
            proof.part(part)
    facts = proof.facts()
    print(report(facts))
    if args.out:
        args.out.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return concluded(missed(facts))


if __name__ == "__main__":
    sys.exit(main())
