"""The call pipeline for prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from audit import outcomes
from catalog.calls import call_tool
from catalog.errors import InvalidArguments, NeedsInput, ProtocolError, UnknownPrompt
from catalog.functions import registry
from tests import factories
from tests.catalog import prompts_and_resources
from tests.catalog.pipeline import MODERN, RecordingChannel, caller, logged_calls, only_logged_call, run_in_database

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = [
    {"name": "city", "required": True},
    {"name": "style", "enum": ["short", "long"]},
]


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    prompts_and_resources.RAN.clear()


def publish_template(user: Any, messages: Any = None, name: str = "weather") -> None:
    asked = messages or [
        {"role": "user", "content": {"type": "text", "text": "Weather in {city}, {style}? {unknown} {{city}} {"}},
        {"role": "assistant", "content": {"type": "text", "text": "In {city}."}},
    ]
    factories.grant(user, factories.make_prompt(name, messages=asked, arguments=ASKED))


def publish_functions(user: Any, *names: str) -> None:
    for name in names:
        factories.grant(user, factories.make_prompt(**registry.prompt_row(name)))


async def get(user: Any, name: str, arguments: Any = None, channel: Any = None, revision: str = "2025-11-25") -> Any:
    return await call_tool.get_prompt(caller(user, revision), name, arguments or {}, channel or RecordingChannel())


async def test_another_users_prompt_and_an_unknown_one_are_answered_alike_and_logged_apart(
    alice: Any, bob: Any
) -> None:
    await run_in_database(publish_template, alice)
    answers = []
    for name in ("weather", "nothing"):
        with pytest.raises(UnknownPrompt) as refused:
            await get(bob, name, {"city": "Bern"})
        answers.append(str(refused.value).replace(name, "NAME"))
    assert answers[0] == answers[1]
    rows = await logged_calls()
    assert [(row.method, row.outcome) for row in rows] == [
        ("prompts/get", outcomes.REFUSED),
        ("prompts/get", outcomes.UNKNOWN_TOOL),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "city: is required"),
        ({"city": 5}, "city: must be text"),
        ({"city": "Bern", "style": "odd"}, "style: must be one of short, long"),
        ({"city": "Bern", "more": "x"}, "more: there is no such argument"),
        ({"city": "x" * 300_000}, "larger than"),
        (["Bern"], "must be an object"),
    ],
)
async def test_arguments_that_do_not_fit_are_named(alice: Any, arguments: Any, says: str) -> None:
    await run_in_database(publish_template, alice)
    with pytest.raises(InvalidArguments, match=says):
        await get(alice, "weather", arguments)
    assert (await only_logged_call()).outcome == outcomes.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    ("how", "says"), [("sentence", "archive is closed"), ("shape", "not a message"), ("bug", "failed unexpectedly")]
)
async def test_a_function_that_fails_is_an_error_without_internals(alice: Any, how: str, says: str) -> None:
    await run_in_database(publish_functions, alice, "sample_fail")
    with pytest.raises(ProtocolError, match=says) as failed:
        await get(alice, "sample_fail", {"how": how})
    row = await only_logged_call()
    assert row.outcome == outcomes.TOOL_ERROR and "hunter2" not in failed.value.message + row.detail + row.result
    assert failed.value.data == {"callId": str(row.id)}


async def test_a_template_is_filled_once_and_nothing_in_it_is_an_expression(alice: Any) -> None:
    await run_in_database(publish_template, alice)
    filled = await get(alice, "weather", {"city": "{style} {0.__class__}"})
    assert filled.messages == [
        {
            "role": "user",
            "content": {
                "type": "text",
                "text": "Weather in {style} {0.__class__}, ? {unknown} {{style} {0.__class__}} {",
            },
        },
        {"role": "assistant", "content": {"type": "text", "text": "In {style} {0.__class__}."}},
    ]
    row = await only_logged_call()
    assert (row.outcome, row.method, row.id) == (outcomes.OK, "prompts/get", filled.call_id)
    assert json.loads(row.result)["messages"] == filled.messages


async def test_templates_may_hold_resources_and_images(alice: Any) -> None:
    messages = [
        {"role": "user", "content": {"type": "resource", "resource": {"uri": "docs://{city}", "text": "{city}"}}},
        {"role": "user", "content": {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}},
    ]
    await run_in_database(publish_template, alice, messages)
    filled = await get(alice, "weather", {"city": "Bern"})
    assert filled.messages[0]["content"]["resource"] == {"uri": "docs://Bern", "text": "Bern"}
    assert filled.messages[1]["content"]["data"] == "iVBORw0KGgo="


async def test_a_function_makes_the_messages(alice: Any) -> None:
    await run_in_database(publish_functions, alice, "sample_letter", "sample_thread")
    made = await get(alice, "sample_letter", {"to": "Ada", "form": "long"})
    assert [message["role"] for message in made.messages] == ["user", "assistant", "user"]
    assert made.messages[0]["content"]["text"] == "Write a long kind letter to Ada." and made.description
    assert made.messages[2]["content"] == {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    assert (await get(alice, "sample_thread")).messages[0]["content"]["text"] == "from a thread"
    with pytest.raises(InvalidArguments, match="form"):
        await get(alice, "sample_letter", {"to": "Ada", "form": "odd"})


async def test_a_prompt_asks_like_a_tool_does(alice: Any) -> None:
    await run_in_database(publish_functions, alice, "sample_ask")
    with pytest.raises(NeedsInput) as needs:
        await get(alice, "sample_ask", channel=RecordingChannel(modern=True), revision=MODERN)
    assert list(needs.value.requests) == ["who"]
    assert (await only_logged_call()).outcome == outcomes.INPUT_REQUIRED
    answered = RecordingChannel(answers={"who": {"action": "accept", "content": {"name": "Ada"}}}, modern=True)
    made = await get(alice, "sample_ask", channel=answered, revision=MODERN)
    assert made.messages[0]["content"]["text"] == "About Ada"
