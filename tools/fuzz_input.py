"""Damages results trees at random and runs every command on them: no traceback, no waiting, nothing else lost.

    python tools/fuzz_input.py TREE... --command doctor --copies 10000 --seed 1

A tree is any folder of asv results. Twelve of its files are taken, given the commits of a small repository, and
of most of them (and of machine.json, benchmarks.json and the records beside them) one damaged copy each is put in
place: bits and bytes flipped, cut, doubled, text replaced by any JSON, nested without end, other kinds of file.
A round is right if the command ends within its time with one of its statuses and without an exception, names the
damaged files alone, and has every value of the files that were left whole.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from mlxcache import cli
from mlxcache.history import load
from mlxcache.history.asv.json_text import readable

N_FILES: Final = 12
N_WHOLE: Final = 4  # the first two and the last two: what compare compares, and something to judge
ROWS: Final = 12  # of each file, so that a round is quick
SECONDS: Final = 60.0
STATUSES: Final = frozenset({0, 1, 3, 4})  # 2 would be that a damaged file kept the others from being used

_WORDS: Final = (
    b"null", b"NaN", b"-Infinity", b"1e999", b"-0", b"9" * 400, b"[]", b"{}", b"[[[]]]", b'{"a":{"b":[1]}}',
    b"true", b'"\\ud800"', b'"\\u0000"', b"\xef\xbb\xbf", b"\xff", b"\x00", b'"--help"', b'"../../x"', b'"a\\nb"',
)  # fmt: skip


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The content with one damage of a random kind."""
    kind = rng.randrange(10)
    at = rng.randrange(len(data) + 1)
    until = min(len(data), at + rng.choice((1, 1, 2, 8, 64, 4096)))
    if kind < 3 and at < len(data):
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 3:
        return data[:at]
    if kind == 4:
        return data[:at] + data[until:]
    if kind == 5:
        return data[:until] + data[at:]
    if kind == 6:
        return data[:at] + rng.randbytes(until - at) + data[until:]
    if kind == 7:
        return rng.choice((b"", b"\n", data.decode("latin-1").encode("utf-16"), b"\xef\xbb\xbf" + data, data * 2))
    return _other_json(rng, data)


def _other_json(rng: random.Random, data: bytes) -> bytes:
    """The document with something else in place of one of its parts."""
    try:
        document = json.loads(data)
    except ValueError:
        return data[: len(data) // 2]
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            pairs = list(item.items()) if isinstance(item, dict) else list(enumerate(item))
            places += [(item, key) for key, _ in pairs]
            waiting += [value for _, value in pairs]
    if not places:
        return b"[]"
    holder, key = rng.choice(places)
    mark = "a mark that nothing else has"
    holder[key] = mark
    depth = rng.choice((1, 400, 600, 1000, 1500, 100_000))
    word = rng.choice((*_WORDS, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth))
    return json.dumps(document).encode().replace(json.dumps(mark).encode(), word, 1)


def damage_file(rng: random.Random, path: Path) -> None:
    """Put damaged content, or another kind of file, in the file's place."""
    data = path.read_bytes()
    kind = rng.randrange(40)
    if kind > 4:
        path.write_bytes(damaged(rng, data))
        return
    path.unlink()
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path)
    elif kind == 3:
        with path.open("wb") as file:
            file.truncate(1 << 42)
    else:
        path.symlink_to("/dev/zero")


@dataclass
class Ground:
    """A tree ready to be damaged: `results`, its `repo`, its results files in order, and what lies beside."""

    root: Path
    files: list[Path] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)

    @property
    def results(self) -> Path:
        """The results folder."""
        return self.root / "results"

    @property
    def repo(self) -> Path:
        """The repository of the commits."""
        return self.root / "repo"

    @property
    def beside(self) -> list[Path]:
        """What lies beside the results files."""
        folder = self.files[0].parent
        return [
            self.results / "benchmarks.json",
            *(folder / name for name in ("machine.json", "confirmations.jsonl")),
        ]


