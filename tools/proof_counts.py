"""Slowdowns of one per cent, planted in a clone of this repository, and counted: are they named, and nothing else?

    python tools/proof_counts.py --folder .asv/proof-counts     # `make proof-counts`; goes on where it was stopped
    python tools/proof_counts.py --folder DIR --part seconds    # a piece of it: history, pulls or seconds
    python tools/proof_counts.py --folder DIR --size small      # two plants, ten quiet commits

Twenty pieces of code, each in another place of the decode step or of another kind, are sized to one per cent of
its instructions by counting them, and planted one after the other among commits that do nothing: comments, blank
lines, renamed functions, new functions, documents. Every commit is counted by `mlxcache bench --count` and judged
by `mlxcache regressions`; then each plant, and some that do nothing, as a pull request by `compare --measure
--count`. Four busy processes run all the while. `--part seconds` times the first commits of the same line instead.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

try:
    from tools.proof import ROOT, Made, Proof, commit, git, judged
except ImportError:  # as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tools.proof import ROOT, Made, Proof, commit, git, judged

COUNTED = r"^decode\.Decode\.time_step\('int32', 128, 128\)"
SECONDS = (r"^decode\.Relative\.track_over_control\('int32', 128, 1024\)", r"^control\.Control\.time_mlx$")
SHARE = 0.01
BUSY = 4


@dataclass(frozen=True)
class Piece:
    """Code at the start of a function; `{n}` says how much of it."""

    name: str
    module: str
    function: str
    code: str


def _loop(line: str) -> str:
    return "for _ in range({n}):\n    " + line


_FETCH = ("kv/cache", "MLXCache.update_and_fetch")
_SEQUENCE = "kv/sequence"
_STEP_OF = (_SEQUENCE, "MLXSequenceCache._step_of")
PIECES = (
    Piece("an extra slice of the keys", *_FETCH, "if layer < {n}:\n    k[:, :, :1]"),
    Piece("an extra slice of the values' heads", *_FETCH, "if layer < {n}:\n    v[:, :1]"),
    Piece("a message that nobody reads", *_FETCH, _loop('f"layer {layer} of {self._n_layers}"')),
    Piece("a dictionary for each layer", *_FETCH, _loop("dict(layer=layer, cache=self)")),
    Piece("a shape compared again", *_FETCH, _loop("tuple(k.shape) != tuple(v.shape)")),
    Piece("a sort of what is sorted", *_FETCH, _loop("sorted(positions)")),
    Piece("an exception raised and caught", *_FETCH,
          "for _ in range({n}):\n    try:\n        raise KeyError(layer)\n    except KeyError:\n        pass"),
    Piece("an attribute looked up by name", *_FETCH, _loop('getattr(self, "config", None)')),
    Piece("a dtype looked at again", "kv/cache", "_check_dtypes", _loop("k.dtype == v.dtype")),
    Piece("a check in positions", "kv/positions", "host_positions", _loop("position.dtype == mx.int32")),
    Piece("positions counted in Python", "kv/positions", "host_positions", _loop("len(memoryview(position))")),
    Piece("a check of every position", "kv/storage/layout", "SequenceLayout.lies",
          _loop("all(p >= 0 for p in (1, 2))")),
    Piece("positions as a list", *_STEP_OF, _loop("list(positions)")),
    Piece("positions as an array", *_STEP_OF, _loop("np.asarray(positions)")),
    Piece("a range made anew", "kv/storage/layout", "SequenceLayout.plan", _loop("list(range(10))")),
    Piece("a mask made on the host", "kv/masks", "run_mask", _loop("np.zeros((1, 1, 1, 16), bool)")),
    Piece("a mask as an array of MLX", _SEQUENCE, "MLXSequenceCache._mask_of", _loop("mx.array([True, False])")),
    Piece("a copy of the layers' work", _SEQUENCE, "MLXSequenceCache._work_of", _loop("list(step.works)")),
    Piece("a copy of the pools", _SEQUENCE, "MLXSequenceCache._commit", _loop("dict(enumerate(self._key_pools))")),
    Piece("a string of the layout", "kv/storage/layout", "SequenceLayout.commit", _loop("str(dir(self))")),
)  # fmt: skip


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
    indent = " " * first.col_offset
    lines[first.lineno - 1 : first.lineno - 1] = [
        f"{indent}{line}\n" for line in piece.code.replace("{n}", str(n)).splitlines()
    ]
    return "".join(lines)


CALIBRATE = """
import json, runpy, statistics, sys, timeit
from pathlib import Path
launch, dumps, trees, out = sys.argv[1:]
counters = runpy.run_path(launch)["counters"]()
reader = counters.choosing.named("valgrind").open(Path(dumps))
reader.begin()
found = {}
for tree in json.loads(trees):
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mlxcache", "benchmarks")]:
        del sys.modules[name]
    sys.path.insert(0, tree)
    from benchmarks.common import Step
    step = Step("int32", 128)
    timer = timeit.Timer(step, step.rewind, timer=reader)
    found[tree] = sorted(timer.timeit(1) for _ in range(9))[2]
    sys.path.remove(tree)
