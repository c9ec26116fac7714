"""The arguments that the form of a grant offers, found in a schema: places, types and choices, never a secret."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.conditions import arguments
from catalog.conditions.definitions import parse_path, path_text
from catalog.conditions.item_arguments import ItemArguments
from catalog.conditions.original import Original


def offer(schema: dict[str, Any]) -> dict[str, list[str]]:
    """The types of each argument by its place."""
    return {one["path"]: one["kinds"] for one in list_data(schema)}


def list_data(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [one.as_data() for one in arguments.list_arguments(schema).arguments]


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("mark", [{"writeOnly": True}, {"format": "password"}])
def test_a_secret_argument_and_what_is_around_it_are_left_out(mark: dict[str, Any]) -> None:
    secret = {"type": "string", **mark}
    assert offer(of(key=secret, region={"type": "string"})) == {"/region": ["string"]}
    assert offer(of(account=of(key=secret, name={"type": "string"}))) == {"/account/name": ["string"]}
    assert offer(of(keys={"type": "array", "items": secret})) == {}
    assert offer(of(account={**of(name={"type": "string"}), **mark})) == {}
    referred = {**of(key={"$ref": "#/$defs/key"}), "$defs": {"key": secret}}
    assert offer(referred) == {}
    union = of(key={"anyOf": [{"type": "integer"}, secret]})
    assert offer(union) == {}
    sealed = of(account={"oneOf": [of(name={"type": "string"}), {**of(name={"type": "string"}), **mark}]})
    assert offer(sealed) == {}


def test_members_and_items_are_offered_with_their_place() -> None:
    line = of(amount={"type": "number", "title": "Amount"}, tags={"type": "array", "items": {"type": "string"}})
    schema = of(address=of(city={"type": "string"}), lines={"type": "array", "items": line})
    found = {one["path"]: one for one in list_data(schema)}
    assert list(found) == [
        *("/address", "/lines", "/address/city", "/lines/*"),
        *("/lines/*/amount", "/lines/*/tags", "/lines/*/tags/*"),
    ]
    amount = {"path": "/lines/*/amount", "name": "lines[].amount", "kinds": ["number"], "title": "Amount"}
    assert found["/lines/*/amount"] == amount


def test_alternatives_and_references_are_taken_together() -> None:
    schema = {
        **of(
            size={"anyOf": [{"enum": ["s", "m"]}, {"const": 1}]},
            free={"oneOf": [{"enum": ["s"]}, {"type": "integer"}]},
            place={"$ref": "#/$defs/place"},
            code={"type": "string", "anyOf": [{"minLength": 2}, {"pattern": "x"}]},
            anything={},
        ),
        "allOf": [of(more={"type": ["string", "null"]})],
        "$defs": {"place": of(city={"type": "string"}, inside={"$ref": "#/$defs/place"})},
    }
    found = {one["path"]: one for one in list_data(schema)}
    assert (found["/size"]["kinds"], found["/size"]["choices"]) == (["integer", "string"], ["s", "m", 1])
    assert found["/free"]["kinds"] == ["integer", "string"] and "choices" not in found["/free"]
    assert found["/code"]["kinds"] == ["string"]
    assert found["/more"]["kinds"] == ["null", "string"]
    assert found["/anything"]["kinds"] == []
    assert found["/place/inside/inside/city"]["kinds"] == ["string"]


def test_every_argument_that_is_offered_has_a_place_that_a_condition_accepts() -> None:
    schema = of(
        **{"a/b~c": {"type": "array", "prefixItems": [of(x={})], "items": False}, "": True, "*": {}, "n": False}
    )
    paths = [one["path"] for one in list_data(schema)]
    assert paths == ["/a~1b~0c", "/", "/a~1b~0c/*", "/a~1b~0c/*/x"]
    original = Original(schema)
    for path in paths:
        steps = parse_path(path)
        assert path_text(steps) == path and original.has_place(steps)


def test_a_large_or_recursive_schema_is_listed_in_part() -> None:
    wide = arguments.list_arguments(of(**{f"a{number}": {} for number in range(1_000)}))
    assert (len(wide.arguments), wide.is_complete) == (arguments.MAX_ARGUMENTS, False)
    tree = {"$ref": "#/$defs/node"}
    node = of(value={"type": "integer"}, children={"type": "array", "items": tree})
    deep = arguments.list_arguments({"type": "object", "properties": {"root": tree}, "$defs": {"node": node}})
    assert deep.is_complete and max(len(one.steps) for one in deep.arguments) == 8
    doubled = {f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(7)}
    bomb = of(**{f"a{number}": {"$ref": "#/$defs/d0"} for number in range(50)})
    assert not arguments.list_arguments({**bomb, "$defs": {**doubled, "d7": {"type": "string"}}}).is_complete


def test_many_choices_are_entered_and_not_chosen() -> None:
    many = list(range(arguments.MAX_CHOICES + 1))
    (found,) = list_data(of(number={"enum": many}))
    assert found["kinds"] == ["integer"] and "choices" not in found
    (shaped,) = list_data(of(shape={"enum": [{"a": 1}, "b"]}))
    assert "choices" not in shaped


def test_prompts_and_addresses_have_arguments_too() -> None:
    prompt = ItemArguments.of_prompt([{"name": "tone", "enum": ["warm", "dry"]}])
    assert [one["choices"] for one in list_data(prompt.schema)] == [["warm", "dry"]]
    assert offer(ItemArguments.of_address("docs://{room}/{page}").schema) == {"/room": ["string"], "/page": ["string"]}
