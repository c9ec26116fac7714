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
    found = await worker.subscriptions(session)
    assert "test://0" in found and "test://1" not in found and len(found) == sessions.MAX_SUBSCRIPTIONS - 1
