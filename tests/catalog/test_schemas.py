"""Schemas: what may be stored, and that arguments are judged as jsonschema would, in bounded time."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import translation
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from catalog.schemas import errors, metaschema, redos, validator
from catalog.schemas.flat_check import compile_flat
from catalog.schemas.full_check import compile_full
from tests.bounded import bounded

OBJECT: dict[str, Any] = {"type": "object"}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    """Each definition applies the next one twice to the same value."""
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "$defs": {**definitions, f"d{levels}": {}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}


def prop(part: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": part}}


SECRET = {"type": "string", "format": "password"}


def header(name: str) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": name}


REFUSED: list[tuple[str, Any, str]] = [
    ("no object", [], "JSON object"),
    ("null", None, "JSON object"),
    ("no type at the root", {"properties": {}}, '"type": "object"'),
    ("another type at the root", {"type": ["object", "null"]}, '"type": "object"'),
    ("an unknown dialect", {**OBJECT, "$schema": "http://json-schema.org/draft-04/schema#"}, "2020-12 or draft-07"),
    ("a dialect that is no text", {**OBJECT, "$schema": 7}, "2020-12 or draft-07"),
    ("a remote reference", prop({"$ref": "https://example.com/schema.json"}), "must start with #"),
    ("a file reference", prop({"$ref": "file:///etc/passwd"}), "must start with #"),
    ("a relative reference", prop({"$ref": "other.json#/a"}), "must start with #"),
    ("a reference to nothing", prop({"$ref": "#/$defs/missing"}), "not a subschema"),
    ("a reference into a value", {**prop({"$ref": "#/examples/0"}), "examples": [{}]}, "not a subschema"),
    ("a reference to an unknown anchor", prop({"$ref": "#nowhere"}), "not a subschema"),
    ("a circle", {**OBJECT, "allOf": [{"$ref": "#"}]}, "refers back to itself"),
    ("a longer circle", {**prop({"$ref": "#/$defs/x"}), "$defs": {"x": {"not": {"$ref": "#/$defs/x"}}}}, "itself"),
    ("references that multiply", doubling(20), "too many subschemas"),
    ("a dynamic reference", prop({"$dynamicRef": "#x"}), "not supported"),
    ("an identity inside", prop({"$id": "https://example.com/x"}), "allowed only at the root"),
    ("a dialect inside", prop({"$schema": "http://json-schema.org/draft-07/schema#"}), "allowed only at the root"),
    ("the same anchor twice", {**OBJECT, "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, "twice"),
    ("too deep", nested(40), "levels deep"),
    ("far too deep", nested(5000), "nested too deeply"),
    ("too many", prop({"enum": [1], "anyOf": [{}] * 2_100}), "at most 2,000 subschemas"),
    ("too large", {**OBJECT, "description": "x" * 300_000}, "The maximum is 262,144 bytes"),
    ("a look-ahead", prop({"pattern": "(?=a)b"}), "Look-around and back-references are not supported"),
    ("a back-reference", prop({"pattern": r"(a)\1"}), "Look-around and back-references are not supported"),
    ("a broken pattern", prop({"pattern": "("}), "cannot be used"),
    ("a broken pattern of names", {**OBJECT, "patternProperties": {"(": {}}}, "cannot be used"),
    ("a huge pattern", prop({"pattern": "a" * 2_000}), "at most 1000 characters"),
    ("a huge repetition", prop({"pattern": "(a{1000}){1000}"}), "cannot be used"),
    ("a type that is none", prop({"type": "integr"}), "properties/a/type"),
    ("a bound that is text", prop({"minimum": "1"}), "properties/a/minimum"),
    ("required that is no list", {**OBJECT, "required": True}, "required"),
    ("a subschema that is a list", prop([]), "not of type"),
    ("an alternative that is a list", {**OBJECT, "anyOf": [[]]}, "is not a schema"),
    ("a header on a number", prop({"type": "number", "x-mcp-header": "A"}), "string, integer or boolean"),
    ("a header with a colon", prop({"type": "string", "x-mcp-header": "A:b"}), "name of an HTTP header"),
    ("an empty header", prop({"type": "string", "x-mcp-header": ""}), "name of an HTTP header"),
    ("a header in a list", prop({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}), "reached"),
    ("a header for a password", prop({**header("A"), "format": "password"}), 'Remove "x-mcp-header"'),
    ("a header for a secret", prop({**header("A"), "writeOnly": True}), 'Remove "x-mcp-header"'),
    ("a header for a nullable secret", prop({**header("A"), "anyOf": [{"format": "password"}]}), "proxies log"),
    (
        "a header for a secret by reference",
        {**prop({**header("A"), "$ref": "#/$defs/s"}), "$defs": {"s": {"$ref": "#k"}, "k": {"$anchor": "k", **SECRET}}},
        "proxies log",
    ),
    ("a header twice", {**OBJECT, "properties": {"a": header("X"), "b": header("x")}}, "twice"),
    ("unevaluated names", {**OBJECT, "patternProperties": {"x": {}}, "unevaluatedProperties": False}, "not supported"),
    (
        "unevaluated names further down",
        {**OBJECT, "unevaluatedProperties": False, "allOf": [{"patternProperties": {"x": {}}}]},
        "not supported",
    ),
    ("nested repetitions", prop({"pattern": "^(a+)+$"}), "Repeat once, or separate the repetitions"),
    ("nested repetitions in names", {**OBJECT, "patternProperties": {"(a*)*": {}}}, "nests unlimited repetitions"),
    ("nested repetitions deep inside", prop({"items": {"anyOf": [{"pattern": r"(\w+\s?)*"}]}}), "nests unlimited"),
    ("unique objects", prop({"type": "array", "uniqueItems": True, "items": OBJECT}), 'Add a "maxItems"'),
    ("unique anything", prop({"type": "array", "uniqueItems": True}), 'Add a "maxItems"'),
    ("very many unique objects", prop({"uniqueItems": True, "items": OBJECT, "maxItems": 5000}), "at most 1,000"),
    (
        "unique lists by reference",
        {**prop({"uniqueItems": True, "items": {"$ref": "#/$defs/l"}}), "$defs": {"l": {"type": "array"}}},
        'Add a "maxItems"',
    ),
]  # fmt: skip

ACCEPTED: list[dict[str, Any]] = [
    OBJECT,
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/tool", **OBJECT},
    {"$schema": "http://json-schema.org/draft-07/schema#", **OBJECT, "definitions": {"a": {"type": "string"}}},
    {**prop({"$ref": "#/$defs/a~1b"}), "$defs": {"a/b": {"$anchor": "here"}}},
    {**prop({"$ref": "#here"}), "$defs": {"a": {"$anchor": "here"}}},
    {**prop({"type": "array", "items": {"$ref": "#"}})},
    prop({"type": "array", "uniqueItems": True, "items": {"type": "string"}, "maxItems": 20}),
    prop({"type": "array", "uniqueItems": True, "items": {"type": ["integer", "null"]}}),
    prop({"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b"]}}),
    prop({"type": "array", "uniqueItems": True, "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}}),
    prop({"type": "array", "uniqueItems": True, "items": OBJECT, "maxItems": 1000}),
    {**prop({"uniqueItems": True, "items": {"$ref": "#/$defs/s"}}), "$defs": {"s": {"type": "string"}}},
    prop({"type": "string", "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$"}),
    prop({"type": "string", "pattern": r"^(\d{1,3}\.){3}\d{1,3}$"}),
    {**OBJECT, "patternProperties": {"^(x-[a-z]+/)+$": {}}},
    prop({"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "Deep"}}}),
    nested(30),
    json.loads(
        """{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
        "$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"}}}},
        "properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
        "contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
        "allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
        "if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
        "then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}"""
    ),
]


