"""A comparison as it is handed on: what it holds, as text for a terminal, and as JSON that can be read back.

The JSON is what a workflow that ran a stranger's code hands to the one that writes the comment: numbers and
names, no markup, and reading it checks every field.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import pandas as pd

from mlxcache.history.comparing.comparison import COLUMNS
from mlxcache.history.comparing.protocol import Comparison, NotDone, Protocol
from mlxcache.history.comparing.verdicts import Limits, Verdict
from mlxcache.reports.text import as_json, before_after, cut, interval, label, records, text_table
from mlxcache.reports.units import format_change

# 2 is "it could not be done" everywhere.
NOT_DONE: Final = 2
HEADER: Final = ("benchmark", "change", "95 % interval", "base -> head", "rounds")

_NUMBERS: Final = ("value_base", "value_head", "change", "ci95_low", "ci95_high", "p_value", "adjusted_p")
_COUNTS: Final = ("rounds", "further_rounds")
_FLAGS: Final = ("significant", "relevant")
# What JSON has no word for: an interval without bounds, a value that is not there.
_MISSING: Final = {"ci95_low": -math.inf, "ci95_high": math.inf}


class ReportError(ValueError):
    """A file that is no comparison; the message says what is wrong with it."""


def to_json(outcome: Comparison | NotDone) -> str:
    """The outcome as JSON; ends with a newline."""
    if isinstance(outcome, NotDone):
        return as_json({"verdict": None, "reason": outcome.reason})
    return as_json(
        {
            "verdict": str(outcome.verdict),
            "base": outcome.base,
            "head": outcome.head,
            "measured": outcome.measured,
            "notices": list(outcome.notices),
            "noise": list(outcome.noise),
            "lost": list(outcome.lost),
            "undone": list(outcome.undone),
            "status": int(outcome.exit_status),
            "protocol": asdict(outcome.protocol),
            "proof": [dict(each) for each in outcome.proof],
            "series": records(outcome.rows),
        }
    )


def read_json(path: Path) -> Comparison | NotDone:
    """What `to_json` wrote.

    Raises:
        ReportError: it is not there or something else; names the file and the field.
    """
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise ReportError(
            f"{path}: nested too deeply; expected the output of `mlxcache compare --format json`"
        ) from None
    except ValueError as error:
        raise ReportError(
            f"{path}: not JSON ({error}); expected the output of `mlxcache compare --format json`"
        ) from None
    if isinstance(data, dict) and data.get("verdict", "") is None and isinstance(data.get("reason"), str):
        return NotDone(data["reason"])
    if not isinstance(data, dict) or data.get("verdict") not in list(Verdict):
        raise ReportError(
            f'{path}: no verdict in it; expected the output of `mlxcache compare --format json`, with "verdict" '
            f"one of {', '.join(Verdict)}"
        )
    if not isinstance(data.get("series"), list) or not data["series"]:
        raise ReportError(f'{path}: "series" is empty or no list; a verdict needs at least one series')
    rows = [_row(path, number, row) for number, row in enumerate(data["series"], 1)]
    return Comparison(
        rows=pd.DataFrame(rows, columns=list(COLUMNS)),
        verdict=Verdict(data["verdict"]),
        base=_text(path, data, "base"),
        head=_text(path, data, "head"),
        notices=_texts(path, data, "notices"),
        noise=_texts(path, data, "noise"),
        lost=_texts(path, data, "lost"),
        undone=_texts(path, data, "undone"),
        measured=data.get("measured") is True,
        protocol=_protocol(path, data),
        proof=_proof(path, data),
    )


def _proof(path: Path, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was installed on each side, if the comparison was measured; it has to be what the verdict is about."""
    entries = data.get("proof", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ReportError(f'{path}: "proof" is {entries!r:.40}, expected a list of objects')
    for entry in entries:
        side = entry.get("side")
        if side not in ("base", "head"):
            raise ReportError(f'{path}: "proof" speaks of the side {side!r:.40}, expected base or head')
        for name in ("commit", "installed"):
            if entry.get(name) != data.get(side):
                verb = "meant" if name == "commit" else "installed"
                raise ReportError(
                    f"{path}: the comparison is of {side} {data.get(side)!r:.14}, and its proof says that "
                    f"{entry.get(name)!r:.14} was {verb} there: something else was measured"
                )
    return entries


def _protocol(path: Path, data: Mapping[str, Any]) -> Protocol:
    """What the comparison was made by; of one that does not say it the defaults."""
    given = data.get("protocol")
    if given is None:
        return Protocol()
    if not isinstance(given, dict):
        raise ReportError(f'{path}: "protocol" is {given!r:.40}, expected an object')
    try:
        numbers = {field.name: float(given["limits"][field.name]) for field in fields(Limits)}
        checked = Limits(**numbers)
        rounds, looks = int(given["rounds"]), int(given["looks"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ReportError(f'{path}: "protocol" cannot be used: {error!r:.80}') from None
    control = given.get("control")
    if not all(math.isfinite(number) for number in numbers.values()) or not isinstance(control, str | None):
        raise ReportError(f'{path}: "protocol" cannot be used: its limits or its control are not what they can be')
    return Protocol(
        limits=checked,
        control=control,
        bench=tuple(_texts(path, given, "bench")),
        environments=tuple(_texts(path, given, "environments")),
        rounds=rounds,
        looks=looks,
    )


def _text(path: Path, data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise ReportError(f'{path}: "{name}" is {value!r:.40}, expected text')
    return value


def _texts(path: Path, data: Mapping[str, Any], name: str) -> list[str]:
    value = data.get(name, [])
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise ReportError(f'{path}: "{name}" is {value!r:.40}, expected a list of texts')
    return value


def _row(path: Path, number: int, row: object) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ReportError(f"{path}: series {number} is {row!r:.40}, expected an object")
    checked: dict[str, Any] = {}
    for name in COLUMNS:
        value: Any = row.get(name)
        if name in _NUMBERS:
            good = value is None or _is_number(value)
            value = _MISSING.get(name, math.nan) if value is None else value
        elif name in _COUNTS:
            good = _is_number(value) and float(value).is_integer()
        elif name in _FLAGS:
            good = isinstance(value, bool)
        elif name == "verdict":
            good = value in list(Verdict)
        else:
            good = isinstance(value, str)
        if not good:
            raise ReportError(f'{path}: series {number}: "{name}" is {row.get(name)!r:.40}, which it cannot be')
        checked[name] = int(value) if name in _COUNTS else value
    return checked


def _is_number(value: object) -> bool:
    # No double is larger; an int may be.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def headline(comparison: Comparison) -> str:
    """The verdict and the counts behind it."""
    rows = comparison.rows
    count = rows["verdict"].value_counts()
    parts = [f"{int(count.get(v, 0))} {v}" for v in Verdict if count.get(v, 0)]
    fine = int((rows["significant"] & ~rows["relevant"]).sum())
    small = f"; {fine} significant but too small to be relevant" if fine else ""
    return f"{comparison.verdict}: {len(rows)} series compared{''.join(f', {part}' for part in parts)}{small}"


def as_text(comparison: Comparison) -> str:
    """The comparison for a terminal; ends with a newline."""
    lines = [f"{comparison.base[:10]} -> {comparison.head[:10]}", headline(comparison)]
    lines += [f"not compared: {reason}" for reason in comparison.undone]
    if comparison.lost:
        names = ", ".join(comparison.lost[:8]) + (
            f" and {len(comparison.lost) - 8} more" * (len(comparison.lost) > 8)
        )
        lines.append(f"broken or lost on head ({len(comparison.lost)}): {names}")
    for title, rows in _parts(comparison):
        if rows.empty:
            continue
        shown, rest = cut(rows)
        lines += ["", f"{title} ({len(rows)})"]
        lines += text_table(HEADER, (_cells(row) for row in shown.to_dict("records")))
        lines += [rest] if rest else []
    already = comparison.rows[comparison.rows["already_on_base"] != ""]
    if not already.empty:
        shown, rest = cut(already)
        lines += ["", f"Already on base, not from this change ({len(already)})"]
        lines += [f"{label(row)}: {row['already_on_base']}" for row in shown.to_dict("records")]
        lines += [rest] if rest else []
    lines += [f"noise: {line}" for line in comparison.noise]
    lines += [f"note: {notice}" for notice in comparison.notices]
    return "\n".join(lines) + "\n"


def _parts(comparison: Comparison) -> list[tuple[str, pd.DataFrame]]:
    rows = comparison.rows
    better = rows[(rows["direction"] == "improvement") & rows["relevant"]]
    return [
        ("New regressions", rows[rows["verdict"] == Verdict.REGRESSION]),
        ("Inconclusive", rows[rows["verdict"] == Verdict.INCONCLUSIVE]),
        ("Improvements", better),
    ]


def _cells(row: Mapping[Any, Any]) -> list[str]:
    more = f" (about {row['further_rounds']} more would decide)" if row["further_rounds"] else ""
    return [
        label(row) + (f" [{row['note']}]" if row["note"] else ""),
        format_change(row["change"]),
        interval(row["ci95_low"], row["ci95_high"]),
        before_after(row, "value_base", "value_head"),
        f"{row['rounds']}{more}",
    ]
