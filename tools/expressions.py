"""The expressions of GitHub's workflows, as far as ours use them: `${{ needs.plan.outputs.groups != '[]' }}`.

Loose comparison, `&&` and `||` that give a value, functions, and contexts by dotted name; what is missing is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<op>&&|\|\||==|!=|[!(),\[\]])|"
    r"(?P<name>[A-Za-z_][\w-]*(?:\.(?:\*|[A-Za-z_][\w-]*))*))"
)
Functions = Mapping[str, Callable[..., Any]]


class ExpressionError(ValueError):
    """An expression that this does not understand: the rehearsal must not guess."""


def substitute(text: str, contexts: Mapping[str, Any], functions: Functions) -> str:
    """The text with each `${{ ... }}` replaced by its value as text."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda m: as_text(evaluate(m[1], contexts, functions)), text, flags=re.S)


def as_text(value: Any) -> str:
    """A value as GitHub writes it into a text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def evaluate(expression: str, contexts: Mapping[str, Any], functions: Functions) -> Any:
    """Its value. Raises ExpressionError for anything that is not understood."""
    bare = expression.strip()
    if bare.startswith("${{") and bare.endswith("}}"):
        bare = bare[3:-2]
    return _Parser(bare, contexts, {**_FUNCTIONS, **functions}).whole()


def _contains(where: Any, what: Any) -> bool:
    if isinstance(where, list):
        return any(_equal(each, what) for each in where)
    return as_text(what).lower() in as_text(where).lower()


def _format(pattern: str, *values: Any) -> str:
    return re.sub(r"\{(\d+)\}", lambda m: as_text(values[int(m[1])]), pattern)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "contains": _contains,
    "startsWith": lambda where, what: as_text(where).lower().startswith(as_text(what).lower()),
    "fromJSON": lambda text: json.loads(text),
    "format": _format,
}


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.lower() == other.lower()
    if type(one) is type(other):
        return bool(one == other)
    return _as_number(one) == _as_number(other)


def _as_number(value: Any) -> float:
    if value is None or value == "":
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


class _Parser:
    def __init__(self, text: str, contexts: Mapping[str, Any], functions: Functions) -> None:
        self._contexts, self._functions, self._text = contexts, functions, text
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise ExpressionError(f"cannot read {text[place:]!r} in {text!r}")
            self._tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            place = match.end()

    def whole(self) -> Any:
        value = self._or()
        if self._tokens:
            raise ExpressionError(f"{self._tokens[0][1]!r} is left over in {self._text!r}")
        return value

    def _next(self, *wanted: str) -> bool:
        if self._tokens and self._tokens[0][0] == "op" and self._tokens[0][1] in wanted:
            self._tokens.pop(0)
            return True
        return False

    def _or(self) -> Any:
        value = self._and()
        while self._next("||"):
            other = self._and()
            value = value or other
        return value

    def _and(self) -> Any:
        value = self._compared()
        while self._next("&&"):
            other = self._compared()
            value = other if value else value
        return value

    def _compared(self) -> Any:
        value = self._single()
        while self._tokens[:1] in ([("op", "==")], [("op", "!=")]):
            negated = self._tokens.pop(0)[1] == "!="
            value = _equal(value, self._single()) != negated
        return value

    def _single(self) -> Any:
        if self._next("!"):
            return not self._single()
        if self._next("("):
            value = self._or()
            self._closed(")")
            return value
        if not self._tokens:
            raise ExpressionError(f"{self._text!r} ends early")
        kind, token = self._tokens.pop(0)
        if kind == "text":
            return token[1:-1].replace("''", "'")
        if kind == "number":
            return float(token) if "." in token else int(token)
        if kind != "name":
            raise ExpressionError(f"{token!r} is out of place in {self._text!r}")
        if self._next("("):
            return self._call(token)
        if token in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[token]
        return self._looked_up(token)

    def _call(self, name: str) -> Any:
        arguments = []
        while not self._next(")"):
            arguments.append(self._or())
            if not self._next(","):
                self._closed(")")
                break
        if name not in self._functions:
            raise ExpressionError(f"there is no function {name!r} here")
        return self._functions[name](*arguments)

    def _closed(self, mark: str) -> None:
        if not self._next(mark):
            raise ExpressionError(f"{mark!r} is missing in {self._text!r}")

    def _looked_up(self, name: str) -> Any:
        first, *rest = name.split(".")
        if first not in self._contexts:
            raise ExpressionError(f"there is no context {first!r} here, in {self._text!r}")
        return _below(self._contexts[first], rest)


def _below(value: Any, path: list[str]) -> Any:
    for place, name in enumerate(path):
        if name == "*":
            return [_below(each, path[place + 1 :]) for each in value or []]
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
