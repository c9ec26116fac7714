"""Tools that ask their client: on the call's own stream in the handshake era, in several requests in the modern one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from tests import factories
from tests.polling import wait_until_async
from tests.server.conftest import Client, handshake, modern, refresh_catalogue, run_in_database, server, text, token
from toolhub.server import channels

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]

ALICE = {"action": "accept", "content": {"name": "Alice"}}


@pytest.fixture
async def tools(alice: User, publish: Any) -> User:
    await run_in_database(
        publish,
        alice,
        "server_ask_name",
        "server_ask_twice",
        "server_ask_everything",
        "server_open_page",
        "server_add",
    )
    await refresh_catalogue()
    return alice


async def start_asking(
    client: Client, name: str, **arguments: Any
) -> tuple[asyncio.Task[dict[str, Any]], Any, dict[str, Any]]:
    outlet = client.outlet()
    running = client.start("tools/call", {"name": name, "arguments": arguments}, outlet=outlet)
    await wait_until_async(lambda: any("id" in message for message in outlet.messages))
    return running, outlet, next(message for message in outlet.messages if "id" in message)


# --- handshake era ---------------------------------------------------------------------------------------------------


async def test_the_answer_of_another_session_or_user_is_ignored(tools: User, bob: User) -> None:
    client = await handshake(await token(tools))
    running, _, request = await start_asking(client, "server_ask_name")
    for stranger in (await handshake(await token(tools)), await handshake(await token(bob))):
        await stranger.reply(request["id"], result={"action": "accept", "content": {"name": "Mallory"}})
    await client.reply("not-an-id", result=ALICE)
    await client.reply(request["id"][:-1], result=ALICE)
    assert not running.done()
    await client.reply(request["id"], result=ALICE)
    assert text(await running) == "Hello, Alice!"
    assert server().channels.count_open() == 0


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_question_waits_for_the_answer_that_comes_by_another_message(tools: User, revision: str) -> None:
    client = await handshake(await token(tools), revision)
    running, _, request = await start_asking(client, "server_ask_name", greeting="Hi")
    assert request["method"] == "elicitation/create"
    assert request["params"]["requestedSchema"]["required"] == ["name"]
    await client.reply(request["id"], result=ALICE)
    assert text(await running) == "Hi, Alice!"


async def test_a_client_that_cannot_answer_is_never_asked(tools: User) -> None:
    incapable: list[tuple[str, Any]] = [
        ("2025-11-25", {}),
        ("2025-11-25", {"elicitation": {"url": {}}}),
        ("2025-03-26", None),
    ]
    for revision, capabilities in incapable:
        client = await handshake(await token(tools), revision, capabilities)
        outlet = client.outlet()
        message = await client.call("server_ask_name", {}, outlet=outlet)
        assert message["result"]["isError"] is True and "elicitation" in text(message)
        assert outlet.messages == []


async def test_a_client_that_takes_no_stream_is_never_asked(tools: User) -> None:
    client = await handshake(await token(tools))
    message = await client.call("server_ask_name", {}, outlet=client.outlet(streaming=False))
    assert message["result"]["isError"] is True and "text/event-stream" in text(message)


async def test_an_error_for_an_answer_reaches_the_tool_as_a_sentence(tools: User) -> None:
    client = await handshake(await token(tools))
    running, _, request = await start_asking(client, "server_ask_name")
    await client.reply(request["id"], error={"code": -1, "message": "The person has gone home"})
    message = await running
    assert message["result"]["isError"] is True and "gone home" in text(message)


async def test_declining_is_an_answer(tools: User) -> None:
    client = await handshake(await token(tools))
    running, _, request = await start_asking(client, "server_ask_name")
    await client.reply(request["id"], result={"action": "decline"})
    assert text(await running) == "declined"


async def test_all_three_kinds_are_asked_at_once(tools: User) -> None:
    client = await handshake(await token(tools))
    running, outlet, _ = await start_asking(client, "server_ask_everything")
    await wait_until_async(lambda: len(outlet.messages) == 3)
    answers = {
        "elicitation/create": ALICE,
        "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "deep"}, "model": "m"},
        "roots/list": {"roots": [{"uri": "file:///home"}]},
    }
    for request in reversed(outlet.messages):
        await client.reply(request["id"], result=answers[request["method"]])
    assert text(await running) == "Alice deep 1"


async def test_a_person_is_sent_to_an_address_with_an_id_for_its_completion(tools: User) -> None:
    client = await handshake(await token(tools))
    running, _, request = await start_asking(client, "server_open_page")
    assert request["params"]["mode"] == "url" and request["params"]["elicitationId"]
    await client.reply(request["id"], result={"action": "accept"})
    assert text(await running) == "accept"


async def test_a_cancelled_call_withdraws_its_question(tools: User) -> None:
    client = await handshake(await token(tools))
    outlet = client.outlet()
    running = client.start("tools/call", {"name": "server_ask_name"}, outlet=outlet, id=41)
    await outlet.first("elicitation/create")
    await client.tell("notifications/cancelled", {"requestId": 41})
    with pytest.raises(Exception, match="notifications/cancelled"):
        await running
    withdrawn = (await outlet.first("notifications/cancelled"))["params"]["requestId"]
    assert withdrawn == outlet.messages[0]["id"]


# --- modern era ------------------------------------------------------------------------------------------------------


async def test_a_call_asks_in_its_result_and_goes_on_with_the_answer(tools: User) -> None:
    client = modern(await token(tools))
    first = await client.call("server_ask_name", {"greeting": "Hi"})
    assert first["result"]["resultType"] == "input_required"
    assert first["result"]["inputRequests"]["user_name"]["method"] == "elicitation/create"
    state = first["result"]["requestState"]
    done = await client.call(
        "server_ask_name", {"greeting": "Hi"}, inputResponses={"user_name": ALICE}, requestState=state
    )
    assert text(done) == "Hi, Alice!"
    outcomes = await run_in_database(
        lambda: list(Call.objects.order_by("started_at", "id").values_list("outcome", flat=True))
    )
    assert outcomes == ["input_required", "ok"]


async def test_every_round_brings_back_the_answers_of_the_rounds_before(tools: User) -> None:
    client = modern(await token(tools))
    first = await client.call("server_ask_twice")
    second = await client.call(
        "server_ask_twice", requestState=first["result"]["requestState"], inputResponses={"first": ALICE}
    )
    assert list(second["result"]["inputRequests"]) == ["second"]
    assert second["result"]["requestState"] != first["result"]["requestState"]
    bob = {"action": "accept", "content": {"name": "Bob"}}
    third = await client.call(
        "server_ask_twice", requestState=second["result"]["requestState"], inputResponses={"second": bob, "first": bob}
    )
    assert text(third) == "Alice and Bob"


async def test_answers_that_nobody_asked_for_are_ignored_and_missing_ones_asked_again(tools: User) -> None:
    client = modern(await token(tools))
    again = await client.call("server_ask_name", inputResponses={"wrong_key": ALICE})
    assert again["result"]["resultType"] == "input_required"
    done = await client.call("server_ask_name", inputResponses={"user_name": ALICE, "x": {}, "y": 5})
    assert text(done) == "Hello, Alice!"
    assert text(await client.call("server_add", {"a": 1, "b": 1}, inputResponses={"user_name": ALICE})) in ("2", "2.0")


async def test_a_state_carries_only_answers_to_questions_and_so_many_characters(
    tools: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = modern(await token(tools))
    again = await client.call("server_ask_name", inputResponses={"invented": {"x": "a" * 100_000}})
    states = [again["result"]["requestState"], (await client.call("server_ask_name"))["result"]["requestState"]]
    answers = [channels.unseal(state, tools.pk, "tools/call", "server_ask_name", {}) for state in states]
    assert answers == [{}, {}]
    monkeypatch.setattr(channels, "MAX_ANSWERS_CHARACTERS", 1000)
    long = {"action": "accept", "content": {"name": "A" * 2000}}
    refused = await client.call("server_ask_twice", inputResponses={"first": long})
    assert refused["error"]["code"] == -32602 and "1,000 characters" in refused["error"]["message"]


async def test_an_answer_that_does_not_fit_is_refused(tools: User) -> None:
    client = modern(await token(tools))
    unfit: list[Any] = [{"user_name": 12345}, {"user_name": {"action": "accept", "content": {}}}, [], None]
    for responses in unfit:
        assert (await client.call("server_ask_name", inputResponses=responses))["error"]["code"] == -32602


async def test_a_state_is_good_only_untouched_for_the_same_user_tool_and_arguments(
    tools: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_in_database(factories.grant, bob, *(await run_in_database(_tools)))
    await refresh_catalogue()
    client, other = modern(await token(tools)), modern(await token(bob))
    state = (await client.call("server_ask_name", {"greeting": "Hi"}))["result"]["requestState"]
    answered: dict[str, Any] = {"inputResponses": {"user_name": ALICE}}
    refused = [
        await client.call("server_ask_name", {"greeting": "Hi"}, requestState=state + "-TAMPERED", **answered),
        await client.call("server_ask_name", {"greeting": "Hi"}, requestState=5, **answered),
        await client.call("server_ask_name", {"greeting": "Ho"}, requestState=state, **answered),
        await client.call("server_ask_twice", {"greeting": "Hi"}, requestState=state, **answered),
        await other.call("server_ask_name", {"greeting": "Hi"}, requestState=state, **answered),
    ]
    monkeypatch.setattr(channels, "STATE_TTL_SECONDS", -1)
    refused.append(await client.call("server_ask_name", {"greeting": "Hi"}, requestState=state, **answered))
    assert {message["error"]["code"] for message in refused} == {-32602}
    assert len({message["error"]["message"] for message in refused}) == 1
    monkeypatch.undo()
    assert (
        text(await client.call("server_ask_name", {"greeting": "Hi"}, requestState=state, **answered)) == "Hi, Alice!"
    )


def _tools() -> list[Any]:
    from catalog.models import Tool

    return list(Tool.objects.all())


async def test_a_modern_client_that_cannot_answer_is_never_asked(tools: User) -> None:
    incapable: list[dict[str, Any]] = [{}, {"sampling": {}}, {"elicitation": {"url": {}}}]
    for capabilities in incapable:
        outlet = modern(await token(tools), capabilities).outlet()
        error = await modern(await token(tools), capabilities).error(
            "tools/call", {"name": "server_ask_name"}, outlet=outlet
        )
        assert error["code"] == -32021 and "elicitation" in error["data"]["requiredCapabilities"]
        assert outlet.messages == []


async def test_all_three_kinds_are_asked_in_one_result(tools: User) -> None:
    client = modern(await token(tools))
    first = (await client.call("server_ask_everything"))["result"]
    assert {one["method"] for one in first["inputRequests"].values()} == {
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    }
    page = (await client.call("server_open_page"))["result"]["inputRequests"]
    assert [one["params"]["mode"] for one in page.values()] == ["url"]


async def test_a_prompt_may_ask_and_a_list_never_does(alice: User, published_functions: None) -> None:
    prompt = await run_in_database(factories.make_prompt, "server_ask_prompt", function="server_ask_prompt")
    await run_in_database(factories.grant, alice, prompt)
    await refresh_catalogue()
    client = modern(await token(alice))
    first = await client.result("prompts/get", {"name": "server_ask_prompt"})
    assert first["resultType"] == "input_required"
    done = await client.result(
        "prompts/get",
        {
            "name": "server_ask_prompt",
            "requestState": first["requestState"],
            "inputResponses": {"user_context": ALICE},
        },
    )
    assert done["messages"][0]["content"]["text"] == "About Alice"
