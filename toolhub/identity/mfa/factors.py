"""The second factors of an account: which there are, and their removal.

The authenticator app and passkeys are second factors. Recovery codes stand in for them, and go with the last one.
"""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

APP, PASSKEY, CODES = Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN, Authenticator.Type.RECOVERY_CODES
FACTORS = (APP, PASSKEY)


def find(user_id: int, kind: str) -> QuerySet[Authenticator]:
    found: QuerySet[Authenticator] = Authenticator.objects.filter(user_id=user_id, type=kind).order_by("created_at")
    return found


def has_any(user_id: int) -> bool:
    """Return whether the account has a second factor: then a password alone signs nobody in."""
    found: bool = Authenticator.objects.filter(user_id=user_id, type__in=FACTORS).exists()
    return found


def lock(user_id: int) -> None:
    """Let no other request change the factors of the account until the end of the transaction."""
    User.objects.select_for_update().get(pk=user_id)


def remove(user_id: int, kind: str, pk: int | None = None) -> list[Authenticator]:
    """Remove the factors of this kind, or the one with this key, and return them.

    With the last second factor, the recovery codes go too.
    """
    with transaction.atomic():
        lock(user_id)
        rows = find(user_id, kind)
        removed = list(rows if pk is None else rows.filter(pk=pk))
        for row in removed:
            row.delete()
        if not has_any(user_id):
            find(user_id, CODES).delete()
    return removed


def remove_all(user_id: int) -> int:
    """Remove every factor of the account, and return how many second factors there were."""
    with transaction.atomic():
        return len(remove(user_id, APP)) + len(remove(user_id, PASSKEY))
