"""What follows from a changed mapping, identity or account, in the transaction of the change."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models.signals import post_delete, post_save

from toolhub.identity import accounts, groups
from toolhub.identity.models import Deactivation, GroupMapping, Identity


def on_mapping_changed(instance: GroupMapping, **_: Any) -> None:
    groups.apply_all(instance.provider)


def on_identity_deleted(instance: Identity, **_: Any) -> None:
    groups.apply(instance.user_id, withdrawn=instance.given)


def on_user_saved(instance: User, created: bool, **_: Any) -> None:
    """Forget why an account was inactive once it is active again, and start its period anew."""
    if created or not instance.is_active or not Deactivation.objects.filter(user=instance).delete()[0]:
        return
    for identity in Identity.objects.select_related("provider").filter(user=instance, valid_until__isnull=False):
        accounts.extend(identity)
        identity.save(update_fields=["valid_until"])


def connect() -> None:
    for signal, receiver, sender in (
        (post_save, on_mapping_changed, GroupMapping),
        (post_delete, on_mapping_changed, GroupMapping),
        (post_delete, on_identity_deleted, Identity),
        (post_save, on_user_saved, User),
    ):
        signal.connect(receiver, sender=sender, dispatch_uid=f"identity.{receiver.__name__}.{id(signal)}")