@pytest.mark.parametrize(("what", "schema", "expected"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_schema_that_breaks_a_rule_is_refused_with_the_reason(what: str, schema: Any, expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        validator.check(schema)
    assert expected in " ".join(caught.value.messages)
    with translation.override("zh-hans"), pytest.raises(ValidationError) as caught:
        validator.check(schema)
    assert re.search(r"[\u4e00-\u9fff]", caught.value.messages[0])


@pytest.mark.parametrize("schema", ACCEPTED)
def test_a_sound_schema_is_accepted(schema: dict[str, Any]) -> None:
    validator.check(schema)


SENTENCES: list[tuple[dict[str, Any], Any, str]] = [
    (prop({"type": "integer"}), {"a": "x"}, 'argument "a": expected integer, got string "x"'),
    (prop({"type": "integer"}), {"a": 1.5}, 'argument "a": expected integer, got number 1.5'),
    (prop({"type": ["string", "null"]}), {"a": []}, 'argument "a": expected string or null, got array'),
    (prop({"enum": ["b", "c"]}), {"a": "d"}, 'argument "a": expected one of "b", "c", got string "d"'),
    (prop({"const": 1}), {"a": True}, 'argument "a": expected 1, got boolean true'),
    (prop({"minimum": 3}), {"a": 2}, 'argument "a": expected at least 3, got integer 2'),
    (prop({"maxLength": 1}), {"a": "ab"}, 'argument "a": expected at most 1 characters, got string "ab"'),
    (prop({"pattern": "^b$"}), {"a": "b\n"}, 'argument "a": expected text that matches ^b$, got string "b\\n"'),
    ({**OBJECT, "required": ["a"]}, {}, 'argument "a": is required'),
    ({**prop({}), "additionalProperties": False}, {"b": 1}, 'argument "b": is not known; expected one of "a"'),
    (prop({"type": "array", "items": {"type": "string"}}), {"a": ["x", 2]}, 'argument "a[1]": expected string, got'),
    (prop({"type": "object", "required": ["b"]}), {"a": {}}, 'argument "a.b": is required'),
    (prop({"anyOf": [{"type": "string"}, {"minimum": 5}]}), {"a": 4}, 'argument "a": expected'),
    (prop({"type": "array", "uniqueItems": True}), {"a": [1, 1.0]}, 'argument "a": expected items that differ'),
    (OBJECT, [], "arguments: expected object, got array"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "arguments", "expected"), SENTENCES)
def test_a_refusal_names_the_field_and_what_was_expected(schema: dict[str, Any], arguments: Any, expected: str) -> None:
    for check in filter(None, (compile_flat(schema), compile_full(schema))):
        assert str(check(arguments) or "").startswith(expected)


def test_both_checks_name_a_problem_by_the_same_code_and_parameters() -> None:
    for schema, arguments, _expected in SENTENCES:
        found = [check(arguments) for check in (compile_flat(schema), compile_full(schema)) if check is not None]
        assert all(problem == found[0] for problem in found)
        assert found[0] is not None and found[0].code in errors.CODES


def test_every_code_has_a_sentence_in_both_languages() -> None:
    params = {
        "values": '"a"', "pattern": "^a$", "bound": "3", "keyword": "if", "types": ["string", "null"], "limit": 5,
        "got": "string", "value": '"aa"', "characters": 80, "message": "Own words.",
        "most": 50, "prefix": '"a"', "low": "1", "high": "2",
    }  # fmt: skip
    for code in errors.CODES:
        assert errors.english(errors.SchemaProblem(("a", 0), code, params))
        with translation.override("zh-hans"):
            assert errors.translate(errors.SchemaProblem(("a", 0), code, params))
            assert errors.english(errors.SchemaProblem(("a", 0), code, params)).isascii()


@pytest.mark.parametrize(
    "schema",
    [
        prop({"type": "integer", "writeOnly": True}),
        prop({"type": "integer", "format": "password"}),
        {**OBJECT, "properties": {"db_password": {"type": "integer"}, "api_key": {"enum": [1]}}},
        prop({"allOf": [{"type": "object", "properties": {"b": {"type": "integer", "writeOnly": True}}}]}),
    ],
)
def test_a_refusal_never_repeats_a_secret(schema: dict[str, Any]) -> None:
    values = [{name: "hunter2"} for name in schema["properties"]] + [{"a": {"b": "hunter2"}}]
    for check in filter(None, (compile_flat(schema), compile_full(schema))):
        said = [check(value) for value in values]
        assert any(said)
        assert not any("hunter2" in f"{problem} {problem!r}" for problem in said)


def test_a_refusal_is_short_whatever_came_in() -> None:
    closed = {**prop({"type": "integer"}), "additionalProperties": False}
    for arguments in ({"a": "x" * 100_000}, {"n" * 100_000: 1}, {"a": "é" * 5_000}, {"a": 10.5}):
        for check in filter(None, (compile_flat(closed), compile_full(closed))):
            assert 0 < len(str(check(arguments) or "")) <= 400


def test_patterns_that_would_run_for_hours_answer() -> None:
    evil, text = "^(a+)+$", "a" * 50 + "!"
    for schema in (
        prop({"pattern": evil}),
        {**OBJECT, "patternProperties": {evil: {}}, "additionalProperties": False},
        prop({"type": "object", "propertyNames": {"pattern": evil}}),
    ):
        check = validator.validator(json.dumps(schema), schema)
        assert check({"a": text if schema.get("properties", {}).get("a", {}).get("pattern") else {text: 1}, text: 1})


def test_a_long_list_of_unique_items_answers() -> None:
    schema = prop({"type": "array", "uniqueItems": True})
    check = validator.validator("unique", schema)
    items: list[Any] = [{"n": number, "deep": [number]} for number in range(8_000)]
    assert check({"a": items}, 30.0) is None
    assert check({"a": [*items, {"deep": [7.0], "n": 7}]}, 30.0) != validator.TOO_MUCH
    assert check({"a": [1, True, "1", [1], {"1": 1}]}) is None


def test_a_schema_that_multiplies_over_nested_values_gives_up() -> None:
    child = {"type": "object", "properties": {"c": {"$ref": "#/$defs/x"}}}
    schema = {**OBJECT, "$defs": {"x": {"allOf": [child, child, child]}}, "properties": {"c": {"$ref": "#/$defs/x"}}}
    validator.check(schema)
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"c": value}
    assert validator.validator("multiplies", schema)(value) == validator.TOO_MUCH


def test_draft_07_is_judged_by_its_own_rules() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **prop({"type": "array", "items": [{"type": "integer"}], "additionalItems": False}),
    }
    validator.check(schema)
    check = validator.validator("draft-07", schema)
    assert check({"a": [1]}) is None
    assert check({"a": [1, 2]})


def test_a_validator_is_compiled_once() -> None:
    assert validator.validator("once", OBJECT) is validator.validator("once", OBJECT)


BAD = [
    r"(a+)+",
    r"(a*)*",
    r"((a+))+",
    r"(\w+\s?)+",
    r"(.*,)*",
    r"(\w\w+)*",
    r"^\w+([.-]?\w+)*@x$",
    r"(a+){50}",
    r"(x*y*)*",
]
BAD += [
    r"(?:[a-z]+|[0-9]+)*",
    r"(?P<x>a+)+",
    r"(a+?)+",
    r"([^\]]+)+",
    r"(\p{L}+)*",
    r"((a+)?)+",
    r"(a+|b)*c",
    r"(\S+)*",
]
GOOD = [r"^([a-z]+-)+$", r"^(?:[A-Z][a-z]*)+$", r"(/[^/]+)*", r"^[^@]+@[^@]+\.[^@]+$", r"^(\s*\w+\s*)(,\s*\w+\s*)*$"]
GOOD += [
    r"^P(\d+Y)?(\d+M)?(T(\d+H)?)?$",
    r"(?:[^,]*,)*",
    r"^([A-Za-z0-9+/]{4})*={0,2}$",
    r"\(a+\)+",
    r"[(a+)+]+",
    "(",
    "[",
]
GOOD += [
    r"(a+b+)+x",
    r"^https?://([\w-]+\.)+[\w-]+(/[\w- ./?%&=]*)?$",
    r"(a+){3}",
    r"(?:\w+=\w+;)*",
    "",
    r"([a-z]+(?:, ))+",
]


@pytest.mark.parametrize("pattern", BAD)
def test_a_pattern_whose_repetitions_can_divide_a_text_in_many_ways_is_known(pattern: str) -> None:
    assert redos.has_nested_repetition(pattern)


@pytest.mark.parametrize("pattern", GOOD)
def test_a_pattern_whose_repetitions_are_kept_apart_is_not_taken_for_one(pattern: str) -> None:
    assert not redos.has_nested_repetition(pattern)


# --- the fast check and jsonschema agree ---------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d"])
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.0, 1.0, -1.5, 2.5, 1e300, 10**30]))
TEXTS = st.sampled_from(["", "a", "ab", "abc", "é", "1", "a\n", "\ud800"])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"])
SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.one_of(
            TYPES.filter(lambda name: name != "array"), st.lists(TYPES, min_size=1, max_size=3, unique=True)
        ),
        "enum": st.lists(SCALARS, min_size=1, max_size=4),
        "const": SCALARS,
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "b$", "^.$", "[0-9]"]),
        "description": st.just("text"),
        "default": SCALARS,
        "x-mcp-header": st.just("A"),
    },
)  # fmt: skip
ARRAYS = st.fixed_dictionaries(
    {"type": st.just("array")},
    optional={"items": st.one_of(SIMPLE, st.just(True)), "minItems": st.integers(0, 3), "maxItems": st.integers(0, 3)},
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(NAMES, st.one_of(SIMPLE, ARRAYS, st.just(True), st.just({})), max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.booleans(),
    },
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=4), st.dictionaries(NAMES, SCALARS, max_size=2))
ARGUMENTS = st.one_of(st.dictionaries(NAMES, VALUES, max_size=4), VALUES)


