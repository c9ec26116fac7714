"""The fixtures of the conformance suite, asked by clients of both eras whose messages are judged by the official types.

The suite itself runs against a real server elsewhere; this tells quickly whether a fixture or the server is at fault.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import fixtures
from tests.polling import wait_until_async
from tests.server.conftest import TASKS, handshake, hub, modern, refresh_catalogue, run_in_database, text  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)

ACCEPT = {"action": "accept", "content": {"name": "Alice"}}
PLAIN = (
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_progress",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_x_mcp_header",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
)
ANSWERS: dict[str, dict[str, Any]] = {
    "test_input_required_result_elicitation": {"user_name": ACCEPT},
    "test_input_required_result_sampling": {
        "capital_question": {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
    },
    "test_input_required_result_list_roots": {"client_roots": {"roots": [{"uri": "file:///w"}]}},
    "test_input_required_result_request_state": {"confirm": {"action": "accept", "content": {"ok": True}}},
}


@pytest.fixture
async def alice_published(alice: Any, settings: Any, hub: None) -> Any:  # noqa: F811
    from tests import factories

    settings.TOOL_MODULES = [*settings.TOOL_MODULES, fixtures.__name__]
    await run_in_database(fixtures.load, "alice")
    await refresh_catalogue()
    return factories.credential(alice)


async def test_every_plain_fixture_answers_at_handshake_and_modern_revisions(alice_published: Any) -> None:
    for client in (modern(alice_published), await handshake(alice_published)):
        listed = await client.result("tools/list")
        assert listed["tools"][0]["name"] == "test_simple_text" and len(listed["tools"]) >= 35
        assert all(tool["description"] for tool in listed["tools"])
        for name in PLAIN:
            result = (await client.call(name))["result"]
            assert not result.get("isError") and result["content"], name
        failed = (await client.call("test_error_handling"))["result"]
        assert failed["isError"] and failed["content"][0]["text"] == (
            "This tool intentionally returns an error for testing"
        )
        assert text(await client.call("greet", {"name": "Bob"})) == "Hello, Bob!"
        for uri in ("test://static-text", "test://static-binary", "test://template/123/data"):
            assert (await client.result("resources/read", {"uri": uri}))["contents"][0]["uri"] == uri
        for name, arguments in (
            ("test_simple_prompt", {}),
            ("test_prompt_with_arguments", {"arg1": "testValue1", "arg2": "testValue2"}),
            ("test_prompt_with_embedded_resource", {"resourceUri": "test://example-resource"}),
            ("test_prompt_with_image", {}),
        ):
            assert (await client.result("prompts/get", {"name": name, "arguments": arguments}))["messages"]


async def test_the_schema_of_json_schema_2020_12_survives_the_catalogue(alice_published: Any) -> None:
    listed = await modern(alice_published).result("tools/list")
    schemas = {tool["name"]: tool["inputSchema"] for tool in listed["tools"]}
    assert schemas["json_schema_2020_12_tool"] == fixtures.SCHEMA_2020_12
    assert schemas["test_x_mcp_header"] == fixtures.HEADER_SCHEMA


async def test_a_fixture_that_asks_pauses_and_goes_on_with_the_answers(alice_published: Any) -> None:
    client = modern(alice_published)
    for name, answers in ANSWERS.items():
        first = (await client.call(name))["result"]
        assert first["resultType"] == "input_required" and set(first["inputRequests"]) == set(answers), name
        last = await client.call(name, inputResponses=answers, requestState=first["requestState"])
        assert last["result"]["content"] and not last["result"].get("isError"), name
    spoiled = await client.call(
        "test_input_required_result_tampered_state",
        inputResponses={"confirm": {"action": "accept", "content": {"ok": True}}},
        requestState="x-TAMPERED",
    )
    assert "error" in spoiled
    limited = modern(alice_published, {"sampling": {}})
    offered = (await limited.call("test_input_required_result_capabilities"))["result"]["inputRequests"]
    assert [request["method"] for request in offered.values()] == ["sampling/createMessage"]
    wrong = await client.call("test_input_required_result_elicitation", inputResponses={"user_name": 12345})
    assert "error" in wrong
    early = await client.call(
        "test_input_required_result_elicitation", inputResponses={"user_name": ACCEPT, "extra": {"a": 1}}
    )
    assert text(early) == "Hello, Alice!"


async def test_the_fixtures_of_tasks_run_as_tasks(alice_published: Any) -> None:
    client = modern(alice_published, {**TASKS, "elicitation": {}})

    async def ended(created: dict[str, Any]) -> dict[str, Any]:
        async def state() -> Any:
            found = await client.result("tasks/get", {"taskId": created["result"]["taskId"]})
            return found if found["status"] not in ("working", "input_required") else None

        found: dict[str, Any] = await wait_until_async(state)
        return found

    computed = await ended(await client.call("slow_compute", {"seconds": 0, "label": "x"}))
    assert computed["status"] == "completed" and computed["result"]["content"]
    failed = await ended(await client.call("failing_job"))
    assert failed["status"] == "completed" and failed["result"]["isError"]
    refused = await ended(await client.call("protocol_error_job"))
    assert refused["status"] == "failed" and refused["error"]["code"] == -32603 and "result" not in refused
    first = await client.call("test_tool_with_task")
    assert first["result"]["resultType"] == "input_required" and "taskId" not in first["result"]
    state = first["result"]["requestState"]
    greeted = await ended(
        await client.call("test_tool_with_task", inputResponses={"user_name": ACCEPT}, requestState=state)
    )
    assert "Alice" in greeted["result"]["content"][0]["text"]
