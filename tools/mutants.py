"""Mutants: small wrong changes of the cache's and the judgement's code, one at a time; does a test notice?

    python -m tools.mutants                    # on the lines that differ from main
    python -m tools.mutants --sample 60 --seed 7 mlxcache/kv mlxcache/history
    python -m tools.mutants --map              # run the tests once with coverage, which says who runs which line

A mutant is tried in a copy of the tree with the tests that run its line, the quickest first, until one fails. The
map of lines to tests is made where there is none, and kept in .asv/mutants; it needs the package coverage.

Why neither mutmut nor cosmic-ray: docs/mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".asv" / "mutants"
PLACES = ("mlxcache/kv", "mlxcache/mlx_lm", "mlxcache/history", "mlxcache/remeasure", "mlxcache/reports")
# Where the tests of these places lie, without what measures, waits or draws.
TESTS = ("tests",)
LEFT_OUT = ("tests/dashboard/test_site_browser.py", "tests/dashboard/test_notebook.py", "tests/test_models.py",
            "tests/test_forge.py", "tests/test_workflows.py", "tests/test_make_targets.py", "tests/test_proof.py",
            "tests/history/test_bench_tool.py", "tests/commands/test_foreign_projects.py")  # fmt: skip
PATIENCE_S = 90  # a mutant that takes longer has been noticed
_COMPARE = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
            ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}  # fmt: skip
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
               ast.BitAnd: "|", ast.BitOr: "&"}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """Source text from `start` to `end` replaced; in characters of the file."""

    file: str
    line: int
    start: int
    end: int
    text: str
    old: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}  {' '.join(self.old.split())[:60]}  ->  {' '.join(self.text.split())[:60]}"
        )


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """All mutants of a file: other operators, numbers and bounds, negated conditions, statements left out."""
    lines = source.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))

    def at(line: int, column: int) -> int:
        return begins[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def made(node: ast.expr | ast.stmt, text: str) -> Mutant:
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: PT018
        start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        return Mutant(file, node.lineno, start, end, text, source[start:end])

    def text_of(node: ast.AST) -> str:
        return f"({ast.unparse(node)})"

    tree = ast.parse(source)
    annotations = {id(n) for x in ast.walk(tree) for f in ("annotation", "returns") if (a := getattr(x, f, None))
                   for n in ast.walk(a)}  # fmt: skip
    strings = {id(n) for x in ast.walk(tree) if isinstance(x, ast.JoinedStr | ast.Raise) for n in ast.walk(x)}
    for node in ast.walk(tree):
        if id(node) in annotations or id(node) in strings:
            continue
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                yield made(node, f"({text_of(left)} {_COMPARE[type(op)]} {text_of(right)})")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                if not any(
                    isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (left, right)
                ):
                    yield made(node, f"({text_of(left)} {_ARITHMETIC[type(op)]} {text_of(right)})")
            case ast.BoolOp(op=op, values=values):
                yield made(
                    node, f"({(' or ' if isinstance(op, ast.And) else ' and ').join(map(text_of, values))})"
                )
                yield made(node, text_of(values[0]))
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield made(node, text_of(operand))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not isinstance(
                test, ast.Compare
            ):
                if ast.unparse(test) != "TYPE_CHECKING":
                    yield made(test, f"(not {text_of(test)})")
            case ast.Constant(value=bool(value)):
                yield made(node, str(not value))
            case ast.Constant(value=int(value)):
                yield made(node, f"{value + 1}")
            case ast.Constant(value=float(value)):
                yield made(node, f"{value * 2 + (value == 0)}")
            case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
                yield made(node.func, _NAMES[name])
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
                yield made(node, "pass")
            case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
                yield made(node, "return None")


def changed_lines(since: str) -> dict[str, set[int]]:
    """By file the lines of the working tree that `since` does not have."""
    said = subprocess.run(
        ["git", "diff", "-U0", "--no-color", since, "--", *PLACES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, set[int]] = {}
    for part in said.split("\ndiff --git ")[0:]:
        name = re.search(r"^\+\+\+ b/(.*\.py)$", part, re.MULTILINE)
        if name:
            lines = found.setdefault(name[1], set())
            for start, count in re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", part, re.MULTILINE):
                lines.update(range(int(start), int(start) + int(count or 1)))
    return found


def make_map(tests: list[str]) -> None:
    """Run the tests once and keep which of them run which line, and how long each takes."""
    KEPT.mkdir(parents=True, exist_ok=True)
    config = KEPT / "coveragerc"
    config.write_text(f"[run]\ndynamic_context = test_function\nsource = mlxcache\ndata_file = {KEPT}/coverage\n"
                      "[report]\nignore_errors = True\n")  # fmt: skip
    left_out = [f"--ignore={name}" for name in LEFT_OUT]
    report = KEPT / "tests.xml"
    command = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        f"--rcfile={config}",
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
    ]
    subprocess.run([*command, f"--junitxml={report}", *left_out, *tests], cwd=ROOT, check=False)
    took: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):
        plain = case.get("name", "").partition("[")[0]  # all parameters of a test count as one
        name = f"{case.get('classname', '')}.{plain}"
        took[name] = took.get(name, 0.0) + float(case.get("time", 0))
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.glob("tests/**/test_*.py")
    }
    from coverage import CoverageData

    data = CoverageData(basename=f"{KEPT}/coverage")
    data.read()
    by_line: dict[str, dict[int, list[str]]] = {}
    for measured in data.measured_files():
        contexts = data.contexts_by_lineno(measured)
        for line, names in contexts.items():
            for name in filter(None, names):
                module, _, function = name.rpartition(".")
                full = next((long for long in files if long == module or long.endswith(f".{module}")), None)
                if full is not None:
                    node = f"{files[full].relative_to(ROOT)}::{function}"
                    lines = by_line.setdefault(str(Path(measured).relative_to(ROOT)), {})
                    lines.setdefault(line, []).append(node)
    times = {f"{files[name.rpartition('.')[0]].relative_to(ROOT)}::{name.rpartition('.')[2]}": seconds
             for name, seconds in took.items() if name.rpartition(".")[0] in files}  # fmt: skip
    (KEPT / "map.json").write_text(json.dumps({"lines": by_line, "seconds": times}))


def tests_for(mutant: Mutant, known: dict[str, dict[str, object]], most: float) -> list[str]:
    """The tests that run the mutant's line, the quickest first, as many as fit into `most` seconds."""
    lines: dict[str, list[str]] = known["lines"].get(mutant.file, {})  # type: ignore[assignment]
    seconds: dict[str, float] = known["seconds"]  # type: ignore[assignment]
    chosen, total = [], 0.0
    # What runs when the module is imported is every test's that uses the module.
    runs = lines.get(str(mutant.line)) or {name for names in lines.values() for name in names}
    for name in sorted(runs, key=lambda name: (seconds.get(name, 0.5), name)):
        total += seconds.get(name, 0.5)
        if chosen and total > most:
            break
        chosen.append(name)
    return chosen


