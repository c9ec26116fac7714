"""All problems of arguments in one answer: places, what was expected, the schema's own words, and never a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from audit.types import Reason
from catalog.errors import InvalidArguments
from catalog.schemas import errors, validator
from catalog.schemas.errors import SchemaProblem
from tests.catalog import tools  # noqa: F401 - registers the functions
from tests.catalog.pipeline import call, only_logged_call, publish, run_in_database

PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "string", "enum": ["x", "y"]},
        "c": {"type": "number", "maximum": 5},
        "d": {},
    },
    "required": ["a", "d"],
    "additionalProperties": False,
}


def collect(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """JSON pointer and code of every problem, in any order."""
    check = validator.Check(schema)
    first = check(value)
    if first is None:
        return []
    return sorted((one["path"], one["code"]) for one in errors.as_data(check.find_others(value, first, 10.0)))


def test_every_problem_of_flat_arguments_is_named_once() -> None:
    found = collect(PLAIN, {"a": "1", "b": "z", "c": 6, "e": 1, "f": 2})
    assert found == [
        ("/a", "type"),
        ("/b", "enum"),
        ("/c", "maximum"),
        ("/d", "missing"),
        ("/e", "unknown"),
        ("/f", "unknown"),
    ]
    assert collect(PLAIN, {"a": 1, "d": 0}) == []


def test_several_missing_members_and_problems_deep_inside_have_places_of_their_own() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n", "m"]}
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": item}}, "required": ["x", "y"]}
    assert collect(schema, {"list": [{}, {"n": "1", "m": 0}]}) == [
        ("/list/0/m", "missing"),
        ("/list/0/n", "missing"),
        ("/list/1/n", "type"),
        ("/x", "missing"),
        ("/y", "missing"),
    ]


def test_a_member_that_another_one_requires_is_the_one_that_is_missing() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "dependentRequired": {"a": ["b", "c"]}}
    assert collect(schema, {"a": 1, "b": 1}) == [("/c", "missing")]


CONDITIONAL: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"enum": ["card", "bank"]}},
    "required": ["kind"],
    "if": {"properties": {"kind": {"const": "card"}}},
    "then": {"required": ["number"], "properties": {"number": {"type": "string"}}},
    "else": {"required": ["iban"]},
}


def test_with_if_and_then_the_field_of_the_branch_is_at_fault() -> None:
    assert collect(CONDITIONAL, {"kind": "card"}) == [("/number", "missing")]
    assert collect(CONDITIONAL, {"kind": "card", "number": 5}) == [("/number", "type")]
    assert collect(CONDITIONAL, {"kind": "bank"}) == [("/iban", "missing")]


def test_of_alternatives_the_one_that_was_meant_is_described() -> None:
    def option(kind: str, **properties: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"kind": {"const": kind}, **properties},
            "required": ["kind", *properties],
        }

    options = [option("circle", radius={"type": "number"}), option("square", side={"type": "number"})]
    schema = {"type": "object", "properties": {"shape": {"oneOf": options}}}
    assert collect(schema, {"shape": {"kind": "circle", "radius": "wide"}}) == [("/shape/radius", "type")]
    assert collect(schema, {"shape": {"kind": "square"}}) == [("/shape/side", "missing")]
    assert collect(schema, {"shape": {"kind": "star"}}) == [("/shape", "oneOf")]
    nullable = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 2}]}},
    }
    assert collect(nullable, {"a": "long"}) == [("/a", "maxLength")]


def test_the_problems_are_bounded_in_number_in_length_and_in_time() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    closed = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(9)}}
    mixed = {**{f"p{n}": "x" for n in range(9)}, **{f"u{n}": 1 for n in range(50)}}
    assert len(collect({**closed, "additionalProperties": False}, mixed)) == errors.MAX_PROBLEMS
    many = {f"field_{number}" * 30: "x" * 500 for number in range(500)}
    check = validator.Check(schema)
    first = check(many)
    assert first is not None
    found = check.find_others(many, first, 10.0)
    assert len(found.all) == errors.MAX_PROBLEMS and len(str(found)) < 5_000
    assert len(json.dumps(errors.as_data(found))) < 10_000
    assert check.find_others(many, first, 0.0).all[0] == first, "without any time the first one remains"


def test_a_value_of_a_secret_is_in_no_problem() -> None:
    schema = {
        "type": "object",
        "properties": {
            "password": {"type": "string", "minLength": 20},
            "code": {"type": "string", "format": "password", "maxLength": 2},
            "n": {"type": "integer"},
        },
        "required": ["x"],
    }
    value = {"password": "hunter2-short", "code": "hunter2-long", "n": "hunter2-n"}
    check = validator.Check(schema)
    first = check(value)
    assert first is not None
    found = check.find_others(value, first, 10.0)
    assert {one.path for one in found.all} >= {("password",), ("code",), ("x",)}
    assert "hunter2-short" not in str(found) + str(errors.as_data(found)) + found.reason.encode()
    assert "hunter2-long" not in str(found) + str(errors.as_data(found)) + found.reason.encode()


def test_the_log_keeps_all_problems_as_codes() -> None:
    check = validator.Check(PLAIN)
    value = {"a": "1", "b": "z"}
    first = check(value)
    assert first is not None
    found = check.find_others(value, first, 10.0)
    read = SchemaProblem.from_reason(Reason.read(found.reason.encode()))
    assert read is not None and errors.english(read) == str(found)
    assert [one.path for one in read.all] == [one.path for one in found.all]


SPOKEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 18, "errorMessage": "Only for adults: ask the person for their age."},
        "zip": {"type": "string", "pattern": "^[0-9]{4}$"},
        "size": {"type": "string", "errorMessage": {"type": "Write the size as text, such as XL."}, "maxLength": 2},
    },
    "required": ["age", "name"],
    "errorMessage": {
        "required": {"name": "Ask for the person's name first."},
        "properties": {"zip": "Swiss postcodes have four digits."},
        "additionalProperties": "Send only what is listed.",
        "_": "Read the description again.",
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"age": 5, "name": "A"}, "Only for adults: ask the person for their age."),
        ({"age": 20}, "Ask for the person's name first."),
        ({"name": "A"}, "Read the description again."),
        ({"age": 20, "name": "A", "zip": "x"}, "Swiss postcodes have four digits."),
        ({"age": 20, "name": "A", "size": 5}, "Write the size as text, such as XL."),
        ({"age": 20, "name": "A", "more": 5}, "Send only what is listed."),
    ],
)
def test_a_schema_speaks_for_its_own_rules(value: Any, says: str) -> None:
    check = validator.Check(SPOKEN)
    first = check(value)
    assert first is not None
    assert says in str(check.find_others(value, first, 10.0))


def test_a_rule_without_words_of_its_own_has_the_usual_ones() -> None:
    check = validator.Check(SPOKEN)
    value = {"age": 20, "name": "A", "size": "XXL"}
    first = check(value)
    assert first is not None
    assert "expected at most 2 characters" in str(check.find_others(value, first, 10.0))


@pytest.mark.parametrize(
    "words", [5, ["a"], {"required": 5}, {"required": {"a": 5}}, {"type": {"a": "b"}}, " ", "x" * 301]
)
def test_words_of_another_shape_are_refused_when_they_are_saved_and_ignored_when_they_are_stored(words: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "errorMessage": words}}}
    with pytest.raises(ValidationError, match="errorMessage"):
        validator.check(schema)
    check = validator.Check(schema)
    first = check({"a": "x"})
    assert first is not None and len(str(check.find_others({"a": "x"}, first, 10.0))) < 500


def test_words_are_one_line_without_invisible_characters() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "errorMessage": "One\nline\u202e \u200bonly"}}}
    check = validator.Check(schema)
    first = check({"a": "x"})
    assert first is not None
    assert str(check.find_others({"a": "x"}, first, 10.0)) == 'argument "a": One line only'


@pytest.mark.django_db(transaction=True)
async def test_a_call_is_denied_with_all_problems_and_logged_with_them(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add", input_schema=PLAIN)
    with pytest.raises(InvalidArguments) as caught:
        await call(alice, "call_add", {"a": "1", "b": "z"})
    assert caught.value.message.startswith("3 problems: (1) argument")
    assert sorted(one["path"] for one in caught.value.problems) == ["/a", "/b", "/d"]
    row = await only_logged_call()
    assert row.detail == caught.value.message and row.outcome == "invalid_arguments"


@pytest.mark.django_db(transaction=True)
async def test_a_result_that_breaks_its_schema_is_not_called_an_argument(alice: Any) -> None:
    await run_in_database(publish, alice, "call_weather", "call_json")
    bad = await call(alice, "call_weather", {"sky": "green"})
    assert "output schema: sky: expected one of" in bad.content[0]["text"]
    whole = await call(alice, "call_json", {"value": '{"a": 1}'})
    assert "output schema: result: expected" in whole.content[0]["text"]
    assert "argument" not in bad.content[0]["text"] + whole.content[0]["text"]


@pytest.mark.django_db(transaction=True)
async def test_a_secret_that_another_argument_repeats_is_in_none_of_the_logged_problems(alice: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "token": {"type": "string", "minLength": 50},
            "n": {"type": "integer"},
            "m": {"type": "integer"},
        },
    }
    await run_in_database(publish, alice, "call_add", input_schema=schema)
    secret = "s3cret-value-of-alice"
    with pytest.raises(InvalidArguments):
        await call(alice, "call_add", {"token": secret, "n": f"x {secret}", "m": f"y {secret}"})
    row = await only_logged_call()
    assert row.outcome == "invalid_arguments" and "problems" in row.detail
    assert secret not in row.detail + row.detail_reason + row.arguments
