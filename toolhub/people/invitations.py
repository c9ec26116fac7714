"""Inviting people: make, renew, revoke and accept an invitation, with every rule of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models.functions import Lower
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from audit.actions import actor as actors
from audit.actions import log
from audit.actions.model_signals import name_of
from toolhub.access import privileges
from toolhub.access.models import digest_of
from toolhub.people import outbox
from toolhub.people.models import DEFAULT_DAYS, NAME_CHARACTERS, Invitation, OutgoingMail

MAY_INVITE = "auth.add_user"
MAX_TOKEN_CHARACTERS = 100
MAX_SUFFIX = 1_000
_REFUSED_CHARACTERS = re.compile(r"[^\w.@+-]+")


class Refused(Exception):
    """An invitation that may not be made or renewed; the text is a sentence for the inviter."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whom to invite, as far as the inviter knows."""

    email: str = ""
    username: str = ""
    first_name: str = ""
    last_name: str = ""
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A new invitation, with its link, which is available only here."""

    invitation: Invitation
    link: str
    mailed: bool
    """Whether the link is also sent by mail."""


def find_obstacle() -> str:
    """Return why nobody can be invited here; empty when people can be."""
    if settings.LOCAL_PASSWORDS:
        return ""
    return _(
        "People sign in with the identity provider here, and accounts have no passwords: TOOLHUB_LOCAL_PASSWORDS is "
        "off. Turn it on to invite people."
    )


def find_refusal(inviter: User, groups: Sequence[Group]) -> str:
    """Return why this inviter may not invite into these groups; empty when they may."""
    if obstacle := find_obstacle():
        return obstacle
    reserved = privileges.find_reserved_groups(inviter, [group.pk for group in groups])
    return privileges.groups_refusal(reserved) if reserved else ""


def find_taken(emails: Iterable[str]) -> dict[str, str]:
    """Return, by address in lower case, why those of the addresses that cannot be invited cannot be."""
    wanted = sorted({email.lower() for email in emails if email})
    found: dict[str, str] = {}
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        invited = Invitation.objects.pending().annotate(lower=Lower("email")).filter(lower__in=part)
        for email in invited.values_list("lower", flat=True):
            found[email] = _("This address has a pending invitation. Send it again, or revoke it first.")
        for email in User.objects.annotate(lower=Lower("email")).filter(lower__in=part).values_list("lower", flat=True):
            found[email] = _("There is an account with this address.")
    return found


def invite(inviter: User, person: Person, *, note: str = "", days: int = DEFAULT_DAYS) -> Made:
    """Invite one person. Raises Refused."""
    if refusal := find_refusal(inviter, person.groups):
        raise Refused(refusal)
    made = Invitation(
        email=person.email,
        username=person.username,
        first_name=person.first_name,
        last_name=person.last_name,
        note=note,
        language=translation.get_language() or "",
        inviter=inviter,
        inviter_name=inviter.get_username(),
    )
    made.renew_token(days)
    with transaction.atomic():
        made.save()
        made.groups.set(person.groups)
        return _hand_out(made)


def renew(invitation: Invitation, inviter: User, days: int = DEFAULT_DAYS) -> Made:
    """Give an invitation that was not accepted a new link, from this inviter; the old link is dead. Raises Refused."""
    with transaction.atomic():
        found = Invitation.objects.select_for_update().get(pk=invitation.pk)
        if found.accepted is not None:
            raise Refused(_("This invitation was accepted. Invite the person anew if they need another account."))
        if refusal := find_refusal(inviter, list(found.groups.all())):
            raise Refused(refusal)
        found.inviter, found.inviter_name, found.revoked = inviter, inviter.get_username(), None
        found.language, found.mailed, found.mail_problem = translation.get_language() or "", None, ""
        found.renew_token(days)
        found.save()
        OutgoingMail.objects.filter(invitation=found).delete()
        log.record("renewed", "invitation", name_of(found), None, {"expires": found.expires})
        return _hand_out(found)


def revoke(invitation: Invitation) -> bool:
    """Revoke a link that was not used; return False when there is none."""
    with transaction.atomic():
        found = Invitation.objects.select_for_update().get(pk=invitation.pk)
        if found.accepted is not None or found.revoked is not None:
            return False
        found.revoked = timezone.now()
        found.save()
        OutgoingMail.objects.filter(invitation=found).delete()
    return True


def find_by_token(token: str) -> Invitation | None:
    """Return the invitation of a link while it can be accepted; None for any other token."""
    if not token or len(token) > MAX_TOKEN_CHARACTERS:
        return None
    return Invitation.objects.pending().select_related("inviter").filter(digest=digest_of(token)).first()


def accept(token: str, user: User) -> bool:
    """Save this new account with the groups of the invitation; return False when it can no longer be accepted.

    Of two at the same time, one is accepted. Raises IntegrityError when the username was taken meanwhile; the
    invitation is then as before.
    """
    with transaction.atomic(), actors.override(user.get_username()):
        # Its row is locked until the end: on SQLite every transaction has the database for itself.
        locked = Invitation.objects.select_for_update(of=("self",)).filter(digest=digest_of(token)).first()
        if locked is None or not Invitation.objects.pending().filter(pk=locked.pk).exists():
            return False
        user.is_staff = user.is_superuser = False
        user.save()
        user.groups.set(locked.groups.all())
        locked.accepted, locked.accepted_by, locked.accepted_name = timezone.now(), user, user.get_username()
        locked.save()
        given = {"user": user.get_username(), "inviter": locked.inviter_name, "address": actors.client_address()}
        log.record("accepted", "invitation", name_of(locked), None, given)
    return True


def suggest_username(invitation: Invitation) -> str:
    """Return a username that is free now, from what the inviter said; empty when they said nothing."""
    wanted = invitation.username or invitation.email.partition("@")[0]
    wanted = wanted or ".".join(filter(None, (invitation.first_name, invitation.last_name))).lower()
    base = _REFUSED_CHARACTERS.sub(".", unicodedata.normalize("NFKC", wanted)).strip(".")[: NAME_CHARACTERS - 5]
    if not base:
        return ""
    near = User.objects.filter(username__istartswith=base).values_list(Lower("username"), flat=True)
    taken = set(near[: 2 * MAX_SUFFIX])
    names = (base, *(f"{base}{number}" for number in range(2, MAX_SUFFIX)))
    return next((name for name in names if name.lower() not in taken), "")


def _hand_out(invitation: Invitation) -> Made:
    mailed = bool(invitation.email) and outbox.is_configured()
    if mailed:
        OutgoingMail.objects.create(invitation=invitation, language=invitation.language)
    return Made(invitation, outbox.invitation_url(invitation.derive_token()), mailed)
