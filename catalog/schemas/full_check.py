"""The thorough check: jsonschema, offline, with patterns, enums and uniqueItems in linear time, and bounded work.

The bound counts keywords, and the processor time of the thread, which a busy machine does not use up. Keywords that
may take long count their own steps.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema.exceptions import ValidationError as Violation
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry

from catalog.schemas import errors, messages, patterns
from catalog.schemas.errors import SchemaProblem
from catalog.schemas.patterns import BudgetError
from catalog.schemas.schema_rules import DIALECTS, dialect, max_subschemas_per_value, subschemas

MAX_STEPS = 10_000
STEPS_PER_VALUE = 100
"""Number of keyword evaluations allowed in one check for every value there is, besides MAX_STEPS.

Far beyond honest schemas; references that meet nested values again and again multiply, and end here.
"""
MAX_ERRORS = 20
MAX_COLLECTED = 100
"""Maximum number of errors that are looked at when all problems are collected."""


@dataclass(slots=True)
class _Work:
    """The remaining budget of one check."""

    steps: int
    seconds: float
    began: float
    next_check: float
    """Time of the next check of the processor time: reading that clock costs more than reading the time."""
    listed: dict[int, tuple[Any, set[Any]]]
    """The values of every enum that was met, as sets for quick lookup; for the whole schema, not for one check."""
    weight: int
    """Maximum number of subschemas that apply to one value."""


class _Local(threading.local):
    work = _Work(0, 0.0, 0.0, 0.0, {}, 0)


_local = _Local()


def _begin(checked: Iterable[Any], seconds: float, listed: dict[int, tuple[Any, set[Any]]], weight: int) -> None:
    """Set the budget of the check of these values that this thread begins."""
    began = time.thread_time()
    steps = sum(MAX_STEPS + STEPS_PER_VALUE * _count(value) for value in checked)
    _local.work = _Work(steps, seconds, began, time.perf_counter() + seconds / 2, listed, weight)
    patterns.set_regex_budget(seconds)


def _spend(steps: int = 1) -> None:
    work = _local.work
    work.steps -= steps
    if work.steps < 0:
        raise BudgetError
    if time.perf_counter() > work.next_check:
        remaining = work.seconds - (time.thread_time() - work.began)
        if remaining <= 0:
            raise BudgetError
        work.next_check = time.perf_counter() + remaining / 2


Keyword = Callable[[Any, Any, Any, dict[str, Any]], Iterable[Violation] | None]


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _counted(keyword: Keyword) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
        _spend()
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _pattern(validator: Any, pattern: str, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    if isinstance(instance, str) and not patterns.searcher(pattern)(instance):
        yield Violation("does not match the pattern")


def _pattern_properties(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    if isinstance(instance, dict):
        for pattern, subschema in value.items():
            matches = patterns.searcher(pattern)
            for name, item in instance.items():
                _spend()
                if matches(name):
                    yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _extras(instance: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    searchers = [patterns.searcher(pattern) for pattern in schema.get("patternProperties", {})]
    known = schema.get("properties", {})
    extras = [name for name in instance if name not in known]
    if not searchers:
        return extras
    return [name for name in extras if not any(_matches(matches, name) for matches in searchers)]


def _matches(matches: Callable[[str], bool], name: str) -> bool:
    _spend()
    return matches(name)


def _additional_properties(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    if not isinstance(instance, dict):
        return
    extras = _extras(instance, schema)
    if isinstance(value, dict):
        for name in extras:
            yield from validator.descend(instance[name], value, path=name)
    elif not value and extras:
        yield Violation("unknown properties")


def hashable(value: Any) -> Any:
    """Return a key that is equal exactly when JSON values are equal: 1 is 1.0, true is not 1."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("array", tuple(hashable(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, hashable(item)) for name, item in value.items()))
    return value


def _counted_hashable(value: Any) -> Any:
    """Return the hashable value and count time alone: there are no more of them than values, or than the schema has."""
    _spend(0)
    return hashable(value)


