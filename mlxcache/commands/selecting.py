"""Options that choose machines and environments, the same in every command that reads results."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

import pandas as pd


def add_machine_rule(parser: argparse.ArgumentParser) -> None:
    """Add --machine-rule."""
    parser.add_argument(
        "--machine-rule",
        action="append",
        default=[],
        metavar="RULE",
        help="which machines are one: REGEX=NAME, FIELD~REGEX=NAME or FIELD,FIELD",
    )


def add_selection(parser: argparse.ArgumentParser, *, environments: bool = True) -> None:
    """Add --machine-rule, --machine and (unless the command has its own) --env."""
    add_machine_rule(parser)
    parser.add_argument(
        "--machine", action="append", default=[], metavar="REGEX", help="only machines in whose name this is found"
    )
    if environments:
        parser.add_argument(
            "--env",
            action="append",
            default=[],
            metavar="REGEX",
            help="only environments of this name, or in whose name this is found",
        )


def select(df: pd.DataFrame, *, machines: Sequence[str] = (), environments: Sequence[str] = ()) -> pd.DataFrame:
    """The rows of these machines and environments; all where none is named.

    A name that is there is taken as it is, anything else as a regular expression.

    Raises:
        ValueError: one fits nothing, or is no regular expression; names what there is.
    """
    for column, option, wanted in (("machine", "--machine", machines), ("env", "--env", environments)):
        if wanted and not df.empty:
            names = sorted(set(df[column].astype("str")))
            chosen = {name for pattern in wanted for name in _fitting(pattern, names, option)}
            df = df[df[column].isin(chosen).to_numpy(bool)]
    return df


def _fitting(pattern: str, names: Sequence[str], option: str) -> list[str]:
    if pattern in names:
        return [pattern]
    try:
        found = [name for name in names if re.search(pattern, name)]
    except re.error as error:
        raise ValueError(f"{option}: {pattern!r} is no regular expression: {error}") from None
    if not found:
        there = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise ValueError(f"{option}: {pattern!r} fits none of the results; there are: {there}")
    return found
