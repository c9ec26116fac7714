"""Suggestions for arguments and template variables."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catalog.calls import call_tool
from catalog.errors import CLIENT_GONE, InvalidArguments, UnknownPrompt, UnknownResource
from catalog.functions import registry
from tests import factories
from tests.catalog import prompts_and_resources
from tests.catalog.pipeline import caller, run_in_database
from tests.polling import wait_until_async

pytestmark = pytest.mark.django_db(transaction=True)
LETTER = {"type": "ref/prompt", "name": "sample_letter"}
TEMPLATE = {"type": "ref/resource", "uri": "sample://{kind}/{number}"}


def publish(user: Any) -> None:
    factories.grant(user, factories.make_prompt(**registry.prompt_row("sample_letter")))
    row = {"uri": "", **registry.resource_row("sample_template"), "completions": {"number": ["1", "10", "21"]}}
    factories.grant(user, factories.make_resource(**row))


async def complete(user: Any, ref: Any, name: Any, value: Any, **context: Any) -> Any:
    return await call_tool.complete(caller(user), ref, {"name": name, "value": value}, context)


async def test_malformed_completions_and_those_without_a_grant_are_rejected(alice: Any, bob: Any) -> None:
    await run_in_database(publish, alice)
    with pytest.raises(UnknownPrompt):
        await complete(bob, LETTER, "to", "A")
    with pytest.raises(UnknownResource):
        await complete(bob, TEMPLATE, "kind", "b")
    with pytest.raises(UnknownPrompt):
        await complete(alice, {"type": "ref/prompt", "name": "nothing"}, "to", "A")
    for ref, name, value in (
        (LETTER, "nothing", "x"),
        ({"type": "ref/tool", "name": "x"}, "to", "x"),
        ("sample_letter", "to", "x"),
        (LETTER, 5, "x"),
        (LETTER, "to", None),
    ):
        with pytest.raises(InvalidArguments):
            await complete(alice, ref, name, value)


async def test_prefix_matches_come_before_other_matches(alice: Any) -> None:
    await run_in_database(publish, alice)
    assert await complete(alice, LETTER, "to", "a") == (["Ada", "Alan", "Grace"], 3, False)
    assert await complete(alice, LETTER, "to", "GR") == (["Grace"], 1, False)
    assert await complete(alice, LETTER, "form", "") == (["short", "long"], 2, False)
    assert await complete(alice, TEMPLATE, "kind", "f") == (["film"], 1, False)
    assert await complete(alice, TEMPLATE, "number", "1") == (["1", "10", "21"], 3, False)
    assert await complete(alice, TEMPLATE, "other", "") == ([], 0, False)


async def test_a_function_suggests_with_the_earlier_arguments_and_at_most_a_hundred(alice: Any) -> None:
    await run_in_database(publish, alice)
    values, total, more = await complete(alice, LETTER, "tone", "", arguments={"to": "Ada"})
    assert values[0] == "Ada-0" and len(values) == 100 and total == 150 and more
    assert (await complete(alice, LETTER, "tone", "149"))[0] == ["nobody-149"]


async def test_a_function_that_fails_suggests_nothing_whatever_it_raises(alice: Any) -> None:
    await run_in_database(publish, alice)
    for typed in ("x", "interrupt", "group", "cancelled", "exit", "closed"):
        assert await complete(alice, LETTER, "place", typed) == ([], 0, False), typed


async def test_a_suggestion_that_is_cancelled_by_the_hub_is_cancelled(alice: Any) -> None:
    await run_in_database(publish, alice)
    asking = asyncio.ensure_future(complete(alice, LETTER, "place", "wait"))
    await wait_until_async(lambda: "waits" in prompts_and_resources.RAN)
    CLIENT_GONE.cancel(asking)
    with pytest.raises(asyncio.CancelledError):
        await asking