def _unique_items(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    if value and isinstance(instance, list) and len(set(map(_counted_hashable, instance))) != len(instance):
        yield Violation("has repeated items")


def _enum(validator: Any, values: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    # Kept with the list itself: an id that is used again is then recognised as another list's.
    known = _local.work.listed.get(id(values))
    if known is None or known[0] is not values:
        known = _local.work.listed[id(values)] = (values, set(map(_counted_hashable, values)))
    if hashable(instance) not in known[1]:
        yield Violation("is not one of those listed")


def _const(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    if hashable(value) != hashable(instance):
        yield Violation("is another value")


def _required(validator: Any, names: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                _spend()
                yield Violation("is required", validator="required", validator_value=[name])


def _dependent_required(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
    if isinstance(instance, dict):
        for name, names in value.items():
            if name in instance:
                yield from _required(validator, names, instance, schema)


def _unevaluated(keyword: Keyword) -> Keyword:
    """Charge the work of an unevaluated keyword before it runs.

    The library's own implementation checks every member under every subschema, and then looks up each one in a list.
    """

    def check(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Violation]:
        if isinstance(instance, dict | list):
            _spend(len(instance) * (len(instance) // 20 + _local.work.weight))
        yield from keyword(validator, value, instance, schema) or ()

    return check


OWN_KEYWORDS: dict[str, Keyword] = {
    "enum": _enum,
    "const": _const,
    "required": _required,
    "dependentRequired": _dependent_required,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
_CLASSES = {
    original: extend(  # type: ignore[no-untyped-call]
        original,
        {
            name: _counted(_unevaluated(keyword) if name.startswith("unevaluated") else keyword)
            for name, keyword in {**dict(original.VALIDATORS), **OWN_KEYWORDS}.items()
        },
    )
    for original in set(DIALECTS.values())
}


def compile_full(schema: dict[str, Any]) -> Callable[..., SchemaProblem | None]:
    """Return the check, which raises BudgetError after `seconds` of processor time."""
    listed: dict[int, tuple[Any, set[Any]]] = {}
    weight = max_subschemas_per_value(schema)
    checker = _CLASSES[dialect(schema)](schema, registry=Registry())
    secret = errors.holds_secret(schema)

    def validate(arguments: Any, seconds: float = 1.0) -> SchemaProblem | None:
        _begin([arguments], seconds, listed, weight)
        try:
            error = best_match(islice(checker.iter_errors(arguments), MAX_ERRORS))
            return None if error is None else _problem(error, secret=secret)
        except RecursionError:
            raise BudgetError from None
        finally:
            patterns.set_regex_budget(math.inf)

    return validate


def compile_collector(schema: dict[str, Any]) -> Callable[[Any, float], list[SchemaProblem]]:
    """Return the function that finds all problems of a value, at most MAX_PROBLEMS, within so many seconds.

    It is slower than the check, which ends at the first problem, and returns what it found when its time is up.
    """
    listed: dict[int, tuple[Any, set[Any]]] = {}
    weight = max_subschemas_per_value(schema)
    checker = _CLASSES[dialect(schema)](schema, registry=Registry())
    secret = errors.holds_secret(schema)

    def collect(arguments: Any, seconds: float) -> list[SchemaProblem]:
        _begin([arguments], seconds, listed, weight)
        found: dict[tuple[Any, ...], SchemaProblem] = {}
        try:
            for error in islice(checker.iter_errors(arguments), MAX_COLLECTED):
                for problem in _describe(error, schema, secret=secret):
                    found.setdefault((problem.path, problem.code), problem)
                if len(found) >= errors.MAX_PROBLEMS:
                    break
        except (BudgetError, RecursionError):
            pass
        finally:
            patterns.set_regex_budget(math.inf)
        return list(found.values())[: errors.MAX_PROBLEMS]

    return collect


def _describe(error: Any, root: dict[str, Any], *, secret: bool) -> Iterator[SchemaProblem]:
    """Yield the problems behind one error: of alternatives, those of the one that the value was meant for."""
    message = messages.find(error, root)
    if message is not None:
        yield SchemaProblem(tuple(error.absolute_path), errors.MESSAGE, {"message": message})
        return
    chosen = _choose_alternative(error)
    if chosen:
        for inner in chosen:
            yield from _describe(inner, root, secret=secret)
    elif error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = error.schema.get("properties", {})
        for name in _extras(error.instance, error.schema)[: errors.MAX_PROBLEMS]:
            yield errors.unknown_member(list(error.absolute_path), name, known)
    else:
        yield _problem(error, secret=secret)


def _choose_alternative(error: Any) -> list[Any]:
    """Return the errors of the one alternative whose own kind fits; empty where none or several do.

    An alternative does not fit when the type of the value is another one, or a const or enum in it, such as the member
    that tells the alternatives apart.
    """
    if error.validator not in ("anyOf", "oneOf") or not error.context:
        return []
    branches: dict[Any, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    fitting = [inside for inside in branches.values() if not any(map(_is_other_kind, inside))]
    return fitting[0] if len(fitting) == 1 else []


def _is_other_kind(error: Any) -> bool:
    depth = len(error.relative_path)
    return (error.validator == "type" and depth == 0) or (error.validator in ("const", "enum") and depth <= 1)


def compile_fits(schema: dict[str, Any]) -> Callable[[dict[str, Any], Any], bool]:
    """Return the function that tells whether a value satisfies a part of this schema, whose references it follows.

    It may be any part that refers to the schema, also one that is not in it. A check that takes too long says no.
    """
    checker = _CLASSES[dialect(schema)](schema, registry=Registry())
    weight = max_subschemas_per_value(schema)

    def fits(part: dict[str, Any], value: Any) -> bool:
        _begin([value], 1.0, {}, weight)
        try:
            return _fits(checker, part, value)
        except (BudgetError, RecursionError):
            return False
        finally:
            patterns.set_regex_budget(math.inf)

    return fits


def find_wrong_defaults(schema: dict[str, Any], seconds: float = 1.0) -> list[str]:
    """Return the JSON pointers of the subschemas whose default breaks them. Raises BudgetError as a check does."""
    parts = {pointer: part for pointer, part in subschemas(schema).items() if "default" in part}
    if not parts:
        return []
    listed: dict[int, tuple[Any, set[Any]]] = {}
    weight = max_subschemas_per_value(schema)
    checker = _CLASSES[dialect(schema)](schema, registry=Registry())
    _begin([part["default"] for part in parts.values()], seconds, listed, weight)
    try:
        return [pointer for pointer, part in parts.items() if not _fits(checker, part, part["default"])]
    except RecursionError:
        raise BudgetError from None
    finally:
        patterns.set_regex_budget(math.inf)


def _fits(checker: Any, part: dict[str, Any], value: Any) -> bool:
    return next(checker.evolve(schema=part).iter_errors(value), None) is None


def _problem(error: Any, *, secret: bool) -> SchemaProblem:
    path, value, expected = list(error.absolute_path), error.instance, error.validator_value
    match error.validator:
        case "required":
            name = next((name for name in expected if name not in value), "")
            return errors.missing_member(path, name)
        case "additionalProperties" if isinstance(value, dict):
            extras = _extras(value, error.schema)
            return errors.unknown_member(path, extras[0] if extras else "", error.schema.get("properties", {}))
        case _:
            return errors.wrong_value(path, errors.expected_of(str(error.validator), expected), value, secret=secret)
