"""Who hears that something changed, who does not, and what is closed when access is taken away."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from catalog.errors import ACCESS_REVOKED, SERVER_STOPPING
from catalog.functions import registry, resource_updated
from tests import factories
from tests.polling import wait_until_async
from tests.server import functions
from tests.server.conftest import Client, Outlet, handshake, modern, refresh_catalogue, run_in_database, server, token
from toolhub.access.models import AccessToken
from toolhub.server import dispatch, sessions, subscribers
from toolhub.server.request_rates import TooManyRequests

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]


class Stream:
    """A standalone stream of one client."""

    def __init__(self, client: Client, kinds: frozenset[str] = subscribers.KINDS) -> None:
        self.outlet = client.outlet()
        self.closed: list[str] = []
        self.listener = server().subscribers.attach(client.peer, self.outlet.notify, self.closed.append, kinds=kinds)

    def list_methods(self) -> list[str]:
        return [str(message["method"]).removeprefix("notifications/") for message in self.outlet.messages]


async def listen(client: Client, **wanted: Any) -> tuple[asyncio.Task[dict[str, Any]], Outlet]:
    outlet = client.outlet()
    running = client.start("subscriptions/listen", {"notifications": wanted}, outlet=outlet)
    await outlet.first("notifications/subscriptions/acknowledged")
    return running, outlet


async def test_only_those_whose_list_changed_hear_of_it(alice: User, bob: User, charlie: User) -> None:
    streams = {user.username: Stream(await handshake(await token(user))) for user in (alice, bob, charlie)}
    tool = await run_in_database(factories.make_tool)
    await run_in_database(factories.grant, alice, tool)
    await refresh_catalogue()
    await wait_until_async(lambda: streams["alice"].list_methods() == ["tools/list_changed"])
    group = await run_in_database(factories.make_group, "readers", [bob])
    await run_in_database(factories.grant, group, await run_in_database(factories.make_prompt))
    await refresh_catalogue()
    await wait_until_async(lambda: streams["bob"].list_methods() == ["prompts/list_changed"])
    await run_in_database(factories.grant, alice, await run_in_database(factories.make_resource))
    await refresh_catalogue()
    await wait_until_async(lambda: streams["alice"].list_methods() == ["tools/list_changed", "resources/list_changed"])
    await run_in_database(factories.deny, None, tool)
    await refresh_catalogue()
    await wait_until_async(lambda: streams["alice"].list_methods()[2:] == ["tools/list_changed"])
    assert streams["bob"].list_methods() == ["prompts/list_changed"]
    assert streams["charlie"].list_methods() == []


async def test_the_end_of_a_grant_is_announced_at_that_time_without_any_change(alice: User) -> None:
    stream = Stream(await handshake(await token(alice)))
    given = await run_in_database(factories.grant, alice, await run_in_database(factories.make_tool))
    await refresh_catalogue()
    await wait_until_async(lambda: len(stream.list_methods()) == 1)
    # Only now: a machine that stands still for a moment must not let it end before it was ever seen.
    ends = time.time() + 1.5
    given.ends = datetime.fromtimestamp(ends, UTC)
    await run_in_database(given.save)
    await refresh_catalogue()
    await wait_until_async(lambda: len(stream.list_methods()) == 2)
    assert time.time() >= ends
    client = modern(await token(alice))
    assert (await client.result("tools/list"))["tools"] == []


async def test_a_subscription_hears_what_it_asked_for_and_every_message_carries_its_id(alice: User) -> None:
    client = modern(await token(alice))
    running, outlet = await listen(client, toolsListChanged=True)
    others, prompts = await listen(client, promptsListChanged=True, resourcesListChanged=False)
    acknowledged = outlet.messages[0]["params"]
    assert acknowledged["notifications"] == {"toolsListChanged": True}
    await run_in_database(factories.grant, alice, await run_in_database(factories.make_tool))
    await refresh_catalogue()
    await outlet.first("notifications/tools/list_changed")
    await run_in_database(factories.grant, alice, await run_in_database(factories.make_prompt))
    await refresh_catalogue()
    await prompts.first("notifications/prompts/list_changed")
    assert len(outlet.messages) == len(prompts.messages) == 2
    ids = {message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for message in outlet.messages}
    assert len(ids) == 1 and acknowledged["_meta"]["io.modelcontextprotocol/subscriptionId"] in ids
    for task in (running, others):
        task.cancel()
    await asyncio.wait([running, others])
    assert server().subscribers.count() == 0


async def test_a_subscription_that_is_malformed_is_refused(alice: User) -> None:
    client = modern(await token(alice))
    malformed: list[Any] = [[], {"toolsListChanged": 1}, {"resourceSubscriptions": "x"}, {"taskIds": [1]}]
    for params in ({}, *[{"notifications": one} for one in malformed]):
        assert (await client.error("subscriptions/listen", params))["code"] == -32602


async def test_a_subscription_needs_a_stream_and_watching_tasks_needs_the_extension(alice: User) -> None:
    client = modern(await token(alice))
    error = await client.error("subscriptions/listen", {"notifications": {}}, outlet=client.outlet(streaming=False))
    assert error["code"] == -32600
    error = await client.error("subscriptions/listen", {"notifications": {"taskIds": ["x"]}})
    assert error["code"] == -32021


async def test_a_subscription_on_a_connection_is_cancelled_like_any_request(alice: User) -> None:
    client = modern(await token(alice), connection="ws-1")
    outlet = client.outlet()
    running = client.start("subscriptions/listen", {"notifications": {}}, outlet=outlet, id="listen-1")
    await outlet.first("notifications/subscriptions/acknowledged")
    await modern(await token(alice), connection="ws-2").tell("notifications/cancelled", {"requestId": "listen-1"})
    await client.tell("notifications/cancelled", {"requestId": "listen-1"})
    with pytest.raises(dispatch.RequestCancelled):
        await running


async def test_nobody_hears_of_a_resource_that_they_may_no_longer_read(alice: User) -> None:
    def make() -> Any:
        factories.grant(alice, factories.make_resource("docs://kept"))
        return factories.grant(alice, factories.make_resource("docs://lost"))

    grant = await run_in_database(make)
    await refresh_catalogue()
    session = await handshake(await token(alice))
    for uri in ("docs://lost", "docs://kept"):
        await session.result("resources/subscribe", {"uri": uri})
    stream = Stream(session)
    running, outlet = await listen(modern(await token(alice)), resourceSubscriptions=["docs://lost", "docs://kept"])

    def heard() -> list[str]:
        method = "notifications/resources/updated"
        return [one["params"]["uri"] for one in outlet.messages if one.get("method") == method]

    server().subscribers.publish_update("docs://lost")
    await wait_until_async(lambda: heard() == ["docs://lost"])
    await wait_until_async(lambda: stream.list_methods().count("resources/updated") == 1)
    await run_in_database(grant.delete)
    await refresh_catalogue()
    before, told = len(heard()), stream.list_methods().count("resources/updated")
    # Messages keep their order: once the second is heard, the first would have been.
    for uri in ("docs://lost", "docs://kept"):
        server().subscribers.publish_update(uri)
    await wait_until_async(lambda: "docs://kept" in heard())
    await wait_until_async(lambda: stream.list_methods().count("resources/updated") > told)
    assert heard()[before:] == ["docs://kept"]
    assert stream.list_methods().count("resources/updated") == told + 1
    running.cancel()
    await asyncio.wait([running])


async def test_a_changed_resource_is_announced_to_its_subscribers(alice: User, bob: User) -> None:
    def make() -> Any:
        first, second = factories.make_resource("docs://one"), factories.make_resource("docs://two")
        factories.grant(alice, first, second)
        factories.grant(bob, second)
        return first

    first = await run_in_database(make)
    await refresh_catalogue()
    session = await handshake(await token(alice))
    await session.result("resources/subscribe", {"uri": "docs://one"})
    stream, idle = Stream(session), Stream(await handshake(await token(alice)))
    running, outlet = await listen(modern(await token(alice)), resourceSubscriptions=["docs://one", "docs://x"])
    assert outlet.messages[0]["params"]["notifications"] == {"resourceSubscriptions": ["docs://one"]}
    bobs, bobs_outlet = await listen(modern(await token(bob)), resourceSubscriptions=["docs://one"])
    assert bobs_outlet.messages[0]["params"]["notifications"] == {}

    first.text = "Something else."
    await run_in_database(first.save)
    await refresh_catalogue()
    await outlet.first("notifications/resources/updated")
    await wait_until_async(lambda: "resources/updated" in stream.list_methods())
    server().subscribers.publish_update("docs://one")
    await outlet.first("notifications/resources/updated", 2)
    await wait_until_async(lambda: stream.list_methods().count("resources/updated") == 2)
    await session.result("resources/unsubscribe", {"uri": "docs://one"})
    server().subscribers.publish_update("docs://one")
    await outlet.first("notifications/resources/updated", 3)
    assert stream.list_methods().count("resources/updated") == 2
    assert "resources/updated" not in idle.list_methods()
    assert len(bobs_outlet.messages) == 1
    for task in (running, bobs):
        task.cancel()
    await asyncio.wait([running, bobs])


async def test_of_several_streams_of_a_session_one_hears_each_message(alice: User) -> None:
    client = await handshake(await token(alice))
    first, second = Stream(client), Stream(client)
    await run_in_database(factories.grant, alice, await run_in_database(factories.make_tool))
    await refresh_catalogue()
    await wait_until_async(lambda: first.list_methods() + second.list_methods() == ["tools/list_changed"])


async def test_revoking_a_token_closes_its_streams_and_ends_its_calls(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_wait")
    await refresh_catalogue()
    lost, kept = await token(alice), await token(alice)
    client, other = modern(lost), modern(kept)
    running, outlet = await listen(client, toolsListChanged=True)
    stream, untouched = Stream(await handshake(lost)), Stream(await handshake(kept))
    functions.STARTED["revoked"] = asyncio.Event()
    call = client.start("tools/call", {"name": "server_wait", "arguments": {"label": "revoked"}})
    await functions.STARTED["revoked"].wait()

    await run_in_database(_revoke, lost.id)
    await wait_until_async(lambda: stream.closed == [ACCESS_REVOKED])
    assert (await running)["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
    assert outlet.of("notifications/cancelled")
    assert ACCESS_REVOKED in (await call)["error"]["message"]
    assert functions.ENDED["revoked"] == ACCESS_REVOKED
    assert untouched.closed == []
    assert (await other.result("tools/list"))["tools"]


async def test_disabling_a_user_closes_streams_even_without_an_announcement(alice: User) -> None:
    stream = Stream(await handshake(await token(alice)))
    await run_in_database(lambda: User.objects.filter(pk=alice.pk).update(is_active=False))
    await wait_until_async(lambda: stream.closed == [ACCESS_REVOKED])


async def test_closing_a_session_closes_its_streams_and_cancels_its_calls(alice: User, publish: Any) -> None:
    await run_in_database(publish, alice, "server_wait")
    await refresh_catalogue()
    client = await handshake(await token(alice))
    stream, other = Stream(client), Stream(await handshake(await token(alice)))
    functions.STARTED["closed"] = asyncio.Event()
    call = client.start("tools/call", {"name": "server_wait", "arguments": {"label": "closed"}})
    await functions.STARTED["closed"].wait()
    await server().sessions.close(client.session.id, client.peer.credential)
    with pytest.raises(dispatch.RequestCancelled):
        await call
    assert stream.closed and not other.closed
    with pytest.raises(sessions.UnknownSession):
        await server().sessions.require(client.session.id, client.peer.credential)


async def test_one_user_cannot_hold_every_stream(alice: User, bob: User, settings: Any) -> None:
    settings.MAX_STREAMS_PER_USER = 2
    client = modern(await token(alice))
    streams = [Stream(client, frozenset()), Stream(client, frozenset())]
    with pytest.raises(TooManyRequests) as refused:
        Stream(client)
    assert (refused.value.bound, refused.value.retry_after) == ("streams", 30)
    error = await client.error("subscriptions/listen", {"notifications": {}})
    assert error["code"] == -32603 and "2 open streams and WebSockets, the maximum" in error["message"]
    assert server().refusals.counts["streams"] == 1
    Stream(modern(await token(bob)))
    streams[0].listener.detach()
    streams[0].listener.detach()
    Stream(client)


async def test_a_stop_ends_subscriptions_in_order(alice: User) -> None:
    running, outlet = await listen(modern(await token(alice)), toolsListChanged=True)
    stream = Stream(await handshake(await token(alice)))
    server().subscribers.close_all()
    assert (await running)["result"]["resultType"] == "complete"
    assert not outlet.of("notifications/cancelled")
    assert stream.closed == [SERVER_STOPPING]
    assert server().requests.count_running() == 0


def _revoke(credential_id: str) -> None:
    AccessToken.objects.get(pk=int(credential_id.partition(":")[2])).revoke()


async def test_subscribers_hear_that_a_function_changed_a_resource(alice: User, bob: User, settings: Any) -> None:
    def files() -> None:
        item = factories.make_resource(**{**registry.resource_row("workspace_file"), "name": "files"})
        factories.grant(alice, factories.make_tool(**registry.tool_row("add_log")), item)
        factories.grant(bob, item)

    await run_in_database(files)
    await refresh_catalogue()
    session = await handshake(await token(bob))
    await session.result("resources/subscribe", {"uri": "workspace://log.txt"})
    stream = Stream(session)
    running, outlet = await listen(modern(await token(alice)), resourceSubscriptions=["workspace://log.txt"])

    def has_heard(count: int) -> bool:
        return stream.list_methods().count("resources/updated") == count

    for count in (1, 2):
        await modern(await token(alice)).call("add_log", {"message": f"line {count}"})
        await outlet.first("notifications/resources/updated", count)
        await wait_until_async(partial(has_heard, count))
    running.cancel()
    await asyncio.wait([running])


async def test_many_announcements_at_once_are_told_once_for_each_resource(alice: User) -> None:
    def make() -> None:
        factories.grant(alice, factories.make_resource("docs://one"), factories.make_resource("docs://two"))

    await run_in_database(make)
    await refresh_catalogue()
    running, outlet = await listen(modern(await token(alice)), resourceSubscriptions=["docs://one", "docs://two"])

    def announce_often() -> None:
        for _ in range(10_000):
            resource_updated("docs://one")

    def list_updates() -> list[str]:
        method = "notifications/resources/updated"
        return [one["params"]["uri"] for one in outlet.messages if one.get("method") == method]

    await asyncio.to_thread(announce_often)
    resource_updated("docs://two")
    await wait_until_async(lambda: "docs://two" in list_updates())
    assert 1 <= list_updates().count("docs://one") <= 50
    running.cancel()
    await asyncio.wait([running])
