"""The fast check: schemas of an object with simple properties, compiled to closures.

Its verdicts are those of jsonschema; a property-based test compares the two. Schemas with anything that is not listed
here are checked by jsonschema: `compile_flat` returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.schemas import errors, patterns
from catalog.schemas.errors import Expected, SchemaProblem, expected_of

Found = tuple[Expected, int | None]
"""The expectation that was not met, and the index of the item in a list."""
Test = Callable[[Any], Found | None]
ANNOTATION_KEYWORDS = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly", "format"}
)
ROOT_KEYWORDS = ANNOTATION_KEYWORDS | {
    "$schema",
    "$id",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "$defs",
    "definitions",
}
NUMERIC_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
PROPERTY_KEYWORDS = (
    ANNOTATION_KEYWORDS | NUMERIC_KEYWORDS | {"type", "enum", "const", "minLength", "maxLength", "pattern"}
)
ARRAY_KEYWORDS = ANNOTATION_KEYWORDS | {"type", "items", "minItems", "maxItems"}
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
    "array": (list,),
    "object": (dict,),
}


def _has_only(schema: dict[str, Any], keys: frozenset[str]) -> bool:
    return all(key in keys or key.startswith("x-") for key in schema)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int | float)


def compile_flat(schema: dict[str, Any]) -> Callable[[Any], SchemaProblem | None] | None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    closed = schema.get("additionalProperties", True)
    if not _has_only(schema, ROOT_KEYWORDS) or schema.get("type") != "object" or not isinstance(closed, bool):
        return None
    if not isinstance(properties, dict) or not isinstance(required, list):
        return None
    tests: dict[str, Test | None] = {}
    secrets = set()
    for name, part in properties.items():
        compiled = _property(part)
        if compiled is _UNSUPPORTED:
            return None
        tests[name] = compiled
        if errors.holds_secret(part):
            secrets.add(name)
    needed, is_closed, known = tuple(required), not closed, tests.get

    def validate(arguments: Any) -> SchemaProblem | None:
        if type(arguments) is not dict:
            return errors.wrong_value((), expected_of("type", "object"), arguments, secret=False)
        for name, value in arguments.items():
            test = known(name, _UNSUPPORTED)
            if test is None:
                continue
            if test is _UNSUPPORTED:
                if is_closed:
                    return errors.unknown_member((), name, tests)
                continue
            found = test(value)
            if found is not None:
                return _problem(name, found, value, secret=name in secrets)
        for name in needed:
            if name not in arguments:
                return errors.missing_member((), name)
        return None

    return validate


def _problem(name: str, found: Found, value: Any, *, secret: bool) -> SchemaProblem:
    expected, index = found
    if index is None:
        return errors.wrong_value((name,), expected, value, secret=secret)
    return errors.wrong_value((name, index), expected, value[index], secret=secret)


def _unsupported(value: Any) -> Found | None:
    raise AssertionError("never called")


_UNSUPPORTED: Test = _unsupported


def _property(schema: Any) -> Test | None:
    """Return the test of one property: None accepts everything, _UNSUPPORTED needs the thorough check."""
    if schema is True or schema == {}:
        return None
    if not isinstance(schema, dict):
        return _UNSUPPORTED
    if schema.get("type") == "array":
        return _array(schema) if _has_only(schema, ARRAY_KEYWORDS) else _UNSUPPORTED
    if not _has_only(schema, PROPERTY_KEYWORDS):
        return _UNSUPPORTED
    tests: list[Test] = []
    if "type" in schema:
        test = _type(schema["type"])
        if test is _UNSUPPORTED:
            return _UNSUPPORTED
        tests.append(test)
    for keyword in ("enum", "const"):
        if keyword in schema:
            values = schema["enum"] if keyword == "enum" else [schema["const"]]
            if not isinstance(values, list) or not all(_is_scalar(value) for value in values):
                return _UNSUPPORTED
            tests.append(_enum(values))
    tests += [_bound(keyword, schema[keyword]) for keyword in schema if keyword in NUMERIC_KEYWORDS]
    tests += [_length(keyword, schema[keyword]) for keyword in ("minLength", "maxLength") if keyword in schema]
    if "pattern" in schema:
        tests.append(_pattern(schema["pattern"]))
    return _all(tests)


def _all(tests: list[Test]) -> Test | None:
    if len(tests) < 2:
        return tests[0] if tests else None

    def test(value: Any) -> Found | None:
        for each in tests:
            found = each(value)
            if found is not None:
                return found
        return None

    return test


def _type(names: Any) -> Test:
    wanted = names if isinstance(names, list) else [names]
    if not all(isinstance(name, str) and name in TYPES for name in wanted):
        return _UNSUPPORTED
    allowed = frozenset(found for name in wanted for found in TYPES[name])
    whole_floats = "integer" in wanted and "number" not in wanted
    expected = (expected_of("type", names), None)

    if whole_floats:

        def test(value: Any) -> Found | None:
            if type(value) in allowed or (type(value) is float and value.is_integer()):
                return None
            return expected
    else:

        def test(value: Any) -> Found | None:
            return None if type(value) in allowed else expected

    return test


def _enum(values: list[Any]) -> Test:
    # 1 and 1.0 are the same number, True is not: Python's own equality except for booleans.
    booleans = frozenset(value for value in values if isinstance(value, bool))
    others = frozenset(value for value in values if not isinstance(value, bool))
    expected = (expected_of("enum", values) if len(values) != 1 else expected_of("const", values[0]), None)

    def test(value: Any) -> Found | None:
        kind = type(value)
        if kind is bool:
            return None if value in booleans else expected
        if kind is list or kind is dict:
            return expected
        return None if value in others else expected

    return test


def _bound(keyword: str, bound: float) -> Test:
    expected = (expected_of(keyword, bound), None)
    holds: Callable[[Any], bool] = {
        "minimum": lambda value: value >= bound,
        "maximum": lambda value: value <= bound,
        "exclusiveMinimum": lambda value: value > bound,
        "exclusiveMaximum": lambda value: value < bound,
    }[keyword]

    def test(value: Any) -> Found | None:
        if type(value) is not int and type(value) is not float:
            return None
        return None if holds(value) else expected

    return test


def _length(keyword: str, bound: float) -> Test:
    shortest = keyword == "minLength"
    expected = (expected_of(keyword, bound), None)

    def test(value: Any) -> Found | None:
        if type(value) is not str:
            return None
        return None if (len(value) >= bound if shortest else len(value) <= bound) else expected

    return test


def _pattern(pattern: str) -> Test:
    matches = patterns.searcher(pattern)
    expected = (expected_of("pattern", pattern), None)

    def test(value: Any) -> Found | None:
        return None if type(value) is not str or matches(value) else expected

    return test


def _array(schema: dict[str, Any]) -> Test:
    each = None
    if "items" in schema:
        part = schema["items"]
        if isinstance(part, dict) and part.get("type") == "array":
            return _UNSUPPORTED
        each = _property(part)
        if each is _UNSUPPORTED:
            return _UNSUPPORTED
    fewest, most = schema.get("minItems", 0), schema.get("maxItems", float("inf"))
    no_list = (expected_of("type", "array"), None)
    too_few, too_many = (expected_of("minItems", fewest), None), (expected_of("maxItems", most), None)

    def test(value: Any) -> Found | None:
        if type(value) is not list:
            return no_list
        if len(value) < fewest:
            return too_few
        if len(value) > most:
            return too_many
        if each is not None:
            for index, item in enumerate(value):
                found = each(item)
                if found is not None:
                    return found[0], index
        return None

    return test
