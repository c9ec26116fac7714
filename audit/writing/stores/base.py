"""The writer's own connection to the database: opened in its thread, checked for durability, without the ORM.

StoreUnavailable        the database cannot be written now: try again later
+-- NotDurable          it answers, but a committed row could be lost: nothing is logged until that is fixed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class StoreUnavailable(Exception):
    """Error: the database cannot be written now."""


class NotDurable(StoreUnavailable):
    """Error: a committed row could be lost."""


class KeyTaken(Exception):
    """Error: another process has written a row with this key."""


class AlreadyEnded(Exception):
    """Error: a call to end has an outcome already."""


Rows = Sequence[Sequence[Any]]


class Store(Protocol):
    """Connection of the writer.

    Every method raises StoreUnavailable when the database is the cause, and the driver's exception otherwise.
    """

    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...
    def run_after_commit(self, work: Callable[[], None]) -> None:
        """Run the work once the transaction that `begin` began is durable; not at all when it is rolled back."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int: ...
    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...
    def write(self, calls: Rows, ends: Rows, links: Rows) -> None:
        """Write the rows in one transaction that is durable when this returns.

        The columns are in the order of `sql`. Raise AlreadyEnded, with nothing written, when one of the ends belongs to
        no running call. After any exception `rollback` must be called.
        """

    @staticmethod
    def encode_time(ms: int) -> Any: ...
    @staticmethod
    def decode_time(value: Any) -> int: ...
