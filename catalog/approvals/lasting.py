"""Lasting grants: what an approver makes of an approval, so that exactly this call runs without one from then on.

The grant is for the person and the tool, has the arguments as its conditions, and lifts every approval rule for such
calls. So only somebody who may give access makes one, and only where all rules that can ask about the tool ask them.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from audit.actions import log
from catalog.approvals import bindings, decisions, requests
from catalog.approvals.requests import KIND, State, name_for_log
from catalog.conditions import exact, words
from catalog.conditions.mistakes import ConditionError
from catalog.models import Approval, Grant
from catalog.models.approvals import TRIED
from catalog.policy import asking, snapshot
from catalog.policy.asking import APPROVERS, Ask
from catalog.policy.definitions import Snapshot, ToolDefinition
from catalog.policy.grant_changes import end_grant
from catalog.policy.rules import Requester

GIVES_ACCESS: Final = "catalog.add_grant"
POSSIBLE: Final = (State.WAITING, State.APPROVED, State.USED)
"""States of a request of which a lasting grant can be made: it waits, or was approved."""


class NotPossible(Exception):
    """No lasting grant can be made. Pages have the sentence for its code.

    Codes: "others" (another rule asks other people about calls of the tool), "hidden" (secret values, or too large),
    "tried" (an administrator tried the tool as somebody else), "exists" (there is one already), "gone" (the tool, or
    the person's access to it), "unsealed" (toolhub did not write the request as it is).
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def may_make(row: Approval, user: Any) -> bool:
    """Return whether this user is one of the approvers, not the one who calls, and may give access."""
    if row.asks != APPROVERS or user.pk in row.callers:
        return False
    return decisions.may_decide(row, user) and bool(user.has_perm(GIVES_ACCESS))


def check(row: Approval, user: Any, catalogue: Snapshot) -> dict[str, Any]:
    """Return the arguments that a lasting grant of this request would be for. Raises NotPossible."""
    if row.lasting_grant_id is not None:
        raise NotPossible("exists")
    if row.credential.startswith(TRIED):
        raise NotPossible("tried")
    if not bindings.is_sealed(row):
        raise NotPossible("unsealed")
    tool = catalogue.items.get(("tool", row.tool_id or 0))
    if not isinstance(tool, ToolDefinition):
        raise NotPossible("gone")
    asks = asking.all_asks(catalogue, Requester(row.user_id), tool, time.time(), settings.ENVIRONMENT)
    groups = frozenset(user.groups.values_list("pk", flat=True))
    if not all(_is_asked(ask, groups) for ask in asks):
        raise NotPossible("others")
    arguments = _read(row)
    if arguments is None:
        raise NotPossible("hidden")
    return arguments


def make(key: Any, user: User, *, ends: datetime | None = None, note: str = "") -> Grant:
    """Approve a request that waits, and let the same call of this person run without approval from then on.

    Of a request that was approved before, only the second. Raises NotPossible, decisions.Refused, and ValidationError
    for arguments that no conditions can say.
    """
    catalogue = snapshot.latest()
    with transaction.atomic():
        row = requests.lock(key)
        if row is None or not decisions.may_see(row, user) or not may_make(row, user):
            raise decisions.Refused("gone")
        state = row.state_at(timezone.now())
        if state not in POSSIBLE:
            raise decisions.Refused("expired" if state == State.EXPIRED else decisions.code_of(row), row)
        arguments = check(row, user, catalogue)
        if row.state == State.WAITING:
            row = decisions.approve(key, user)
        try:
            conditions = exact.exactly(arguments)
        except ConditionError as error:
            raise ValidationError({"conditions": words.mistake(error)}) from None
        grant = Grant(
            tool_id=row.tool_id,
            user_id=row.user_id,
            conditions=conditions,
            ends=ends,
            skips_approval=True,
            note=note,
        )
        grant.full_clean()
        grant.save()
        Approval.objects.filter(pk=row.pk).update(lasting_grant=grant)
        after = {"grant": grant.pk, "arguments": json.loads(row.arguments), "ends": ends and ends.isoformat()}
        log.record("made lasting", KIND, name_for_log(row), None, after, actor=user.get_username())
    return grant


def end(key: Any, user: User) -> bool:
    """End the lasting grant that was made of a request; return False when it is not theirs to end, or not in force."""
    row = list_for(user).filter(pk=key).first()
    if row is None or row.lasting_grant is None or not may_end(row, user):
        return False
    with transaction.atomic():
        requests.end(
            row, State.VOID, user.get_username()
        )  # if no call used it: without the grant it would be good again
        end_grant(row.lasting_grant)
    log.record("ended", KIND, name_for_log(row), {"grant": row.lasting_grant_id}, None, actor=user.get_username())
    return True


def may_end(row: Approval, user: Any) -> bool:
    """Return whether this user is one of the approvers, and may give access."""
    return row.asks == APPROVERS and decisions.is_asked(row, user) and bool(user.has_perm(GIVES_ACCESS))


def list_for(user: Any) -> QuerySet[Approval]:
    """Return the requests with a lasting grant in force that this user has, or is one of the approvers of."""
    now = timezone.now()
    theirs = Q(user=user.pk) | Q(asks=APPROVERS, group__in=user.groups.values("pk"))
    ends = Q(lasting_grant__ends=None) | Q(lasting_grant__ends__gt=now)
    rows = Approval.objects.filter(theirs & ends, lasting_grant__skips_approval=True, lasting_grant__trial=False)
    rows = rows.filter(lasting_grant__user=F("user"), lasting_grant__tool=F("tool"))
    return rows.select_related("user", "tool", "group", "lasting_grant").order_by("-created", "-id")


def _is_asked(ask: Ask, groups: frozenset[int]) -> bool:
    return ask.asks == APPROVERS and ask.group_id in groups


def _read(row: Approval) -> dict[str, Any] | None:
    """Return the arguments of the call, if they are all there: what is hidden has another digest."""
    try:
        shown = json.loads(row.arguments)
    except ValueError:
        return None
    if not isinstance(shown, dict) or bindings.digest_arguments(row.context, shown) != row.argument_digests:
        return None
    return shown
