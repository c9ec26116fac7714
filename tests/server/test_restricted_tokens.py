"""A token restricted to toolsets: whatever another token of the same user left behind reads like nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from audit.types import Credential
from catalog.calls import stored_results
from catalog.calls import tasks as store
from catalog.models import StoredResult, Task, Toolset
from tests import factories
from tests.polling import wait_until_async
from tests.server.conftest import (
    ASKABLE,
    TASKS,
    Client,
    handshake,
    modern,
    refresh_catalogue,
    run_in_database,
    server,
)
from tests.server.functions import ENDED, STARTED
from toolhub.access.models import AccessToken
from toolhub.oauth.models import ConnectedApp
from toolhub.server import sessions
from toolhub.server.dispatch import METHODS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]

OPTED: dict[str, Any] = {**ASKABLE, **TASKS}
NAME = {"action": "accept", "content": {"name": "Ada"}}
MODERN, STATEFUL = "2026-07-28", "2025-11-25"
LISTS = {
    "tools/list": ("tools", ["server_add"]),
    "resources/list": ("resources", ["docs://open"]),
    "resources/templates/list": ("resourceTemplates", []),
    "prompts/list": ("prompts", []),
}
PERSONAL = {"initialize", "ping", "server/discover", "logging/setLevel"}
"""Methods that say nothing of the catalogue."""


Restrict = Callable[[User, Iterable[Toolset]], Awaitable[Credential]]


@pytest.fixture(params=["token", "app"])
def restricted(request: pytest.FixtureRequest) -> Restrict:
    """Makes a credential that sees some toolsets only: a personal token, and a connected app."""

    def issue(user: User, chosen: list[Toolset]) -> Credential:
        if request.param == "token":
            row: Any = AccessToken.objects.issue(user, "restricted", toolsets=chosen)[0]
        else:
            row = factories.connect_app(user, toolsets=chosen)[0]
        found: Credential = factories.credential(
            user, id=row.credential_id, toolset_ids=frozenset(one.pk for one in chosen)
        )
        return found

    async def restrict(user: User, toolsets: Iterable[Toolset]) -> Credential:
        made: Credential = await sync_to_async(issue)(user, list(toolsets))
        return made

    return restrict


def find_row(credential: Credential) -> Any:
    """The personal token or the connected app that this credential is."""
    kind, _, number = credential.id.partition(":")
    return {"token": AccessToken, "app": ConnectedApp}[kind]._default_manager.get(pk=int(number))


@pytest.fixture
async def whole(alice: User, publish: Any) -> Credential:
    """A token of alice without a restriction. Everything but `server_add` and docs://open is in the toolset Closed."""

    def fill() -> Credential:
        closed, opened = factories.make_toolset("Closed"), factories.make_toolset("Open")
        publish(alice, "server_confirm", "server_large", toolset=closed, max_result_bytes=2000)
        publish(alice, "server_add", toolset=opened)
        items: list[Any] = [
            factories.make_resource("docs://closed", toolset=closed),
            factories.make_resource(
                uri_template="test://item/{number}", name="item", function="server_item", toolset=closed
            ),
            factories.make_resource("docs://open", toolset=opened),
            factories.make_prompt("server_letter", function="server_letter", toolset=closed),
        ]
        factories.grant(alice, *items)
        row, _ = AccessToken.objects.issue(alice, "whole")
        return factories.credential(alice, id=row.credential_id)

    found: Credential = await run_in_database(fill)
    await refresh_catalogue()
    return found


async def open_toolset() -> Toolset:
    found: Toolset = await sync_to_async(Toolset.objects.get)(name="Open")
    return found


async def waiting_task(client: Client) -> str:
    task_id: str = (await client.call("server_confirm", {"filename": "a.txt"}))["result"]["taskId"]

    async def waits() -> bool:
        return bool((await client.result("tasks/get", {"taskId": task_id}))["status"] == "input_required")

    await wait_until_async(waits)
    return task_id


async def stored_result(client: Client) -> str:
    content = (await client.call("server_large", {"word": "hidden"}))["result"]["content"]
    uri: str = next(block["uri"] for block in content if block["type"] == "resource_link")
    return uri