def prepare(source: Path, root: Path) -> Ground:
    """Copy twelve files of a tree, fit to a repository of twelve commits."""
    found = sorted(path for path in source.rglob("*.json") if _is_result(path))
    if len(found) < 1:
        raise ValueError(f"{source}: no results file in it")
    ground = Ground(root)
    ground.repo.mkdir(parents=True)
    _git(ground.repo, "init", "-q")
    folder = ground.results / "m1"
    folder.mkdir(parents=True)
    benchmarks = next(iter(source.rglob("benchmarks.json")), None)
    names: set[str] = set()
    for number in range(N_FILES):  # the last two are alike, so that there is something to compare
        _git(ground.repo, "commit", "-q", "--allow-empty", "-m", f"work {number}", number=number)
        commit = _git(ground.repo, "rev-parse", "HEAD")
        document = json.loads(found[min(number, N_FILES - 2) % len(found)].read_bytes())
        document["commit_hash"] = commit
        document["env_name"] = "virtualenv-py3"
        document["date"] = 1_700_000_000_000 + number * 86_400_000
        document["params"] = {**document.get("params", {}), "machine": "m1"}
        document["results"] = dict(sorted(document["results"].items())[:ROWS])
        names.update(document["results"])
        path = folder / f"{commit[:8]}-virtualenv-py3.json"
        path.write_text(json.dumps(document))
        ground.files.append(path)
        ground.commits.append(commit)
    entries = json.loads(benchmarks.read_bytes()) if benchmarks else {}
    kept = {name: entry for name, entry in entries.items() if name in names}
    (ground.results / "benchmarks.json").write_text(json.dumps({**kept, "version": 2}))
    (folder / "machine.json").write_text(json.dumps({"machine": "m1", "cpu": "C", "os": "Linux", "version": 1}))
    (folder / "confirmations.jsonl").write_text('{"machine": "m1"}\n')
    return ground


def _is_result(path: Path) -> bool:
    if path.name in ("machine.json", "benchmarks.json", "asv.conf.json"):
        return False
    with contextlib.suppress(ValueError, OSError):
        document = json.loads(path.read_bytes())
        return (
            isinstance(document, dict) and isinstance(document.get("results"), dict) and bool(document["results"])
        )
    return False


