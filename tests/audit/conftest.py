from __future__ import annotations

from tests.audit.stores import cluster, data_folder, postgres_store, audit_store, sqlite_store

__all__ = ["cluster", "data_folder", "postgres_store", "audit_store", "sqlite_store"]
