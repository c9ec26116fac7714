"""Bearer tokens: every way of being refused first, then what the memory may and may not do."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.factories import make_toolset
from tests.polling import wait_until_async
from toolhub import rates
from toolhub.access import bearer, issued_tokens, personal_tokens, rotation, token_errors
from toolhub.access.models import AccessToken, digest_of
from toolhub.access.signals import revoked
from toolhub.parts import parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("authenticator")]


@pytest.fixture
def alice(transactional_db: None) -> User:
    from django.contrib.auth.models import User

    return User.objects.create_user("alice")


@pytest.fixture
def revocations() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def hear(*, credentials: tuple[str, ...], users: tuple[int, ...], **_: Any) -> None:
        heard.append({"credentials": credentials, "users": users})

    revoked.connect(hear)
    yield heard
    revoked.disconnect(hear)


def get_authenticator() -> bearer.Authenticator:
    return parts.get(bearer.Authenticator)


def unknown_token() -> str:
    return "thp_" + secrets.token_urlsafe(32)


@sync_to_async
def issue(user: User, **options: Any) -> tuple[AccessToken, str]:
    return AccessToken.objects.issue(user, "laptop", **options)


async def get_refusal(token: str, address: str = "") -> token_errors.BadToken:
    with pytest.raises(token_errors.BadToken) as caught:
        await get_authenticator().authenticate(token, address)
    return caught.value


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "thp_short",
        "Bearer thp_" + "a" * 43,
        "thp_" + "a" * 44,
        "thp_" + "ä" * 43,
        "thp_" + "\ud800" * 43,
        "0" * 9000,
    ],
)
async def test_malformed_tokens_are_rejected(token: str) -> None:
    assert (await get_refusal(token)).status == 401


async def test_unknown_expired_revoked_and_inactive_read_the_same_outside_and_differ_in_the_log(
    alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    expired, expired_text = await issue(alice)
    ended, ended_text = await issue(alice)
    await AccessToken.objects.filter(pk=expired.pk).aupdate(expires=timezone.now() - timedelta(seconds=1))
    await sync_to_async(ended.revoke)()
    with caplog.at_level(logging.INFO, "toolhub.access.bearer"):
        answers = [await get_refusal(text) for text in (unknown_token(), expired_text, ended_text)]
    _, inactive_text = await issue(alice)
    await sync_to_async(type(alice).objects.filter(pk=alice.pk).update)(is_active=False)
    answers.append(await get_refusal(inactive_text))
    assert {(answer.status, *answer.headers().items()) for answer in answers} == {
        (401, ("WWW-Authenticate", token_errors.challenge(sent=True)))
    }
    reasons = [answer.reason for answer in answers]
    assert reasons[0] == "unknown"
    assert "has expired" in reasons[1]
    assert "was revoked" in reasons[2]
    assert "not active" in reasons[3]
    assert "was revoked" in caplog.text
    for text in (expired_text, ended_text):
        assert text not in caplog.text


async def test_a_cached_token_is_rejected_once_it_expires(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token, text = await issue(alice)
    ends = timezone.now() + timedelta(seconds=30)
    await AccessToken.objects.filter(pk=token.pk).aupdate(expires=ends)
    await get_authenticator().authenticate(text)
    assert get_authenticator().cached(text) is not None
    # Not waited for: on a busy machine a moment is over before the token was looked up at all.
    monkeypatch.setattr(bearer, "time", SimpleNamespace(time=ends.timestamp, monotonic=time.monotonic))
    monkeypatch.setattr(personal_tokens, "timezone", SimpleNamespace(now=lambda: ends))
    assert get_authenticator().cached(text) is None
    assert "has expired" in (await get_refusal(text)).reason


async def test_revoking_in_this_process_takes_effect_at_once(alice: User, revocations: list[dict[str, Any]]) -> None:
    token, text = await issue(alice)
    await get_authenticator().authenticate(text)
    assert get_authenticator().cached(text) is not None
    await sync_to_async(token.revoke)()
    assert get_authenticator().cached(text) is None
    assert "was revoked" in (await get_refusal(text)).reason
    assert revocations == [{"credentials": (token.credential_id,), "users": ()}]


async def test_a_look_up_that_began_before_a_revocation_is_not_remembered_after_it(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, text = await issue(alice)
    read, go_on = threading.Event(), threading.Event()

    def now() -> datetime:
        """The first time that is asked for after the row was read."""
        read.set()
        assert go_on.wait(60)
        return timezone.now()

    monkeypatch.setattr(personal_tokens, "timezone", SimpleNamespace(now=now))
    asking = asyncio.create_task(get_authenticator().authenticate(text))
    assert await asyncio.to_thread(read.wait, 60)
    await sync_to_async(token.revoke)()
    go_on.set()
    assert (await asking).id == token.credential_id, "it was valid when it was asked for"
    assert get_authenticator().cached(text) is None
    assert "was revoked" in (await get_refusal(text)).reason


async def test_deleting_the_token_or_the_user_takes_effect_at_once(alice: User) -> None:
    token, text = await issue(alice)
    _, second = await issue(alice)
    await get_authenticator().authenticate(text)
    await get_authenticator().authenticate(second)
    await token.adelete()
    assert (await get_refusal(text)).reason == "unknown"
    assert get_authenticator().cached(second) is not None
    await alice.adelete()
    assert (await get_refusal(second)).reason == "unknown"


async def test_deactivating_a_user_takes_effect_at_once_and_is_announced(
    alice: User, revocations: list[dict[str, Any]]
) -> None:
    _, text = await issue(alice)
    await get_authenticator().authenticate(text)
    alice.is_active = False
    await alice.asave()
    assert "not active" in (await get_refusal(text)).reason
    assert revocations == [{"credentials": (), "users": (alice.pk,)}]


async def test_a_change_without_a_signal_takes_effect_when_the_cache_expires(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer, "FRESH_SECONDS", 0.2)
    token, text = await issue(alice)
    await get_authenticator().authenticate(text)
    # As another process would: straight into the table.
    await sync_to_async(_revoke_by_sql)(token.pk)
    await wait_until_async(lambda: get_authenticator().cached(text) is None)
    assert "was revoked" in (await get_refusal(text)).reason


def _revoke_by_sql(pk: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE access_accesstoken SET revoked = %s WHERE id = %s", [timezone.now(), pk])


async def test_messages_from_another_process_clear_the_cache_by_token_credential_user_or_entirely(alice: User) -> None:
    token, text = await issue(alice)
    for what in (digest_of(text), token.credential_id, alice.pk, None):
        await get_authenticator().authenticate(text)
        assert get_authenticator().cached(text) is not None
        get_authenticator().forget(what)
        assert get_authenticator().cached(text) is None
    await get_authenticator().authenticate(text)
    get_authenticator().forget("token:0")
    get_authenticator().forget(0)
    assert get_authenticator().cached(text) is not None


async def test_a_rolled_back_revocation_is_not_announced(alice: User, revocations: list[dict[str, Any]]) -> None:
    from django.db import transaction

    token, text = await issue(alice)
    await get_authenticator().authenticate(text)

    def change_of_mind() -> None:
        with transaction.atomic():
            token.revoke()
            transaction.set_rollback(True)

    await sync_to_async(change_of_mind)()
    assert revocations == []
    assert get_authenticator().cached(text) is not None


async def test_an_address_with_too_many_bad_tokens_waits_while_every_valid_token_goes_on(
    alice: User, address: str, settings: Any
) -> None:
    settings.BAD_TOKENS_RATE = "3/10h"
    _, text = await issue(alice)
    _, fresh = await issue(alice)
    await get_authenticator().authenticate(text, address)
    assert [(await get_refusal(unknown_token(), address)).status for _ in range(3)] == [401, 401, 401]
    refused = await get_refusal(unknown_token(), address)
    assert isinstance(refused, token_errors.TooManyBadTokens)
    assert refused.status == 429
    assert 0 < int(refused.headers()["Retry-After"]) <= 36_000
    for malformed in ("x", "", "thp_short"):
        assert (await get_refusal(malformed, address)).status == 429
    for valid in (text, fresh):
        assert (await get_authenticator().authenticate(valid, address)).user_id == alice.pk
    assert (await get_refusal(unknown_token(), address)).status == 429, "a valid token frees nobody"
    assert (await get_refusal(unknown_token(), address + "0")).status == 401


async def test_a_token_created_while_its_address_is_throttled_passes(
    alice: User, address: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issued_tokens, "FRESH_SECONDS", 0.0)
    settings.BAD_TOKENS_RATE = "1/10h"
    assert [(await get_refusal(unknown_token(), address)).status for _ in range(3)] == [401, 429, 429]
    _, created = await issue(alice)
    expired, prolonged = await issue(alice, days=-1)
    assert (await get_authenticator().authenticate(created, address)).user_id == alice.pk
    assert (await get_refusal(prolonged, address)).status == 429
    monkeypatch.setattr(issued_tokens, "RELOAD_SECONDS", 0.0)
    expired.expires = timezone.now() + timedelta(days=1)
    await expired.asave()
    assert (await get_authenticator().authenticate(prolonged, address)).user_id == alice.pk


async def test_a_flood_of_invented_tokens_from_a_throttled_address_costs_no_queries(
    alice: User, address: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BAD_TOKENS_RATE = "1/10h"
    monkeypatch.setattr(issued_tokens, "FRESH_SECONDS", 3600.0)
    assert [(await get_refusal(unknown_token(), address)).status for _ in range(2)] == [401, 429]
    submitted: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(get_authenticator()._threads, "submit", lambda *work: submitted.append(work))
        refusals = await asyncio.gather(*(get_refusal(unknown_token(), address) for _ in range(100)))
    assert all(refused.status == 429 and int(refused.headers()["Retry-After"]) > 0 for refused in refusals)
    assert submitted == []


async def test_who_goes_on_with_invented_tokens_is_answered_later_and_nobody_else_is(
    alice: User, address: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BAD_TOKENS_RATE = "1/10h"
    monkeypatch.setattr(issued_tokens, "FRESH_SECONDS", 3600.0)
    monkeypatch.setattr(rates, "REFUSAL_SECONDS", 3600.0)
    monkeypatch.setattr(get_authenticator()._delays, "_rates", rates.Rates(0.001, 3))
    _, valid = await issue(alice)

    async def status(token: str, sender: str) -> int:
        try:
            await get_authenticator().authenticate(token, sender)
        except token_errors.BadToken as refused:
            return refused.status
        return 200

    assert [await status(unknown_token(), address) for _ in range(5)] == [401, 429, 429, 429, 429]
    waiting = asyncio.ensure_future(status(unknown_token(), address))
    await asyncio.sleep(0)
    assert await status(valid, address) == 200
    assert await status(unknown_token(), address + "0") == 401
    assert not waiting.done()
    waiting.cancel()


async def test_addresses_of_one_ipv6_network_are_one_sender_and_ipv4_has_one_spelling(
    alice: User, settings: Any
) -> None:
    settings.BAD_TOKENS_RATE = "2/10h"
    network = f"2001:db8:{secrets.randbelow(65536):x}:{secrets.randbelow(65536):x}"
    statuses = [(await get_refusal(unknown_token(), f"{network}::{number:x}")).status for number in range(3)]
    assert statuses == [401, 401, 429]
    assert (await get_refusal(unknown_token(), "2001:db9::1")).status == 401, "another network"
    four = f"198.51.{secrets.randbelow(256)}.{secrets.randbelow(256)}"
    spellings = [four, f"::ffff:{four}", four]
    assert [(await get_refusal(unknown_token(), spelling)).status for spelling in spellings] == [401, 401, 429]


async def test_one_address_cannot_take_every_place_among_the_waiting_look_ups(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer, "MAX_WAITING_FROM_ADDRESS", 3)
    monkeypatch.setattr(bearer, "ANSWER_SECONDS", 60.0)
    _, known = await issue(alice)
    _, fresh = await issue(alice)
    await get_authenticator().authenticate(known, "192.0.2.1")
    for row in get_authenticator()._known.values():
        row.fresh_until = 0
    stuck = threading.Event()
    for _ in range(3):
        get_authenticator()._threads.submit(stuck.wait, 60)
    waiting = [asyncio.create_task(get_refusal(unknown_token(), "192.0.2.1")) for _ in range(3)]
    await asyncio.sleep(0)
    assert (await get_refusal(unknown_token(), "192.0.2.1")).status == 429
    assert (await get_authenticator().authenticate(known, "192.0.2.1")).user_id == alice.pk
    elsewhere = asyncio.create_task(get_authenticator().authenticate(fresh, "192.0.2.2"))
    await asyncio.sleep(0)
    stuck.set()
    assert {bad.reason for bad in await asyncio.gather(*waiting)} == {"unknown"}
    assert (await elsewhere).user_id == alice.pk
    assert get_authenticator()._waiting == {}


async def test_while_the_database_is_away_known_tokens_go_on_and_unknown_ones_cannot_be_checked(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, text = await issue(alice)
    _, ending = await issue(alice)
    _, never_seen = await issue(alice)
    await get_authenticator().authenticate(text)
    await get_authenticator().authenticate(ending)
    monkeypatch.setattr(bearer, "FRESH_SECONDS", 0.0)
    await sync_to_async(get_authenticator().settle)()
    for known in get_authenticator()._known.values():
        known.fresh_until = 0
    monkeypatch.setitem(connections.settings["default"], "NAME", "/nowhere/at/all.sqlite3")
    assert (await get_authenticator().authenticate(text)).id == token.credential_id
    refused = await get_refusal(never_seen)
    assert (refused.status, refused.headers()) == (503, {"Retry-After": "5"})
    assert await get_authenticator().filter_valid({token.credential_id, "token:999"}) == {
        token.credential_id,
        "token:999",
    }
    # A revocation that reached this process still bites, and ten minutes later nothing is taken on trust.
    get_authenticator().forget(digest_of(ending))
    assert (await get_refusal(ending)).status == 503
    monkeypatch.setattr(bearer, "STALE_SECONDS", 0.0)
    for known in get_authenticator()._known.values():
        known.stale_until = 0
    assert (await get_refusal(text)).status == 503
    assert await get_authenticator().filter_valid({token.credential_id}) == set()


async def test_a_known_token_expires_while_the_database_is_away(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token, text = await issue(alice)
    await get_authenticator().authenticate(text)
    await sync_to_async(get_authenticator().settle)()
    expires = token.expires.timestamp()
    monkeypatch.setitem(connections.settings["default"], "NAME", "/nowhere/at/all.sqlite3")
    for seconds, status in ((-1.0, 0), (0.0, 401)):
        for known in get_authenticator()._known.values():
            known.fresh_until = 0
        clock = SimpleNamespace(time=lambda seconds=seconds: expires + seconds, monotonic=time.monotonic)
        monkeypatch.setattr(bearer, "time", clock)
        if status:
            refused = await get_refusal(text)
            assert refused.status == status and "has expired" in refused.reason
        else:
            assert (await get_authenticator().authenticate(text)).id == token.credential_id


async def test_an_unresponsive_database_is_not_waited_for(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token, text = await issue(alice)
    _, never_seen = await issue(alice)
    await get_authenticator().authenticate(text)
    monkeypatch.setattr(bearer, "ANSWER_SECONDS", 0.2)
    for known in get_authenticator()._known.values():
        known.fresh_until = 0
    stuck = threading.Event()
    for _ in range(3):
        get_authenticator()._threads.submit(stuck.wait, 60)
    try:
        assert (await get_authenticator().authenticate(text)).id == token.credential_id
        assert get_authenticator().cached(text) is not None
        assert (await get_refusal(never_seen)).status == 503
        assert await get_authenticator().filter_valid({token.credential_id}) == {token.credential_id}
    finally:
        stuck.set()


async def test_the_number_of_tokens_waiting_for_lookup_is_bounded(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "MAX_WAITING_TOKENS", 3)
    monkeypatch.setattr(bearer, "ANSWER_SECONDS", 60.0)
    stuck = threading.Event()
    for _ in range(3):
        get_authenticator()._threads.submit(stuck.wait, 60)
    waiting = [asyncio.create_task(get_refusal(unknown_token())) for _ in range(3)]
    await asyncio.sleep(0)
    assert (await get_refusal(unknown_token())).status == 503
    stuck.set()
    assert {bad.reason for bad in await asyncio.gather(*waiting)} == {"unknown"}


async def test_a_valid_token_identifies_its_user_and_is_cached(alice: User) -> None:
    toolset = await sync_to_async(make_toolset)("Files")
    token, text = await issue(alice, days=7, toolsets=[toolset])
    assert get_authenticator().cached(text) is None
    credential = await get_authenticator().authenticate(text, "192.0.2.1")
    assert credential.user_id == alice.pk
    assert (credential.username, credential.label, credential.id) == ("alice", "laptop", f"token:{token.pk}")
    assert credential.toolset_ids == frozenset({toolset.pk})
    assert credential.expires_at == token.expires.timestamp()

    def known() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert get_authenticator().cached(text) is credential
        return len(queries)

    assert await sync_to_async(known)() == 0
    assert await get_authenticator().authenticate(text) is credential


async def test_a_restricted_token_whose_last_toolset_is_deleted_reaches_nothing(alice: User) -> None:
    toolset = await sync_to_async(make_toolset)("Files")
    _, text = await issue(alice, toolsets=[toolset])
    await toolset.adelete()
    assert (await get_authenticator().authenticate(text)).toolset_ids == frozenset()


async def test_changing_the_toolsets_of_a_token_takes_effect_at_once(alice: User) -> None:
    files, numbers = await sync_to_async(make_toolset)("Files"), await sync_to_async(make_toolset)("Numbers")
    token, text = await issue(alice, toolsets=[files])
    await get_authenticator().authenticate(text)
    await sync_to_async(token.toolsets.set)([numbers])
    assert (await get_authenticator().authenticate(text)).toolset_ids == frozenset({numbers.pk})


async def test_concurrent_lookups_of_one_token_share_a_query_and_survive_a_cancellation(alice: User) -> None:
    _, text = await issue(alice)
    askers = [asyncio.create_task(get_authenticator().authenticate(text)) for _ in range(50)]
    await asyncio.sleep(0)
    askers[0].cancel()
    answers = await asyncio.gather(*askers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert len({id(answer) for answer in answers[1:]}) == 1


async def test_last_use_is_written_once_a_minute_and_not_waited_for(alice: User) -> None:
    token, text = await issue(alice)
    await get_authenticator().authenticate(text)
    await sync_to_async(get_authenticator().settle)()
    first = (await AccessToken.objects.aget(pk=token.pk)).last_used
    assert first is not None
    get_authenticator().forget()
    await get_authenticator().authenticate(text)
    await sync_to_async(get_authenticator().settle)()
    assert (await AccessToken.objects.aget(pk=token.pk)).last_used == first


@pytest.mark.parametrize(("address", "stored"), [("10.0.0.7", "10.0.0.7"), ("", ""), ("f" * 100, "f" * 64)])
async def test_last_use_has_the_address_it_came_from(alice: User, address: str, stored: str) -> None:
    token, text = await issue(alice)
    await get_authenticator().authenticate(text, address)
    await sync_to_async(get_authenticator().settle)()
    assert (await AccessToken.objects.aget(pk=token.pk)).last_address == stored


def test_another_address_within_the_minute_is_stored_and_the_same_one_is_not(alice: User) -> None:
    token, _text = AccessToken.objects.issue(alice, "laptop")
    kind = personal_tokens.PersonalTokens()
    seen: list[tuple[Any, str]] = []
    for address in ("10.0.0.7", "10.0.0.7", "10.0.0.8"):
        kind.mark_used(token.pk, address)
        token.refresh_from_db()
        seen.append((token.last_used, token.last_address))
    assert seen[0] == seen[1]
    assert seen[2][1] == "10.0.0.8" and seen[2][0] > seen[1][0]


async def test_a_rotated_token_works_beside_its_successor_until_its_time_has_come(alice: User) -> None:
    token, text = await issue(alice)
    before = await get_authenticator().authenticate(text)
    done = await sync_to_async(rotation.rotate)(AccessToken.objects.all(), token.pk, keep_hours=1)
    old, new = [await get_authenticator().authenticate(each) for each in (text, done.text)]
    assert (old.id, new.id) == (before.id, done.token.credential_id) and old.id != new.id
    assert old.expires_at is not None and before.expires_at is not None
    assert old.expires_at < before.expires_at and abs(old.expires_at - time.time() - 3600) < 60
    at_once = await sync_to_async(rotation.rotate)(AccessToken.objects.all(), done.token.pk, keep_hours=0)
    assert (await get_refusal(done.text)).code == "revoked"
    assert (await get_authenticator().authenticate(at_once.text)).label == "laptop"


async def test_still_valid_names_those_that_are(alice: User, root: User) -> None:
    good, _ = await issue(alice)
    ended, _ = await issue(alice)
    await sync_to_async(ended.revoke)()
    tries = {f"admin:{alice.pk}", f"admin:{root.pk}", f"admin:{root.pk}:{alice.pk}", f"admin:{alice.pk}:{root.pk}"}
    wanted = {good.credential_id, ended.credential_id, f"stdio:{good.pk}", "admin:0", "admin:", "token:x", *tries}
    good_ones = {good.credential_id, f"stdio:{good.pk}", f"admin:{root.pk}", f"admin:{root.pk}:{alice.pk}"}
    assert await get_authenticator().filter_valid(wanted) == good_ones
    assert await get_authenticator().filter_valid([]) == set()


def test_the_cache_is_bounded(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "MAX_CACHED_TOKENS", 2)
    texts = [AccessToken.objects.issue(alice, str(number))[1] for number in range(3)]
    for text in texts:
        get_authenticator().authenticate_now(text)
    assert [get_authenticator().cached(text) is not None for text in texts] == [False, True, True]


@pytest.mark.parametrize("value", [None, "", "Basic abc", "Bearer", "Bearer ", "thp_x"])
def test_a_header_without_a_bearer_token_is_challenged_without_an_error(value: str | None) -> None:
    with pytest.raises(token_errors.BadToken) as caught:
        bearer.from_header(value)
    challenge = caught.value.headers()["WWW-Authenticate"]
    assert challenge == (
        'Bearer realm="toolhub", '
        'resource_metadata="http://localhost:8000/.well-known/oauth-protected-resource/mcp", scope="mcp"'
    )


@pytest.mark.parametrize("value", ["Bearer thp_x", "bearer thp_x", "BEARER   thp_x "])
def test_the_scheme_of_the_header_is_read_in_any_case(value: str) -> None:
    assert bearer.from_header(value) == "thp_x"