Path(out).write_text(json.dumps(found))
"""


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


class CountProof(Proof):
    """Like `Proof`, with counts; what it found is kept piece by piece."""

    def __init__(self, folder: Path, size: Size, say: Callable[[str], None]) -> None:
        self.folder, self.plan, self.say = folder, size, say
        self.clone = folder / "clone"
        self.results = folder / "results"
        self.config = folder / "history" / "proof.conf.json"

    def part(self, name: str) -> None:
        """Do a part, or go on with it."""
        facts = self.kept("made.json", self.make)
        made = [Made(**each) for each in facts["made"]]
        if name == "history":
            self.kept("history.json", lambda: self.history(made))
        elif name == "pulls":
            for number, (what, head) in enumerate(facts["pulls"]):
                self.kept(f"pull-{number}.json", lambda w=what, h=head: self.judge(w, h))  # type: ignore[misc]
        elif self.plan.timed:
            self.kept("seconds.json", lambda: self.seconds(made[: self.plan.timed]))

    def make(self) -> dict[str, Any]:
        """Clone, size the pieces, plant them."""
        shutil.rmtree(self.clone, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(self.clone)], check=True)
        git(self.clone, "checkout", "-q", "-b", "main-line")
        pieces = PIECES[:: len(PIECES) // self.plan.plants][: self.plan.plants]
        sizes = self.sized(pieces)
        self.say("sized: " + ", ".join(f"{piece.name} {sizes[piece.name]}" for piece in pieces))
        made, number = [], 0
        for piece in (*pieces, None):
            for _ in range(self.plan.quiet if piece else 0):
                made.append(Made(quiet_commit(self.clone, number), ""))
                number += 1
            if piece:
                made.append(Made(self.plant(piece, sizes[piece.name]), piece.name))
        # Somewhere to see that the last one stays.
        made += [Made(quiet_commit(self.clone, number + more), "") for more in range(2)]
        start, pulls = made[0].commit, []
        for place, piece in enumerate(pieces):
            git(self.clone, "checkout", "-q", "-b", f"pull-{place}", start)
            pulls.append((piece.name, self.plant(piece, sizes[piece.name])))
        for place in range(self.plan.pulls):
            git(self.clone, "checkout", "-q", "-b", f"quiet-{place}", start)
            pulls.append(("", quiet_commit(self.clone, 1000 + place)))
        git(self.clone, "checkout", "-q", "main-line")
        self.configure()
        return {"made": [asdict(each) for each in made], "pulls": pulls, "sizes": sizes}

    def plant(self, piece: Piece, n: int) -> str:
        """Plant it; the commit."""
        path = self.clone / "mlxcache" / f"{piece.module}.py"
        renamed = (
            re.search(r"\b_check_dtypes_\d+\b", path.read_text()) if piece.function == "_check_dtypes" else None
        )
        there = Piece(piece.name, piece.module, renamed[0] if renamed else piece.function, piece.code)
        path.write_text(planted(path.read_text(), there, n))
        return commit(self.clone, f"Refactor {piece.module}")

    def sized(self, pieces: Sequence[Piece]) -> dict[str, int]:
        """How much of each piece makes a per cent of the step."""
        folder = self.folder / "sizing"
        few, many = 2, 8
        trees = {("", 0): self.clone}
        for place, piece in enumerate(pieces):
            for n in (few, many):
                tree = trees[piece.name, n] = folder / f"{place}-{n}"
                shutil.rmtree(tree, ignore_errors=True)
                for name in ("mlxcache", "benchmarks"):
                    shutil.copytree(self.clone / name, tree / name)
                path = tree / "mlxcache" / f"{piece.module}.py"
                path.write_text(planted(path.read_text(), piece, n))
        launch = str(ROOT / "mlxcache" / "counters" / "launch.py")
        (folder / "calibrate.py").write_text(CALIBRATE)
        out = folder / "counts.json"
        given = [launch, str(folder), json.dumps([str(tree) for tree in trees.values()]), str(out)]
        subprocess.run(
            [sys.executable, launch, "valgrind", str(folder), str(folder / "calibrate.py"), *given], check=True
        )
        counts = json.loads(out.read_text())
        step = counts[str(self.clone)]
        sizes = {}
        for piece in pieces:
            a, b = (counts[str(trees[piece.name, n])] for n in (few, many))
            each = (b - a) / (many - few)
            sizes[piece.name] = max(1, round(few + (SHARE * step - (a - step)) / each))
        return sizes

    def configure(self) -> None:
        """asv's configurations: a commit is copied into the environment, in a second where a wheel takes ten."""
        import asv.util

        conf = asv.util.load_json(str(self.clone / "asv.conf.json"), js_comments=True)
        conf["matrix"]["req"].pop("pip+mlx-lm", None)
        required = conf["matrix"]["req"]
        required["pip+numpy"], required["pip+mlx-cpu"] = [""], required["pip+mlx"]
        conf["branches"] = ["main-line"]
        conf["repo"] = str(self.clone)
        conf["benchmark_dir"] = str(self.clone / "benchmarks")
        conf["build_cache_size"] = 300
        copied = self.folder / "copied.py"
        copied.write_text(
            "import compileall, shutil, sys, sysconfig\n"
            'to = sys.argv[2] if len(sys.argv) > 2 else sysconfig.get_path("purelib")\n'
            'shutil.rmtree(f"{to}/mlxcache", ignore_errors=True)\n'
            'shutil.copytree(f"{sys.argv[1]}/mlxcache", f"{to}/mlxcache")\n'
            'compileall.compile_dir(f"{to}/mlxcache/kv", quiet=1)\n'
        )
        conf["build_command"] = [f"python {copied} {{build_dir}} {{build_cache_dir}}"]
        conf["install_command"] = [f"python {copied} {{build_cache_dir}}"]
        conf["uninstall_command"] = []
        for part in ("history", "pulls", "seconds"):
            where = self.folder / part
            where.mkdir(exist_ok=True)
            conf["env_dir"], conf["results_dir"] = str(where / "asv" / "env"), str(where / "results")
            (where / "proof.conf.json").write_text(json.dumps(conf, indent=1))

    def history(self, made: list[Made]) -> dict[str, Any]:
        """Count every commit of the line, and judge it."""
        found = self.lined("history", made, ["--count", COUNTED])
        values = self.values(self.folder / "history" / "results", [each.commit for each in made])
        changes = [change for change in found["changes"] if ".count_" in change["benchmark"]]
        levels: list[list[float]] = [[]]
        for each, value in zip(made, values, strict=True):
            if each.planted:
                levels.append([])
            levels[-1].append(value)
        apart = [max(level) / min(level) - 1 for level in levels if len(level) > 1]
        rises = [statistics.median(b) / statistics.median(a) - 1 for a, b in itertools.pairwise(levels)]
        return {**judged(made, changes), "counts": values, "apart": apart, "rises": rises}

    def seconds(self, made: list[Made]) -> dict[str, Any]:
        """Time the line instead."""
        words = [word for pattern in SECONDS for word in ("--bench", pattern)]
        found = self.lined("seconds", made, ["--rounds", "1", *words])
        changes = [change for change in found["changes"] if "Relative" in change["benchmark"]]
        return judged(made, changes)

    def lined(self, part: str, made: list[Made], arguments: list[str]) -> Any:
        """Measure the commits through asv; their changes."""
        where = self.folder / part
        config = str(where / "proof.conf.json")
        (where / "commits.txt").write_text("".join(f"{each.commit}\n" for each in made))
        self.mlxcache(
            "bench", "--config", config, f"HASHFILE:{where / 'commits.txt'}", "--skip-existing-successful",
            *arguments, good=(0,),
        )  # fmt: skip
        told = self.mlxcache(
            "regressions", "--results", str(where / "results"), "--repo", ".", "--branch", "main-line",
            "--format", "json", good=(0, 1, 3, 4),
        )  # fmt: skip
        return json.loads(told)

    def values(self, results: Path, commits: Sequence[str]) -> list[float]:
        """The count of each commit."""
        from mlxcache.history import load

        df = load(results, cache=False, show_progress=False)
        df = df[(df["unit"].astype(str) == "instructions") & (df["status"].astype(str) == "ok")]
        found = dict(zip(df["commit"].astype(str), df["value"], strict=True))
        return [float(found[commit]) for commit in commits]

    def judge(self, what: str, head: str) -> dict[str, Any]:
        """One pull request."""
        began = time.monotonic()
        where = self.folder / "pulls"
        told = self.mlxcache(
            "compare", "main-line", head, "--measure", "--count", COUNTED, "--results", str(where / "results"),
            "--config", str(where / "proof.conf.json"), "--repo", ".", "--format", "json", "--control", "none",
            good=(0, 1, 3),
        )  # fmt: skip
        found = json.loads(told)
        (series,) = found["series"]
        facts = {key: series[key] for key in ("change", "low", "high")}
        self.say(f"pull request, {what or 'nothing'}: {found['verdict']} ({series['change']:+.2%})")
        spent, load = round(time.monotonic() - began), round(os.getloadavg()[0], 1)
        return {"planted": what, "verdict": found["verdict"], **facts, "seconds": spent, "load": load}

    def facts(self) -> dict[str, Any]:
        """What there is so far."""
        facts: dict[str, Any] = {}
        for name in ("made", "history", "seconds"):
            path = self.folder / f"{name}.json"
            facts[name] = json.loads(path.read_text()) if path.exists() else None
        pulls = (self.folder / f"pull-{n}.json" for n in range(len(facts["made"]["pulls"])))
        return {**facts, "pulls": [json.loads(path.read_text()) for path in pulls if path.exists()]}


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
        pulls = {pull["planted"]: pull for pull in facts["pulls"]}
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
    for pull in facts["pulls"]:
        if (pull["verdict"] == "regression") is not bool(pull["planted"]):
            wrong.append(f"a pull request with {pull['planted'] or 'nothing'} is {pull['verdict']}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 1 if counts missed something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where to work, and to go on")
    parser.add_argument("--size", choices=tuple(SIZES), default="full")
    parser.add_argument("--part", action="append", choices=("history", "pulls", "seconds"), help="default: all")
    parser.add_argument("--out", type=Path, help="write all facts to this file, as JSON")
    args = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(f"proof: {line}", file=sys.stderr, flush=True)

    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    proof = CountProof(folder, SIZES[args.size], say)
    with busy(BUSY):
        for part in args.part or ("history", "pulls", "seconds"):
            proof.part(part)
    facts = proof.facts()
    print(report(facts))
    if args.out:
        args.out.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    wrong = missed(facts)
    for line in wrong:
        say(f"not reached: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