@given(schema=SCHEMAS, arguments=st.lists(ARGUMENTS, min_size=1, max_size=8))
@settings(bounded, max_examples=150)
def test_the_fast_check_the_full_check_and_jsonschema_agree(schema: dict[str, Any], arguments: list[Any]) -> None:
    fast, full = compile_flat(schema), compile_full(schema)
    assert fast is not None
    reference = Draft202012Validator(schema)
    for value in arguments:
        if "\ud800" in repr(value) or "\\ud800" in json.dumps(value):
            assert (fast(value) is None) == (full(value) is None)
            continue
        # Python's own `$` also matches before a final line feed, JSON Schema's does not.
        if "\\n" in json.dumps(value) and "$" in json.dumps(schema):
            assert (fast(value) is None) == (full(value) is None)
            continue
        assert (fast(value) is None) == reference.is_valid(value) == (full(value) is None)


ODD: Any = st.sampled_from(
    [None, True, -1, 0, 1.5, "", "a", "string", [], ["a"], ["a", "a"], [{}], [1], {}, {"a": {}}, {"a": 1}]
)
KEYWORDS = st.sampled_from(sorted(metaschema.SHAPES))


@given(schema=st.dictionaries(KEYWORDS, ODD, max_size=3))
@settings(bounded, max_examples=400)
def test_schemas_that_pass_the_quick_check_pass_the_library_too(schema: dict[str, Any]) -> None:
    inside = [value for value in schema.values() if isinstance(value, dict)]
    if metaschema.is_surely_valid(schema) and all(map(metaschema.is_surely_valid, inside)):
        Draft202012Validator.check_schema(schema)