def _git(repo: Path, *words: str, number: int = 0) -> str:
    when = f"{1_700_000_000 + number * 86_400} +0000"
    who = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {
        **os.environ,
        **who,
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_DATE": when,
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    command = ["git", "-C", str(repo), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()


Words = Callable[[Ground, Path], list[str]]


def _plain(*words: str, repo: bool = True) -> Words:
    return lambda g, out: [*words, "--results", str(g.results), *(["--repo", str(g.repo)] if repo else [])]


COMMANDS: Final[dict[str, Words]] = {
    "load": lambda g, out: [],
    "doctor": lambda g, out: ["doctor", str(g.results), "--repo", str(g.repo)],
    "regressions": _plain("regressions", "--format", "json"),
    "regressions-dates": _plain("regressions", repo=False),
    "compare": lambda g, out: _plain("compare", g.commits[-2], g.commits[-1], "--exact-base")(g, out),
    "coverage": _plain("coverage"),
    "notify": _plain("notify"),
    "merge": lambda g, out: ["merge", str(g.results), "--into", str(out / "merged")],
    "dashboard": lambda g, out: [*_plain("dashboard")(g, out), "--out", str(out / "site")],
    "export-otava": lambda g, out: [*_plain("export", "--format", "otava")(g, out), "--out", str(out / "otava")],
    "export-pytorch": lambda g, out: [
        *_plain("export", "--format", "pytorch", "--project", "p")(g, out), "--out", str(out / "p.json"),
    ],
    "export-bencher": lambda g, out: [
        *_plain("export", "--format", "bencher")(g, out), "--out", str(out / "b.json"),
    ],
    "export-action": lambda g, out: [
        *_plain("export", "--format", "github-action-benchmark")(g, out), "--out", str(out / "a.json"),
    ],
}  # fmt: skip


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def round_of(
    ground: Ground, command: str, rng: random.Random, work: Path, expected: dict[str, int]
) -> tuple[int, str]:
    """Damage one copy of each file that may be and run the command; how many copies, and what was wrong."""
    copy = Ground(work / "ground", [], ground.commits)
    out = work / "out"
    out.mkdir(parents=True)
    (copy.root).mkdir()
    shutil.copytree(ground.results, copy.results)
    copy.repo.symlink_to(ground.repo)
    copy.files = [copy.results / path.relative_to(ground.results) for path in ground.files]
    victims = copy.files[2 : N_FILES - 2]
    if rng.random() < 0.3:
        victims = [*victims, rng.choice(copy.beside)]
    for path in victims:
        damage_file(rng, path)
    whole = [path for path in copy.files if path not in victims]
    said, told = io.StringIO(), io.StringIO()
    try:
        with _limited(SECONDS), contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
            if command == "load":
                return len(victims), _wrong_table(copy, set(victims), whole, expected)
            status = cli.main(COMMANDS[command](copy, out))
    except SystemExit as error:
        return len(victims), f"exit {error.code}: {told.getvalue()[-500:]}"
    except BaseException:  # noqa: BLE001 (whatever it is, it is a finding)
        return len(victims), traceback.format_exc()[-3000:]
    text = said.getvalue() + told.getvalue()
    if "Traceback" in text or status not in STATUSES:
        return len(victims), f"status {status}: {text[-800:]}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return len(victims), f"cannot be printed: {error}"
    return len(victims), ""


def _wrong_table(ground: Ground, victims: set[Path], whole: Sequence[Path], expected: dict[str, int]) -> str:
    df = load(ground.results, repo=ground.repo, samples=True, quartiles=True, timing=True, show_progress=False)
    counts = df["file"].astype("str").value_counts()
    for path in whole:
        if counts.get(str(path), 0) != expected[path.name]:
            return f"{path.name} was left whole and has {counts.get(str(path), 0)} of {expected[path.name]} values"
    # A machine.json that names another machine is at odds with every file beside it.
    renamed = "the folder's machine.json says"
    problems = {
        problem.file
        for problem in df.attrs["problems"]
        if not (renamed in problem.reason and any(path.name == "machine.json" for path in victims))
    }
    if strangers := problems - {readable(str(path)) for path in victims}:
        return f"named without damage: {strangers}"
    for path in victims:
        # What is still JSON may say something else than before, which nobody can see.
        if path.name in expected and not _is_json(path) and str(path) not in problems:
            return f"{path.name} is no JSON and is not named"
    df.to_string(max_rows=3).encode()
    df.groupby(["machine", "env", "commit", "benchmark"], observed=True)["value"].median()
    return ""


def _is_json(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size > 1 << 30:
        return False
    try:
        json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
    except RecursionError:
        return True  # another parser may go deeper
    except ValueError:
        return False
    return True


def expected_values(ground: Ground) -> dict[str, int]:
    """How many values each results file of the tree gives when nothing is damaged."""
    df = load(ground.results, repo=ground.repo, show_progress=False)
    return {Path(str(file)).name: int(n) for file, n in df["file"].astype("str").value_counts().items()}


def fuzz(trees: Sequence[Path], commands: Sequence[str], copies: int, seed: int) -> tuple[int, list[str]]:
    """Damage so many copies for each command; how many there were in all, and what was wrong."""
    wrong: list[str] = []
    total = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, MLXCACHE_CACHE_DIR=str(Path(folder) / "cache")))
        grounds = [prepare(tree, Path(folder) / f"tree{number}") for number, tree in enumerate(trees)]
        known = [expected_values(ground) for ground in grounds]
        for command in commands:
            done = number = 0
            while done < copies:
                rng = random.Random(f"{seed} {command} {number}")
                which = number % len(grounds)
                work = Path(folder) / "work"
                n, reason = round_of(grounds[which], command, rng, work, known[which])
                if reason:
                    wrong.append(f"{command}, tree {which}, seed {seed}, round {number}: {reason}")
                shutil.rmtree(work, ignore_errors=True)
                done += n
                number += 1
            total += done
    return total, wrong


def main() -> int:
    """Run it; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--command", action="append", choices=sorted(COMMANDS), help="default: all")
    parser.add_argument("--copies", type=int, default=1000, metavar="N", help="damaged files for each command")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for command in args.command or COMMANDS:
        total, wrong = fuzz(args.trees, [command], args.copies, args.seed)
        for reason in wrong[:20]:
            print(reason)
        print(f"{command}: {total:,} damaged copies, {len(wrong)} rounds wrong", flush=True)
        if wrong:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
