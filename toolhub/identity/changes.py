"""What follows from a changed mapping, identity or account, in the transaction of the change."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models.signals import post_delete, post_save, pre_delete

from toolhub.identity import accounts, groups
from toolhub.identity.models import Deactivation, GroupMapping, Identity, Provider


def on_mapping_changed(instance: GroupMapping, **_: Any) -> None:
    groups.apply_all(instance.provider)


def on_provider_saved(instance: Provider, created: bool, **_: Any) -> None:
    """Take away what identities gave at another issuer, which this provider had before."""
    if created:
        return
    earlier = Identity.objects.filter(provider=instance).exclude(issuer=instance.issuer).exclude(given=[])
    for user_id in earlier.values_list("user_id", flat=True).distinct():
        groups.apply(user_id)


def on_identity_deleting(instance: Identity, **_: Any) -> None:
    """Read again what it gives, which may have changed since it was read, and wait for whoever changes it now."""
    User.objects.select_for_update().filter(pk=instance.user_id).first()
    instance.given = Identity.objects.filter(pk=instance.pk).values_list("given", flat=True).first() or []


def on_identity_deleted(instance: Identity, **_: Any) -> None:
    """Take away what it gave; an account that its end deactivated stays inactive until an administrator decides."""
    groups.apply(instance.user_id, withdrawn=instance.given)
    deactivation = Deactivation.objects.filter(user=instance.user_id).first()
    if deactivation is not None and accounts.has_ended(instance, deactivation):
        deactivation.delete()


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
        (post_save, on_provider_saved, Provider),
        (pre_delete, on_identity_deleting, Identity),
        (post_delete, on_identity_deleted, Identity),
        (post_save, on_user_saved, User),
    ):
        signal.connect(receiver, sender=sender, dispatch_uid=f"identity.{receiver.__name__}.{id(signal)}")
