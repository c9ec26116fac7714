"""Calls with an account: each person with their own, refreshed once, and a link for whoever has to connect first."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from audit import outcomes
from audit.models import Call
from catalog import encryption
from catalog.accounts import links, tokens
from catalog.calls import accounts, call_tool
from catalog.errors import CLIENT_GONE, NeedsInput, ProtocolError
from catalog.models import ConnectedAccount, PersonalSecret, Secret, Upstream
from catalog.models.accounts import Client, Tokens
from tests.catalog.accounts.hub import import_everything, join, make_account, make_api_tool, make_upstream, sign_in
from tests.catalog.accounts.service import Service
from tests.catalog.accounts.stand_in import StandIn
from tests.catalog.pipeline import MODERN, RecordingChannel, call, caller, logged_calls, text
from toolhub.parts import parts

pytestmark = pytest.mark.django_db(transaction=True)
URL_CLIENT: dict[str, Any] = {"elicitation": {"url": {}}}
FORM_CLIENT: dict[str, Any] = {"elicitation": {}}


async def ask(user: Any, name: str) -> Any:
    """A call of a client that cannot show a link itself."""
    return await call(user, name, channel=RecordingChannel(FORM_CLIENT))


@pytest.fixture
def notes(service: Service, root: User, alice: User, bob: User) -> Service:
    make_account(service.mcp_url)
    upstream = make_upstream(service.mcp_url)
    join(root, service, "ops")
    import_everything(upstream, root, alice, bob)
    return service


@pytest.fixture
def api(stand_in: StandIn, alice: User, bob: User) -> StandIn:
    """An HTTP API that wants the tokens of the stand-in."""
    make_account(f"{stand_in.url}/mcp")
    make_api_tool(f"{stand_in.url}/notes", alice, bob)
    stand_in.answers["/notes"] = (200, {"notes": []})
    return stand_in


def make_tokens(api: StandIn, access: str, refresh: str = "") -> Tokens:
    return Tokens(access, refresh, Client("c"), f"{api.url}/token", f"{api.url}/revoke")


def connect_to(api: StandIn, user: User, **changes: Any) -> ConnectedAccount:
    """An account as the page makes one."""
    from catalog.views.secrets import find_cards

    secret = Secret.objects.get()
    card = find_cards(user)["notes"]
    entry = PersonalSecret(secret=secret, user=user)
    entry.destinations = {receiver.key: receiver.label for receiver in card.current()}
    entry.save()
    values = {
        "issuer": api.url,
        "client_id": "c",
        "addresses": secret.addresses_digest,
        "connected_at": timezone.now(),
        "expires_at": timezone.now() + timedelta(hours=1),
        **changes,
    }
    account = ConnectedAccount(entry=entry, **values)
    account.store(make_tokens(api, f"access-of-{user}", f"refresh-of-{user}"))
    account.save()
    return account


def sent_tokens(api: StandIn, path: str = "/notes") -> list[str]:
    return [one.headers["authorization"].removeprefix("Bearer ") for one in api.requests(path)]


async def leave_during(monkeypatch: pytest.MonkeyPatch, step: str, user: Any) -> None:
    """A call whose client leaves while this step of `tokens` takes its time."""
    begun = asyncio.Event()

    async def never(*_: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(tokens, step, never)
    running = asyncio.create_task(call(user, "ask_api"))
    await begun.wait()
    CLIENT_GONE.cancel(running)
    with pytest.raises(asyncio.CancelledError):
        await running


# --- each person with their own --------------------------------------------------------------------------------------


async def test_each_person_calls_with_their_own_account(notes: Service, alice: Any, bob: Any) -> None:
    await sync_to_async(join)(alice, notes, "ann")
    await sync_to_async(join)(bob, notes, "ben")
    assert (text(await call(alice, "whoami")), text(await call(bob, "whoami"))) == ("ann", "ben")
    prompt = await call_tool.get_prompt(caller(alice), "greeting", {}, RecordingChannel())
    resource = await call_tool.read_resource(caller(bob), "notes://mine", RecordingChannel())
    assert "Greet ann." in str(prompt) and "Notes of ben." in str(resource)


async def test_a_token_reaches_neither_client_nor_log(notes: Service, alice: Any) -> None:
    await sync_to_async(join)(alice, notes, "ann")
    said = text(await call(alice, "leak"))
    assert said.startswith("the token is ") and "access-" not in said
    account = await ConnectedAccount.objects.select_related("entry__secret").aget(entry__user=alice)
    token = account.read().access_token
    kept = json.dumps([row async for row in Call.objects.values()], default=str)
    assert token not in kept and token not in said


async def test_an_http_api_gets_the_token_of_the_caller(api: StandIn, alice: Any, bob: Any) -> None:
    for user in (alice, bob):
        await sync_to_async(connect_to)(api, user)
        await call(user, "ask_api")
    assert sent_tokens(api) == ["access-of-alice", "access-of-bob"]


async def test_a_hundred_calls_at_once_refresh_once(notes: Service, alice: Any, bob: Any) -> None:
    for user, name in ((alice, "ann"), (bob, "ben")):
        await sync_to_async(join)(user, notes, name)
    await ConnectedAccount.objects.aupdate(expires_at=timezone.now())
    before = notes.control()
    results = await asyncio.gather(*(call(user, "whoami") for user in (alice, bob) for _ in range(50)))
    assert [text(one) for one in results] == ["ann"] * 50 + ["ben"] * 50
    after = notes.control()
    assert (after["refreshed"] - before["refreshed"], after["reused"]) == (2, before["reused"])


async def test_two_processes_refresh_once(api: StandIn, alice: Any) -> None:
    account = await sync_to_async(connect_to)(api, alice, expires_at=timezone.now())
    # The other process: it has the lease, and stores what it got a moment later.
    lease = timezone.now() + timedelta(seconds=30)
    await ConnectedAccount.objects.filter(pk=account.pk).aupdate(refreshing_until=lease)
    running = asyncio.create_task(call(alice, "ask_api"))
    while not parts.get(tokens.Refreshes)._running:
        await asyncio.sleep(0)
    account.store(make_tokens(api, "access-of-the-other"))
    await ConnectedAccount.objects.filter(pk=account.pk).aupdate(
        tokens=account.tokens, version=2, refreshing_until=None, expires_at=timezone.now() + timedelta(hours=1)
    )
    await running
    assert sent_tokens(api) == ["access-of-the-other"] and not api.requests("/token")


async def test_a_lease_of_a_process_that_died_ends(api: StandIn, alice: Any) -> None:
    past = timezone.now() - timedelta(seconds=1)
    await sync_to_async(connect_to)(api, alice, expires_at=past, refreshing_until=past)
    await call(alice, "ask_api")
    assert sent_tokens(api) == ["access-of-the-stand-in"]
    sent = api.requests("/token")[0].form
    assert sent["grant_type"] == "refresh_token" and sent["refresh_token"] == "refresh-of-alice"
    stored = await ConnectedAccount.objects.select_related("entry__secret").aget()
    assert stored.version == 2 and stored.refreshing_until is None
    assert stored.read().refresh_token == "refresh-of-the-stand-in"


async def test_a_refresh_without_a_new_refresh_token_keeps_the_old_one(api: StandIn, alice: Any) -> None:
    api.answers["/token"] = (200, api.issued(refresh_token=None))
    await sync_to_async(connect_to)(api, alice, expires_at=timezone.now())
    await call(alice, "ask_api")
    stored = await ConnectedAccount.objects.select_related("entry__secret").aget()
    assert stored.read().refresh_token == "refresh-of-alice"


async def test_a_server_that_is_away_ends_no_account(api: StandIn, alice: Any) -> None:
    api.answers["/token"] = (503, "")
    soon = timezone.now() + timedelta(seconds=30)
    account = await sync_to_async(connect_to)(api, alice, expires_at=soon)
    assert not (await call(alice, "ask_api")).is_error, "the token still works for thirty seconds"
    assert not (await call(alice, "ask_api")).is_error
    assert len(api.requests("/token")) == 1, "it is not asked for every call"
    mine = ConnectedAccount.objects.filter(pk=account.pk)
    await mine.aupdate(expires_at=timezone.now(), refreshing_until=None)
    away = await call(alice, "ask_api")
    assert away.is_error and "cannot be refreshed now" in text(away)
    api.answers["/token"] = (200, api.issued())
    await mine.aupdate(refreshing_until=None)
    assert not (await call(alice, "ask_api")).is_error


@pytest.mark.parametrize("error", ["invalid_grant", "bad_refresh_token"])
@pytest.mark.parametrize("status", [400, 200])
async def test_a_refresh_token_that_is_no_longer_good_ends_the_account(
    api: StandIn, alice: Any, error: str, status: int
) -> None:
    api.answers["/token"] = (status, {"error": error})
    await sync_to_async(connect_to)(api, alice, expires_at=timezone.now())
    result = await ask(alice, "ask_api")
    assert result.is_error and links.make(alice.pk, "notes") in text(result)


async def test_a_client_secret_that_changed_at_the_service_ends_no_account(api: StandIn, alice: Any) -> None:
    await Secret.objects.aupdate(client_id="c", issuer=api.url)
    api.answers["/token"] = (401, {"error": "invalid_client"})
    await sync_to_async(connect_to)(api, alice, expires_at=timezone.now())
    result = await ask(alice, "ask_api")
    assert result.is_error and "cannot be refreshed now" in text(result)
    assert (await ConnectedAccount.objects.aget()).tokens


async def test_a_registration_that_the_service_forgot_ends_with_its_accounts(api: StandIn, alice: Any) -> None:
    secret = await Secret.objects.aget()
    await Secret._base_manager.aupdate(registration=encryption.encrypt("{}", secret.registration_owner))
    api.answers["/token"] = (401, {"error": "invalid_client"})
    await sync_to_async(connect_to)(api, alice, expires_at=timezone.now())
    assert links.make(alice.pk, "notes") in text(await ask(alice, "ask_api"))
    assert (await Secret.objects.aget()).registration == ""


async def test_a_call_ends_in_the_log_whatever_a_replacement_raises(
    api: StandIn, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sync_to_async(connect_to)(api, alice)
    api.answers["/notes"] = (401, "who are you?")

    async def fail(*_: object) -> str:
        raise UnicodeEncodeError("utf-8", "x", 0, 1, "odd")

    monkeypatch.setattr(tokens, "replace_rejected", fail)
    result = await call(alice, "ask_api")
    assert result.is_error and (await logged_calls())[-1].ended_at is not None


async def test_a_client_that_leaves_before_the_tokens_are_there_is_logged(
    api: StandIn, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leave_during(monkeypatch, "access_token", alice)
    assert (await logged_calls())[-1].outcome == outcomes.CANCELLED


async def test_tokens_that_were_issued_for_a_disconnected_account_are_revoked(api: StandIn, alice: Any) -> None:
    account = await sync_to_async(connect_to)(api, alice, expires_at=timezone.now())
    found = await sync_to_async(tokens._find)(alice.pk, "notes")
    await PersonalSecret.objects.all().adelete()
    await tokens._send_refresh(found)
    assert [one.form["token"] for one in api.requests("/revoke")] == [
        "refresh-of-the-stand-in",
        "access-of-the-stand-in",
    ]
    assert not await ConnectedAccount.objects.filter(pk=account.pk).aexists()


# --- who has to connect first ----------------------------------------------------------------------------------------


async def test_a_client_without_url_elicitation_gets_a_sentence_with_the_link(api: StandIn, alice: Any) -> None:
    for revision, capabilities in (("2025-06-18", URL_CLIENT), ("2025-11-25", FORM_CLIENT), (MODERN, FORM_CLIENT)):
        channel = RecordingChannel(capabilities, modern=revision == MODERN)
        result = await call(alice, "ask_api", channel=channel, revision=revision)
        assert result.is_error and links.make(alice.pk, "notes") in text(result) and channel.asked == []
    assert api.requests("/notes") == []


async def test_a_client_of_2025_11_25_gets_the_error_with_the_link(api: StandIn, alice: Any) -> None:
    with pytest.raises(ProtocolError) as raised:
        await call(alice, "ask_api", channel=RecordingChannel(URL_CLIENT))
    assert raised.value.code == -32042
    asked = raised.value.data["elicitations"][0]
    assert asked.pop("elicitationId")
    assert asked == {"mode": "url", "url": links.make(alice.pk, "notes"), "message": raised.value.message}
    last = (await logged_calls())[-1]
    assert last.outcome == outcomes.INPUT_REQUIRED and last.ended_at is not None


async def test_a_client_of_2026_07_28_is_asked_and_its_next_request_waits_for_the_person(
    api: StandIn, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "POLL_SECONDS", 0.05)
    with pytest.raises(NeedsInput) as raised:
        await call(alice, "ask_api", channel=RecordingChannel(URL_CLIENT, modern=True), revision=MODERN)
    ((key, (method, params)),) = raised.value.requests.items()
    assert (key, method, params["mode"]) == ("connect_notes", "elicitation/create", "url")
    assert params["url"] == links.make(alice.pk, "notes") and "elicitationId" not in params
    channel = RecordingChannel(URL_CLIENT, {key: {"action": "accept"}}, modern=True)
    waiting = asyncio.create_task(call(alice, "ask_api", channel=channel, revision=MODERN))
    while not channel.asked:
        await asyncio.sleep(0)
    await sync_to_async(connect_to)(api, alice)
    assert not (await waiting).is_error
    assert sent_tokens(api) == ["access-of-alice"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_declines_ends_the_call(api: StandIn, alice: Any, action: str) -> None:
    channel = RecordingChannel(URL_CLIENT, {"connect_notes": {"action": action}}, modern=True)
    result = await call(alice, "ask_api", channel=channel, revision=MODERN)
    assert result.is_error and "was not connected" in text(result)


async def test_a_person_who_does_not_come_gets_the_link_as_a_sentence(
    api: StandIn, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "WAIT_SECONDS", 0.0)
    channel = RecordingChannel(URL_CLIENT, {"connect_notes": {"action": "accept"}}, modern=True)
    result = await call(alice, "ask_api", channel=channel, revision=MODERN)
    assert result.is_error and links.make(alice.pk, "notes") in text(result)


async def test_a_client_that_leaves_while_the_person_connects_is_logged(api: StandIn, alice: Any) -> None:
    channel = RecordingChannel(URL_CLIENT, {"connect_notes": {"action": "accept"}}, modern=True)
    waiting = asyncio.create_task(call(alice, "ask_api", channel=channel, revision=MODERN))
    while not channel.asked:
        await asyncio.sleep(0)
    CLIENT_GONE.cancel(waiting)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await logged_calls())[-1].outcome == outcomes.CANCELLED


# --- what the service no longer accepts ------------------------------------------------------------------------------


async def test_a_token_that_the_service_refuses_is_replaced_once(notes: Service, alice: Any) -> None:
    await sync_to_async(join)(alice, notes, "ann")
    assert text(await call(alice, "whoami")) == "ann"
    before = notes.control(expire_access=True)
    assert text(await call(alice, "whoami")) == "ann"
    assert notes.control()["refreshed"] - before["refreshed"] == 1


async def test_a_revoked_account_gets_the_link_again(notes: Service, alice: Any, bob: Any) -> None:
    for user, name in ((alice, "ann"), (bob, "ben")):
        await sync_to_async(join)(user, notes, name)
    notes.control(end="ann")
    result = await ask(alice, "whoami")
    assert result.is_error and links.make(alice.pk, "notes") in text(result)
    assert text(await call(bob, "whoami")) == "ben"
    page = await sync_to_async(lambda: sign_in(alice).get("/secrets/").content.decode())()
    assert "connect again" in page
    await sync_to_async(join)(alice, notes, "ann")
    assert text(await ask(alice, "whoami")) == "ann"


async def test_a_refused_token_without_a_successor_ends_the_account(api: StandIn, alice: Any) -> None:
    account = await sync_to_async(connect_to)(api, alice)
    account.store(make_tokens(api, "access-of-alice"))
    await account.asave()
    api.answers["/notes"] = (401, "who are you?")
    result = await ask(alice, "ask_api")
    assert result.is_error and links.make(alice.pk, "notes") in text(result)
    assert (await ConnectedAccount.objects.aget()).tokens == ""


async def test_an_api_that_refuses_the_new_token_too_is_asked_no_third_time(api: StandIn, alice: Any) -> None:
    await sync_to_async(connect_to)(api, alice)
    api.answers["/notes"] = (401, "who are you?")
    result = await call(alice, "ask_api")
    assert result.is_error and "401" in text(result)
    assert sent_tokens(api) == ["access-of-alice", "access-of-the-stand-in"]


async def test_a_client_that_leaves_while_a_token_is_replaced_is_logged(
    api: StandIn, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sync_to_async(connect_to)(api, alice)
    api.answers["/notes"] = (401, "who are you?")
    await leave_during(monkeypatch, "replace_rejected", alice)
    last = (await logged_calls())[-1]
    assert last.outcome == outcomes.CANCELLED and last.ended_at is not None


async def test_other_errors_leave_the_account_alone(api: StandIn, alice: Any) -> None:
    await sync_to_async(connect_to)(api, alice)
    api.answers["/notes"] = (403, "not you")
    assert (await call(alice, "ask_api")).is_error
    assert sent_tokens(api) == ["access-of-alice"] and not api.requests("/token")


# --- whose account is used, and where --------------------------------------------------------------------------------


async def test_an_account_is_sent_only_where_its_owner_allowed_it(api: StandIn, alice: Any) -> None:
    await sync_to_async(connect_to)(api, alice)
    await PersonalSecret.objects.aupdate(destinations={})
    result = await call(alice, "ask_api")
    assert result.is_error and "which you have not allowed" in text(result) and not api.requests("/notes")


async def test_an_account_is_not_used_through_a_token_that_somebody_else_made(api: StandIn, alice: Any) -> None:
    await sync_to_async(connect_to)(api, alice)
    asking = caller(alice, made_by_owner=False)
    result = await call_tool.call_tool(asking, "ask_api", {}, RecordingChannel())
    assert result.is_error and "Somebody else created this access token" in text(result)


async def test_a_try_as_another_person_never_uses_their_account(api: StandIn, root: Any, alice: Any) -> None:
    await sync_to_async(connect_to)(api, alice)
    asking = caller(alice, id=f"admin:{root.pk}:{alice.pk}")
    result = await call_tool.call_tool(asking, "ask_api", {}, RecordingChannel())
    assert result.is_error and "never uses the secrets" in text(result) and not api.requests("/notes")


@pytest.mark.parametrize("column", ["url", "issuer", "token_endpoint"])
async def test_tokens_do_not_follow_changed_addresses(api: StandIn, alice: Any, column: str) -> None:
    await sync_to_async(connect_to)(api, alice, expires_at=timezone.now())
    with StandIn() as attacker:
        await Secret.objects.aupdate(**{column: f"{attacker.url}/token"})
        result = await ask(alice, "ask_api")
        assert result.is_error and links.make(alice.pk, "notes") in text(result)
        assert attacker.seen == [] and api.requests("/token") == [] and api.requests("/notes") == []


async def test_tokens_of_another_row_are_not_read(api: StandIn, alice: Any, bob: Any) -> None:
    """Somebody who can write to the database moves alice's tokens to bob."""
    hers = await sync_to_async(connect_to)(api, alice)
    his = await sync_to_async(connect_to)(api, bob)
    await ConnectedAccount.objects.filter(pk=his.pk).aupdate(tokens=hers.tokens)
    result = await ask(bob, "ask_api")
    assert result.is_error and "not connected" in text(result) and sent_tokens(api) == []


