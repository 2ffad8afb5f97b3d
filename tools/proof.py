"""Does the chain catch what it should? A clone of this repository with slowdowns planted, judged by real asv runs.

    python tools/proof.py --size small                      # a few minutes; what `make proof-small` runs
    python tools/proof.py --size write                      # a slower Pool.write, nothing, and memory
    python tools/proof.py --size large --folder proof       # more than an hour; docs/proof.md has its result

The clone gets commits that do nothing (comments, documentation, renames, tests) and among them some that slow the
decode step down or take more memory; each of those but the last is taken back some commits later. All are
measured, change points are found, what still stands is measured again, the page is written. Then single commits
are judged as a pull request would be. What was named is compared with what was planted. A run with --folder goes
on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[1]
# A change that is named within so many commits of where it was planted was found.
NEAR = 2

WRAP = """

def _plant() -> None:
    plain = MLXSequenceCache.update_and_fetch
{before}
    def update_and_fetch(self, layer, positions, k, v):
{body}

    MLXSequenceCache.update_and_fetch = update_and_fetch


_plant()
"""


def wrapped(body: str, before: str = "") -> str:
    """Code to append to sequence.py that puts `body` around update_and_fetch."""
    indent = "\n".join(f"        {line}" for line in body.splitlines())
    outside = "\n".join(f"    {line}" for line in before.splitlines())
    return WRAP.format(body=indent, before=outside)


def spin(nanoseconds: float) -> str:
    """A wait of so long in each step; a real sleep is never this short."""
    return wrapped(
        f"if layer == 0:\n    end = clock() + {nanoseconds:.0f}\n    while clock() < end:\n        pass\n"
        "return plain(self, layer, positions, k, v)",
        "from time import perf_counter_ns as clock",
    )


@dataclass(frozen=True)
class Plant:
    """Something to plant: code appended to a module (its path in the package).

    `share` is the slowdown of the decode step aimed at.
    """

    name: str
    module: str
    code: str
    share: float | None = None


def slow_write(nanoseconds: float) -> str:
    """A wait of so long in every 32 calls of Pool.write, a step's worth in `benchmarks/pool.py`."""
    return (
        "\n\ndef _plant() -> None:\n    from time import perf_counter_ns as clock\n\n"
        "    plain, calls = Pool.write, [0]\n\n    def write(self, start, update):\n        calls[0] += 1\n"
        "        if calls[0] % 32 == 0:\n"
        f"            end = clock() + {nanoseconds:.0f}\n            while clock() < end:\n                pass\n"
        "        return plain(self, start, update)\n\n    Pool.write = write\n\n\n_plant()\n"
    )


