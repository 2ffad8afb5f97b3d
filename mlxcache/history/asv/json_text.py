"""JSON as asv writes it and as damage leaves it: NaN and Infinity, broken bytes, any type anywhere."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final

try:
    import orjson
except ImportError:  # slower, same result: the standard library reads whatever orjson does
    orjson = None  # type: ignore[assignment,unused-ignore]

Json = Any  # what a parser returned: anything, until its type was looked at

UNREADABLE: Final = object()


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem inside one file, before the file's path is put to it; `row` is "" for the file as a whole."""

    row: str
    reason: str
    n_values: int = 0


def decode(data: bytes) -> tuple[Json, bool, list[Fault]]:
    """Parse JSON; also says whether its strings may hold what is no valid Unicode."""
    if orjson is not None:
        try:
            return orjson.loads(data), False, []
        except ValueError:
            pass  # NaN, Infinity, or damage: the standard library tells which
    faults: list[Fault] = []
    try:
        text = data.decode("utf-8")
        suspect = "\\ud" in text or "\\uD" in text
    except UnicodeDecodeError as error:
        where = f"byte {error.start:,} of {len(data):,}"
        faults.append(Fault("", f"invalid UTF-8 at {where}: rows that it touches are left out"))
        text = data.decode("utf-8", "surrogateescape")
        suspect = True
    try:
        return json.loads(text), suspect, faults
    except RecursionError:
        reason = "not JSON that can be read: nested too deeply"
    except ValueError as error:
        reason = f"not valid JSON, truncated or damaged: {error}; the file has {len(data):,} bytes"
    faults.append(Fault("", reason))
    return UNREADABLE, False, faults


def may_repeat_keys(data: bytes, document: Json) -> bool:
    """Whether an object in the file may name a key twice, of which parsers keep the last.

    Each key ends in a quote before a colon; there are more of them than keys if one was dropped. Text that
    looks alike, or an unusual layout, makes it True for nothing, which costs a second look.
    """
    ends = data.count(b'":') + data.count(b'" :') - data.count(b'\\":')
    return ends > _count_keys(document)


def _count_keys(document: Json) -> int:
    n = 0
    waiting = [document]
    while waiting:  # not by recursion: a file may be nested as deeply as it likes
        item = waiting.pop()
        if type(item) is dict:
            n += len(item)
            waiting += [value for value in item.values() if type(value) in (dict, list)]
        # Long lists hold numbers, unless they begin with an object.
        elif type(item) is list and any(type(entry) is dict for entry in item[:2]):
            waiting += item
    return n


def repeated_keys(data: bytes) -> tuple[Json, list[tuple[dict[str, Json], str, Json]]]:
    """The document, and (the object, the key, the value that was dropped) wherever an object repeats a key."""
    dropped: list[tuple[dict[str, Json], str, Json]] = []

    def join(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for key, value in pairs:
            if key in found:
                dropped.append((found, key, found[key]))
            found[key] = value
        return found

    try:
        return json.loads(data.decode("utf-8", "surrogateescape"), object_pairs_hook=join), dropped
    except (ValueError, RecursionError):
        return UNREADABLE, []


def is_number(item: Json) -> bool:
    """Whether it is a number, booleans included and NaN not."""
    if isinstance(item, float):
        return not math.isnan(item)
    return isinstance(item, int)


def is_clean(text: str) -> bool:
    """Whether the text is valid Unicode."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def readable(text: str) -> str:
    """The text with what cannot be printed written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def flat(items: dict[str, Json]) -> dict[str, Json]:
    """The items with readable text, and with words in place of whatever is nested."""
    scalar = (str, int, float, type(None))
    return {
        readable(key): (readable(value) if isinstance(value, str) else value)
        if isinstance(value, scalar)
        else show(value)
        for key, value in items.items()
    }


def kind(item: Json) -> str:
    """What the item is in the words of JSON."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(item), "a number")


def show(item: Json) -> str:
    """The item as an error message shows it: short, whatever it is."""
    if isinstance(item, dict | list):
        return f"{kind(item)} of {len(item)}"
    text = {None: "null", True: "true", False: "false"}.get(item) if _is_plain(item) else None
    if text is None:
        try:
            text = repr(item)
        except ValueError:  # an integer of more digits than Python prints
            text = "a huge integer"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_plain(item: Json) -> bool:
    return item is None or isinstance(item, bool)