async def test_a_disconnected_account_is_gone_at_the_next_call(api: StandIn, alice: Any) -> None:
    await sync_to_async(connect_to)(api, alice)
    await ask(alice, "ask_api")
    await sync_to_async(lambda: sign_in(alice).post("/secrets/notes/remove/"))()
    result = await ask(alice, "ask_api")
    assert result.is_error and links.make(alice.pk, "notes") in text(result)
    assert sent_tokens(api) == ["access-of-alice"]


async def test_a_new_key_moves_accounts_and_clients(api: StandIn, alice: Any, settings: Any) -> None:
    from cryptography.fernet import Fernet
    from django.core.management import call_command

    await sync_to_async(connect_to)(api, alice)
    secret = await Secret.objects.aget()
    secret.client_id = "c"
    secret.enter_client_secret("the secret of our client")
    await secret.asave()
    old = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *old]
    await sync_to_async(call_command)("rotatesecrets")
    settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]
    await secret.arefresh_from_db()
    assert encryption.decrypt(secret.client_secret, secret.client_owner) == "the secret of our client"
    assert not (await call(alice, "ask_api")).is_error


async def test_the_comparison_uses_the_account_of_the_person_who_offered_it(notes: Service, root: Any) -> None:
    from catalog.upstreams import schedule

    upstream = await Upstream.objects.aget()
    upstream.secrets_of, upstream.next_refresh = root, None
    await upstream.asave()
    assert await sync_to_async(schedule.run_due)() == 1
    await upstream.arefresh_from_db()
    assert upstream.last_error == ""
    notes.control(end="ops")
    await Upstream.objects.aupdate(next_refresh=None)
    await sync_to_async(schedule.run_due)()
    await upstream.arefresh_from_db()
    assert "401" in upstream.last_error


REQUESTS: dict[str, tuple[str, Any, bool]] = {
    "a call": ("POST", {"id": 1, "method": "tools/call"}, True),
    "the beginning of a session": ("POST", {"id": 1, "method": "initialize"}, True),
    "a look at a task that runs": ("POST", {"id": 1, "method": "tasks/get"}, False),
    "a notification": ("POST", {"method": "notifications/cancelled"}, False),
    "an answer to a question": ("POST", {"id": 1, "result": {}}, False),
    "no JSON": ("POST", None, False),
    "the stream beside the session": ("GET", None, False),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_only_a_refused_request_that_began_something_is_tried_again(name: str) -> None:
    """Anything else may have run: a token that ends in the middle of a call is no reason to repeat it."""
    import httpx2

    from catalog.runners.upstream_mcp.connection import Connection
    from catalog.runners.upstream_mcp.link import Link

    method, message, begins = REQUESTS[name]
    link = Link(Connection(upstream=1, url="https://mcp.example.com/mcp"), {})
    link.alive = True
    request = httpx2.Request(method, "https://mcp.example.com/mcp", content=json.dumps(message) if message else b"x")
    link._note_status(request, 403)
    assert not link.refused
    link._note_status(request, 401)
    assert link.refused == begins
