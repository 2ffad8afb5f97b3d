"""Which code of which benchmark runs on either side, and what cannot be compared and why.

Head's suite is run on both sides, as asv does. Where base cannot import one of its files, as when a pull request
adds a function and its benchmark to an old file, base runs its own file, and of that what has the same code.
What base's suite has and head's has not is lost, and named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlxcache.remeasure.asv_side import Listing, labels
from mlxcache.remeasure.suites import Suite


@dataclass(frozen=True)
class Run:
    """One side of a benchmark: the suite that has it, asv's entry, and the places of the parameter sets."""

    suite: Suite
    entry: dict[str, Any]
    chosen: list[int] | None


@dataclass(frozen=True)
class Work:
    """A benchmark that is run on both sides, with the same parameter sets; `changed`: its code differs."""

    name: str
    base: Run
    head: Run
    changed: bool = False


@dataclass(frozen=True)
class Lost:
    """A series of base that head cannot give, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Pairing:
    """What is run, what is lost, and remarks."""

    work: tuple[Work, ...]
    lost: tuple[Lost, ...]
    notices: tuple[str, ...]


class Selection:
    """asv's --bench: regular expressions that look into "name(params)"; none takes all."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]

    @property
    def takes_all(self) -> bool:
        """Whether nothing in particular was asked for."""
        return not self._patterns

    def takes(self, name: str, params: str) -> bool:
        """Whether a parameter set is chosen."""
        full = f"{name}({params})" if params else name
        return not self._patterns or any(pattern.search(full) for pattern in self._patterns)

    def of(self, entry: dict[str, Any]) -> list[str]:
        """The names of a benchmark's chosen parameter sets."""
        return [label for label in labels(entry) if self.takes(entry["name"], label)]


def pair(on_head: Listing, on_base: Listing, own: Listing, selection: Selection, project: str) -> Pairing:
    """Decide for each benchmark.

    Args:
        on_head: head's suite as head imports it.
        on_base: head's suite as base imports it.
        own: base's own suite as base imports it; the same as `on_base` where the two suites are one.
        selection: what was asked for.
        project: its name, whose own version may differ.
    """
    work: list[Work] = []
    lost: list[Lost] = []
    notices: list[str] = []
    added: list[str] = []
    changed: list[str] = []
    for name, entry in sorted(on_head.benchmarks.items()):
        wanted = selection.of(entry)
        if not wanted:
            continue
        before, there = own.benchmarks.get(name), on_base.benchmarks.get(name)
        source = on_base
        if there is None and before is not None:
            if before.get("version") == entry.get("version"):
                there, source = before, own
            else:
                why = on_base.broken.get(str(entry.get("module")))
                lost.append(
                    Lost(
                        name,
                        "its code changed, and base cannot run head's"
                        + (f" ({why.file}: {why.reason})" if why else ""),
                    )
                )
                continue
        if there is None:
            added.append(name)
            continue
        is_changed = before is not None and before.get("version") != entry.get("version")
        if is_changed:
            changed.append(name)
        base_labels, head_labels = labels(there), labels(entry)
        both = [label for label in wanted if label in base_labels]
        if len(both) < len(wanted):
            gone = [label for label in wanted if label not in base_labels]
            notices.append(f"{name}: base has no parameters {'; '.join(gone[:4])}, so they are not compared")
        if both:
            work.append(
                Work(
                    name,
                    Run(source.suite, there, _places(base_labels, both, there)),
                    Run(on_head.suite, entry, _places(head_labels, both, entry)),
                    is_changed,
                )
            )
    lost += _gone(on_head, own, selection)
    notices += _remarks(on_head, on_base, own, added, changed)
    notices += _other_packages(on_head, on_base, project)
    return Pairing(tuple(work), tuple(lost), tuple(notices))


def _places(names: list[str], wanted: list[str], entry: dict[str, Any]) -> list[int] | None:
    return [names.index(label) for label in wanted] if entry["params"] else None


def _gone(on_head: Listing, own: Listing, selection: Selection) -> Iterator[Lost]:
    """What base's own suite has and head's has not."""
    for name, entry in sorted(own.benchmarks.items()):
        wanted = selection.of(entry)
        if not wanted:
            continue
        there = on_head.benchmarks.get(name)
        if there is None:
            broken = on_head.broken.get(str(entry.get("module")))
            yield Lost(
                name,
                f"{broken.file} cannot be imported on head: {broken.reason}"
                if broken
                else "removed or renamed: head's suite does not have it",
            )
            continue
        known = set(labels(there))
        for label in wanted:
            if label not in known:
                yield Lost(f"{name}({label})" if label else name, "head's suite does not have these parameters")
    known_files = {str(entry.get("module")) for entry in own.benchmarks.values()}
    for module, broken in on_head.broken.items():
        # What a new file would have had nobody knows, so it counts only where all was asked for; what base cannot
        # import either was not lost here.
        if module not in known_files and module not in own.broken and selection.takes_all:
            yield Lost(broken.file, f"cannot be imported on head: {broken.reason}")


def _remarks(
    on_head: Listing, on_base: Listing, own: Listing, added: list[str], changed: list[str]
) -> Iterator[str]:
    if added:
        yield f"new on head, so there is nothing to compare with: {_few(added)}"
    if changed:
        yield f"the code of {_few(changed)} changed between base and head; head's is run on both sides"
    for broken in on_head.broken.values():
        yield f"{broken.file} cannot be imported on head: {broken.reason}"
    for module, broken in on_base.broken.items():
        if module not in on_head.broken:
            yield (
                f"{broken.file} of {on_base.suite.name} cannot be imported on base ({broken.reason}); base's own "
                "is run where its code is the same"
            )
    if own is not on_base:
        for module, broken in own.broken.items():
            if module not in on_base.broken:
                yield f"{broken.file} of base cannot be imported there: {broken.reason}"


def _other_packages(on_head: Listing, on_base: Listing, project: str) -> Iterator[str]:
    """What is installed beside the project and differs: a slowdown may be theirs."""
    differing = sorted(
        name
        for name in set(on_head.packages) | set(on_base.packages)
        if name != project.lower().replace("_", "-") and on_head.packages.get(name) != on_base.packages.get(name)
    )
    told = [
        f"{name} {on_base.packages.get(name, 'absent')} on base and {on_head.packages.get(name, 'absent')} on head"
        for name in differing
    ]
    if told:
        yield f"the environments differ: {'; '.join(told[:6])}{' and more' if told[6:] else ''}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
