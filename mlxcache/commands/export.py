"""`mlxcache export --format FORMAT --out PATH`: results in the formats of other systems.

`mlxcache export --help` lists the formats. Exit status: 0, or 2 if it could not be done.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from mlxcache.commands.selecting import add_results, chosen, matchable
from mlxcache.exports.exporter import Asked, Folder, OneFile
from mlxcache.exports.registry import EXPORTERS
from mlxcache.exports.selection import ExportError, on_commit
from mlxcache.history.comparing.protocol import matching
from mlxcache.history.loading.history import facts_of
from mlxcache.history.repository.revisions import one_beginning, resolve_commit
from mlxcache.remeasure.rounds import MeasureError
from mlxcache.support.atomic import write_atomically


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    formats = "\n".join(f"  {exporter.name:24} {exporter.says}" for exporter in EXPORTERS.values())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"Write results in the formats of other systems:\n\n{formats}"
    parser.add_argument("--format", choices=tuple(EXPORTERS), required=True)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="PATH", help="a file, or a new folder for those that are one"
    )
    add_results(parser, without=("--control",))
    parser.add_argument(
        "--commit",
        metavar="REV",
        help="which commit, for formats that take one commit (default: the newest measured)",
    )
    parser.add_argument("--project", help="what PyTorch's database calls it (default: mlxcache)")


def run(args: argparse.Namespace) -> int:
    """Write it."""
    try:
        if args.project and args.format != "pytorch":
            raise ExportError(f"--project has no effect with --format {args.format}, which names no project")
        df = chosen(args).frame
        if args.bench:
            df = df[df["series"].isin(matching(matchable(df), args.bench)["series"].tolist())]
        if facts_of(df).problems:
            print(
                f"note: {facts_of(df).problems.summary()}; `mlxcache doctor {args.results}` lists them",
                file=sys.stderr,
            )
        written = _export(df, args)
    except (MeasureError, ValueError, OSError) as error:
        print(f"mlxcache export: {error}", file=sys.stderr)
        return 2
    print("\n".join(written))
    return 0


def _export(df: pd.DataFrame, args: argparse.Namespace) -> list[str]:
    exporter = EXPORTERS[args.format]
    asked = Asked(df, args.project or "mlxcache", args.out)
    if not isinstance(exporter, Folder | OneFile):
        commit = _commit(df, args) if args.commit else None
        commit, values = on_commit(df, commit)
        contents = exporter.contents(asked, values)
        for path, data in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, data)
        return [f"{path}: {len(values)} series of {commit[:10]}" for path in contents]
    if args.commit:
        raise ExportError(f"--commit: {exporter.name} has all commits; filter its column commit instead")
    if isinstance(exporter, Folder):
        return _folder(args.out, lambda folder: exporter.fill(asked, folder))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    beside = args.out.with_name(f".{args.out.name}.part")
    try:
        exporter.write(asked, beside)
        beside.replace(args.out)
    finally:
        beside.unlink(missing_ok=True)
    return [f"{args.out}: {len(df):,} values"]


def _commit(df: pd.DataFrame, args: argparse.Namespace) -> str:
    """The commit that is meant: a revision of the repository, or without one the beginning of a name."""
    if args.repo:
        return resolve_commit(args.repo, args.commit)
    return one_beginning(sorted(set(df["commit"].astype("str"))), args.commit, "--commit")


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
