"""Notifications of changed tokens and users after the commit: here directly, in other processes through `revoked`."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save

from toolhub.access.bearer import Authenticator
from toolhub.access.models import AccessToken
from toolhub.access.signals import revoked
from toolhub.parts import parts

IGNORED_FIELDS = frozenset({"last_used", "last_login"})


def notify(*, credentials: tuple[str, ...] = (), users: tuple[int, ...] = (), superseded: bool = False) -> None:
    """Drop the cached answers about these and send `revoked`, after the commit.

    With `superseded`, the credentials stay valid, but their tokens from before do not: what is open ends.
    """

    def committed() -> None:
        if (authenticator := parts.find(Authenticator)) is not None:
            for credential in credentials:
                authenticator.forget(credential)
            for user in users:
                authenticator.forget(user)
        revoked.send(sender=AccessToken, credentials=credentials, users=users, superseded=superseded)

    transaction.on_commit(committed)


def _is_ignored(update_fields: frozenset[str] | None) -> bool:
    return update_fields is not None and IGNORED_FIELDS.issuperset(update_fields)


def on_token_saved(instance: AccessToken, created: bool, update_fields: frozenset[str] | None, **_: Any) -> None:
    if not created and not _is_ignored(update_fields):
        notify(credentials=(instance.credential_id,))


def on_token_deleted(instance: AccessToken, **_: Any) -> None:
    notify(credentials=(instance.credential_id,))


def on_toolsets_changed(instance: Any, action: str, reverse: bool, **_: Any) -> None:
    if action.startswith("post_") and not reverse and isinstance(instance, AccessToken):
        notify(credentials=(instance.credential_id,))


def on_user_saved(instance: Any, created: bool, update_fields: frozenset[str] | None, **_: Any) -> None:
    if not created and not _is_ignored(update_fields):
        notify(users=(instance.pk,))


def on_user_deleted(instance: Any, **_: Any) -> None:
    notify(users=(instance.pk,))


def connect() -> None:
    user = get_user_model()
    for signal, receiver, sender in (
        (post_save, on_token_saved, AccessToken),
        (post_delete, on_token_deleted, AccessToken),
        (m2m_changed, on_toolsets_changed, AccessToken.toolsets.through),
        (post_save, on_user_saved, user),
        (post_delete, on_user_deleted, user),
    ):
        signal.connect(receiver, sender=sender, dispatch_uid=f"access.{receiver.__name__}")
