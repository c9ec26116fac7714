from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from audit.writing import writer
from tests.audit.stores import audit_store, cluster, data_folder, postgres_store, sqlite_store

__all__ = ["audit_store", "cluster", "data_folder", "postgres_store", "sqlite_store"]


@pytest.fixture
def auditor(db: None) -> User:
    user = User.objects.create_user("audrey", is_staff=True)
    user.groups.add(Group.objects.get(name="auditor"))
    return user


@pytest.fixture
def reader(client: Client, auditor: User) -> Client:
    """The browser of the auditor."""
    client.force_login(auditor)
    return client


@pytest.fixture
def late_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are signed by the ends of writers only.

    A heartbeat signs one when there is none: on a slow machine before a test's first calls have ended.
    """
    monkeypatch.setattr(writer, "FIRST_HEARTBEAT_SECONDS", 3600.0)
