"""Announcements of changed resources: any number of them costs a bounded amount of work and memory."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from catalog.functions import resource_updated
from tests.polling import wait_until_async
from toolhub.server import update_collector
from toolhub.server.process import ServerRole
from toolhub.server.subscribers import UPDATED
from toolhub.server.update_collector import UpdateCollector


@pytest.fixture
async def told() -> Any:
    """What the workers are told, while a collector listens."""

    async def start_nothing() -> None:
        """No catalogue and no database."""

    server = ServerRole(start_nothing)
    await server.bus.start()
    found: list[str] = []
    server.bus.on(UPDATED, lambda payload: found.append(payload["uri"]))
    collector = UpdateCollector(server.subscribers)
    collector.start()
    yield found
    collector.stop()
    resource_updated("docs://after")
    await server.bus.stop()
    assert "docs://after" not in found and collector._waiting == {}


async def test_announcements_within_a_moment_are_told_once_each(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[UpdateCollector] = []
    pass_on = UpdateCollector._pass_on

    def count(collector: UpdateCollector) -> None:
        passes.append(collector)
        pass_on(collector)

    monkeypatch.setattr(UpdateCollector, "_pass_on", count)
    for _ in range(1000):
        resource_updated("docs://one")
        resource_updated("docs://two")
    await wait_until_async(lambda: len(told) >= 2)
    assert told == ["docs://one", "docs://two"] and len(passes) == 1
    resource_updated("docs://one")
    await wait_until_async(lambda: len(told) == 3)
    assert len(passes) == 2


async def test_more_resources_at_once_than_allowed_are_dropped_and_logged(
    told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(update_collector, "MAX_URIS", 3)
    with caplog.at_level(logging.WARNING):
        resource_updated("docs://" + "x" * update_collector.MAX_URI_CHARACTERS)
        for number in range(5):
            resource_updated(f"docs://{number}")
        # The log says it at once, the bus of the workers a little later.
        await wait_until_async(lambda: "dropped" in caplog.text and len(told) >= 3)
    assert told == ["docs://0", "docs://1", "docs://2"] and "2 announcements" in caplog.text