def targets(task_id: str, uri: str) -> dict[str, list[dict[str, Any]]]:
    """For each method that names something: parameters that name what another toolset has."""
    answers = {"confirm": NAME}
    return {
        "tools/call": [
            {"name": "server_confirm", "arguments": {"filename": "a"}},
            {"name": "server_large", "arguments": {"word": "x"}},
        ],
        "prompts/get": [{"name": "server_letter", "arguments": {"to": "x"}}],
        "resources/read": [{"uri": uri}, {"uri": "docs://closed"}, {"uri": "test://item/1"}],
        "resources/subscribe": [{"uri": uri}, {"uri": "docs://closed"}, {"uri": "test://item/1"}],
        "resources/unsubscribe": [{"uri": uri}, {"uri": "docs://closed"}],
        "completion/complete": [
            {"ref": {"type": "ref/prompt", "name": "server_letter"}, "argument": {"name": "tone", "value": "k"}},
            {
                "ref": {"type": "ref/resource", "uri": "test://item/{number}"},
                "argument": {"name": "number", "value": "1"},
            },
        ],
        "tasks/get": [{"taskId": task_id}],
        "tasks/cancel": [{"taskId": task_id}],
        "tasks/update": [{"taskId": task_id, "inputResponses": answers}],
        "tasks/result": [{"taskId": task_id}],
        "tasks/list": [{}],
        "subscriptions/listen": [
            {"notifications": {"taskIds": [task_id]}},
            {"notifications": {"resourceSubscriptions": [uri, "docs://closed", "test://item/1"]}},
        ],
    }


