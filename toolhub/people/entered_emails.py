"""Email addresses that another person entered: proof of who manages the account, not of who owns it.

Otherwise a manager of accounts could enter an address of their own, choose a password by mail, create a token, and keep
it when the account gets its owner's address and more access later.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models.signals import post_save, pre_save

from audit.actions import actor as actors
from toolhub.access.privileges import list_changes
from toolhub.people.models import EnteredEmail

_NEW = "_toolhub_new_email"


def connect() -> None:
    pre_save.connect(on_saving, sender=User, dispatch_uid="people.entered_emails.saving")
    post_save.connect(on_saved, sender=User, dispatch_uid="people.entered_emails.saved")


def on_saving(instance: User, update_fields: frozenset[str] | None, **_rest: Any) -> None:
    person = actors.current_user()
    if person is None or not person.is_authenticated or person.pk == instance.pk or not instance.email:
        return
    if update_fields is not None and "email" not in update_fields:
        return
    stored = User._base_manager.filter(pk=instance.pk).first() if instance.pk else None
    if "email" in list_changes(instance, stored, update_fields):
        setattr(instance, _NEW, person.get_username())


def on_saved(instance: User, **_rest: Any) -> None:
    if by := instance.__dict__.pop(_NEW, ""):
        EnteredEmail.objects.update_or_create(user=instance, defaults={"by": by})


def forget(user: User) -> bool:
    """Forget that another person entered the address, because somebody read its mail. Return whether one did."""
    return bool(EnteredEmail.objects.filter(user=user).delete()[0])
