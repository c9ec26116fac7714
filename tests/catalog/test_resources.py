"""The call pipeline for resources."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from audit import outcomes
from catalog.calls import call_tool, execution, upstream_items
from catalog.errors import CLIENT_GONE, ProtocolError, UnknownResource
from catalog.functions import registry
from tests import factories
from tests.catalog import prompts_and_resources
from tests.catalog.pipeline import RecordingChannel, caller, logged_calls, only_logged_call, run_in_database
from tests.polling import wait_until_async

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    prompts_and_resources.RAN.clear()


def text(user: Any, uri: str = "docs://handbook", **fields: Any) -> None:
    factories.grant(user, factories.make_resource(uri, **fields))


def publish_functions(user: Any, *names: str) -> None:
    for name in names:
        factories.grant(user, factories.make_resource(**{"uri": "", **registry.resource_row(name)}))


async def read(user: Any, uri: str) -> Any:
    return await call_tool.read_resource(caller(user), uri, RecordingChannel())


async def test_another_users_resource_and_an_unknown_one_are_answered_alike_and_logged_apart(
    alice: Any, bob: Any
) -> None:
    await run_in_database(text, alice)
    await run_in_database(publish_functions, alice, "sample_template")
    for uri in ("docs://handbook", "sample://book/1", "docs://nothing", "toolhub://results/x", "x" * 5000):
        with pytest.raises(UnknownResource) as refused:
            await read(bob, uri)
        assert refused.value.uri == uri
    rows = await logged_calls()
    assert [row.outcome for row in rows] == [outcomes.REFUSED] * 2 + [outcomes.UNKNOWN_TOOL] * 3
    assert all(row.method == "resources/read" for row in rows) and prompts_and_resources.RAN == []


@pytest.mark.parametrize(
    "uri", ["sample://book/", "sample://book", "sample:///1", "sample://book/1/2", "sample://b%0aok/1"]
)
async def test_an_address_that_does_not_fit_the_template_is_unknown(alice: Any, uri: str) -> None:
    await run_in_database(publish_functions, alice, "sample_template")
    with pytest.raises(UnknownResource):
        await read(alice, uri)


@pytest.mark.parametrize(
    ("kind", "says"), [("nothing", "This address has no content"), ("broken", "failed unexpectedly")]
)
async def test_a_function_that_fails_is_an_error_without_internals(alice: Any, kind: str, says: str) -> None:
    await run_in_database(publish_functions, alice, "sample_template")
    with pytest.raises(ProtocolError, match=says) as failed:
        await read(alice, f"sample://{kind}/1")
    row = await only_logged_call()
    assert row.outcome == outcomes.TOOL_ERROR and "hunter2" not in failed.value.message + row.detail


async def test_a_function_that_takes_too_long_is_stopped(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await run_in_database(publish_functions, alice, "sample_template")
    monkeypatch.setattr(upstream_items, "MAX_FUNCTION_SECONDS", 0.2)
    assert execution.MAX_FUNCTION_SECONDS == 30.0
    with pytest.raises(ProtocolError, match=r"within 0\.2 s"):
        await read(alice, "sample://slow/1")
    assert (await only_logged_call()).outcome == outcomes.TIMEOUT


async def test_a_cancelled_read_is_logged(alice: Any) -> None:
    await run_in_database(publish_functions, alice, "sample_template")
    running = asyncio.ensure_future(read(alice, "sample://slow/1"))
    await wait_until_async(lambda: "slow 1" in prompts_and_resources.RAN)
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running
    row = await only_logged_call()
    assert (row.outcome, row.detail) == (outcomes.CANCELLED, CLIENT_GONE)


async def test_texts_and_binaries_are_read_as_they_are_stored(alice: Any) -> None:
    await run_in_database(text, alice)
    await run_in_database(text, alice, "docs://logo", blob="AAE=", mime_type="image/png")
    await run_in_database(text, alice, "docs://empty", text="", mime_type="")
    found = await read(alice, "docs://handbook")
    assert found.contents == [{"uri": "docs://handbook", "mimeType": "text/plain", "text": "Be kind, write tests."}]
    assert (await read(alice, "docs://logo")).contents == [
        {"uri": "docs://logo", "mimeType": "image/png", "blob": "AAE="}
    ]
    assert (await read(alice, "docs://empty")).contents == [{"uri": "docs://empty", "text": ""}]
    rows = await logged_calls()
    assert [row.outcome for row in rows] == [outcomes.OK] * 3 and rows[0].id == found.call_id
    assert json.loads(rows[0].result)["contents"] == found.contents and rows[0].rule.startswith("Grant ")


async def test_a_template_answers_every_address_of_its_form(alice: Any) -> None:
    await run_in_database(publish_functions, alice, "sample_template", "sample_clock")
    expected: dict[str, Any] = {
        "sample://book/1": [{"mimeType": "text/plain", "text": "book number 1"}],
        "sample://book/a%20b": [{"mimeType": "text/plain", "text": "book number a b"}],
        "sample://bytes/1": [{"mimeType": "text/plain", "blob": "AAE="}],
        "sample://json/7": [{"mimeType": "text/plain", "text": '{"number":"7"}'}],
        "sample-clock://now": [{"mimeType": "text/markdown", "text": "# now"}],
    }
    for uri, contents in expected.items():
        found = await read(alice, uri)
        assert found.contents == [{"uri": uri, **content} for content in contents]
    several = await read(alice, "sample://several/1")
    assert [content["uri"] for content in several.contents] == ["sample://part/0", "sample://part/1"]
    rows = await logged_calls(name="sample://book/a%20b")
    assert json.loads(rows[0].arguments) == {"kind": "book", "number": "a b"}
