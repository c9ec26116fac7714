"""An input schema as rows, whatever the schema is."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.schemas import parameters


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": None},
        {"properties": {"a": True}},
        {"properties": {"a": {"type": 3, "enum": "x", "items": [], "format": []}}, "required": "a"},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$ref": "#/nowhere"}, "b": {"$ref": "https://elsewhere.example/"}}},
        {"properties": {"a": {"anyOf": [True, {"type": "string"}]}, "b": {"type": ["string", "null", 7]}}},
    ],
)
def test_no_schema_is_too_strange(schema: dict[str, Any]) -> None:
    assert len(parameters.list_parameters(schema)) == len(schema.get("properties") or {})


def test_a_schema_without_end_gives_a_bounded_number_of_rows() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {f"p{number}": {"$ref": "#"} for number in range(50)}}
    assert len(parameters.list_parameters(node)) == parameters.MAX_ROWS


def test_types_bounds_choices_and_defaults_are_described() -> None:
    found = parameters.list_parameters(
        {
            "properties": {
                "city": {"type": "string", "description": "Where.", "minLength": 1},
                "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3},
                "unit": {"enum": ["C", "F"]},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
                "when": {"type": ["string", "null"], "format": "date"},
                "filter": {"type": "object", "properties": {"since": {"$ref": "#/$defs/day"}}},
            },
            "$defs": {"day": {"type": "string", "description": "A day."}},
            "required": ["city"],
        }
    )
    rows = {row.name: row for row in found}
    assert (rows["city"].type, rows["city"].required, rows["city"].bounds) == ("text", True, "length at least 1")
    assert (rows["days"].type, rows["days"].bounds, rows["days"].default) == ("whole number", "1 … 7", "3")
    assert rows["unit"].choices == ("C", "F")
    assert (rows["tags"].type, rows["tags"].bounds) == ("list of text", "length at most 5")
    assert rows["when"].type == "text or nothing (date)"
    assert (rows["filter.since"].description, rows["filter.since"].required) == ("A day.", False)


def test_missing_annotations_count_as_the_riskier_value() -> None:
    assert [mark.key for mark in parameters.marks({})] == ["changes", "destroys", "world"]
    assert [mark.key for mark in parameters.marks({"readOnlyHint": True, "openWorldHint": False})] == ["reads"]
    assert [mark.key for mark in parameters.marks({"destructiveHint": False, "idempotentHint": True})] == [
        "changes",
        "repeat",
        "world",
    ]
