"""An access token of a connected app at /mcp: like a personal one on every transport, and gone when it should be."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone
from oauth2_provider.models import AccessToken

from audit.models import Call
from tests import factories
from tests.oauth.flow import App
from tests.polling import wait_until_async
from tests.server.conftest import refresh_catalogue, run_in_database
from tests.transports import functions
from tests.transports.conftest import Person
from tests.transports.conftest import hub as hub
from tests.transports.conftest import label as label
from tests.transports.conftest import person as person
from tests.transports.conftest import publish as publish
from tests.transports.conftest import wire as wire
from tests.transports.conftest import with_tools as with_tools
from tests.transports.sockets import Socket
from toolhub.access.bearer import Authenticator
from toolhub.oauth import credentials
from toolhub.oauth.models import Client, ConnectedApp
from toolhub.parts import parts
from toolhub.transports import connection

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from tests.transports.wire import Wire

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]
METADATA = 'resource_metadata="http://localhost:8000/.well-known/oauth-protected-resource/mcp", scope="mcp"'


@pytest.fixture
async def app_of_alice(with_tools: Any, wire: Wire, alice: User) -> Person:
    """alice through an app that she connected."""
    await with_tools("t_add", "t_silent")
    _app, tokens = await run_in_database(factories.connect_app, alice)
    made = Person(wire, alice, tokens["access_token"])
    made.refresh_token = tokens["refresh_token"]  # type: ignore[attr-defined]
    return made


async def get_app() -> ConnectedApp:
    found: ConnectedApp = await sync_to_async(ConnectedApp.objects.select_related("client").get)()
    return found


# --- what is rejected ------------------------------------------------------------------------------------------------


async def test_without_a_token_a_client_is_led_to_the_sign_in(app_of_alice: Person) -> None:
    for answer in (
        await app_of_alice.modern("tools/list", authorization=None),
        await app_of_alice.wire.send("POST", app_of_alice.plain(authorization=None), {}),
        await app_of_alice.listen(authorization=None).answer(),
        await app_of_alice.wire.send("DELETE", app_of_alice.plain(authorization=None, mcp_session_id="x")),
    ):
        assert answer.status == 401
        assert answer.header("www-authenticate") == f'Bearer realm="toolhub", {METADATA}'


async def test_an_invalid_token_is_challenged_with_the_error_that_makes_clients_refresh(app_of_alice: Person) -> None:
    answer = await app_of_alice.modern("tools/list", authorization="Bearer tho_" + "x" * 43)
    assert answer.status == 401
    challenge = answer.header("www-authenticate") or ""
    assert 'error="invalid_token"' in challenge
    assert METADATA in challenge


@pytest.mark.parametrize(
    "what",
    [
        "expired",
        "ended",
        "other resource",
        "no resource",
        "revoked",
        "blocked",
        "inactive",
        "deleted",
        "refresh",
        "code",
    ],
)
async def test_a_token_that_is_not_valid_here_is_401_and_reads_like_an_unknown_one(
    what: str, app_of_alice: Person, alice: User
) -> None:
    past = timezone.now() - timedelta(seconds=1)

    def spoil() -> None:
        match what:
            case "expired":
                AccessToken.objects.update(expires=past)
            case "ended":
                ConnectedApp.objects.update(expires=past)
            case "other resource":
                AccessToken.objects.update(resource=["https://other.example/mcp"])
            case "no resource":
                AccessToken.objects.update(resource=[])
            case "revoked":
                ConnectedApp.objects.get().revoke()
            case "blocked":
                Client.objects.update(blocked=True)
            case "inactive":
                type(alice).objects.update(is_active=False)
            case "deleted":
                ConnectedApp.objects.get().delete()

    await run_in_database(spoil)
    if what in {"refresh", "code"}:
        app_of_alice.token = app_of_alice.refresh_token if what == "refresh" else "thc_" + "x" * 43  # type: ignore[attr-defined]
    unknown = await app_of_alice.modern("tools/list", authorization="Bearer tho_" + "x" * 43)
    answer = await app_of_alice.modern("tools/list")
    assert (answer.status, answer.header("www-authenticate")) == (401, unknown.header("www-authenticate"))
    assert answer.error == unknown.error


# --- every transport -------------------------------------------------------------------------------------------------


async def test_an_app_lists_and_calls_over_every_transport_and_the_log_names_it(app_of_alice: Person) -> None:
    found = (await app_of_alice.modern("tools/list")).json["result"]["tools"]
    assert {tool["name"] for tool in found} == {"t_add", "t_silent"}
    params = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    assert not (await app_of_alice.modern("tools/call", params)).json["result"].get("isError")
    await app_of_alice.begin_session()
    assert (await app_of_alice.request("tools/call", params)).status == 200
    socket = await Socket(app_of_alice).opened()
    await socket.initialize()
    assert "result" in await socket.request("tools/call", params)
    await socket.leave()
    app = await get_app()
    calls = await run_in_database(lambda: list(Call.objects.values_list("credential_id", "credential", "transport")))
    assert set(calls) == {(f"app:{app.pk}", "Claude", "http"), (f"app:{app.pk}", "Claude", "websocket")}


async def test_revoking_an_app_ends_its_streams_sockets_and_calls(app_of_alice: Person, label: str) -> None:
    await app_of_alice.begin_session()
    news = app_of_alice.listen()
    subscription = app_of_alice.begin_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    call = app_of_alice.begin_modern("tools/call", {"name": "t_silent", "arguments": {"label": label}})
    socket = await Socket(app_of_alice).opened()
    await socket.initialize()
    await subscription.wait_for_text(b"acknowledged")
    await asyncio.wait_for(functions.STARTED[label].wait(), 60)
    await asyncio.wait_for(news.started.wait(), 60)
    await run_in_database((await get_app()).revoke)
    await asyncio.gather(news.answer(), subscription.answer(), call.answer())
    assert await socket.closed() == connection.POLICY
    await socket.leave()
    assert (await run_in_database(lambda: Call.objects.get())).outcome == "cancelled"
    assert (await app_of_alice.modern("tools/list")).status == 401


async def test_blocking_a_client_ends_the_streams_of_its_apps(app_of_alice: Person) -> None:
    subscription = app_of_alice.begin_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await subscription.wait_for_text(b"acknowledged")

    def block() -> None:
        client = Client.objects.get()
        client.blocked = True
        client.save()

    await run_in_database(block)
    await subscription.answer()
    assert (await app_of_alice.modern("tools/list")).status == 401


async def test_a_refresh_changes_neither_the_session_nor_the_id_in_the_log(app_of_alice: Person) -> None:
    await app_of_alice.begin_session()
    params = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    assert (await app_of_alice.request("tools/call", params)).status == 200
    app = await get_app()
    refresh_token: str = app_of_alice.refresh_token  # type: ignore[attr-defined]
    old = app_of_alice.token
    answer = await run_in_database(App(app.client.client_id).refresh, refresh_token)
    app_of_alice.token = answer.json()["access_token"]
    assert app_of_alice.token != old
    assert (await app_of_alice.request("tools/call", params)).status == 200
    ids = await run_in_database(lambda: set(Call.objects.values_list("credential_id", flat=True)))
    assert ids == {f"app:{app.pk}"}
    app_of_alice.token = old
    assert (await app_of_alice.request("tools/call", params)).status == 200, "the other process of the client uses it"


async def test_a_new_decision_ends_the_streams_of_the_tokens_before(app_of_alice: Person, alice: User) -> None:
    from django.test import Client as Browser

    subscription = app_of_alice.begin_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await subscription.wait_for_text(b"acknowledged")
    app = await get_app()

    def decide_again() -> None:
        from tests.oauth import flow

        browser = Browser()
        browser.force_login(alice)
        flow.connect(browser, App(app.client.client_id, redirect_uri="http://127.0.0.1/callback"))

    await run_in_database(decide_again)
    await subscription.answer()
    assert (await app_of_alice.modern("tools/list")).status == 401
    assert (await get_app()).pk == app.pk


async def test_a_stream_ends_with_its_token(app_of_alice: Person) -> None:
    soon = timezone.now() + timedelta(seconds=3)
    await run_in_database(lambda: AccessToken.objects.update(expires=soon))
    subscription = app_of_alice.begin_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await subscription.answer()
    assert timezone.now() >= soon


async def test_a_session_belongs_to_one_app_alone(app_of_alice: Person, alice: User) -> None:
    await app_of_alice.begin_session()
    _other, tokens = await run_in_database(factories.connect_app, alice)
    app_of_alice.token = tokens["access_token"]
    assert (await app_of_alice.request("tools/list")).status == 404


async def test_a_limit_of_a_person_counts_calls_of_tokens_and_apps_together(
    app_of_alice: Person, person: Any, alice: User
) -> None:
    await run_in_database(lambda: factories.limit("2/h"))
    await refresh_catalogue()
    by_token = await run_in_database(person, alice)
    params = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    answers = [await one.modern("tools/call", params) for one in (app_of_alice, by_token, app_of_alice, by_token)]
    assert [answer.json["result"].get("isError", False) for answer in answers] == [False, False, True, True]


async def test_a_restricted_app_sees_its_toolsets_alone(wire: Wire, alice: User, publish: Any) -> None:
    def fill() -> dict[str, Any]:
        opened = factories.make_toolset("Open")
        publish(alice, "t_add", toolset=opened)
        publish(alice, "t_silent", toolset=factories.make_toolset("Closed"))
        return factories.connect_app(alice, toolsets=[opened])[1]

    tokens = await run_in_database(fill)
    await refresh_catalogue()
    restricted = Person(wire, alice, tokens["access_token"])
    found = (await restricted.modern("tools/list")).json["result"]["tools"]
    assert [tool["name"] for tool in found] == ["t_add"]
    hidden = await restricted.modern("tools/call", {"name": "t_silent", "arguments": {"label": "x"}})
    missing = await restricted.modern("tools/call", {"name": "t_other", "arguments": {"label": "x"}})
    assert hidden.error["message"].replace("t_silent", "t_other") == missing.error["message"]
    await run_in_database(lambda: ConnectedApp.objects.get().toolsets.clear())
    assert (await restricted.modern("tools/list")).json["result"]["tools"] == []


async def test_the_person_sees_when_and_from_where_an_app_was_used(app_of_alice: Person) -> None:
    await app_of_alice.modern("tools/list")

    async def is_marked() -> bool:
        return (await get_app()).last_used is not None

    await wait_until_async(is_marked)
    app = await get_app()
    assert app.last_address
    assert app.client.last_used == app.last_used


async def test_a_use_is_stored_once_a_minute(app_of_alice: Person) -> None:
    kind = credentials.ConnectedApps()
    app = await get_app()
    await run_in_database(kind.mark_used, app.pk, "192.0.2.1")
    first = (await get_app()).last_used
    await run_in_database(kind.mark_used, app.pk, "192.0.2.1")
    assert (await get_app()).last_used == first
    await run_in_database(kind.mark_used, app.pk, "192.0.2.9")
    assert (await get_app()).last_address == "192.0.2.9"


async def test_an_address_with_too_many_invalid_tokens_does_not_lock_apps_out(
    app_of_alice: Person, settings: Any
) -> None:
    settings.BAD_TOKENS_RATE = "2/10h"
    authenticator = parts.get(Authenticator)
    for _ in range(4):
        answer = await app_of_alice.modern("tools/list", authorization="Bearer tho_" + "y" * 43)
    assert answer.status == 429
    assert (await app_of_alice.modern("tools/list")).status == 200
    assert authenticator.cached(app_of_alice.token) is not None


# --- step-up ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def reader(app_of_alice: Person, settings: Any) -> Person:
    """alice through an app that was connected without `mcp:write`, where that counts; t_silent is read-only."""
    settings.WRITE_SCOPE = True

    def fill() -> None:
        from catalog.models import Tool

        tool = Tool.objects.get(name="t_silent")
        tool.read_only = True
        tool.save()

    await run_in_database(fill)
    await refresh_catalogue()
    return app_of_alice


async def test_a_tool_that_is_not_read_only_takes_another_scope_and_says_so(reader: Person) -> None:
    names = {tool["name"] for tool in (await reader.modern("tools/list")).json["result"]["tools"]}
    assert names == {"t_add", "t_silent"}, "it is listed, so that a client can ask for the scope"
    params = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    await reader.begin_session()
    for answer in (await reader.modern("tools/call", params), await reader.request("tools/call", params)):
        assert answer.status == 403
        challenge = answer.header("www-authenticate") or ""
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="mcp mcp:write"' in challenge
        assert "resource_metadata=" in challenge
        assert answer.error["data"]["requiredScopes"] == ["mcp:write"]
    calls = await run_in_database(lambda: list(Call.objects.values_list("outcome", "error_class", "detail_reason")))
    assert calls == [("refused", "InsufficientScope", '["run.scope",{"scope":"mcp:write"}]')] * 2


async def test_over_a_websocket_the_error_names_the_scope(reader: Person) -> None:
    socket = await Socket(reader).opened()
    await socket.initialize()
    answer = await socket.request("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})
    assert answer["error"]["data"]["requiredScopes"] == ["mcp:write"]
    await socket.leave()


async def test_a_read_only_tool_needs_no_more_than_the_basic_scope(reader: Person, label: str) -> None:
    call = reader.begin_modern("tools/call", {"name": "t_silent", "arguments": {"label": label}})
    await asyncio.wait_for(functions.STARTED[label].wait(), 60)
    functions.GO[label].set()
    assert (await call.answer()).status == 200


async def test_a_call_of_a_tool_that_is_not_granted_reads_the_same_as_ever(reader: Person) -> None:
    answer = await reader.modern("tools/call", {"name": "t_other", "arguments": {}})
    assert answer.status == 200 or answer.status == 400
    assert answer.error["message"] == "Unknown tool: t_other"


async def test_with_the_scope_everything_may_be_used(reader: Person) -> None:
    await run_in_database(lambda: AccessToken.objects.update(scope="mcp mcp:write"))
    params = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    parts.get(Authenticator).forget()
    assert (await reader.modern("tools/call", params)).status == 200


async def test_personal_tokens_have_no_scopes(reader: Person, person: Any, alice: User) -> None:
    by_token = await run_in_database(person, alice)
    params = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
    assert (await by_token.modern("tools/call", params)).status == 200
