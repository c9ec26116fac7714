"""Accounts of people who sign in with an identity provider: made, deactivated, and active again."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from audit.actions import actor
from toolhub import invisible
from toolhub.identity.models import Deactivation, Identity, Provider

log = logging.getLogger(__name__)

MAX_NAME_CHARACTERS = 150
MAX_ATTEMPTS = 1000
_NOT_IN_NAMES = re.compile(r"[^\w.@+-]+")


def create(
    provider: Provider, wanted: str, *, email: str = "", first_name: str = "", last_name: str = "", by: str = ""
) -> User:
    """Create an account without a password and return it; `by` is for the audit log, by default the provider.

    Its name is the wanted one, or that with a number: an account that exists is never taken over.
    """
    stem = (
        _NOT_IN_NAMES.sub("-", invisible.show(User.normalize_username(wanted))).strip("-.")[: MAX_NAME_CHARACTERS - 6]
        or provider.slug
    )
    with actor.override(by or provider.actor_name):
        for number in range(1, MAX_ATTEMPTS):
            name = stem if number == 1 else f"{stem}-{number}"
            if User.objects.filter(username__iexact=name).exists():
                continue
            user = User(username=name, email=email[:254], first_name=_clean(first_name), last_name=_clean(last_name))
            user.set_unusable_password()
            try:
                with transaction.atomic():
                    user.save()
            except IntegrityError:  # another request took the name
                continue
            return user
    raise IntegrityError(f"{MAX_ATTEMPTS} accounts have names like {stem}")


def update(user: User, by: str, **wanted: str) -> None:
    """Give an account these names (`first_name`, `last_name`) or this email address."""
    cleaned = {name: text[:254] if name == "email" else _clean(text) for name, text in wanted.items()}
    changed = [name for name, text in cleaned.items() if getattr(user, name) != text]
    if changed:
        for name in changed:
            setattr(user, name, cleaned[name])
        with actor.override(by):
            user.save(update_fields=changed)


def deactivate(user_id: int, reason: Deactivation.Reason, by: str) -> bool:
    """Deactivate an account, which ends all its credentials and sessions; return whether it was active.

    The last active superuser with a password stays active: somebody must be able to repair the configuration.
    """
    with transaction.atomic(), actor.override(by):
        user = User.objects.select_for_update().filter(pk=user_id, is_active=True).first()
        if user is None:
            return False
        if is_last_administrator(user):
            log.warning("The account %s stays active: it is the last administrator with a password.", user.pk)
            return False
        Deactivation.objects.update_or_create(user=user, defaults={"reason": reason, "at": timezone.now()})
        user.is_active = False
        user.save(update_fields=["is_active"])
    return True


def may_reactivate(identity: Identity) -> bool:
    """Return whether this identity, by a sign-in or by provisioning, may undo the deactivation of its account.

    With several identities, only the one that ended may: else a person whom a provider refuses would come back with an
    identity elsewhere, and keep what that provider gave them.
    """
    others = Identity.objects.filter(user=identity.user_id).exclude(pk=identity.pk)
    if others.filter(provisioned=False).exists():
        return False
    deactivation = Deactivation.objects.filter(user=identity.user_id).first()
    if deactivation is None or deactivation.reason == Deactivation.Reason.REMOVED or not others.exists():
        return True
    return has_ended(identity, deactivation)


def has_ended(identity: Identity, deactivation: Deactivation) -> bool:
    """Return whether the identity had ended when the account was deactivated."""
    return identity.valid_until is not None and identity.valid_until <= deactivation.at


def reactivate(user_id: int, by: str) -> bool:
    """Undo a deactivation by an identity provider; return whether the account is active now.

    One that an administrator deactivated stays so, and so does one that a provider removed by provisioning, with
    whatever identity its owner signs in.
    """
    with transaction.atomic(), actor.override(by):
        user = User.objects.select_for_update().filter(pk=user_id).first()
        if user is None:
            return False
        if not user.is_active:
            if Identity.objects.filter(user=user, provisioned=False).exists():
                return False
            # Before the account is saved: else `changes` would take it for an administrator's decision.
            if not Deactivation.objects.filter(user=user).delete()[0]:
                return False
            user.is_active = True
            user.save(update_fields=["is_active"])
        return True


def is_last_administrator(user: User) -> bool:
    if not user.is_superuser or not user.has_usable_password():
        return False
    others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    return not any(other.has_usable_password() for other in others)


def extend(identity: Identity) -> None:
    """Confirm the sign-in for the provider's period, from now; the caller saves it."""
    identity.valid_until = timezone.now() + timedelta(hours=identity.provider.lapse_hours)


def _clean(name: str) -> str:
    return " ".join(invisible.show(name).split())[:MAX_NAME_CHARACTERS]
