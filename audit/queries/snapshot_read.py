"""Consistent reads: several queries that see the same snapshot of the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction


@contextmanager
def one_moment() -> Iterator[None]:
    """Run several reads in one repeatable-read transaction, whatever is committed meanwhile.

    For reading only; it blocks no other transaction. Inside an open transaction, that transaction's isolation applies.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        # A normal transaction would begin with the write lock. This one gets its snapshot with its first query.
        sqlite: Any = connection
        usual, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
        try:
            with transaction.atomic():
                sqlite.transaction_mode = usual
                yield
        finally:
            sqlite.transaction_mode = usual
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
