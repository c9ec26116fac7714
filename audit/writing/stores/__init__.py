"""The writer's own connection to the database, for each engine that Django can be configured with."""

from __future__ import annotations

from django.db import connections

from audit.writing.stores.base import AlreadyEnded, KeyTaken, NotDurable, Store, StoreUnavailable

__all__ = ["AlreadyEnded", "KeyTaken", "NotDurable", "Store", "StoreUnavailable", "open_store"]


def open_store() -> Store:
    """Open a new connection to the database that Django uses. Raise StoreUnavailable when it cannot be used."""
    wrapper = connections["default"]
    if wrapper.vendor == "sqlite":
        from audit.writing.stores.sqlite import SqliteStore

        return SqliteStore(str(wrapper.settings_dict["NAME"]))
    if wrapper.vendor == "postgresql":
        from audit.writing.stores.postgres import PostgresStore

        return PostgresStore(wrapper.get_connection_params())
    raise StoreUnavailable(f"the audit log cannot be kept in {wrapper.vendor}")
