"""Notifications about changed connections after the commit, as for personal tokens."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import m2m_changed, post_delete, post_save

from toolhub.access.credential_changes import notify
from toolhub.oauth.models import Client, ConnectedApp

IGNORED_FIELDS = frozenset({"last_used", "last_address", "rotated", "previous_digest", "successor"})


def on_saved(instance: ConnectedApp, created: bool, update_fields: frozenset[str] | None, **_: Any) -> None:
    if not created and not (update_fields is not None and IGNORED_FIELDS.issuperset(update_fields)):
        notify(credentials=(instance.credential_id,))


def on_deleted(instance: ConnectedApp, **_: Any) -> None:
    notify(credentials=(instance.credential_id,))


def on_toolsets_changed(instance: Any, action: str, reverse: bool, **_: Any) -> None:
    if action.startswith("post_") and not reverse and isinstance(instance, ConnectedApp):
        notify(credentials=(instance.credential_id,))


def on_client_saved(instance: Client, created: bool, **_: Any) -> None:
    if not created and instance.blocked:
        apps = ConnectedApp.objects.filter(client=instance, revoked=None)
        if found := tuple(app.credential_id for app in apps):
            notify(credentials=found)


def connect() -> None:
    for signal, receiver, sender in (
        (post_save, on_saved, ConnectedApp),
        (post_delete, on_deleted, ConnectedApp),
        (m2m_changed, on_toolsets_changed, ConnectedApp.toolsets.through),
        (post_save, on_client_saved, Client),
    ):
        signal.connect(receiver, sender=sender, dispatch_uid=f"oauth.{receiver.__name__}")