def absent(params: dict[str, Any], task_id: str, uri: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The same parameters with names that nobody has, and the pairs (name, replacement)."""
    pairs = [
        (task_id, str(uuid4())),
        (uri, f"{stored_results.URI_PREFIX}{uuid4()}"),
        ("docs://closed", "docs://absent"),
        ("test://item/", "test://none/"),
        ("server_confirm", "server_absence"),
        ("server_large", "server_never"),
        ("server_letter", "server_absent"),
    ]
    text = json.dumps(params)
    for name, other in pairs:
        text = text.replace(name, other)
    found: dict[str, Any] = json.loads(text)
    return found, pairs


async def answer_of(client: Client, method: str, params: dict[str, Any]) -> str:
    """The whole answer as text; of a subscription, its acknowledgement."""
    if method == "subscriptions/listen":
        outlet = client.outlet()
        running = client.start(method, params, outlet=outlet)
        acknowledged = await outlet.first("notifications/subscriptions/acknowledged")
        running.cancel()
        await asyncio.wait([running])
        return json.dumps(acknowledged["params"]["notifications"])
    message = await client.send(method, params, id="same")
    return json.dumps(message, sort_keys=True)


@pytest.mark.parametrize("revision", [MODERN, STATEFUL])
async def test_over_every_method_another_toolsets_things_read_like_nothing(
    whole: Credential, alice: User, restricted: Restrict, revision: str
) -> None:
    owner = modern(whole, OPTED)
    task_id, uri = await waiting_task(owner), await stored_result(owner)
    narrow = await restricted(alice, [await open_toolset()])
    client = modern(narrow, OPTED) if revision == MODERN else await handshake(narrow)
    named = targets(task_id, uri)
    for method in METHODS[revision]:
        if method in PERSONAL:
            continue
        if method in LISTS:
            member, expected = LISTS[method]
            found = (await client.result(method, {}))[member]
            assert [one.get("uri", one.get("name")) for one in found] == expected, method
            continue
        for params in named[method]:  # a new method needs a row in `targets`
            nothing, pairs = absent(params, task_id, uri)
            same = await answer_of(client, method, nothing)
            for name, other in pairs:
                same = same.replace(other, name)
            assert await answer_of(client, method, params) == same, (method, params)
    for method in ("tasks/result", "tasks/list"):
        assert (await client.error(method, {"taskId": task_id}))["code"] == -32601
    state = await owner.result("tasks/get", {"taskId": task_id})
    assert state["status"] == "input_required", "neither answered nor cancelled"
    assert (await owner.result("resources/read", {"uri": uri}))["contents"][0]["text"] == "hidden" * 1000


async def test_a_token_of_the_same_toolset_and_one_without_a_restriction_reach_the_task(
    whole: Credential, alice: User, restricted: Restrict
) -> None:
    closed = await sync_to_async(Toolset.objects.get)(name="Closed")
    first = modern(await restricted(alice, [closed]), OPTED)
    second = modern(await restricted(alice, [closed, await open_toolset()]), OPTED)
    task_id, uri = await waiting_task(first), await stored_result(first)
    for client in (first, second, modern(whole, OPTED)):
        assert (await client.result("tasks/get", {"taskId": task_id}))["status"] == "input_required"
        assert (await client.result("resources/read", {"uri": uri}))["contents"][0]["text"] == "hidden" * 1000
    await second.result("tasks/update", {"taskId": task_id, "inputResponses": {"confirm": NAME}})

    async def completed() -> bool:
        return bool((await first.result("tasks/get", {"taskId": task_id}))["status"] == "completed")

    await wait_until_async(completed)


async def test_a_token_without_any_toolset_and_rows_of_before_the_column_stay_apart(
    whole: Credential, alice: User, restricted: Restrict
) -> None:
    owner = modern(whole, OPTED)
    task_id, uri = await waiting_task(owner), await stored_result(owner)
    nothing = await restricted(alice, [])
    assert await store.get(nothing, task_id) is None and await stored_results.get(nothing, uri) is None
    closed = await restricted(alice, [await sync_to_async(Toolset.objects.get)(name="Closed")])
    assert await store.get(closed, task_id) is not None and await stored_results.get(closed, uri) is not None
    for model in (Task, StoredResult):
        await sync_to_async(model.objects.update)(toolset_ids=None)
    assert await store.get(closed, task_id) is None and await stored_results.get(closed, uri) is None
    assert await store.get(whole, task_id) is not None and await stored_results.get(whole, uri) is not None


async def test_a_token_that_is_restricted_later_loses_its_open_streams(whole: Credential, alice: User) -> None:
    client = modern(whole, OPTED)
    task_id = await waiting_task(client)
    outlet = client.outlet()
    running = client.start(
        "subscriptions/listen",
        {"notifications": {"taskIds": [task_id], "resourceSubscriptions": ["docs://closed"]}},
        outlet=outlet,
    )
    await outlet.first("notifications/subscriptions/acknowledged")

    def restrict() -> None:
        token = AccessToken.objects.get(pk=int(whole.id.partition(":")[2]))
        token.restricted = True
        token.save(update_fields=["restricted"])
        token.toolsets.add(Toolset.objects.get(name="Open"))

    await run_in_database(restrict)
    async with asyncio.timeout(10):
        await asyncio.wait([running])
    assert "revoked" in outlet.of("notifications/cancelled")[0]["params"]["reason"]
    assert server().subscribers.count() == 0


async def test_a_session_ends_with_the_restriction_it_began_with(whole: Credential, alice: User) -> None:
    client = await handshake(whole)
    opened = frozenset({(await open_toolset()).pk})
    narrowed = factories.credential(alice, id=whole.id, toolset_ids=opened)
    registry = server().sessions
    assert await registry.require(client.session.id, whole) is client.session
    with pytest.raises(sessions.UnknownSession):
        await registry.require(client.session.id, narrowed)
    registry._known.clear()  # as on another worker, which reads the signed id
    with pytest.raises(sessions.UnknownSession):
        await registry.require(client.session.id, narrowed)
    assert (await registry.require(client.session.id, whole)).key == client.session.key


async def change_toolsets(credential: Credential, toolsets: Iterable[Toolset] | None) -> None:
    """Restrict the token to other toolsets, as its form does; None is all of them."""

    def change() -> None:
        row = find_row(credential)
        row.restricted = toolsets is not None
        row.save()
        row.toolsets.set(toolsets or ())

    await sync_to_async(change)()


@pytest.mark.parametrize("as_task", [False, True])
async def test_what_runs_for_a_token_that_sees_fewer_toolsets_is_cancelled_and_what_sees_more_continues(
    whole: Credential, alice: User, restricted: Restrict, publish: Any, as_task: bool
) -> None:
    closed = await sync_to_async(Toolset.objects.get)(name="Closed")
    opened = await open_toolset()
    await sync_to_async(publish)(alice, "server_wait", toolset=closed)
    await refresh_catalogue()
    tokens = {
        "widened": await restricted(alice, [closed]),
        "freed": await restricted(alice, [closed]),
        "same": await restricted(alice, [closed, opened]),
        "narrowed": await restricted(alice, [closed, opened]),
        "limited": whole,
    }
    for label in tokens:
        STARTED[label] = asyncio.Event()
        ENDED.pop(label, None)
    calls = {
        label: modern(token, OPTED if as_task else ASKABLE).start(
            "tools/call", {"name": "server_wait", "arguments": {"label": label}}
        )
        for label, token in tokens.items()
    }
    for label in tokens:
        await STARTED[label].wait()
    await change_toolsets(tokens["widened"], [closed, opened])
    await change_toolsets(tokens["freed"], None)
    await change_toolsets(tokens["narrowed"], [opened])
    await change_toolsets(tokens["limited"], [])
    await wait_until_async(lambda: {"narrowed", "limited"} <= set(ENDED))
    # The others started before those did, and the same check looked at them.
    assert set(ENDED) & set(tokens) == {"narrowed", "limited"}
    assert "access" in ENDED["narrowed"].lower() or "revoked" in ENDED["narrowed"].lower(), ENDED["narrowed"]
    server().requests.cancel_credentials({token.id for token in tokens.values()})
    await wait_until_async(lambda: set(tokens) <= set(ENDED))
    await asyncio.gather(*calls.values(), return_exceptions=True)
