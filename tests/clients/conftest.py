"""One hub for all clients (SQLite, one process, the example catalogue), and a user of it for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients import catalogue
from tests.clients.catalogue import Person
from tests.real_servers import Hub


@pytest.fixture(scope="package")
def hub() -> Iterator[Hub]:
    with Hub(seed=catalogue.load) as running:
        yield running


@pytest.fixture
def somebody(hub: Hub) -> Callable[[], Person]:
    """Somebody who has not used the hub before, with a token."""
    return lambda: Person(*hub.seeded.pop())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on a pipe has to start first, which takes longer on a busy machine than the SDK waits for discovery."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)