def survives(mutant: Mutant, source: str, tree: Path, tests: list[str]) -> bool:
    """Whether all tests pass with the mutant in a copy of the tree."""
    target = tree / mutant.file
    target.write_text(source[: mutant.start] + mutant.text + source[mutant.end :])
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=tree, env=_environment(tree), capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    finally:
        target.write_text(source)
    return done.returncode == 0


def _environment(tree: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(tree), "HYPOTHESIS_STORAGE_DIRECTORY": str(tree / ".hypothesis")}


def main() -> int:
    """Status 1 where more than one in twenty survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="*", default=list(PLACES))
    parser.add_argument("--since", default="main", help="mutate the lines that differ from this commit")
    parser.add_argument("--sample", type=int, help="this many of all lines instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0, help="of tests that a mutant has to survive")
    parser.add_argument("--map", nargs="*", help="make the map anew, of these tests (all that fit)")
    options = parser.parse_args()
    if options.map is not None or not (KEPT / "map.json").exists():
        make_map(options.map or list(TESTS))
    known = json.loads((KEPT / "map.json").read_text())
    wanted = None if options.sample else changed_lines(options.since)
    found: list[Mutant] = []
    for place in options.places:
        for path in sorted([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            found += [
                m for m in mutants_of(file, path.read_text()) if not wanted or m.line in wanted.get(file, ())
            ]
    if options.sample:
        found = random.Random(options.seed).sample(found, min(options.sample, len(found)))
    elif not wanted:
        found = []
    killed, survivors = 0, []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tree = Path(scratch)
        for name in subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines():
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
        for number, mutant in enumerate(found, 1):
            tests = tests_for(mutant, known, options.seconds)
            lives = not tests or survives(mutant, (ROOT / mutant.file).read_text(), tree, tests)
            killed += not lives
            if lives:
                survivors.append(mutant)
            say = "no test runs it" if not tests else f"{len(tests)} tests"
            print(f"{number}/{len(found)} {'SURVIVES' if lives else 'killed'} ({say}): {mutant}", flush=True)
    print(f"{len(survivors)} of {len(found)} mutants survive")
    return int(len(survivors) > len(found) / 20)


if __name__ == "__main__":
    sys.exit(main())
