"""Rotation of access tokens: a new token replaces one, which works on for a while.

The new token has the name, the toolsets and the client of the one before, and is valid for as long as that one was. It
is another credential: sessions begin anew with it, and the audit log has its id. A token is rotated once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from toolhub.access.models import MAX_DAYS, AccessToken, AccessTokenQuerySet

KEEP_CHOICES = ((0, _("it stops at once")), (1, _("1 hour")), (24, _("1 day")), (168, _("7 days")))
"""For how many hours the replaced token may work on."""
DEFAULT_KEEP_HOURS, MAX_KEEP_HOURS = 24, 168
MAX_REPLACED_TOKENS = 100
"""Maximum number of replaced tokens of one user that still work; beyond it, one that is rotated stops at once."""

REPLACED, REVOKED, EXPIRED, INACTIVE, CROWDED = "replaced", "revoked", "expired", "inactive", "crowded"
_REASONS: dict[str, Promise] = {
    REPLACED: _("This token was already rotated. Rotate the token that replaced it."),
    REVOKED: _("This token was revoked and can't be rotated. Create a new token."),
    EXPIRED: _("This token has expired and can't be rotated. Create a new token."),
    INACTIVE: _("The account of this token is not active, so the token can't be rotated. Activate the account first."),
    CROWDED: _("Too many replaced tokens still work. Revoke one of them, or let this one stop at once."),
}


class RotationRefused(Exception):
    """A token that is not rotated, with the code of the reason; nothing was changed."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Rotation:
    """A finished rotation."""

    before: AccessToken
    """The replaced token, as it is now: revoked, or valid until its `expires`."""
    token: AccessToken
    text: str = field(repr=False)
    """The text of the new token, available only here."""


def explain(refused: RotationRefused) -> str:
    """Return the sentence about a token that is not rotated."""
    return str(_REASONS[refused.code])


def find_refusal(token: AccessToken) -> RotationRefused | None:
    """Return why this token cannot be rotated, as it is now; None when it can be."""
    if token.is_replaced:
        return RotationRefused(REPLACED)
    if token.revoked is not None:
        return RotationRefused(REVOKED)
    if token.is_expired:
        return RotationRefused(EXPIRED)
    return None if token.user.is_active else RotationRefused(INACTIVE)


def rotate(
    tokens: AccessTokenQuerySet,
    pk: int,
    *,
    keep_hours: int,
    made_by_owner: bool | None = None,
    maker_id: int | None = None,
    max_days: int = MAX_DAYS,
) -> Rotation:
    """Create the successor of one of these tokens, in one transaction; the token works on for `keep_hours` at most.

    `made_by_owner` is about the successor, whose text the person who rotates (`maker_id`) will know; with None it is as
    before. The
    successor is not valid for more than `max_days`, unless its predecessor was for longer from now on.

    Raises AccessToken.DoesNotExist when the token is not among them, and RotationRefused.
    """
    with transaction.atomic():
        # Whoever rotates it at the same time waits here, and then finds the successor.
        before = tokens.select_related("user").select_for_update(of=("self",)).get(pk=pk)
        if (refused := find_refusal(before)) is not None:
            raise refused
        if keep_hours and _count_replaced(before.user_id) >= MAX_REPLACED_TOKENS:
            raise RotationRefused(CROWDED)
        now = timezone.now()
        longest = max(before.expires - now, timedelta(days=max_days))
        token, text = AccessToken.objects.issue(
            before.user,
            before.name,
            lifetime=min(before.expires - before.created, longest),
            toolsets=list(before.toolsets.all()) if before.restricted else None,
            made_by_owner=before.made_by_owner if made_by_owner is None else made_by_owner,
            maker_id=before.maker_id if made_by_owner is None else maker_id,
            client_key=before.client_key,
            replaces=before,
        )
        ends = now + timedelta(hours=keep_hours)
        if not keep_hours:
            before.revoke()
        elif ends < before.expires:
            before.expires = ends
            before.save(update_fields=["expires"])
    return Rotation(before, token, text)


def _count_replaced(user_id: int) -> int:
    return AccessToken.objects.usable().filter(user=user_id, successor__isnull=False).count()