def kinds(step_ns: float, overhead_ns: float, writes_ns: float) -> dict[str, Plant]:
    """What can be planted, by name; waits are sized by a step, and 32 writes, as they are on this machine."""
    waits = {
        f"wait {share:.0%}": Plant(
            f"wait {share:.0%}", "kv/sequence", spin(max(share * step_ns - overhead_ns, 0.0)), share
        )
        for share in (0.05, 0.10, 0.20)
    }
    held = wrapped(
        # Two of them: the step is evaluated at its end, when a single one would have been let go.
        "spec = plain(self, layer, positions, k, v)\n"
        "held[layer] = (spec, held.get(layer, (None,))[0])\nreturn spec",
        "held = {}",
    )
    mask = wrapped(
        "import mlx.core as mx\nspec = plain(self, layer, positions, k, v)\n"
        "mx.eval(mx.arange(spec.keys.shape[2])[None] <= mx.array(list(positions))[:, None])\nreturn spec"
    )
    growth = wrapped(
        "for pool in (self._key_pools[layer], self._value_pools[layer]):\n"
        "    slots = pool.slots\n    pool.array = mx.concatenate([pool.array[:, :, :slots - 1], "
        "pool.array[:, :, slots - 1:]], axis=2)\n"
        "return plain(self, layer, positions, k, v)",
        "import mlx.core as mx",
    )
    memory = (
        "\n\n_PLANTED = []\n_plain_init = MLXSequenceCache.__init__\n\n\n"
        "def _init(self, config):\n    import mlx.core as mx\n\n    _plain_init(self, config)\n"
        "    _PLANTED[:] = [mx.zeros((1 << 26,), mx.uint8)]\n    mx.eval(_PLANTED)\n\n\n"
        "MLXSequenceCache.__init__ = _init\n"
    )
    copied = (
        "\n\n_plain_positions = host_positions\n\n\ndef host_positions(position):\n"
        "    return memoryview(np.array(_plain_positions(position).tolist() * 64, dtype=np.int32)"
        "[:position.size].copy())\n"
    )
    on_device = (
        "\n\n_plain_positions = host_positions\n\n\ndef host_positions(position):\n"
        "    if position.dtype == mx.int64:\n        position = position.astype(mx.int32)\n"
        "        mx.eval(position)\n"
        "    return _plain_positions(position)\n"
    )
    others = [
        Plant("held slice", "kv/sequence", held),
        Plant("mask per layer", "kv/sequence", mask),
        Plant("growth every step", "kv/sequence", growth),
        Plant("memory only", "kv/sequence", memory),
        Plant("int32 through a list", "kv/positions", copied),
        Plant("int64 cast on the device", "kv/positions", on_device),
    ]
    # What the wrapper itself takes is within the noise of 32 writes, so nothing is taken off the wait for it.
    others.append(Plant("Pool.write 10%", "kv/storage/pool", slow_write(0.1 * writes_ns), 0.1))
    return {**waits, **{plant.name: plant for plant in others}}


@dataclass(frozen=True)
class Size:
    """What one run does: plants of the history, quiet commits between, plants judged as pull requests.

    `rounds` are pairs of a rerun or a pull request; each commit of the history takes one pass through `bench`.
    """

    history: tuple[str, ...]
    quiet_run: int
    pulls: tuple[str, ...]
    rounds: int
    bench: tuple[str, ...]


RELATIVE = r"^decode\.Relative\.track_over_control\('int32', 128, 1024\)"
LONG = r"^decode\.Relative\.track_over_control\('int64', 128, 1024\)"
MEMORY = r"^footprint\.Footprint\.track_cache_of_cells$"
CONTROL = r"^control\.Control\.time_mlx$"
WRITE = r"^pool\.Write\.track_over_bare\(1\)"
IN_THE_STEP = ("held slice", "mask per layer", "growth every step", "int32 through a list")
STRUCTURAL = (*IN_THE_STEP, "memory only", "int64 cast on the device")
WAITS = ("wait 5%",) * 4 + ("wait 10%", "wait 20%")
SIZES = {
    "small": Size(("wait 20%",), 5, ("held slice", "quiet"), 8, (RELATIVE, CONTROL)),
    "medium": Size(
        ("wait 10%", "held slice", "wait 5%", "memory only", "wait 20%"),
        4,
        ("wait 5%",) * 5 + ("wait 10%", "wait 20%", *STRUCTURAL) + ("quiet",) * 5,
        20,
        (RELATIVE, LONG, MEMORY, CONTROL),
    ),
    "write": Size((), 1, (*("Pool.write 10%", "quiet") * 5, "memory only"), 12, (WRITE,)),
    # In the history what the decode step shows, so that a commit takes seconds; all kinds as pull requests.
    "large": Size(
        IN_THE_STEP + WAITS * 5,
        4,
        ("wait 5%",) * 20 + ("wait 10%",) * 5 + ("wait 20%",) * 5 + STRUCTURAL + ("quiet",) * 20,
        8,
        (RELATIVE,),
    ),
}


@dataclass(frozen=True)
class Made:
    """A commit of the clone: what was done there, "" for nothing."""

    commit: str
    planted: str
    taken_back: str = ""


