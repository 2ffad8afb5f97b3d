"""Which machines are one: by default each name is its own, and only a rule that the user states joins names.

CI runners are named after random hosts, so one kind of hardware fills hundreds of folders. A rule is text:

    REGEX=NAME             names that match the whole regex are NAME (\\1 is the first group)
    FIELD~REGEX=NAME       the same on a field of machine.json: os, arch, cpu, num_cpu, ram or any other
    FIELD,FIELD,...        machines with the same values there are one, named by the values; where one of
                           the fields is missing or empty, the machine stays apart

The first rule that applies to a machine decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELDS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(,[A-Za-z_][A-Za-z0-9_]*)*")
# what asv writes; a lone word that is none of these is more likely a rule without its "=NAME"
_ASV_FIELDS: Final = frozenset({"machine", "os", "arch", "cpu", "num_cpu", "ram"})


class RuleError(ValueError):
    """A rule that joins machines cannot be understood."""


@dataclass(frozen=True, slots=True)
class PatternRule:
    """Machines whose `field` matches the whole `pattern` are called `name` (a template as in re)."""

    pattern: re.Pattern[str]
    name: str
    field: str = "machine"

    def apply(self, machine: str, facts: Mapping[str, Any]) -> str | None:
        """The kind's name, None where the rule does not apply."""
        value = machine if self.field == "machine" else facts.get(self.field)
        if value is None:
            return None
        match = self.pattern.fullmatch(str(value))
        return match.expand(self.name) if match else None


@dataclass(frozen=True, slots=True)
class FieldsRule:
    """Machines with the same values in these fields of machine.json are one."""

    fields: tuple[str, ...]

    def apply(self, machine: str, facts: Mapping[str, Any]) -> str | None:
        """The values, joined; None where a field is missing or empty."""
        values = [machine if field == "machine" else facts.get(field) for field in self.fields]
        if any(value is None or str(value) == "" for value in values):
            return None
        return ", ".join(map(str, values))


Rule = PatternRule | FieldsRule


def parse_rule(text: str) -> Rule:
    """Read one rule as the module's head describes it.

    Raises:
        RuleError: with the rule, what is wrong with it and what was expected.
    """
    expected = "expected REGEX=NAME, FIELD~REGEX=NAME or FIELD,FIELD (such as cpu,arch)"
    if "=" not in text:
        fields = text.replace(" ", "")
        if not _FIELDS.fullmatch(fields) or ("," not in fields and fields not in _ASV_FIELDS):
            raise RuleError(f"machine rule {text!r}: no NAME after '='; {expected}")
        return FieldsRule(tuple(fields.split(",")))
    left, _, name = text.rpartition("=")
    field, tilde, pattern = left.partition("~")
    if not tilde or not _FIELD.fullmatch(field):
        field, pattern = "machine", left
    if not name.strip() or not pattern:
        raise RuleError(f"machine rule {text!r}: {'NAME' if pattern else 'REGEX'} is empty; {expected}")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise RuleError(f"machine rule {text!r}: {pattern!r} is no regular expression: {error}") from None
    try:
        # Fails for a group that the pattern lacks, which otherwise shows at the first match only.
        re.compile(f"(?:{pattern})|").fullmatch("").expand(name)  # type: ignore[union-attr]
    except (re.error, IndexError) as error:
        raise RuleError(f"machine rule {text!r}: NAME {name!r} does not fit {pattern!r}: {error}") from None
    return PatternRule(compiled, name.strip(), field)


def as_rules(rules: Iterable[str | Rule]) -> list[Rule]:
    """Rules, parsed where they are text (see `parse_rule`)."""
    return [parse_rule(rule) if isinstance(rule, str) else rule for rule in rules]


def kind_of(machine: str, facts: Mapping[str, Any], rules: Iterable[Rule]) -> str:
    """What the machine counts as: what the first rule that applies says, else its own name."""
    for rule in rules:
        kind = rule.apply(machine, facts)
        if kind:
            return kind
    return machine
