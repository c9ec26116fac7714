"""Who is remembered as being here: whatever clients say about themselves, bounded, and nobody at another's cost."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from audit.types import Credential
from toolhub.server import clients
from toolhub.server import peer as peers
from toolhub.server.bus import Bus
from toolhub.server.clients import Clients
from toolhub.server.peer import Peer
from toolhub.server.sessions import Sessions
from toolhub.server.state import SharedState
from toolhub.server.subscribers import Subscribers
from toolhub.wire.envelope import Envelope

ALICE = Credential(1, "alice", "token:1", "laptop", None, None)
BOB = Credential(2, "bob", "token:2", "laptop", None, None)


@pytest.fixture
def registry() -> Clients:
    bus, state = Bus(), SharedState()
    return Clients(bus, Subscribers(bus, Sessions(bus, state), state))


def client(credential: Credential, name: str = "client", version: str = "1", **capabilities: Any) -> Peer:
    return peers.modern(Envelope("2026-07-28", name, version, capabilities, None, None), credential, "http", "::1")


def test_a_token_whose_client_takes_ever_new_names_pushes_nobody_else_out(monkeypatch, registry):
    monkeypatch.setattr(clients, "MAX_CLIENTS_PER_CREDENTIAL", 5)
    monkeypatch.setattr(clients, "MAX_CLIENTS", 10)
    registry.register_message(client(BOB), True)
    for number in range(50):
        registry.register_message(client(ALICE, f"name {number}"), True)
    rows, left_out = registry.rows(100)
    assert left_out == 0
    assert {row["client"] for row in rows if row["user"] == "alice"} == {f"name {number}" for number in range(45, 50)}
    assert [row["client"] for row in rows if row["user"] == "bob"] == ["client"]


def test_all_together_are_bounded(monkeypatch, registry):
    monkeypatch.setattr(clients, "MAX_CLIENTS", 10)
    for number in range(30):
        registry.register_message(client(Credential(number, "x", f"token:{number}", "", None, None)), True)
    rows, left_out = registry.rows(4)
    assert len(rows) == 4 and left_out == 6


def test_self_reported_client_data_is_truncated(registry):
    for name in ("n" * 1_000_000, "n" * 1_000_000 + "other"):
        registry.register_message(client(ALICE, name, "v" * 1_000_000), True)
    (row,) = registry.rows(100)[0]
    assert row["client"] == "n" * clients.MAX_NAME_CHARACTERS and row["version"] == "v" * clients.MAX_NAME_CHARACTERS
    assert len(row["key"]) < 1000


def test_the_capabilities_of_a_request_are_not_kept(registry):
    class Large(dict[str, Any]):
        """What can be watched."""

    large = Large()
    watched = weakref.ref(large)
    registry.register_message(client(ALICE, experimental=large), True)
    del large
    gc.collect()
    assert watched() is None and len(registry.rows(100)[0]) == 1


def test_disconnected_clients_are_forgotten(registry):
    registry.register_message(client(ALICE), True)
    registry.register_message(client(BOB), False)
    (bobs,) = [row["key"] for row in registry.rows(100)[0] if row["user"] == "bob"]
    registry.register_message(
        peers.modern(Envelope("2026-07-28", "s", "1", {}, None, None), ALICE, "websocket", "::1", "c1"), True
    )
    registry.forget("c1")
    rows, _left_out = registry.rows(100)
    assert {row["user"] for row in rows} == {"alice", "bob"} and bobs in {row["key"] for row in rows}
