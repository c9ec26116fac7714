"""Conditions as a grant stores them, checked and made comparable.

A condition in JSON: `path`, a JSON pointer to an argument in which `*` stands for every item of a list; `op`, an
operator; its operand; and `optional`, by which it also holds when the argument is left out.

    {"path": "/lines/*/amount", "op": "range", "maximum": 1000}
    {"path": "/region", "op": "one_of", "values": ["emea", "apac"], "optional": true}
    {"path": "", "op": "only", "names": ["lines", "region"]}

The last one is about all arguments together: a client sends no others than these. Operands: `value` of equals and
fixed, `values` of one_of and not_one_of, `pattern`, `prefix`, `list` (the name of a value list) of belongs_to,
`minimum`, `exclusiveMinimum`, `maximum` and `exclusiveMaximum` of range, `minimum` and `maximum` of length, `names` of
only. The value of equals and fixed can be a list or an object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from catalog.canonical import dumps
from catalog.conditions import expectations
from catalog.conditions.expectations import Expectation
from catalog.conditions.mistakes import ConditionError
from catalog.schemas import patterns, redos
from toolhub.wire import json_pointer

FIXED: Final = "fixed"
ONLY: Final = "only"
OPERATORS: Final = (*expectations.OPERATORS, FIXED, ONLY)
ITEMS: Final = None
"""The step of a path that stands for every item of a list."""
MAX_CONDITIONS: Final = 20
MAX_STEPS: Final = 8
MAX_VALUES: Final = 500
MAX_TEXT_CHARACTERS: Final = 500
MAX_FIXED_CHARACTERS: Final = 10_000
MAX_VALUE_LEVELS: Final = 64
"""Maximum depth of lists and objects in a value; no call has deeper ones."""
MAX_NAMES: Final = 100
MAX_BOUND: Final = 10**15
"""Largest bound of a range: beyond it, programs that read numbers as floating point numbers disagree."""
_OPERANDS: Final = {
    "equals": {"value"}, "fixed": {"value"}, "one_of": {"values"}, "not_one_of": {"values"}, "pattern": {"pattern"},
    "prefix": {"prefix"}, "belongs_to": {"list"}, "range": set(expectations.RANGE_KEYWORDS),
    "length": {"minimum", "maximum"}, "only": {"names"},
}  # fmt: skip

Steps: TypeAlias = tuple[str | None, ...]


@dataclass(frozen=True)
class Condition:
    """One condition of a grant; comparable and hashable."""

    steps: Steps
    """The place of its argument; () for ONLY, which is about all of them."""
    operator: str
    operand: str
    """The operand as JSON text: a value, a list of values, a text, the name of a value list, names, or bounds."""
    is_optional: bool = False

    @cached_property
    def value(self) -> Any:
        """Return the operand."""
        return json.loads(self.operand)

    def expectation(self, lists: Mapping[str, Sequence[str]]) -> Expectation:
        """Return what it expects; `lists` are the value lists of one person. Not for FIXED and ONLY."""
        if self.operator == expectations.BELONGS_TO:
            values = expectations.values_of_list(lists.get(self.value, ()))
            return Expectation.of(expectations.BELONGS_TO, values)
        if self.operator == expectations.EQUALS:
            return Expectation.of(expectations.EQUALS, [self.value])
        return Expectation(self.operator, self.operand)


def parse_path(text: str) -> Steps:
    """Return the steps of a JSON pointer. Raises ValueError for anything else."""
    if not text.startswith("/") or len(text) > MAX_TEXT_CHARACTERS:
        raise ValueError(text)
    steps: list[str | None] = []
    for part in text[1:].split("/"):
        if part.replace("~0", "").replace("~1", "").count("~"):
            raise ValueError(text)
        steps.append(ITEMS if part == "*" else json_pointer.unescape(part))
    if len(steps) > MAX_STEPS or steps[0] is ITEMS:
        raise ValueError(text)
    return tuple(steps)


def path_text(steps: Steps) -> str:
    """Return the JSON pointer with these steps."""
    return "".join("/*" if step is ITEMS else "/" + json_pointer.escape(step) for step in steps)


def parse(data: Any) -> tuple[Condition, ...]:
    """Return the conditions of a grant from their JSON. Raises ConditionError at the first mistake."""
    if not isinstance(data, list):
        raise ConditionError("not_list")
    if len(data) > MAX_CONDITIONS:
        raise ConditionError("too_many", most=MAX_CONDITIONS)
    found = tuple(_parse_one(one, number) for number, one in enumerate(data, 1))
    fixed = [(number, one.steps) for number, one in enumerate(found, 1) if one.operator == FIXED]
    only = [number for number, one in enumerate(found, 1) if one.operator == ONLY]
    if len(only) > 1:
        raise ConditionError("only_twice", only[1])
    if only and fixed:
        raise ConditionError("only_fixed", only[0])
    for number, steps in fixed:
        for other_number, other in enumerate(found, 1):
            shared = min(len(steps), len(other.steps))
            if other_number != number and steps[:shared] == other.steps[:shared]:
                raise ConditionError("overlap", number, path=path_text(steps), other=path_text(other.steps))
    for number, one in enumerate(found):
        if one in found[:number]:
            raise ConditionError("twice", number + 1, path=path_text(one.steps))
    return found


def find_unfit(conditions: Sequence[Condition], *, asks: bool = False) -> ConditionError | None:
    """Return the mistake of conditions that only a grant that allows can have; None without any.

    They are those of a grant that denies, or of an approval rule, which asks.
    """
    for number, one in enumerate(conditions, 1):
        if one.operator == FIXED:
            return ConditionError("fixed_asked" if asks else "fixed_denied", number)
        if one.operator == ONLY:
            return ConditionError("only_asked" if asks else "only_denied", number)
    return None


def as_json(condition: Condition) -> dict[str, Any]:
    """Return the JSON of a condition as `parse` reads it."""
    data: dict[str, Any] = {"path": path_text(condition.steps), "op": condition.operator}
    names = _OPERANDS[condition.operator]
    data |= condition.value if condition.operator in ("range", "length") else {next(iter(names)): condition.value}
    return {**data, "optional": True} if condition.is_optional else data


def _parse_one(data: Any, number: int) -> Condition:
    if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in ("path", "op")):
        raise ConditionError("not_condition", number)
    operator, optional = data["op"], data.get("optional", False)
    try:
        steps = () if operator == ONLY else parse_path(data["path"])
    except ValueError:
        raise ConditionError("path", number, path=data["path"][:100], most=MAX_STEPS) from None
    if operator not in OPERATORS:
        raise ConditionError("operator", number, name=operator[:100], known=", ".join(OPERATORS))
    names = _OPERANDS[operator]
    unknown = sorted(data.keys() - names - {"path", "op", "optional"})
    if operator == ONLY and (data["path"] or "optional" in data):
        raise ConditionError("only_path" if data["path"] else "only_optional", number)
    if unknown:
        raise ConditionError("member", number, name=unknown[0][:100], op=operator)
    if not isinstance(optional, bool):
        raise ConditionError("optional", number)
    if operator == FIXED and (optional or steps[-1] is ITEMS):
        raise ConditionError("fixed_optional" if optional else "fixed_items", number)
    operands = {name: data[name] for name in data if name in names}
    return Condition(steps, operator, dumps(_operand(operator, operands, number)), optional)


def _operand(operator: str, operands: dict[str, Any], number: int) -> Any:
    """Return the operand, checked."""
    if operator in ("range", "length"):
        return _bounds(operator, operands, number)
    if not operands:
        raise ConditionError("no_operand", number, name=next(iter(_OPERANDS[operator])))
    (value,) = operands.values()
    match operator:
        case "equals" if isinstance(value, list | dict):
            _check_inside(value, number)
        case "equals":
            _check_value(value, number)
        case "only":
            _check_names(value, number)
        case "fixed":
            if len(dumps(value)) > MAX_FIXED_CHARACTERS:
                raise ConditionError("long_value", number, most=MAX_FIXED_CHARACTERS)
        case "one_of" | "not_one_of":
            if not isinstance(value, list) or not 1 <= len(value) <= MAX_VALUES:
                raise ConditionError("values", number, most=MAX_VALUES)
            for one in value:
                _check_value(one, number)
        case _:
            if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT_CHARACTERS:
                raise ConditionError("text", number, most=MAX_TEXT_CHARACTERS, name=next(iter(operands)))
            if operator == "pattern":
                _check_pattern(value, number)
    return value


def _check_names(names: Any, number: int) -> None:
    if (
        not isinstance(names, list)
        or len(names) > MAX_NAMES
        or not all(isinstance(one, str) and 1 <= len(one) <= MAX_TEXT_CHARACTERS for one in names)
        or len(set(names)) < len(names)
    ):
        raise ConditionError("names", number, most=MAX_NAMES, characters=MAX_TEXT_CHARACTERS)


def _check_inside(value: Any, number: int) -> None:
    """Check a list or an object: its depth before anything walks through it, each value and name, and its size."""
    waiting = [(value, 1)]
    while waiting:
        one, level = waiting.pop()
        if not isinstance(one, list | dict):
            _check_value(one, number)
            continue
        if level > MAX_VALUE_LEVELS:
            raise ConditionError("deep_value", number, most=MAX_VALUE_LEVELS)
        waiting += [(inner, level + 1) for inner in (one.values() if isinstance(one, dict) else one)]
        if isinstance(one, dict):
            waiting += [(name, level) for name in one]
    if len(dumps(value)) > MAX_FIXED_CHARACTERS:
        raise ConditionError("long_value", number, most=MAX_FIXED_CHARACTERS)


def _check_value(value: Any, number: int) -> None:
    if not (value is None or isinstance(value, str | bool | int | float)):
        raise ConditionError("scalar", number)
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        raise ConditionError("long_value", number, most=MAX_TEXT_CHARACTERS)
    if isinstance(value, int | float) and abs(value) > MAX_BOUND:
        raise ConditionError("large_number", number, most=f"{MAX_BOUND:,}")


def _check_pattern(pattern: str, number: int) -> None:
    try:
        patterns.searcher(pattern)
    except ValueError as error:
        raise ConditionError("pattern", number, why=str(error)) from None
    if redos.has_nested_repetition(pattern):
        raise ConditionError("costly_pattern", number, pattern=pattern[:100])


def _bounds(operator: str, bounds: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the bounds in their usual order. At most one of each side."""
    wanted = int if operator == "length" else int | float
    for bound in bounds.values():
        if isinstance(bound, bool) or not isinstance(bound, wanted) or abs(bound) > MAX_BOUND:
            raise ConditionError("bound", number, most=f"{MAX_BOUND:,}")
    low = [name for name in ("minimum", "exclusiveMinimum") if name in bounds]
    high = [name for name in ("maximum", "exclusiveMaximum") if name in bounds]
    if not bounds or len(low) > 1 or len(high) > 1:
        raise ConditionError("bounds", number)
    if operator == "length" and (min(bounds.values()) < 0 or bounds == {"minimum": 0}):
        raise ConditionError("length", number)
    if low and high:
        strict = low == ["exclusiveMinimum"] or high == ["exclusiveMaximum"]
        if bounds[low[0]] > bounds[high[0]] or (strict and bounds[low[0]] == bounds[high[0]]):
            raise ConditionError("empty_range", number)
    return {name: bounds[name] for name in (*low, *high)}
