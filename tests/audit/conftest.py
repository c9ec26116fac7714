from __future__ import annotations

from tests.audit.stores import audit_store, cluster, data_folder, postgres_store, sqlite_store

__all__ = ["audit_store", "cluster", "data_folder", "postgres_store", "sqlite_store"]
