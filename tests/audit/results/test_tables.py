"""Structured results as facts and tables: ordered and labelled by the output schema, bounded, and never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import Client

from audit.results.tables import MAX_CELL_CHARACTERS, MAX_COLUMNS, MAX_ROWS, Fact, View, describe, output_schema
from catalog.examples import catalogue
from catalog.models import Tool
from tests.catalog import pipeline
from tests.catalog.pipeline import run_in_database


def view(value: Any, schema: Any, max_bytes: int = 10_000_000) -> View:
    found = describe({"content": [], "structuredContent": value}, schema, max_bytes)
    assert found is not None
    return found


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [None, {"content": []}, [1], "text"])
def test_without_structured_content_there_is_no_view(result: Any) -> None:
    assert describe(result, {"type": "object"}) is None


@pytest.mark.parametrize("definition", ["", "[1]", "{}", '{"outputSchema": {}', "[" * 100_000])
def test_a_definition_without_a_readable_schema_has_none(definition: str) -> None:
    assert output_schema(definition) is None


def test_a_page_gets_no_more_bytes_than_it_asked_for() -> None:
    rows = [{"a": "\u202e" * 100}] * 50
    found = view({f"fact {number}": "<" * 300 for number in range(50)} | {"rows": rows}, None, 20_000)
    shown = sum(len(fact.value) * 4 for fact in found.facts) + sum(len(row[0]) for row in found.tables[0].rows)
    assert 0 < shown < 20_000
    assert len(found.facts) + found.left_out == 50 and found.left_out > 0
    assert found.tables[0].left_out >= 50 and not found.tables[0].rows


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"$ref": "#/nothing/there"},
        {"$ref": "https://example.com/schema"},
        {"properties": [], "items": 3, "title": 4, "description": None},
        {"properties": {"a": "text"}},
        None,
        True,
    ],
)
def test_a_schema_that_helps_nothing_loses_nothing(schema: Any) -> None:
    assert view({"a": 1}, schema).facts == [Fact("a", "1")]


def test_large_results_are_bounded_and_say_how_much_is_left_out() -> None:
    rows = [{f"c{column}": "x" * 1000 for column in range(30)}] * 150
    (table,) = view(rows, {}).tables
    assert (len(table.rows), len(table.columns)) == (MAX_ROWS, MAX_COLUMNS)
    assert table.left_out == 50 + 10
    assert max(len(cell) for row in table.rows for cell in row) <= MAX_CELL_CHARACTERS + 4


# --- what works ------------------------------------------------------------------------------------------------------


def test_members_come_in_the_order_and_with_the_labels_of_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"title": "Name", "description": "Of the person."},
            "tags": {"type": "array"},
            "orders": {"title": "Orders", "type": "array", "items": {"$ref": "#/$defs/order"}},
        },
        "$defs": {"order": {"properties": {"id": {"title": "Number"}, "sum": {}}}},
    }
    value = {
        "other": {"b": [1]},
        "orders": [{"sum": 2.5, "id": 7}, {"id": 8, "note": None}],
        "tags": ["a", 1],
        "name": "A\u202e",
    }
    found = view(value, schema)
    assert found.facts == [
        Fact("Name", "A⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩", "Of the person."),
        Fact("tags", "a, 1"),
        Fact("other", '{"b": [1]}'),
    ]
    (table,) = found.tables
    assert (table.title, table.columns) == ("Orders", ["Number", "sum", "note"])
    assert table.rows == [["7", "2.5", ""], ["8", "", "null"]] and table.left_out == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), ("x", "x"), (None, "null"), (True, "true"), ([], ""), ([1, 2], "1, 2"), ([[1]], "[[1]]")],
)
def test_any_json_value_is_shown(value: Any, text: str) -> None:
    assert view(value, {"title": "Sum", "description": "The sum."}).facts == [Fact("Sum", text, "The sum.")]


@pytest.mark.django_db(transaction=True)
async def test_the_page_of_a_call_shows_its_result_by_the_schema_that_the_tool_had_then(alice: User) -> None:
    await run_in_database(publish, alice)
    made = await pipeline.call(alice, "run_sql_query", {"region": "north"})
    assert not made.is_error, pipeline.text(made)
    (logged,) = await pipeline.logged_calls()

    def visit() -> str:
        client = Client()
        client.force_login(alice)
        return client.get(f"/calls/{logged.pk}/").content.decode()

    page = await sync_to_async(visit)()
    assert '<th scope="col">Product</th>' in page and '<td dir="auto">chair</td>' in page and "The whole result" in page
    assert page.index('<td dir="auto">lamp</td>') < page.index("The whole result")
    await run_in_database(lambda: Tool.objects.update(output_schema=None))
    await run_in_database(lambda: Tool.history.update(output_schema=None))
    page = await sync_to_async(visit)()
    assert '<th scope="col">product</th>' in page and '<td dir="auto">chair</td>' in page


def publish(alice: User) -> None:
    catalogue.load("alice")
    tool = Tool.objects.get(name="run_sql_query")
    tool.output_schema["properties"]["rows"]["items"]["properties"]["product"]["title"] = "Product"
    tool.timeout = 120
    tool.save()


@pytest.fixture(autouse=True)
def samples(settings: Any, tmp_path: Path) -> None:
    settings.WORKSPACE_DIR, settings.SAMPLES_FILE = tmp_path / "workspace", tmp_path / "samples.sqlite3"
    settings.SQL_DATABASES = {"samples": f"sqlite:///{settings.SAMPLES_FILE}"}
