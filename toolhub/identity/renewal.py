"""The background check of people who signed in: whether they still may, and in which groups they are.

With the provider's token it is asked again every few minutes. Without one, or while it cannot be asked, the sign-in
lapses at its time. A person who is refused or lapsed has an inactive account, which ends every token, app and session.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, transaction
from django.utils import timezone

from audit.actions import actor
from catalog.encryption import DecryptionError, KeysError
from toolhub.access.backends import may_use_password
from toolhub.identity import accounts, github, groups, openid, sign_in
from toolhub.identity.models import Deactivation, Identity, Provider
from toolhub.identity.openid import NotConfirmed, Refused
from toolhub.identity.people import Person

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
"""Seconds between two looks at who is due: also the time until a lapsed sign-in ends everything."""
MAX_CHECKS = 200
"""Maximum checks of one provider in one run, so that a run ends."""
MAX_FAILURES = 3
"""Checks in a row that a provider may not answer, until the others wait for the next run."""


def run() -> None:
    """Check everybody who is due, and end the sign-ins that lapsed; while the database is away, later."""
    try:
        for provider in Provider.objects.filter(enabled=True):
            _check_due(provider)
        end_lapsed()
    except (DatabaseError, InterfaceError) as error:
        log.warning("Sign-ins cannot be checked now: %s", type(error).__name__)


def _check_due(provider: Provider) -> None:
    before = timezone.now() - timedelta(minutes=provider.check_minutes)
    due = Identity.objects.filter(
        provider=provider,
        issuer=provider.issuer,  # a token of an earlier issuer is not for this one
        checked__lt=before,
        user__is_active=True,
    ).exclude(refresh_token="")
    failures = 0
    for identity in due.select_related("provider").order_by("checked")[:MAX_CHECKS]:
        # One process at a time: two would use the same token, and providers revoke one that comes twice.
        if not Identity.objects.filter(pk=identity.pk, checked=identity.checked).update(checked=timezone.now()):
            continue
        try:
            check(identity)
            failures = 0
        except (NotConfirmed, DecryptionError, KeysError) as error:
            failures += 1
            log.warning("%s did not confirm identity %s: %s", provider, identity.pk, error)
            if failures >= MAX_FAILURES:
                return


def check(identity: Identity) -> None:
    """Ask the provider about one person, and do what follows.

    Raises NotConfirmed, DecryptionError, KeysError: the sign-in then lapses unless a later check succeeds.
    """
    provider = identity.provider
    ask = github.check if provider.kind == Provider.Kind.GITHUB else openid.check
    try:
        person, token = ask(provider, identity.read_refresh_token(), identity.subject)
    except Refused:
        if _is_current(identity):
            end(identity, Deactivation.Reason.REFUSED)
        return
    store(identity, person, token)


def store(identity: Identity, person: Person, token: str) -> None:
    """Store the answer to a check, unless the person signed in meanwhile: the answer to that is newer."""
    if not _is_current(identity):
        return
    try:
        sign_in.confirm(identity, person, token)
    except sign_in.Refusal as refusal:
        log.info("identity %s was confirmed and has no active account: %s", identity.pk, refusal.code)


def _is_current(identity: Identity) -> bool:
    """Return whether the stored token is still the one that was used."""
    return Identity.objects.filter(pk=identity.pk, refresh_token=identity.refresh_token).exists()


def end(identity: Identity, reason: Deactivation.Reason) -> None:
    """Deactivate the account of an identity that the provider no longer confirms, and forget its token."""
    Identity.objects.filter(pk=identity.pk).update(refresh_token="", valid_until=timezone.now())
    accounts.deactivate(identity.user_id, reason, identity.provider.actor_name)


def end_lapsed() -> None:
    """End the sign-ins that lapsed: deactivate their accounts, or take back the groups of a linked identity.

    Whoever had an account here before they linked an identity to it, and can sign in without it, keeps the account.
    """
    lapsed = Identity.objects.filter(valid_until__lt=timezone.now(), user__is_active=True)
    for identity in lapsed.select_related("provider", "user"):
        by = identity.provider.actor_name
        user = identity.user
        if identity.linked_by_owner and user.has_usable_password() and may_use_password(user):
            _take_back(identity, by)
        elif accounts.is_last_administrator(user):
            log.warning("The account %s stays active: it is the last administrator with a password.", user.pk)
            Identity.objects.filter(pk=identity.pk).update(valid_until=None)
        else:
            accounts.deactivate(user.pk, Deactivation.Reason.LAPSED, by)


def _take_back(identity: Identity, by: str) -> None:
    with transaction.atomic(), actor.override(by):
        identity.claimed_groups, identity.refresh_token, identity.valid_until = [], "", None
        identity.save(update_fields=["claimed_groups", "refresh_token", "valid_until"])
        groups.apply(identity.user_id)