def git(folder: Path, *arguments: str) -> str:
    """Run git; what it prints."""
    identity = ["-c", "user.name=proof", "-c", "user.email=proof@example.org", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"proof: git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def quiet_commit(clone: Path, number: int) -> str:
    """A commit that changes nothing which runs: a comment, a document, a rename, a test, in turn."""
    kind = number % 4
    if kind == 0:
        path = clone / "mlxcache" / "kv" / ("sequence.py" if number % 8 else "storage/pool.py")
        path.write_text(f"# Remark {number}: nothing below depends on it.\n" + path.read_text())
    elif kind == 1:
        (clone / "docs" / "remarks.md").write_text(f"# Remarks\n\nNumber {number}.\n")
    elif kind == 2:
        old = sorted((clone / "docs").glob("renamed*.md"))
        for path in old:
            path.unlink()
        (clone / "docs" / f"renamed-{number}.md").write_text("Moved.\n")
    else:
        (clone / "tests" / f"test_quiet_{number}.py").write_text(f'"""Nothing {number}."""\n')
    return commit(clone, f"Quiet {number}: {('comment', 'document', 'rename', 'test')[kind]}")


def commit(clone: Path, message: str) -> str:
    """Commit everything; the hash."""
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", message)
    return git(clone, "rev-parse", "HEAD")


def planted_commit(clone: Path, plant: Plant) -> tuple[str, Callable[[], str]]:
    """Plant it; the hash, and what takes it back."""
    path = clone / "mlxcache" / f"{plant.module}.py"
    path.write_text(path.read_text() + plant.code)
    name = commit(clone, f"Refactor {plant.module}")

    def take_back() -> str:
        text = path.read_text()
        if plant.code not in text:
            raise SystemExit(f"proof: {path} no longer has what was planted")
        path.write_text(text.replace(plant.code, ""))
        return commit(clone, f"Simplify {plant.module}")

    return name, take_back


def make_history(clone: Path, size: Size, plants: dict[str, Plant]) -> list[Made]:
    """The line of commits."""
    made: list[Made] = []
    number = 0

    def quiet() -> None:
        nonlocal number
        for _ in range(size.quiet_run):
            made.append(Made(quiet_commit(clone, number), ""))
            number += 1

    quiet()
    for place, name in enumerate(size.history, 1):
        planted, take_back = planted_commit(clone, plants[name])
        made.append(Made(planted, name))
        quiet()
        # The last one stays: only what stands is measured again.
        if place < len(size.history):
            made.append(Made(take_back(), "", name))
            quiet()
    return made


def make_pulls(clone: Path, start: str, size: Size, plants: dict[str, Plant]) -> list[tuple[str, str]]:
    """A branch off the line's `start` for each pull request: (what was planted or "quiet", its commit).

    There, and not at the end, where what stands would make each wait a smaller share of the step.
    """
    pulls = []
    for number, name in enumerate(size.pulls):
        git(clone, "checkout", "-q", "-b", f"pull-{number}", start)
        if name == "quiet":
            pulls.append((name, quiet_commit(clone, 4 * (1000 + number))))
        else:
            pulls.append((name, planted_commit(clone, plants[name])[0]))
    git(clone, "checkout", "-q", "main-line")
    return pulls


CALIBRATE = """
import json, os
import numpy as np
if hasattr(os, "sched_setaffinity"):  # as `mlxcache bench` pins
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
import mlxcache
from benchmarks.common import Step, timed

def seconds():
    step = Step("int32", 1024)
    run = timed(step, step.rewind)
    # The quietest of several tries: a machine in a slow minute would make every wait too long.
    return min(float(np.quantile([run() for _ in range(500)], 0.1)) for _ in range(8))

plain = seconds()
cls = mlxcache.MLXSequenceCache
update = cls.update_and_fetch
def wrapped(self, layer, positions, k, v):
    if layer == 0:
        pass
    return update(self, layer, positions, k, v)
cls.update_and_fetch = wrapped
found = [plain, max(seconds() - plain, 0.0)]

from benchmarks.pool import pool_writes

def writes():
    run = timed(pool_writes(1))
    return min(float(np.quantile([run() for _ in range(500)], 0.1)) for _ in range(8))

print(json.dumps([*found, writes()]))
"""


class Proof:
    """One run in a folder: clone, results and what was found, each kept as soon as it is there."""

    def __init__(self, folder: Path, size: Size, say: Callable[[str], None]) -> None:
        self.folder, self.size, self.say = folder, size, say
        self.clone = folder / "clone"
        self.results = folder / "results"
        self.config = self.clone / "proof.conf.json"

    def run(self) -> dict[str, Any]:
        """All steps; the facts of the report."""
        facts = self.kept("made.json", self.make)
        made = [Made(**each) for each in facts["made"]]
        began = time.monotonic()
        self.kept("measured.json", lambda: self.measure(made))
        changes = self.kept("changes.json", self.changes)
        page = self.kept("page.json", self.page)
        pulls = [self.kept(f"pull-{i}.json", lambda p=p: self.pull(*p)) for i, p in enumerate(facts["pulls"])]
        return {
            **judged(made, changes["changes"]),
            "pulls": pulls,
            "page": page,
            "step_us": facts["step_us"],
            "minutes": round((time.monotonic() - began) / 60, 1),
        }

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, from the folder if an earlier run got there."""
        path = self.folder / name
        if not path.exists():
            value = make()
            beside = path.with_suffix(".part")
            beside.write_text(json.dumps(value, indent=1))
            beside.replace(path)
        return json.loads(path.read_text())

    def make(self) -> dict[str, Any]:
        """Clone, calibrate, plant."""
        shutil.rmtree(self.clone, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(self.clone)], check=True)
        git(self.clone, "checkout", "-q", "-b", "main-line")
        done = subprocess.run(
            [sys.executable, "-c", CALIBRATE], cwd=self.clone, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"proof: the decode step cannot be timed: {done.stderr.strip()[-500:]}")
        found = json.loads(done.stdout)
        step = found[0]
        self.say(f"decode step {step * 1e6:.0f} us, 32 writes {found[2] * 1e6:.0f} us")
        plants = kinds(*(seconds * 1e9 for seconds in found))
        made = make_history(self.clone, self.size, plants)
        pulls = make_pulls(self.clone, made[0].commit, self.size, plants)
        self.configure()
        return {"made": [asdict(each) for each in made], "pulls": pulls, "step_us": round(step * 1e6, 1)}

    def configure(self) -> None:
        """asv's configuration of the clone: one environment without the peers, builds kept."""
        import asv.util

        conf = asv.util.load_json(str(self.clone / "asv.conf.json"), js_comments=True)
        conf["matrix"]["req"].pop("pip+mlx-lm", None)
        conf["branches"] = ["main-line"]
        conf["results_dir"] = str(self.results)
        conf["env_dir"] = str(self.folder / "env")
        conf["build_cache_size"] = 1000
        self.config.write_text(json.dumps(conf, indent=1))

    def mlxcache(self, *arguments: str, good: Sequence[int] = (0,)) -> str:
        """Run a command of ours in the clone, with the code that this file belongs to."""
        program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from mlxcache.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=self.clone,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=None,
            text=True,
            check=False,
        )
        if done.returncode not in good:
            raise SystemExit(f"proof: mlxcache {arguments[0]} ended with status {done.returncode}")
        return done.stdout

    def measure(self, made: list[Made]) -> dict[str, Any]:
        """All commits of the line, through asv."""
        (self.folder / "commits.txt").write_text("".join(f"{each.commit}\n" for each in made))
        began = time.monotonic()
        bench = [word for pattern in self.size.bench for word in ("--bench", pattern)]
        arguments = [
            f"HASHFILE:{self.folder / 'commits.txt'}",
            "--rounds",
            "1",
            "--skip-existing-successful",
            *bench,
        ]
        (self.folder / "bench.log").write_text(self.mlxcache("bench", "--config", str(self.config), *arguments))
        missing = self.mlxcache(
            "coverage", "main-line", "--newest", str(len(made)), "--missing", "--results", str(self.results)
        )
        if missing:
            raise SystemExit(f"proof: {len(missing.split())} commits were not measured")
        return {"minutes": round((time.monotonic() - began) / 60, 1)}

    def changes(self) -> Any:
        """Change points, candidates measured again."""
        told = self.mlxcache(
            "regressions", "--confirm", "--results", str(self.results), "--repo", ".", "--branch", "main-line",
            "--config", str(self.config), "--rounds", str(self.size.rounds), "--format", "json", good=(0, 1, 3, 4),
        )  # fmt: skip
        return json.loads(told)

    def page(self) -> Any:
        """The site, where the command is there."""
        from mlxcache.cli import COMMANDS

        if "dashboard" not in COMMANDS:
            return {"files": 0}
        site = self.folder / "site"
        self.mlxcache("dashboard", "--results", str(self.results), "--repo", ".", "--out", str(site))
        return {"files": sum(path.is_file() for path in site.rglob("*"))}

    def pull(self, name: str, head: str) -> Any:
        """One pull request: its verdict and the comment.

        Only the series that shows it: it is a ratio to the control already, and the whole suite takes minutes.
        """
        wanted = {"memory only": MEMORY, "int64 cast on the device": LONG}.get(name, self.size.bench[0])
        told = self.mlxcache(
            "compare", "main-line", head, "--measure", "--results", str(self.results),
            "--config", str(self.config), "--rounds", str(self.size.rounds), "--format", "json",
            "--bench", wanted, "--control", "none", good=(0, 1, 3),
        )  # fmt: skip
        found = json.loads(told)
        (self.folder / "comparison.json").write_text(told)
        comment = self.mlxcache("verdict", str(self.folder / "comparison.json"), good=(0, 1, 3))
        worst = found["series"][0]
        self.say(f"pull request with {name}: {found['verdict']} ({worst['change']:+.1%})")
        return {
            "planted": name,
            "verdict": found["verdict"],
            "benchmark": worst["benchmark"],
            "change": worst["change"],
            "low": worst["ci95_low"],
            "high": worst["ci95_high"],
            "comment": comment.splitlines()[0],
        }


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "MLXCACHE_CACHE_DIR": os.environ.get("MLXCACHE_CACHE_DIR", tempfile.gettempdir())}


