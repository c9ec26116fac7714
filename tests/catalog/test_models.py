"""What a row may say: every refusal, by field, and the bounds that the database itself keeps."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core import serializers
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.utils import timezone, translation

from catalog.models import Grant, Limit, Prompt, Resource, Tool, Toolset
from catalog.schemas import defaults
from tests import factories

pytestmark = pytest.mark.django_db

MESSAGE = [{"role": "user", "content": {"type": "text", "text": "Hello {name}"}}]
GOOD: dict[type[Any], dict[str, Any]] = {
    Tool: {"name": "sum", "description": "Adds two numbers.", "settings": {"function": "calculate_sum"}},
    Resource: {"name": "handbook", "uri": "docs://handbook", "text": "Be kind."},
    Prompt: {"name": "greet", "description": "Greets somebody.", "messages": MESSAGE, "arguments": [{"name": "name"}]},
}
TEMPLATE: dict[str, Any] = {"uri": "", "uri_template": "docs://{page}", "text": None, "function": "page"}


def of(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": part}, "$defs": {"small": {"type": "integer", "maximum": 10}}}


REFUSALS: list[tuple[type[Any], dict[str, Any], str, str]] = [
    (Tool, {"name": ""}, "name", "blank"),
    (Tool, {"name": "a b"}, "name", "letters A-Z"),
    (Tool, {"name": "a/b"}, "name", "letters A-Z"),
    (Tool, {"name": "é"}, "name", "letters A-Z"),
    (Tool, {"name": "sum\n"}, "name", "letters A-Z"),
    (Tool, {"name": "a" * 129}, "name", "128"),
    *((Tool, {"name": name}, "name", "meaning of its own") for name in (".", "..", "...", "_", "-", "__proto__")),
    (Tool, {"name": "constructor"}, "name", "meaning of its own"),
    (Prompt, {"name": ".."}, "name", "meaning of its own"),
    (Prompt, {"name": "__proto__"}, "name", "meaning of its own"),
    (Tool, {"description": ""}, "description", "blank"),
    (Tool, {"description": " \n "}, "description", "must not be blank"),
    (Tool, {"input_schema": {"type": "string"}}, "input_schema", '"type": "object"'),
    (Tool, {"output_schema": {"$ref": "https://example.com"}}, "output_schema", "must start with #"),
    (Tool, {"description": "x" * 10_001}, "description", "10,001 characters. The maximum is 10,000"),
    (Prompt, {"description": "x" * 10_001}, "description", "10,001 characters"),
    (Resource, {"description": "x" * 10_001}, "description", "10,001 characters"),
    (Prompt, {"arguments": [{"name": "a", "description": "x" * 5_001}]}, "arguments", "5,001 characters"),
    (
        Tool,
        {"input_schema": of({"description": "x" * 5_001})},
        "input_schema",
        "5,001 characters. The maximum is 5,000",
    ),
    (Tool, {"output_schema": {"items": {"description": "x" * 5_001}}}, "output_schema", "5,001 characters"),
    *(
        (Tool, {"input_schema": of(part)}, "input_schema", f"The default {shown}")
        for part, shown in (
            ({"type": "integer", "default": "10"}, '"10"'),
            ({"enum": ["a", "b"], "default": "c"}, '"c"'),
            ({"type": "string", "pattern": "^x", "default": "y"}, '"y"'),
            ({"type": "string", "maxLength": 1, "default": "z" * 500}, '"' + "z" * 99),
            ({"$ref": "#/$defs/small", "default": 11}, "11"),
            ({"type": "string", "format": "password", "minLength": 9, "default": "hunter2"}, "..."),
        )
    ),
    (Tool, {"input_schema": of({"items": {"type": "string", "default": 1}})}, "input_schema", "at /properties/a/items"),
    (Tool, {"output_schema": {"type": "array", "default": {}}}, "output_schema", "at the root"),
    (Tool, {"icons": {}}, "icons", "list"),
    (Tool, {"icons": [{"mimeType": "image/png"}]}, "icons", '"src"'),
    (Tool, {"icons": [{"src": "http://example.com/a.png"}]}, "icons", "https://"),
    (Tool, {"icons": [{"src": "https://example.com/a.png", "sizes": ["big"]}]}, "icons", "48x48"),
    (Tool, {"icons": [{"src": "https://example.com/a.png", "onload": "x"}]}, "icons", "onload"),
    (Tool, {"icons": [{"src": "data:text/html;base64,AAAA"}]}, "icons", "picture"),
    (Tool, {"icons": [{"src": "data:text/html,%3Cscript%3E"}]}, "icons", "picture"),
    (Tool, {"icons": [{"src": "data:,x"}]}, "icons", "picture"),
    (Tool, {"icons": [{"src": "data:image/png;base64,"}]}, "icons", "picture"),
    (Tool, {"icons": [{"src": "data:image/png;base64,AAAA\n"}]}, "icons", "quotes"),
    (Tool, {"icons": [{"src": "data:image/svg+xml;base64,AAAA,text/html"}]}, "icons", "picture"),
    (Tool, {"icons": [{"src": 'https://example.com/a.png" onerror="x'}]}, "icons", "quotes"),
    (Tool, {"icons": [{"src": "https://example.com/a.png?'"}]}, "icons", "quotes"),
    (Tool, {"icons": [{"src": "https://example.com/<b>"}]}, "icons", "quotes"),
    (Tool, {"icons": [{"src": "https://example.com/\u2028"}]}, "icons", "quotes"),
    (Tool, {"icons": [{"src": " https://example.com/a.png"}]}, "icons", "https://"),
    (Tool, {"icons": [{"src": "javascript:x"}]}, "icons", "https://"),
    (Tool, {"icons": [{"src": "https:a.png"}]}, "icons", "https://"),
    (Tool, {"icons": [{"src": "https:///a.png"}]}, "icons", "host"),
    (Tool, {"icons": [{"src": "https://[::1/a.png"}]}, "icons", "host"),
    (Tool, {"icons": [{"src": "https://example.com/a", "mimeType": "text/html"}]}, "icons", "one of image/png"),
    (Tool, {"icons": [{"src": "https://example.com/a", "mimeType": 'image/png" x="'}]}, "icons", "one of image/png"),
    (Tool, {"timeout": 0}, "timeout", "0.1"),
    (Tool, {"timeout": 1e9}, "timeout", "86400"),
    (Tool, {"max_result_bytes": 1}, "max_result_bytes", "64"),
    (Tool, {"max_argument_bytes": 10**9}, "max_argument_bytes", "67108864"),
    (Tool, {"record_bodies": "never"}, "record_bodies", "never"),
    (Tool, {"task_support": "maybe"}, "task_support", "maybe"),
    (Tool, {"requires_capabilities": {"sampling": {}}}, "requires_capabilities", "list"),
    (Tool, {"requires_capabilities": [""]}, "requires_capabilities", "list"),
    (Tool, {"runner": "shell"}, "runner", 'no tool type "shell"'),
    (Tool, {"settings": []}, "settings", "object"),
    (Tool, {"settings": {}}, "settings", "function"),
    (Tool, {"settings": {"function": float("nan")}}, "settings", "JSON"),
    (Tool, {"read_only": True, "destructive": True}, "destructive", "cannot be destructive"),
    (Resource, {"name": " "}, "name", "The name must not be blank."),
    (Resource, {"uri": ""}, "uri", "either"),
    (Resource, {"uri_template": "docs://{page}"}, "uri", "either"),
    (Resource, {"uri": "handbook"}, "uri", "scheme"),
    (Resource, {"uri": "docs://a b"}, "uri", "Percent-encode"),
    (Resource, {"uri": "docs://{page}"}, "uri", "Percent-encode"),
    (Resource, {"uri": "toolhub://results/1"}, "uri", "addresses are reserved"),
    (Resource, {**TEMPLATE, "uri_template": "docs://page"}, "uri_template", "at least one"),
    (Resource, {**TEMPLATE, "uri_template": "docs://{+page}"}, "uri_template", "level 1"),
    (Resource, {**TEMPLATE, "uri_template": "docs://{a}{a}"}, "uri_template", "once"),
    (Resource, {**TEMPLATE, "uri_template": "docs://{a}/{b"}, "uri_template", "open"),
    (Resource, {**TEMPLATE, "function": ""}, "function", "needs a function"),
    (Resource, {**TEMPLATE, "text": "x"}, "function", "Leave text and blob empty"),
    (Resource, {**TEMPLATE, "completions": {"other": ["x"]}}, "completions", 'no variable "other"'),
    (Resource, {"completions": []}, "completions", "object"),
    (Resource, {"text": None}, "text", "exactly one"),
    (Resource, {"blob": "AAEC"}, "text", "exactly one"),
    (Resource, {"text": None, "blob": "not base64!"}, "blob", "Base64"),
    (Resource, {"mime_type": "text"}, "mime_type", "text/plain"),
    (Resource, {"mime_type": "text/html\r\nX: y"}, "mime_type", "text/plain"),
    (Prompt, {"name": "a b"}, "name", "letters A-Z"),
    (Prompt, {"description": " "}, "description", "must not be blank"),
    (Prompt, {"messages": []}, "messages", "exactly one of messages"),
    (Prompt, {"function": "greet"}, "messages", "exactly one of messages"),
    (Prompt, {"messages": MESSAGE[0]}, "messages", "list"),
    (Prompt, {"messages": [{"role": "system", "content": {}}]}, "messages", "user or assistant"),
    (Prompt, {"messages": [{"role": "user", "content": "Hello"}]}, "messages", "object"),
    (Prompt, {"messages": [{"role": "user", "content": {"type": "text"}}]}, "messages", '"text"'),
    (Prompt, {"messages": [{"role": "user", "content": {"type": "image", "data": "AA"}}]}, "messages", "mimeType"),
    (Prompt, {"messages": [{"role": "user", "content": {"type": "resource", "resource": {}}}]}, "messages", "uri"),
    (Prompt, {"messages": [{"role": "user", "content": {"type": "resource_link"}}]}, "messages", '"uri"'),
    (Prompt, {"arguments": {}}, "arguments", "list"),
    (Prompt, {"arguments": [{}]}, "arguments", '"name"'),
    (Prompt, {"arguments": [{"name": "a b"}]}, "arguments", "is not a valid name"),
    (Prompt, {"arguments": [{"name": "a"}, {"name": "a"}]}, "arguments", "twice"),
    (Prompt, {"arguments": [{"name": "a", "required": "yes"}]}, "arguments", "true or false"),
    (Prompt, {"arguments": [{"name": "a", "enum": [1]}]}, "arguments", "list of text"),
    (Prompt, {"arguments": [{"name": "a", "type": "string"}]}, "arguments", "not a known key"),
]


@pytest.mark.parametrize(("model", "change", "field", "expected"), REFUSALS)
def test_rows_that_break_a_rule_are_rejected_with_the_field_named(
    model: type[Any], change: dict[str, Any], field: str, expected: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model(**{**GOOD[model], **change}).full_clean()
    assert field in caught.value.message_dict
    assert expected in " ".join(caught.value.message_dict[field])
    if change.get("settings", []) == []:  # what a runner says of its settings, programs read as well
        with translation.override("zh-hans"):
            with pytest.raises(ValidationError) as caught:
                model(**{**GOOD[model], **change}).full_clean()
            said = " ".join(caught.value.message_dict[field])
        assert re.search(r"[\u4e00-\u9fff]", said), said


@pytest.mark.parametrize("model", GOOD)
def test_the_good_rows_of_the_table_are_accepted(model: type[Any]) -> None:
    row = model(**GOOD[model])
    row.full_clean()
    row.save()
    with pytest.raises(ValidationError):
        model(**GOOD[model]).full_clean()


def test_a_template_with_a_function_and_suggestions_is_accepted() -> None:
    Resource(**{**GOOD[Resource], **TEMPLATE, "completions": {"page": ["a", "b"]}}).full_clean()
    Resource(**{**GOOD[Resource], "text": None, "blob": base64.b64encode(b"\0\1").decode()}).full_clean()


GRANTS: list[tuple[dict[str, Any], str]] = [
    ({"tool": None}, "tool"),
    ({"toolset": True}, "toolset"),
    ({"resource": True}, "resource"),
    ({"prompt": True}, "prompt"),
    ({"user": None}, "user"),
    ({"group": True}, "group"),
    ({"everyone": True}, "everyone"),
    ({"effect": "maybe"}, "effect"),
    ({"environments": "production"}, "environments"),
    ({"environments": ["no blanks"]}, "environments"),
    ({"starts": timezone.now(), "ends": timezone.now() - timedelta(days=1)}, "ends"),
]


@pytest.mark.parametrize(("change", "field"), GRANTS)
def test_a_grant_names_one_target_and_one_subject(alice: User, change: dict[str, Any], field: str) -> None:
    others: dict[str, Any] = {
        "toolset": factories.make_toolset, "resource": factories.make_resource, "prompt": factories.make_prompt,
        "group": factories.make_group,
    }  # fmt: skip
    values: dict[str, Any] = {"tool": factories.make_tool(), "user": alice}
    values |= {name: others[name]() if value is True and name in others else value for name, value in change.items()}
    with pytest.raises(ValidationError) as caught:
        Grant(**values).full_clean()
    assert field in caught.value.message_dict


@pytest.mark.parametrize("rate", ["", "3", "3/", "3/x", "3/0m", "-3/m", "3.5/m", "3/m ", "３/m", "3/400d", "1/m\n"])
def test_an_invalid_rate_is_rejected(rate: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Limit(all_tools=True, rate=rate).full_clean()
    assert "rate" in caught.value.message_dict


@pytest.mark.parametrize("rate", ["0/s", "3/m", "100/2h", "1/30d", "60/60s"])
def test_a_rate_in_the_syntax_of_django_ratelimit_is_accepted(rate: str) -> None:
    Limit(all_tools=True, rate=rate).full_clean()


def test_the_database_itself_rejects_rows_that_no_form_checked(alice: User) -> None:
    tool, toolset, group = factories.make_tool(), factories.make_toolset(), Group.objects.create(name="g")
    rows: list[Any] = [
        Tool(name="blank", description=""),
        Grant(user=alice),
        Grant(tool=tool, toolset=toolset, user=alice),
        Grant(tool=tool),
        Grant(tool=tool, user=alice, group=group),
        Grant(tool=tool, user=alice, everyone=True),
        Limit(rate="1/m"),
        Limit(rate="1/m", tool=tool, all_tools=True),
        Limit(rate="1/m", tool=tool, method="tools/list"),
        Limit(rate="1/m", all_tools=True, method="tools/list"),
        Limit(rate="1/m", method="tools/call"),
        Limit(rate="1/m", tool=tool, scope="user"),
        Limit(rate="1/m", tool=tool, scope="each_user", group=group),
        Resource(name="x", text="y"),
        Resource(name="x", uri="a://b"),
        Resource(name="x", uri="a://b", text="y", blob="eQ=="),
        Prompt(name="x", description=""),
    ]
    for row in rows:
        with pytest.raises(IntegrityError), transaction.atomic():
            row.save()


@pytest.mark.parametrize(
    "value",
    [
        {"z": 1, "a": {"y": 1.0, "b": [1e100, 12345678901234567890, 0.1]}},
        {"text": "é \u0000 \ud800 \u2028 </script>", "": None},
        {"$schema": "x", "$defs": {"b": {}, "a": {}}, "x-mcp-header": "Q"},
    ],
)
def test_json_survives_the_database_in_its_own_order(value: dict[str, Any]) -> None:
    tool = factories.make_tool(settings=value)
    assert repr(Tool.objects.get(pk=tool.pk).settings) == repr(value)
    assert repr(tool.history.get().settings) == repr(value)
    with connection.cursor() as cursor:
        cursor.execute("SELECT settings FROM catalog_tool WHERE id = %s", [tool.pk])
        assert isinstance(cursor.fetchone()[0], str)


def test_a_dump_of_the_catalogue_can_be_loaded_again(alice: User) -> None:
    tool = factories.make_tool(toolset="Numbers")
    text = serializers.serialize("json", [tool, *Toolset.objects.all()])
    Tool.objects.all().delete()
    for row in serializers.deserialize("json", text):
        row.save()
    assert Tool.objects.get().input_schema == factories.TWO_NUMBERS


@pytest.mark.parametrize(
    "icon",
    [
        {"src": "https://example.com/a.png?size=48&v=%22", "mimeType": "image/png", "sizes": ["48x48"]},
        {"src": "https://example.com/a.svg", "theme": "dark", "sizes": ["any"]},
        {"src": "data:image/svg+xml;base64,PHN2Zy8+", "mimeType": "image/svg+xml"},
        {"src": "data:image/png;base64,AAAA"},
    ],
)
def test_a_picture_is_an_icon(icon: dict[str, Any]) -> None:
    Tool(**{**GOOD[Tool], "icons": [icon]}).full_clean()


@pytest.mark.parametrize("model", [Tool, Prompt])
def test_two_names_that_differ_only_in_case_cannot_both_be_saved(model: type[Any]) -> None:
    first = model(**{**GOOD[model], "name": "Read_File"})
    first.full_clean()
    first.save()
    first.full_clean()
    second = model(**{**GOOD[model], "name": "read_file"})
    with pytest.raises(ValidationError) as refused:
        second.full_clean()
    assert '"Read_File" already exists' in refused.value.message_dict["name"][0]
    second.save()  # as a version of toolhub without this rule allowed
    second.full_clean()
    second.name = "READ_FILE"
    with pytest.raises(ValidationError):
        second.full_clean()
    model(**{**GOOD[model], "name": "readXfile"}).full_clean()


@pytest.mark.django_db
def test_defaults_and_descriptions_that_fit_are_saved() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/small", "default": 10},
            "b": {"type": ["string", "null"], "default": None, "description": "x" * 5_000},
            "c": {"anyOf": [{"type": "integer"}, {"const": "all"}], "default": "all"},
            "d": {"type": "object", "properties": {"e": {"type": "boolean", "default": False}}, "default": {"e": True}},
        },
        "$defs": {"small": {"type": "integer", "maximum": 10}},
    }
    tool = factories.make_tool(input_schema=schema, output_schema={"type": "array", "default": []})
    tool.description = "x" * 10_000
    tool.full_clean()


@pytest.mark.django_db
def test_a_wrong_default_in_a_definition_of_somebody_else_is_served_as_it_is_and_not_filled_in() -> None:
    tool = factories.make_tool(input_schema=of({"type": "integer", "default": "10"}))
    tool.origin = "upstream:1"
    tool.full_clean()
    assert defaults.compile_fill(tool.input_schema) is None
