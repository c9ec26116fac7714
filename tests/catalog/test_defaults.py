"""Defaults of a schema are filled in before the call, unless the tool says not to."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from catalog.functions import registry
from catalog.schemas.defaults import compile_fill
from tests import factories
from tests.catalog.pipeline import call, run_in_database, text

SEEN: list[dict[str, Any]] = []


@registry.tool(name="defaults_echo", input_schema={"type": "object"})
async def echo(**arguments: Any) -> str:
    SEEN.append(arguments)
    return ", ".join(f"{name}={value}" for name, value in sorted(arguments.items()))


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_a_schema_without_defaults_costs_nothing() -> None:
    assert compile_fill(factories.TWO_NUMBERS) is None
    assert compile_fill({"type": "object"}) is None
    assert compile_fill(schema(a=True, b={"type": "object", "properties": {"c": {"type": "string"}}})) is None


def test_a_default_that_does_not_fit_its_own_schema_is_left_out() -> None:
    assert compile_fill(schema(a={"type": "integer", "default": "ten"})) is None
    assert compile_fill(schema(a={"$ref": "#/properties/b", "default": 1}, b={"type": "string"})) is None
    fill = compile_fill(schema(a={"enum": ["x"], "default": "y"}, b={"default": 2}))
    assert fill is not None
    assert fill({}) == {"b": 2}


def test_given_values_stay_and_the_callers_own_arguments_are_not_changed() -> None:
    part = {"type": "object", "properties": {"unit": {"type": "string", "default": "m"}}}
    fill = compile_fill(schema(n={"type": ["integer", "null"], "default": 5}, tags={"default": ["a"]}, size=part))
    assert fill is not None
    given: dict[str, Any] = {"n": None, "size": {}}
    filled = fill(given)
    assert filled == {"n": None, "tags": ["a"], "size": {"unit": "m"}}
    assert given == {"n": None, "size": {}}
    filled["tags"].append("b")
    assert fill({})["tags"] == ["a"]
    assert fill({"size": "large"})["size"] == "large"


@pytest.mark.django_db(transaction=True)
async def test_a_tool_gets_the_defaults_unless_its_setting_says_not_to(alice: User) -> None:
    properties = {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}

    def publish() -> None:
        for name, fill in (("with_defaults", True), ("without_defaults", False)):
            tool = factories.make_tool(
                name, function="defaults_echo", input_schema=schema(**properties), fill_defaults=fill
            )
            factories.grant(alice, tool)

    await run_in_database(publish)
    assert text(await call(alice, "with_defaults", {"city": "Bern"})) == "city=Bern, days=3"
    assert text(await call(alice, "with_defaults", {"city": "Bern", "days": 1})) == "city=Bern, days=1"
    assert text(await call(alice, "without_defaults", {"city": "Bern"})) == "city=Bern"