def judged(made: list[Made], changes: list[dict[str, Any]]) -> dict[str, Any]:
    """Which planted commits were named, and which others."""
    place = {each.commit: index for index, each in enumerate(made)}
    planted = {index: each.planted for index, each in enumerate(made) if each.planted}
    named: dict[int, list[str]] = {}
    for change in changes:
        if change["direction"] == "regression":
            state = "confirmed" if change["confirmed"] else "candidate"
            named.setdefault(place[change["after"]], []).append(state)
    hits = []
    for index, name in planted.items():
        near = [n for n in named if abs(n - index) <= NEAR]
        states = [state for n in near for state in named[n]]
        hits.append(
            {
                "planted": name,
                "commit": made[index].commit[:10],
                "found": bool(near),
                "exact": index in named,
                "confirmed": "confirmed" in states,
            }
        )
    false = [n for n in named if all(abs(n - index) > NEAR for index in planted)]
    quiet = [n for n, each in enumerate(made) if not each.planted and not each.taken_back]
    apart = sum(all(abs(n - index) > NEAR for index in planted) for n in quiet)
    return {
        "commits": len(made),
        "quiet": len(quiet),
        "apart": apart,
        "history": hits,
        "false": [{"commit": made[n].commit[:10], "states": named[n]} for n in false],
        "false_confirmed": sum("confirmed" in named[n] for n in false),
    }


