"""What machines, environments, parameters and series are called on the pages: short, and told apart.

A name that a page shows has only what varies: a machine's short name, the packages whose version differs
between environments ("mlx 0.32.4"), and parameters by name (`head_dim=128`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mlxcache.reports.plain_text import short

_CLASS: Final = re.compile(r"<class '([^']+)'>")
_OPEN: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_LONG: Final = 28  # characters of a machine's name from which the part that all share is left out


def split_params(text: str) -> list[str]:
    """asv's text of a parameter set as its values; commas within quotes and brackets belong to a value."""
    parts: list[str] = []
    closing: list[str] = []
    start, quote = 0, ""
    for at, char in enumerate(text):
        if quote:
            if char == quote and text[at - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif closing and char == closing[-1]:
            closing.pop()
        elif char in _OPEN:
            closing.append(_OPEN[char])
        elif char == "," and not closing:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()] if text else []


def plain_value(text: str) -> str:
    """A parameter's value as people write it: 'a' without its quotes, a class by its name."""
    text = _CLASS.sub(r"\1", text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def named_params(names: Sequence[str], text: str) -> list[tuple[str, str]]:
    """Names and values of a parameter set; parameters that nobody named are called as asv calls them."""
    values = [plain_value(value) for value in split_params(text)]
    if len(values) != len(names):
        names = [f"param{i + 1}" for i in range(len(values))]
    return list(zip(names, values, strict=True))


def params_text(names: Sequence[str], text: str) -> str:
    """A parameter set as pages show it: `path=int64 head_dim=64`."""
    return " ".join(f"{name}={value}" for name, value in named_params(names, text))


def machine_names(machines: Iterable[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """A short name for each machine: the chosen one, else its own without what all long ones share.

    Two machines never get the same name.
    """
    own = {name: chosen.get(name) or name for name in machines}
    long = [name for name in own if not chosen.get(name)]
    if len(long) > 1 and max(map(len, long)) > _LONG:
        own |= _without_shared(long)
    taken: dict[str, int] = {}
    for short_name in own.values():
        taken[short_name] = taken.get(short_name, 0) + 1
    return {name: text if taken[text] == 1 else name for name, text in own.items()}


def _without_shared(names: Sequence[str]) -> dict[str, str]:
    first = _shared(names)
    first = first[: max(first.rfind(mark) for mark in "-_. ") + 1]
    turned = _shared([name[len(first) :][::-1] for name in names])
    tail = turned[: max(turned.rfind(mark) for mark in "-_. ") + 1]
    return {name: name[len(first) : len(name) - len(tail)] or name for name in names}


def _shared(texts: Sequence[str]) -> str:
    """What all begin with."""
    return "".join(
        chars[0] for chars in itertools.takewhile(lambda c: len(set(c)) == 1, zip(*texts, strict=False))
    )


def environment_names(packages: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """A name for each environment: the versions of what differs between them, else its own name.

    `packages` are versions by package ("python" among them) and environment. Of two that differ in nothing known
    each keeps its whole name.
    """
    if len(packages) < 2:
        return {name: versions_text(versions) or name for name, versions in packages.items()}
    every = sorted({package for versions in packages.values() for package in versions})
    varying = [p for p in every if len({versions.get(p, "") for versions in packages.values()}) > 1]
    # A package of the same family (mlx, mlx-cuda) with the same version everywhere says nothing more.
    kept: list[str] = []
    for package in sorted(varying, key=len):
        twins = (
            all(v.get(package, v.get(k, "")) == v.get(k, "") for v in packages.values())
            for k in kept
            if package.startswith(k)
        )
        if not any(twins):
            kept.append(package)
    named = {
        name: versions_text({p: versions[p] for p in kept if p in versions}) for name, versions in packages.items()
    }
    return _told_apart(named)


def _told_apart(named: Mapping[str, str]) -> dict[str, str]:
    """Environments of the same packages also say what of their own names the others lack; else those whole."""
    same: dict[str, list[str]] = {}
    for name, text in named.items():
        same.setdefault(text, []).append(name)
    found = {}
    for text, names in same.items():
        pieces = {name: name.split("-") for name in names}
        shared = set.intersection(*map(set, pieces.values()))
        for name, own in pieces.items():
            rest = "-".join(piece for piece in own if piece not in shared)
            found[name] = ", ".join(filter(None, (text, rest if len(names) > 1 else ""))) if text else name
    return {name: text if list(found.values()).count(text) == 1 else name for name, text in found.items()}


def versions_text(versions: Mapping[str, str]) -> str:
    """Packages and versions: "mlx 0.32.4, Python 3.11"."""
    ordered = sorted(versions.items(), key=lambda item: (item[0] == "python", item[0]))
    return ", ".join(f"{'Python' if name == 'python' else name} {version}" for name, version in ordered)


class Names:
    """The names of one site."""

    def __init__(
        self,
        machines: Iterable[str],
        packages: Mapping[str, Mapping[str, str]],
        parameters: Mapping[str, Sequence[str]],
        chosen: Mapping[str, str] | None = None,
    ) -> None:
        self._machines = machine_names(machines, chosen or {})
        self._environments = environment_names(packages)
        self._parameters = parameters

    def machine(self, name: str) -> str:
        """A machine's short name."""
        return self._machines.get(name, name)

    def environment(self, name: str) -> str:
        """An environment's short name."""
        return self._environments.get(name, name)

    def parameters(self, benchmark: str) -> Sequence[str]:
        """The names of a benchmark's parameters."""
        return self._parameters.get(benchmark, ())

    def pairs(self, benchmark: str, text: str) -> list[tuple[str, str]]:
        """Names and values of a parameter set."""
        return named_params(self.parameters(benchmark), text)

    def params(self, benchmark: str, text: str) -> str:
        """A parameter set with names; "" where there is none."""
        return params_text(self.parameters(benchmark), text)

    def place(self, machine: str, env: str) -> str:
        """Machine and environment in one line."""
        several = len(self._environments) > 1
        return (
            f"{self.machine(machine)} · {short(self.environment(env), 60)}" if several else self.machine(machine)
        )
