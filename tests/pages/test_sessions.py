"""Who is connected, on every worker; an end to it by one click, at once and logged."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from audit.models import Action
from tests.client import HttpClient, HttpRefusal, WebSocketClient
from tests.e2e import proofs
from tests.e2e.pages import Pages
from tests.polling import wait_until_async
from tests.real_servers import ROOT, Hub
from toolhub import refusals
from toolhub.access.models import AccessToken, ServingProcess
from toolhub.pages import sessions
from toolhub.server import clients

MODERN = "2026-07-28"
HOSTILE = '"><script>alert(1)</script>'
WAIT_SECONDS = 180.0
"""Seconds for what two workers and a program of their own tell each other, on a machine that is busy with more."""
PERMISSIONS = ("view_connections", "disconnect_client", "change_accesstoken")


@pytest.fixture
def alices_token(alice: User) -> AccessToken:
    return AccessToken.objects.issue(alice, "laptop")[0]


def make_row(of: AccessToken, key: str = "k1", **values: Any) -> clients.Row:
    now = time.time()
    return {
        "kind": clients.SESSION,
        "key": key,
        "user_id": of.user_id,
        "user": of.user.username,
        "credential": of.credential_id,
        "token": of.name,
        "client": "claude-code",
        "version": "2.1",
        "revision": "2025-11-25",
        "address": "192.0.2.1",
        "streams": 0,
        "since": now - 500,
        "seen": now - 5,
        "called": now - 50,
        **values,
    }


def make_process(
    *rows: clients.Row, name: str = "aa11", age: float = 1.0, left_out: int = 0, edge: str = ""
) -> ServingProcess:
    now = timezone.now()
    return ServingProcess.objects.create(
        pk=name,
        host="machine",
        pid=4711,
        started=now,
        beat=now - timedelta(seconds=age),
        peers=json.dumps(rows),
        left_out=left_out,
        edge=edge,
    )


def sign_in_staff(client: Any, *permissions: str) -> None:
    user = User.objects.create_user("sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)


def read_orders(name: str = "aa11") -> list[dict[str, Any]]:
    return json.loads(ServingProcess.objects.get(pk=name).orders or "[]")


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhub.pages.sessions.WAIT_SECONDS", 0)


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path, permissions",
    [
        ("/admin/sessions/", ("disconnect_client", "change_accesstoken")),
        ("/admin/sessions/disconnect/", ("view_connections", "change_accesstoken")),
        ("/admin/sessions/close/", ("view_connections", "change_accesstoken")),
        ("/admin/sessions/revoke/", ("view_connections", "disconnect_client")),
    ],
    ids=["look", "disconnect", "close", "revoke"],
)
def test_staff_without_the_permission_are_refused(client, alices_token, path, permissions):
    make_process(make_row(alices_token))
    sign_in_staff(client, *permissions)
    answer = client.get(path) if path == "/admin/sessions/" else client.post(path, {"key": "k1"})
    assert answer.status_code == 403
    alices_token.refresh_from_db()
    assert read_orders() == [] and alices_token.is_usable


@pytest.mark.django_db
@pytest.mark.parametrize("what", ["disconnect", "close", "revoke"])
def test_nothing_is_ended_by_an_address_alone(client, alices_token, what):
    make_process(make_row(alices_token))
    sign_in_staff(client, *PERMISSIONS)
    assert client.get(f"/admin/sessions/{what}/", {"key": "k1"}).status_code == 405
    client.handler.enforce_csrf_checks = True
    assert client.post(f"/admin/sessions/{what}/", {"key": "k1"}).status_code == 403
    alices_token.refresh_from_db()
    assert read_orders() == [] and alices_token.is_usable


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "of nobody", "k1\x00"])
@pytest.mark.parametrize("what", ["disconnect", "close", "revoke"])
def test_a_connection_that_is_not_there_has_ended_already(client, alices_token, what, key):
    make_process(make_row(alices_token))
    sign_in_staff(client, *PERMISSIONS)
    answer = client.post(f"/admin/sessions/{what}/", {"key": key}, follow=True)
    assert "already ended" in answer.content.decode()
    assert read_orders() == [] and not Action.objects.filter(kind="connection").exists()


# --- the page ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_same_session_on_two_processes_is_one_row(client, alices_token):
    make_process(make_row(alices_token, streams=1, seen=time.time() - 30))
    make_process(make_row(alices_token, seen=time.time() - 2), name="bb22")
    sign_in_staff(client, *PERMISSIONS)
    html = client.get("/admin/sessions/").content.decode()
    assert html.count("claude-code 2.1") == 1
    assert "2 s ago" in html or "3 s ago" in html or "s ago" in html
    assert "no open stream" not in html


@pytest.mark.django_db
def test_silent_processes_and_revoked_tokens_have_no_connections(client, alices_token, bob):
    make_process(make_row(alices_token, client="of-a-dead-process"), age=300)
    gone, _ = AccessToken.objects.issue(bob, "phone")
    gone.revoke()
    make_process(make_row(gone, client="of-a-revoked-token"), name="bb22")
    sign_in_staff(client, *PERMISSIONS)
    html = client.get("/admin/sessions/").content.decode()
    assert "of-a-" not in html and "No clients are connected." in html


@pytest.mark.django_db
def test_stateless_callers_cannot_be_disconnected_but_their_token_can_be_revoked(client, alices_token):
    make_process(make_row(alices_token, kind=clients.STATELESS))
    sign_in_staff(client, *PERMISSIONS)
    html = client.get("/admin/sessions/").content.decode()
    assert "HTTP, stateless" in html
    assert 'form="disconnect"' not in html and 'form="revoke"' in html
    client.post("/admin/sessions/disconnect/", {"key": "k1"})
    assert read_orders() == []
    client.post("/admin/sessions/revoke/", {"key": "k1"})
    alices_token.refresh_from_db()
    assert not alices_token.is_usable


@pytest.mark.django_db
def test_self_reported_client_data_is_text(client, alices_token):
    make_process(make_row(alices_token, client=HOSTILE, version=HOSTILE, token=HOSTILE))
    sign_in_staff(client, *PERMISSIONS)
    html = client.get("/admin/sessions/", {"q": HOSTILE}).content.decode()
    assert "<script>alert" not in html and "&lt;script&gt;alert(1)" in html


@pytest.mark.django_db
def test_the_list_is_filtered_and_bounded(client, alices_token):
    rows = [make_row(alices_token, f"k{number}", client=f"client-{number:03d}") for number in range(250)]
    make_process(*rows, make_row(alices_token, "ws", kind=clients.WEBSOCKET, client="cursor"), left_out=7)
    sign_in_staff(client, *PERMISSIONS)
    html = client.get("/admin/sessions/").content.decode()
    assert html.count('form="disconnect"') == 100
    assert "251 clients are connected" in html and "7 more are not listed" in html
    assert len(html) < 300_000
    for query in ({"q": "CURSOR"}, {"kind": clients.WEBSOCKET}):
        html = client.get("/admin/sessions/", query).content.decode()
        assert "1 client is connected" in html and "client-001" not in html
    assert "No connected clients match this filter." in client.get("/admin/sessions/", {"q": "nobody"}).content.decode()


@pytest.mark.django_db
def test_the_page_makes_a_bounded_number_of_queries(client, alices_token, django_assert_max_num_queries):
    make_process(*(make_row(alices_token, f"k{number}") for number in range(150)))
    sign_in_staff(client, *PERMISSIONS)
    with django_assert_max_num_queries(12):
        client.get("/admin/sessions/")


# --- connections and limits --------------------------------------------------------------------------------------


def make_edge(*holders: dict[str, Any], left_out: int = 0, **refusals: list[float]) -> str:
    report = {"connections": 12, "most": 800, "most_per_address": 100, "refusals": refusals}
    return json.dumps({"holders": holders, "left_out": left_out, **report})


def make_holder(user_id: int | None, address: str = "192.0.2.1", **values: Any) -> dict[str, Any]:
    found = {"user_id": user_id, "address": address, "connections": 3, "websockets": 1, "busy": 2, "since": time.time()}
    return {**found, **values}


@pytest.mark.django_db
def test_connections_of_one_person_and_address_are_one_row_on_all_processes(client, alices_token):
    mine = make_holder(alices_token.user_id)
    make_process(edge=make_edge(mine, make_holder(None)))
    make_process(edge=make_edge(mine, make_holder(alices_token.user_id, "2001:db8::/64")), name="bb22")
    make_process(edge=make_edge(make_holder(None, "198.51.100.9")), name="cc33", age=300)
    sign_in_staff(client, *PERMISSIONS)
    html = client.get("/admin/sessions/").content.decode()
    assert html.count('form="close"') == 3 and "198.51.100.9" not in html
    assert html.count("Close all connections of alice from 192.0.2.1") == 1
    assert "WebSockets: 2, busy: 4" in html and "no token (pages, health checks)" in html
    assert html.count("12 connections of at most 800") == 2


@pytest.mark.django_db
def test_closing_the_connections_of_one_address_is_logged_and_every_process_is_told(client, alices_token):
    make_process(edge=make_edge(make_holder(alices_token.user_id), make_holder(None)))
    make_process(edge=make_edge(make_holder(alices_token.user_id)), name="bb22")
    make_process(edge=make_edge(make_holder(None)), name="cc33")
    sign_in_staff(client, *PERMISSIONS)
    answer = client.post("/admin/sessions/close/", {"key": f"{alices_token.user_id}@192.0.2.1"}, follow=True)
    assert "The connections from 192.0.2.1 are being closed." in answer.content.decode()
    for name, count in (("aa11", 1), ("bb22", 1), ("cc33", 0)):
        orders = read_orders(name)
        assert len(orders) == count
        assert all((one["user_id"], one["address"]) == (alices_token.user_id, "192.0.2.1") for one in orders)
    action = Action.objects.get(kind="connection")
    assert (action.actor, action.verb, action.target) == ("sam", "disconnected", "alice: 192.0.2.1")


@pytest.mark.django_db
def test_who_may_only_look_has_no_button_that_closes(client, alices_token):
    make_process(edge=make_edge(make_holder(alices_token.user_id)))
    sign_in_staff(client, "view_connections")
    html = client.get("/admin/sessions/").content.decode()
    assert "192.0.2.1" in html and 'form="close"' not in html and 'action="/admin/sessions/close/"' not in html


@pytest.mark.django_db
def test_the_list_of_connections_is_bounded(client, alices_token, django_assert_max_num_queries):
    rows = [make_holder(alices_token.user_id, f"192.0.2.{number}", connections=number) for number in range(60)]
    make_process(edge=make_edge(*rows, left_out=5))
    sign_in_staff(client, *PERMISSIONS)
    with django_assert_max_num_queries(13):
        html = client.get("/admin/sessions/").content.decode()
    assert html.count('form="close"') == 20 and "from 192.0.2.59" in html and 'from 192.0.2.3"' not in html
    assert "45 more are not" in html


@pytest.mark.django_db
def test_limits_that_were_reached_are_counted_with_the_name_of_their_setting(client, alices_token):
    now = time.time()
    make_process(edge=make_edge(headers=[40, now - 90], requests=[1, now - 3]))
    make_process(edge=make_edge(headers=[2, now - 7]), name="bb22")
    sign_in_staff(client, "view_connections")
    html = client.get("/admin/sessions/").content.decode()
    rows = [re.sub(r"<[^>]+>|\s+", " ", row) for row in re.findall(r"<tr.*?</tr>", html, re.S)]
    first, second = (row for row in rows if "TOOLHUB_" in row)
    assert "Requests of one user came too fast" in first and " 1 " in first and "TOOLHUB_REQUESTS_RATE" in first
    assert "Headers of a request" in second and " 42 " in second and "TOOLHUB_HEADER_SECONDS" in second


def test_every_limit_has_a_sentence_in_the_log_and_one_on_the_page():
    assert set(sessions.BOUNDS) == set(refusals.SENTENCES)
    known = (ROOT / "toolhub" / "settings.py").read_text()
    for _words, names in sessions.BOUNDS.values():
        assert all(f'"{name}"' in known for name in names.split(", ") if name)


# --- the real thing ----------------------------------------------------------------------------------------------


def seed() -> dict[str, str]:
    tokens: dict[str, str] = proofs.seed_everything()
    return tokens


def list_actions(kind: str) -> list[list[str]]:
    found = Action.objects.filter(kind=kind).order_by("id")
    return [[action.actor, action.verb, action.target] for action in found]


@pytest.mark.postgres
@pytest.mark.redis
async def test_connections_of_another_worker_are_listed_ended_and_logged(tmp_path: Any) -> None:
    env = {"TOOLHUB_TOOL_MODULES": proofs.MODULES, "PROOF_LEDGER": str(tmp_path / "ledger")}
    with Hub(workers=2, postgres=True, redis=True, env=env, seed=seed) as hub:
        stdio = subprocess.Popen(
            [sys.executable, "manage.py", "mcpstdio"],
            cwd=ROOT,
            # Without Redis the news does not reach it: what it is told stands in the database.
            env={**hub.environment(), "TOOLHUB_REDIS_URL": "", "TOOLHUB_TOKEN": hub.seeded["alice"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            async with AsyncExitStack() as stack:
                await at_both_workers(hub, stack, stdio)
        finally:
            stdio.kill()
            stdio.communicate()
        acts = await asyncio.to_thread(hub.call, list_actions, kind="connection")
        assert [act[:2] for act in acts] == [["root", "disconnected"]] * 5
        assert {act[2] for act in acts} == {*(f"alice: {name}" for name in NAMES), "bob: 127.0.0.1"}
        assert ["root", "changed"] in [act[:2] for act in hub.call(list_actions, kind="access token")]


def is_closed(client: HttpClient) -> bool:
    return not client._background


NAMES = ("session-client 1", "stream-client 1", "socket-client 1", "stdio")


async def at_both_workers(hub: Hub, stack: AsyncExitStack, stdio: subprocess.Popen[bytes]) -> None:
    def alice(revision: str, name: str) -> HttpClient:
        return HttpClient(hub.mcp_url, hub.seeded["alice"], revision, single=True, name=name)

    async def here(worker: int, client: HttpClient) -> HttpClient:
        with hub.pin_to_worker(worker):
            assert (await client.http.get(f"{hub.url}/healthz")).status_code == 200
        return client

    session = await stack.enter_async_context(await here(1, alice("2025-11-25", "session-client")))
    listening = await here(1, session.same_session())
    stack.push_async_callback(listening.http.aclose)
    await listening.listen()
    stack.push_async_callback(listening._cancel_background)
    stream = await stack.enter_async_context(await here(1, alice(MODERN, "stream-client")))
    await stream.subscribe(toolsListChanged=True)
    with hub.pin_to_worker(1):
        socket = await stack.enter_async_context(
            WebSocketClient(hub.ws_url, hub.seeded["alice"], "2025-06-18", name="socket-client")
        )
    stateless = await stack.enter_async_context(alice(MODERN, "stateless-client"))
    await stateless.tools()
    bobs = await stack.enter_async_context(HttpClient(hub.mcp_url, hub.seeded["bob"], "2025-11-25", name="bobs"))

    admin = await stack.enter_async_context(Pages(hub, proofs.ROOT))
    with hub.pin_to_worker(0):
        assert (await admin.http.get("/healthz")).status_code == 200
    await admin.sign_in()

    async def listed(*names: str) -> str:
        html = ""

        async def there() -> bool:
            nonlocal html
            html = await admin.get("/admin/sessions/")
            return all(f"Disconnect {name} of" in html or f"{name} 1" in html for name in names)

        await wait_until_async(there, WAIT_SECONDS, f"{names} on the page")
        return html

    html = await listed(
        "session-client", "stream-client", "socket-client", "stateless-client", "bobs", "unnamed client"
    )
    forms = dict(
        re.findall(
            r'form="disconnect" name="key" value="([^"]*)" aria-label="Disconnect ([^"]*) of alice"',
            html,
        )
    )
    keys = {name: key for key, name in forms.items()}
    csrf = re.search(r'name="csrfmiddlewaretoken" value="([^"]*)"', html)
    assert csrf is not None

    async def post(what: str, key: str) -> None:
        fields = {"csrfmiddlewaretoken": csrf[1], "key": key}
        assert (await admin.http.post(f"/admin/sessions/{what}/", data=fields)).status_code == 302

    for name in ("session-client", "stream-client", "socket-client", "unnamed client"):
        await post("disconnect", keys[name])
    for client in (listening, stream):
        await wait_until_async(partial(is_closed, client), WAIT_SECONDS, "the stream was closed")
    assert await asyncio.wait_for(socket.closed(), WAIT_SECONDS) == 1008
    assert await asyncio.to_thread(partial(stdio.wait, WAIT_SECONDS)) == 0
    for worker in (0, 1):
        again = await here(worker, session.same_session())
        stack.push_async_callback(again.http.aclose)

        async def not_found(client: HttpClient = again) -> bool:
            answer = await client.post(json.dumps(client.message("ping")))
            return answer.status_code == 404

        await wait_until_async(not_found, WAIT_SECONDS, "404 for the id of the session")
    assert await stateless.tools() and await bobs.tools()

    async def gone() -> bool:
        html = await admin.get("/admin/sessions/")
        return not any(f"Disconnect {name} of" in html for name in keys) and "stateless-client" in html

    await wait_until_async(gone, WAIT_SECONDS, "only those who are left")

    async def counted() -> bool:
        return "Close all connections of bob from 127.0.0.1" in await admin.get("/admin/sessions/")

    await wait_until_async(counted, WAIT_SECONDS, "the connections of bob on the page")
    with hub.pin_to_worker(1):
        other = await stack.enter_async_context(WebSocketClient(hub.ws_url, hub.seeded["bob"], "2025-06-18"))
        kept = await stack.enter_async_context(WebSocketClient(hub.ws_url, hub.seeded["alice"], "2025-06-18"))
    await admin.get("/admin/sessions/")
    close = re.search(r'value="([^"]*)" aria-label="Close all connections of bob', await admin.get("/admin/sessions/"))
    assert close is not None
    await post("close", close[1])
    assert await asyncio.wait_for(other.closed(), WAIT_SECONDS) == 1006
    assert await kept.tools()

    html = await listed("stateless-client")
    key = re.search(r'form="revoke" name="key" value="([^"]*stateless-client[^"]*)"', html)
    assert key is not None
    await post("revoke", key[1])

    async def refused() -> bool:
        try:
            await stateless.tools()
        except HttpRefusal as refusal:
            return refusal.status == 401
        return False

    await wait_until_async(refused, WAIT_SECONDS, "401 for the token")
    assert await bobs.tools()
    for one in (session, other, listening, stream, socket, stateless):
        one._failures.clear()
