"""`mlxcache export --format FORMAT --out PATH`: results in the formats of other systems.

    pytorch                  one JSON file for PyTorch's benchmark database (schema v3)
    github-action-benchmark  JSON for customSmallerIsBetter, and PATH with .bigger for customBiggerIsBetter
    bencher                  Bencher Metric Format
    otava                    a folder of CSV files with otava.yaml
    parquet                  a folder of Parquet files, one partition a machine

Exit status: 0, or 2 if it could not be done.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from mlxcache.exports import bencher, github_action, otava, parquet, pytorch
from mlxcache.exports.selection import ExportError, on_commit
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.table import load
from mlxcache.history.repository.revisions import resolve_commit
from mlxcache.remeasure.rounds import MeasureError
from mlxcache.support.atomic import write_atomically

FORMATS = ("pytorch", "github-action-benchmark", "bencher", "otava", "parquet")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="PATH", help="a file, or a folder for otava and parquet"
    )
    parser.add_argument("--results", default="results", metavar="DIR", help="asv results (default: %(default)s)")
    parser.add_argument("--repo", metavar="DIR", help="the repository, which gives the order of commits")
    parser.add_argument(
        "--commit", metavar="REV", help="which commit, for the first three formats (default: the newest measured)"
    )
    parser.add_argument("--machine", metavar="REGEX", help="only machines in whose name this is found")
    parser.add_argument("--env", metavar="REGEX", help="only environments in whose name this is found")
    parser.add_argument("--bench", metavar="REGEX", help="only benchmarks in whose name this is found")
    parser.add_argument(
        "--project", default="mlxcache", help="what PyTorch's database calls it (default: mlxcache)"
    )


def run(args: argparse.Namespace) -> int:
    """Write it."""
    try:
        df = load(args.results, repo=args.repo, benchmarks=args.bench)
        for column, pattern in (("machine", args.machine), ("env", args.env)):
            if pattern:
                df = df[df[column].astype("str").str.contains(re.compile(pattern))]
        if facts_of(df).problems:
            print(
                f"note: {facts_of(df).problems.summary()}; `mlxcache doctor {args.results}` lists them",
                file=sys.stderr,
            )
        written = _export(df, args)
    except (MeasureError, ValueError, OSError, re.error) as error:
        print(f"mlxcache export: {error}", file=sys.stderr)
        return 2
    print("\n".join(written))
    return 0


def _export(df: pd.DataFrame, args: argparse.Namespace) -> list[str]:
    out: Path = args.out
    if args.format == "otava":
        return _folder(out, lambda folder: _write_files(folder, otava.files(df)))
    if args.format == "parquet":
        return _folder(out, lambda folder: parquet.write(df, folder))
    commit = resolve_commit(args.repo, args.commit) if args.commit and args.repo else args.commit
    commit, values = on_commit(df, commit)
    if args.format == "pytorch":
        contents = {out: pytorch.as_json(pytorch.records(values, args.project, facts_of(df).machines))}
    elif args.format == "bencher":
        contents = {out: bencher.as_json(bencher.metrics(values))}
    else:
        contents = {}
        for higher, path in ((False, out), (True, out.with_name(f"{out.stem}.bigger{out.suffix}"))):
            found = github_action.entries(values, higher_better=higher)
            if found:
                contents[path] = github_action.as_json(found)
    for path, data in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return [f"{path}: {len(values)} series of {commit[:10]}" for path in contents]


def _write_files(folder: Path, contents: dict[str, bytes]) -> None:
    for name, data in contents.items():
        (folder / name).write_bytes(data)


def _folder(out: Path, write: Callable[[Path], None]) -> list[str]:
    """Let `write` fill a folder beside `out`, which takes its place when it is whole."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise ExportError(f"--out: {out} is there already and not an empty folder; remove it or name another")
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        write(beside)
        beside.chmod(0o755)
        beside.replace(out)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return [str(path) for path in sorted(out.rglob("*")) if path.is_file()]
