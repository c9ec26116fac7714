"""Errors of the database that another transaction at the same time caused: nothing was saved, and a new try may work.

try: ...
except DatabaseError as error:
    if not is_conflict(error): raise
"""

from __future__ import annotations

from typing import Final

from django.db import DatabaseError

REFERENCE_CODES: Final = frozenset({"23503", "SQLITE_CONSTRAINT_FOREIGNKEY"})
"""A row refers to one that is gone: SQLSTATE of PostgreSQL, and the name of SQLite's error."""
CODES: Final = REFERENCE_CODES | {
    "23505",  # unique_violation
    "40001",  # serialization_failure
    "40P01",  # deadlock_detected
    "SQLITE_CONSTRAINT_UNIQUE",
    "SQLITE_CONSTRAINT_PRIMARYKEY",
}


def is_conflict(error: DatabaseError) -> bool:
    """Return whether a row that was read is gone now, or one that was missing exists now, or two changes met."""
    return _code(error) in CODES


def is_lost_reference(error: DatabaseError) -> bool:
    """Return whether a row refers to one that does not exist any more."""
    return _code(error) in REFERENCE_CODES


def _code(error: DatabaseError) -> str:
    cause = error.__cause__
    return str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", ""))
