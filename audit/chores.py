"""What a writer does now and then: closes what dead processes left, signs checkpoints, starts upkeep."""

from __future__ import annotations

from audit import checkpoints, upkeep
from audit.recovery import Recovery
from audit.writer import GroupWriter


class Chores:
    def __init__(self) -> None:
        self._recovery = Recovery()

    def now_and_then(self, writer: GroupWriter) -> None:
        """With every heartbeat, and when the chain was opened."""
        store = writer.store
        assert store is not None  # noqa: S101
        self._recovery.run(writer)
        if checkpoints.due(store):
            checkpoints.sign(store)
        upkeep.now_and_then()

    def at_the_end(self, writer: GroupWriter) -> None:
        assert writer.store is not None  # noqa: S101
        checkpoints.sign(writer.store)
