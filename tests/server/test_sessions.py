"""Sessions: who may use an id, when it ends, and what survives the loss of everything that was stored."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.core import signing

from audit.types import Credential
from toolhub.server import sessions
from toolhub.server.bus import Bus
from toolhub.server.peer import Session
from toolhub.server.sessions import Sessions
from toolhub.server.state import SharedState

ALICE = Credential(1, "alice", "token:1", "laptop", None, None)
BOB = Credential(2, "bob", "token:2", "laptop", None, None)


class Worker(Sessions):
    """The sessions of a process of its own."""

    def __init__(self) -> None:
        super().__init__(Bus(), SharedState())

    def make(self, credential: Credential = ALICE, **capabilities: Any) -> Session:
        return self.create(credential, "2025-11-25", capabilities, "client", "1")


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.mark.parametrize(
    "other",
    [
        BOB,
        Credential(1, "alice", "token:9", "phone", None, None),
        Credential(2, "bob", "token:1", "laptop", None, None),
    ],
    ids=["another user", "another token of the same user", "another user with a token of this id"],
)
async def test_a_session_of_somebody_else_is_unknown(worker: Worker, other: Credential) -> None:
    session = worker.make()
    with pytest.raises(sessions.UnknownSession):
        await worker.require(session.id, other)
    with pytest.raises(sessions.UnknownSession):
        await worker.close(session.id, other)
    assert await worker.require(session.id, ALICE) is session


@pytest.mark.parametrize(
    "spoil", [lambda x: x[:-1], lambda x: x + "A", lambda x: "", lambda x: "é" * 50, lambda x: x * 40]
)
async def test_a_tampered_session_id_is_unknown(worker: Worker, spoil: Any) -> None:
    session = worker.make()
    with pytest.raises(sessions.UnknownSession):
        await worker.require(spoil(session.id), ALICE)


async def test_an_id_signed_for_another_purpose_is_unknown(worker: Worker) -> None:
    forged = signing.dumps(["k", 1, "token:1", "2025-11-25", {}, "", "", int(time.time())], salt="something else")
    with pytest.raises(sessions.UnknownSession):
        await worker.require(forged, ALICE)


async def test_a_closed_session_is_unknown_from_then_on(worker: Worker) -> None:
    session = worker.make()
    await worker.close(session.id, ALICE)
    with pytest.raises(sessions.UnknownSession):
        await worker.require(session.id, ALICE)
    with pytest.raises(sessions.UnknownSession):
        await worker.close(session.id, ALICE)


async def test_a_session_nobody_used_for_too_long_is_unknown(
    worker: Worker, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SESSION_IDLE_SECONDS = 60
    session = worker.make()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 50)
    await worker.require(session.id, ALICE)
    monkeypatch.setattr(time, "time", lambda: now + 100)
    await worker.require(session.id, ALICE)
    monkeypatch.setattr(time, "time", lambda: now + 170)
    with pytest.raises(sessions.UnknownSession):
        await worker.require(session.id, ALICE)


async def test_another_worker_reads_everything_from_the_id_alone(worker: Worker) -> None:
    session = worker.make(
        elicitation={"form": {}, "url": {}}, sampling={}, roots={"listChanged": True}, experimental={"x": {}}
    )
    again = await Worker().require(session.id, ALICE)
    assert again is not session
    assert (again.key, again.revision, again.client_name) == (session.key, "2025-11-25", "client")
    assert again.capabilities == {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": {}}}


async def test_an_id_is_visible_ascii_and_short_whatever_the_client_says(worker: Worker) -> None:
    session = worker.create(
        ALICE, "2025-06-18", {"sampling": {"x" * 9000: {}}, "other": "y" * 9000}, "näme" * 900, "1" * 900
    )
    assert all(0x21 <= ord(character) <= 0x7E for character in session.id)
    assert len(session.id) < 2000
    assert (await Worker().require(session.id, ALICE)).client_name == ("näme" * 900)[:100]


@pytest.mark.parametrize(
    ("revision", "left"),
    [
        ("2025-03-26", {"sampling": {}}),
        ("2025-06-18", {"sampling": {}, "elicitation": {}}),
        ("2025-11-25", {"sampling": {"tools": {}}, "elicitation": {"url": {}}}),
    ],
)
async def test_capabilities_unknown_to_a_revision_are_dropped(
    worker: Worker, revision: str, left: dict[str, Any]
) -> None:
    session = worker.create(ALICE, revision, {"sampling": {"tools": {}}, "elicitation": {"url": {}}}, "", "")
    assert session.capabilities == left


async def test_subscriptions_are_kept_and_bounded(worker: Worker) -> None:
    session = worker.make()
    for number in range(sessions.MAX_SUBSCRIPTIONS):
        await worker.subscribe(session, f"test://{number}")
    with pytest.raises(sessions.TooManySubscriptions):
        await worker.subscribe(session, "test://one-more")
    await worker.subscribe(session, "test://0")
    await worker.unsubscribe(session, "test://1")
    assert await worker.is_subscribed(session, "test://0")
    assert not await worker.is_subscribed(session, "test://1")
    await worker.subscribe(session, "test://one-more")


async def test_a_long_address_is_subscribed_and_stored_short(worker: Worker) -> None:
    session, long = worker.make(), "test://" + "x" * 8_000
    await worker.subscribe(session, long)
    assert await worker.is_subscribed(session, long) and not await worker.is_subscribed(session, long + "y")
    assert sum(map(len, await worker._state.read(session.key))) < 200
    await worker.unsubscribe(session, long)
    assert not await worker.is_subscribed(session, long)


async def test_of_a_session_that_ended_only_its_end_is_kept(worker: Worker) -> None:
    session = worker.make()
    await worker.subscribe(session, "test://a")
    await worker.set_level(session, "debug")
    await worker.end(session)
    assert await worker._state.read(session.key) == {"closed": "1"}
    assert not worker._subscribed and not worker._subscribers


async def test_one_user_with_ever_more_sessions_keeps_the_subscriptions_of_the_newest(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_USER_SUBSCRIPTIONS", 5)
    made = [worker.make() for _ in range(4)]
    other = worker.make(BOB)
    for session in (other, *made):
        for number in range(2):
            await worker.subscribe(session, f"test://{number}")
    kept = [await worker.is_subscribed(session, "test://0") for session in (other, *made)]
    assert kept == [True, False, False, True, True]
    await worker.subscribe(made[0], "test://again")
    assert await worker.is_subscribed(made[0], "test://again"), "an older session may subscribe again"
