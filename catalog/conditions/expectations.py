"""What a condition expects of one value: the check of a value, and the same in JSON Schema.

Pure. Both follow JSON Schema: 1 equals 1.0, true is not 1, and a pattern matches anywhere in a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from catalog.canonical import dumps
from catalog.schemas import errors, patterns
from catalog.schemas.errors import Expected
from catalog.schemas.full_check import hashable

EQUALS, ONE_OF, NOT_ONE_OF, PATTERN = "equals", "one_of", "not_one_of", "pattern"
RANGE, LENGTH, PREFIX, BELONGS_TO = "range", "length", "prefix", "belongs_to"
OPERATORS: Final = (EQUALS, ONE_OF, NOT_ONE_OF, PATTERN, RANGE, LENGTH, PREFIX, BELONGS_TO)
LISTING: Final = frozenset({EQUALS, ONE_OF, BELONGS_TO})
"""Operators that expect one of some values."""
MAX_SHOWN_VALUES: Final = 500
"""Number of values up to which a schema lists them; more are only checked."""
KINDS: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
RANGE_KEYWORDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_OPPOSITES: Final = {
    "minimum": "exclusiveMaximum", "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum", "exclusiveMaximum": "minimum",
}  # fmt: skip
_SPECIAL = re.compile(r"[\^$\\.*+?()\[\]{}|]")


@dataclass(frozen=True)
class Expectation:
    """One operator with its operand, comparable and hashable: `operand` is the operand as canonical JSON.

    Operands: a list of values (EQUALS has one, BELONGS_TO those of one person), a pattern, a prefix, or an object of
    bounds: RANGE_KEYWORDS for RANGE, `minimum` and `maximum` for LENGTH.
    """

    operator: str
    operand: str

    @classmethod
    def of(cls, operator: str, operand: Any) -> Expectation:
        return cls(operator, dumps(operand))

    @cached_property
    def value(self) -> Any:
        """Return the operand."""
        return json.loads(self.operand)

    @cached_property
    def holds(self) -> Callable[[Any], bool]:
        """Return the check of a value. It raises BudgetError beyond the budget of patterns (see `schemas.patterns`)."""
        match self.operator:
            case "equals" | "one_of" | "belongs_to":
                return _listed(self.value)
            case "not_one_of":
                listed = _listed(self.value)
                return lambda value: not listed(value)
            case "pattern" | "prefix":
                matches = patterns.searcher(self.pattern)
                return lambda value: isinstance(value, str) and matches(value)
            case "range":
                return _within(self.value)
            case "length":
                low, high = self.value.get("minimum", 0), self.value.get("maximum", float("inf"))
                return lambda value: isinstance(value, str | list) and low <= len(value) <= high
        raise ValueError(self.operator)

    @cached_property
    def is_structured(self) -> bool:
        """Return whether it expects a list or an object, in which defaults may fill in members."""
        return self.operator == EQUALS and isinstance(self.value[0], list | dict)

    @cached_property
    def pattern(self) -> str:
        """Return the pattern of PATTERN and PREFIX: a prefix is one in a form that RE2 and ECMAScript read alike."""
        if self.operator == PREFIX:
            return "^" + _SPECIAL.sub(r"\\\g<0>", self.value)
        return str(self.value)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Return the JSON kinds of the values that may satisfy it."""
        match self.operator:
            case "pattern" | "prefix":
                return frozenset({"string"})
            case "range":
                return frozenset({"integer", "number"})
            case "length":
                return frozenset({"string", "array"})
        return frozenset(KINDS)

    @property
    def has_shown_values(self) -> bool:
        """Return whether the values are few enough for a schema to list them."""
        return len(self.value) <= MAX_SHOWN_VALUES

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """Return the keywords that say it of a value of one of `kinds`; empty where there are too many values."""
        match self.operator:
            case "equals" | "one_of" | "belongs_to":
                return {"enum": self.value} if self.has_shown_values else {}
            case "not_one_of":
                return {"not": {"enum": self.value}} if self.has_shown_values else {}
            case "pattern" | "prefix":
                return {"pattern": self.pattern}
            case "range":
                return dict(self.value)
        names = {"minimum": ("minLength", "minItems"), "maximum": ("maxLength", "maxItems")}
        return {keyword: bound for name, bound in self.value.items() for keyword in names[name]}

    @cached_property
    def complement(self) -> dict[str, Any] | None:
        """Return keywords that say the opposite of a value of one of `kinds`; None where only "not" can say it."""
        bounds = list(self.value.items()) if self.operator in (RANGE, LENGTH) else []
        if len(bounds) != 1:
            return None
        ((keyword, bound),) = bounds
        if self.operator == RANGE:
            return {_OPPOSITES[keyword]: bound}
        if keyword == "minimum":
            return {"maxLength": bound - 1, "maxItems": bound - 1} if bound > 0 else None
        return {"minLength": bound + 1, "minItems": bound + 1}

    def expected(self, value: Any, *, negated: bool) -> Expected:
        """Return what was expected instead of `value`, as the check of a schema would say it."""
        operator = "enum" if self.operator in LISTING or self.operator == NOT_ONE_OF else self.operator
        if self.operator == NOT_ONE_OF:
            negated = not negated
        if negated:
            return self._unwanted(operator)
        if operator == "enum":
            values = self._like(value) if self.operator == BELONGS_TO else self.value
            one = len(values) == 1
            return errors.expected_of("const" if one else "enum", values[0] if one else values)
        kind = errors.kind(value)
        if kind not in self.kinds:
            return errors.expected_of("type", sorted(self.kinds - {"integer"}))
        if operator == PREFIX:
            return errors.expected_prefix(self.value)
        if operator == PATTERN:
            return errors.expected_of("pattern", self.value)
        return self._bound_missed(value)

    def _like(self, value: Any) -> list[Any]:
        """Return the values that are texts or numbers as this one is: a value list means both of each number."""
        return [one for one in self.value if isinstance(one, str) == isinstance(value, str)] or self.value

    def _unwanted(self, operator: str) -> Expected:
        if self.complement is None:
            return errors.unwanted(operator, self.value)
        keyword, bound = next(iter(self.complement.items()))
        return errors.expected_of(keyword, bound)

    def _bound_missed(self, value: Any) -> Expected:
        """Return the first bound that a value of a fitting kind misses."""
        for name, bound in self.value.items():
            if not Expectation.of(self.operator, {name: bound}).holds(value):
                if self.operator == LENGTH:
                    name = ("min" if name == "minimum" else "max") + ("Items" if isinstance(value, list) else "Length")
                return errors.expected_of(name, bound)
        raise ValueError(value)


def _listed(values: list[Any]) -> Callable[[Any], bool]:
    known = {hashable(value) for value in values}
    return lambda value: hashable(value) in known


def _within(bounds: Mapping[str, Any]) -> Callable[[Any], bool]:
    low, above = bounds.get("minimum"), bounds.get("exclusiveMinimum")
    high, below = bounds.get("maximum"), bounds.get("exclusiveMaximum")

    def holds(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (
            (low is None or value >= low)
            and (above is None or value > above)
            and (high is None or value <= high)
            and (below is None or value < below)
        )

    return holds


def values_of_list(entries: Sequence[str]) -> list[Any]:
    """Return the values that the entries of a value list stand for: each text, and the whole number that it writes."""
    values: list[Any] = []
    for entry in entries:
        values.append(entry)
        if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", entry):
            values.append(int(entry))
    return values
