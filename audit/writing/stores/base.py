"""The writer's own connection to the database: opened in its thread, asserted durable, without the ORM.

StoreAway               the database cannot be written now: try again later
+-- NotDurable          it answers, but a committed row could be lost: nothing is recorded until that is changed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class StoreAway(Exception):
    """The database cannot be written now."""


class NotDurable(StoreAway):
    """A row that was committed could be lost."""


class Taken(Exception):
    """Another process has written a row with this key."""


class Overtaken(Exception):
    """A call that was to be ended has an outcome already."""


Rows = Sequence[Sequence[Any]]


class Store(Protocol):
    """Every method raises StoreAway when the database is the reason, and what the driver raises otherwise."""

    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int: ...
    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...
    def write(self, calls: Rows, ends: Rows, links: Rows) -> None:
        """Rows as `statements` orders their columns, in one transaction that is durable when this returns.

        Raises Overtaken, with nothing written, when one of the ends belongs to no call that is running. After any
        exception `rollback` must be called.
        """

    @staticmethod
    def moment(ms: int) -> Any: ...
    @staticmethod
    def read_moment(value: Any) -> int: ...
