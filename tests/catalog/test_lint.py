"""Advice on definitions: each rule speaks when it should, is silent when it should, and never stops anybody."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import translation

from catalog import lint
from catalog.examples import catalogue
from catalog.models import Prompt, Tool
from tests import factories
from tests.catalog.test_admin import tool_form

CHINESE = r"[\u4e00-\u9fff]"
GOOD = "Get the orders of one customer. Use it when somebody asks what they bought."
BOUNDED = {"type": "string", "description": "Number of the customer.", "maxLength": 20}


def tool(name: str = "get_orders", description: str = GOOD, /, *, part: Any = None, **fields: Any) -> Tool:
    schema = {"type": "object", "properties": {"customer": part or BOUNDED}, "additionalProperties": False}
    fields = {"read_only": True, "input_schema": schema, "settings": {"function": "x"}, **fields}
    return Tool(name=name, description=description, **fields)


def part(**more: Any) -> dict[str, Any]:
    return {**BOUNDED, **more}


API = {"method": "GET", "url": "https://api.example.com/"}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (tool("orders_of_customer", "The orders of one customer, for when they ask."), "starts with a verb"),
        (tool("get_" + "x" * 70), "longer than 64"),
        (tool("orders.get"), "contains a dot"),
        (tool("search"), "likely to collide"),
        (tool("get_and_delete_orders"), "joins several actions"),
        (tool("get_orders", "Gets orders."), "very short"),
        (tool("get_orders", GOOD + " More." * 300), "every conversation"),
        (tool("get_orders", "Get the orders of one customer of the shop."), "when to use the tool"),
        (
            tool("do_orders", "Do the orders. Use it when asked.", read_only=False, destructive=False),
            "what the tool changes",
        ),
        (tool(part={"type": "string", "maxLength": 5}), "without a description"),
        (tool(input_schema={"type": "object", "properties": {"a": part()}}), "additionalProperties"),
        (tool(part=part(description="One of open, closed or all.")), "Use an enum"),
        (tool(part=part(description="State: 'open' or 'closed'.")), "Use an enum"),
        (tool(part=part(description="How many; 10 by default.")), "names a default"),
        (tool(part={"type": "object", "description": "Who.", "properties": {"id": {}}}), "flat parameters"),
        (tool(part={"type": "string", "description": "The text."}), "No size limit"),
        (tool(part={"type": "array", "description": "Them.", "items": {}}), "No size limit"),
        (tool(read_only=None), "whether the tool is read-only"),
        (tool("set_orders", GOOD + " Replaces them.", read_only=False), "whether it is destructive"),
        (tool("delete_orders"), "may run it without asking"),
        (tool(runner="http_api", settings={**API, "method": "PUT"}), "may run it without asking"),
        (tool(read_only=False, destructive=False), "sounds like reading"),
        (tool("delete_orders", read_only=False, destructive=False), "will not warn"),
        (
            tool("put_it", read_only=False, idempotent=False, runner="http_api", settings={"method": "PUT"}),
            "PUT requests are idempotent",
        ),
        (tool(open_world=False, runner="http_api", settings=API), "declares no external systems"),
    ],
)
def test_possible_improvements_are_suggested_with_the_reason(row: Tool, says: str) -> None:
    english = lint.check_tool(row)
    assert any(says in sentence for sentence in english), english
    with translation.override("zh-hans"):
        chinese = lint.check_tool(row)
    assert len(chinese) == len(english)
    assert all(re.search(CHINESE, sentence) for sentence in chinese), chinese


def list_suggestions() -> list[tuple[str, str]]:
    """(in English, in Chinese) of what there is to say about many a bad definition."""
    prompt = Prompt(
        arguments=[{"name": "unused"}], messages=[{"role": "user", "content": {"type": "text", "text": "{absent}"}}]
    )
    many: dict[str, Any] = {f"n{number}": {} for number in range(12)}
    bad = [tool("search", "Short."), tool(read_only=None, input_schema={"type": "object", "properties": many})]
    bad += [tool("delete_orders"), tool("get_orders", "The " * 600, read_only=False, destructive=False)]
    said: dict[str, list[str]] = {}
    for language in ("en", "zh-hans"):
        with translation.override(language):
            said[language] = [sentence for row in bad for sentence in lint.check_tool(row)] + lint.check_prompt(prompt)
            said[language] += lint.describe_similar(bad[0], [("searches", "Short.")])
            said[language] += lint.describe_similar(tool(), [("list_purchases", GOOD)])
    return list(zip(said["en"], said["zh-hans"], strict=True))


def test_suggestions_are_in_the_viewers_language_and_contain_the_names() -> None:
    said = list_suggestions()
    assert len(said) >= 14
    for english, chinese in said:
        assert re.search(CHINESE, chinese) and not re.search(CHINESE, english), english
        for name in re.findall(r"n\d\b|\"\w+\"|\{\w+\}|[a-z]+_[a-z]+|[\d,]{2,}", english):
            assert name in chinese, (english, chinese)


def test_a_good_definition_gets_no_suggestions() -> None:
    assert lint.check_tool(tool()) == []
    assert lint.check_tool(tool(part=part(enum=["a"], description="One of them."))) == []
    assert (
        lint.check_tool(tool("github_create_issue", GOOD + " Creates one.", read_only=False, destructive=False)) == []
    )


def test_indistinguishable_tools_are_named_and_the_others_are_not() -> None:
    rows = [
        ("get_order", GOOD),
        ("get_orders", "Something else altogether, for another purpose entirely."),
        ("list_purchases", GOOD + " Please."),
        ("delete_file", "Delete one file of the workspace for good. Ask the person first."),
    ]
    found = lint.find_similar_pairs(rows)
    assert [(one, other) for one, other, _ in found] == [("get_order", "get_orders"), ("get_order", "list_purchases")]
    assert "names are almost the same" in found[0][2]
    assert lint.describe_similar(tool("get_orders", GOOD), rows[2:3]) == [
        "The description is almost the same as that of list_purchases. Say when to use which tool."
    ]


@pytest.mark.django_db
def test_checktools_lists_the_suggestions_and_succeeds() -> None:
    factories.make_tool("search", description="Short.")
    factories.make_tool("get_a", description=GOOD, input_schema={"type": "object"}, read_only=True)
    factories.make_tool("get_b", description=GOOD, input_schema={"type": "object"}, read_only=True)
    out, as_json = StringIO(), StringIO()
    with translation.override("zh-hans"):  # a command speaks English wherever it is started
        call_command("checktools", stdout=out)
        call_command("checktools", "--json", stdout=as_json)
    assert "search: The description is very short" in out.getvalue()
    assert "get_a and get_b: their descriptions are almost the same" in out.getvalue()
    found = json.loads(as_json.getvalue())
    assert found["checked"] == 3
    assert found["twins"][0]["tools"] == ["get_a", "get_b"]
    assert {entry["name"] for entry in found["advice"]} == {"search"}


@pytest.mark.django_db
def test_the_example_catalogue_gets_no_suggestions(alice: User) -> None:
    catalogue.load(alice.username)
    out = StringIO()
    call_command("checktools", "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert found["checked"] >= 11
    assert (found["advice"], found["twins"]) == ([], [])


@pytest.mark.django_db
def test_saving_shows_the_suggestions_and_still_saves(root: User) -> None:
    browser = Client()
    browser.force_login(root)
    form = tool_form(name="sum", description="Adds two.", fill_defaults="on")
    answer = browser.post(reverse("admin:catalog_tool_add"), form, follow=True)
    assert Tool.objects.filter(name="sum").exists()
    assert "Suggestion: The description is very short" in answer.content.decode()
    form = tool_form(name="subtract", description="Subtracts.", fill_defaults="on")
    answer = browser.post(reverse("admin:catalog_tool_add"), form, follow=True, headers={"accept-language": "zh-hans"})
    assert "建议：描述过短" in answer.content.decode()
