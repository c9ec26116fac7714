"""Who is remembered as being here: whatever clients say about themselves, bounded, and nobody at another's cost."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from audit.types import Credential
from toolhub.server import clients
from toolhub.server import peer as peers
from toolhub.server.peer import Peer
from toolhub.wire.envelope import Envelope

ALICE = Credential(1, "alice", "token:1", "laptop", None, None)
BOB = Credential(2, "bob", "token:2", "laptop", None, None)


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    clients.reset()
    yield
    clients.reset()


def client(credential: Credential, name: str = "client", version: str = "1", **capabilities: Any) -> Peer:
    return peers.modern(Envelope("2026-07-28", name, version, capabilities, None, None), credential, "http", "::1")


def test_a_token_whose_client_takes_ever_new_names_pushes_nobody_else_out(monkeypatch):
    monkeypatch.setattr(clients, "PER_CREDENTIAL", 5)
    monkeypatch.setattr(clients, "MAX_CLIENTS", 10)
    clients.noted(client(BOB), True)
    for number in range(50):
        clients.noted(client(ALICE, f"name {number}"), True)
    rows, left_out = clients.rows(100)
    assert left_out == 0
    assert {row["client"] for row in rows if row["user"] == "alice"} == {f"name {number}" for number in range(45, 50)}
    assert [row["client"] for row in rows if row["user"] == "bob"] == ["client"]


def test_all_together_are_bounded(monkeypatch):
    monkeypatch.setattr(clients, "MAX_CLIENTS", 10)
    for number in range(30):
        clients.noted(client(Credential(number, "x", f"token:{number}", "", None, None)), True)
    rows, left_out = clients.rows(4)
    assert len(rows) == 4 and left_out == 6


def test_what_a_client_says_about_itself_is_kept_only_so_far():
    for name in ("n" * 1_000_000, "n" * 1_000_000 + "other"):
        clients.noted(client(ALICE, name, "v" * 1_000_000), True)
    (row,) = clients.rows(100)[0]
    assert row["client"] == "n" * clients.LONGEST and row["version"] == "v" * clients.LONGEST
    assert len(row["key"]) < 1000


def test_the_capabilities_of_a_request_are_not_kept():
    class Large(dict[str, Any]):
        """What can be watched."""

    large = Large()
    watched = weakref.ref(large)
    clients.noted(client(ALICE, experimental=large), True)
    del large
    gc.collect()
    assert watched() is None and len(clients.rows(100)[0]) == 1


def test_whoever_left_is_not_here_any_more():
    clients.noted(client(ALICE), True)
    clients.noted(client(BOB), False)
    (bobs,) = [row["key"] for row in clients.rows(100)[0] if row["user"] == "bob"]
    clients.noted(peers.modern(Envelope("2026-07-28", "s", "1", {}, None, None), ALICE, "websocket", "::1", "c1"), True)
    clients.forget("c1")
    rows, _left_out = clients.rows(100)
    assert {row["user"] for row in rows} == {"alice", "bob"} and bobs in {row["key"] for row in rows}