def report(facts: dict[str, Any]) -> str:
    """The facts as Markdown."""
    lines = [
        f"{facts['commits']} commits, of which {facts['quiet']} do nothing; decode step {facts['step_us']} us; "
        f"{facts['minutes']} minutes.",
        "",
        *(_history_table(facts) if facts["history"] else ()),
        "| planted in a pull request | how many | regression | inconclusive | no regression | measured |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(pull["planted"] for pull in facts["pulls"]):
        pulls = [pull for pull in facts["pulls"] if pull["planted"] == name]
        counts = [
            sum(p["verdict"] == verdict for p in pulls)
            for verdict in ("regression", "inconclusive", "no regression")
        ]
        sizes = f"{min(p['change'] for p in pulls):+.1%} to {max(p['change'] for p in pulls):+.1%}"
        lines.append(f"| {name} | {len(pulls)} | {counts[0]} | {counts[1]} | {counts[2]} | {sizes} |")
    return "\n".join(lines) + "\n"


def bounds_of(k: int, n: int) -> str:
    """Clopper and Pearson's 95 % bounds of a rate of which `k` of `n` were seen."""
    if not n:
        return "nothing to tell from"
    bounds = binomtest(k, n).proportion_ci(0.95, "exact")
    return f"{bounds.low:.1%} to {bounds.high:.1%}"


def _history_table(facts: dict[str, Any]) -> list[str]:
    lines = [
        "| planted in the history | how many | named (95 % bounds) | at the very commit | confirmed by a rerun "
        "(the last one) |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(hit["planted"] for hit in facts["history"]):
        hits = [hit for hit in facts["history"] if hit["planted"] == name]
        counts = [sum(hit[key] for hit in hits) for key in ("found", "exact", "confirmed")]
        bounds = bounds_of(counts[0], len(hits))
        lines.append(f"| {name} | {len(hits)} | {counts[0]} ({bounds}) | {counts[1]} | {counts[2]} |")
    return [
        *lines,
        "",
        f"Quiet commits that were named: {len(facts['false'])} of {facts['quiet']} as candidates, "
        f"{facts['false_confirmed']} of them confirmed. {facts['apart']} of them lie further than {NEAR} commits "
        "from every plant, and only those can count as named wrongly: "
        f"{bounds_of(len(facts['false']), facts['apart'])} (95 % bounds).",
        "",
    ]


def passed(facts: dict[str, Any]) -> list[str]:
    """What a run must reach whatever the machine does; empty if it did."""
    wrong = [
        f"the history does not name {hit['commit']} with {hit['planted']}"
        for hit in facts["history"]
        if hit["planted"] == "wait 20%" and not hit["found"]
    ]
    wrong += [
        f"the rerun does not confirm {standing['commit']} with {standing['planted']}, which stands"
        for standing in facts["history"][-1:]
        if standing["found"] and not standing["confirmed"]
    ]
    for pull in facts["pulls"]:
        if pull["planted"] in ("held slice", "Pool.write 10%") and pull["verdict"] != "regression":
            wrong.append(f"a pull request with {pull['planted']} is {pull['verdict']}")
        if pull["planted"] == "quiet" and pull["verdict"] == "regression":
            wrong.append("a pull request that does nothing is a regression")
    if facts["false_confirmed"]:
        wrong.append(f"{facts['false_confirmed']} quiet commits are confirmed regressions")
    return wrong


def say(line: str) -> None:
    """Tell how far a proof has come."""
    print(f"proof: {line}", file=sys.stderr, flush=True)


def concluded(wrong: Sequence[str]) -> int:
    """Say what was not reached; the exit status."""
    for line in wrong:
        say(f"not reached: {line}")
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 1 if something that must be found was not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--folder", type=Path, help="where to work, and to go on; without it a temporary one")
    parser.add_argument("--out", type=Path, help="write the report to this file too, its data beside it as .json")
    args = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory(prefix="mlxcache-proof-") as temporary:
        folder = (args.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        facts = Proof(folder, SIZES[args.size], say).run()
    text = report(facts)
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")
        args.out.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return concluded(passed(facts))


if __name__ == "__main__":
    sys.exit(main())
