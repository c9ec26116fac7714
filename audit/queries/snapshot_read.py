"""Several queries that see the database as it was at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction


@contextmanager
def one_moment() -> Iterator[None]:
    """What is read inside was true at once, whatever is committed meanwhile. For reading only; locks nobody out.

    Within a transaction that is open already, that one decides.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        # A transaction would begin with the lock for writing. This one gets its snapshot with its first query.
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
