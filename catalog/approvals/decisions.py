"""Decisions about requests: approve, deny, withdraw. The row is locked, so that of two approvers one decides.

Nobody decides without being one of those who are asked, and an approval is worth nothing once what it is bound to has
changed: both are looked at here, and again when the call runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from audit.actions import log
from catalog.approvals import bindings, requests, temporary
from catalog.approvals.requests import DENIAL_MINUTES, KIND, State, name_for_log
from catalog.functions.sanitise import sanitise_line
from catalog.models import Approval
from catalog.models.approvals import MAX_REASON_CHARACTERS
from catalog.policy import snapshot
from catalog.policy.asking import APPROVERS, PERSON
from catalog.policy.definitions import AskRule, Snapshot, ToolDefinition

NOT_THEIRS: Final = frozenset({"gone", "own"})
"""Codes of attempts to decide about what is not theirs to decide: they are logged."""


class Refused(Exception):
    """A decision that is not possible. Pages have the sentence for its code.

    Codes: "gone" (not there, or not theirs to see), "own" (four eyes), "decided", "used", "expired", "withdrawn",
    "void" (what was asked about changed).
    """

    def __init__(self, code: str, row: Approval | None = None) -> None:
        super().__init__(code)
        self.code, self.row = code, row


def may_see(row: Approval, user: Any) -> bool:
    """Return whether the request is theirs, or is or was for them to decide.

    Whoever decides sees no row that toolhub did not write: it could show another call than the one that waits.
    """
    if is_asked(row, user):
        return row.state != State.WAITING or bindings.is_sealed(row)
    return user.pk in row.callers


def may_decide(row: Approval, user: Any) -> bool:
    """Return whether this user is one of those who are asked, and not kept out by "four eyes"."""
    return is_asked(row, user) and not _is_own(row, user)


def is_asked(row: Approval, user: Any) -> bool:
    """Return whether the question goes to this user, own calls included."""
    if not user.is_active:
        return False
    if row.asks == PERSON:
        return bool(user.pk == row.person_id)
    return row.group_id is not None and user.groups.filter(pk=row.group_id).exists()


def _is_own(row: Approval, user: Any) -> bool:
    return bool(row.asks == APPROVERS and row.four_eyes and user.pk in row.callers)


def approve(key: Any, user: User, *, by_client: bool = False, minutes: int = 0, same: Iterable[str] = ()) -> Approval:
    """Approve a request; it can be used once, for as long as its rule says. Raises Refused.

    With `minutes`, calls like it are approved for so long as well: those with the same values of the arguments `same`.
    """
    with _locked(key, user) as row:
        now = timezone.now()
        row.expires = now + max(timedelta(minutes=1), row.expires - row.created)
        _decide(row, State.APPROVED, user, by_client=by_client)
        log.record("approved", KIND, name_for_log(row), {"state": "waiting"}, _describe(row), actor=user.get_username())
        if minutes:
            temporary.give(row, user, minutes, same)
    return row


def deny(key: Any, user: User, reason: str = "", *, by_client: bool = False) -> Approval:
    """Deny a request, with a reason that the model reads. Raises Refused."""
    with _locked(key, user) as row:
        row.reason = sanitise_line(reason)[:MAX_REASON_CHARACTERS]
        row.expires = timezone.now() + timedelta(minutes=DENIAL_MINUTES)
        _decide(row, State.DENIED, user, by_client=by_client)
        after = {**_describe(row), "reason": row.reason}
        log.record("denied", KIND, name_for_log(row), {"state": "waiting"}, after, actor=user.get_username())
    return row


def withdraw(key: Any, user: User) -> Approval:
    """End one's own request, also one that was approved and not used. Raises Refused."""
    with transaction.atomic():
        row = requests.lock(key)
        if row is None or user.pk not in row.callers:
            raise Refused("gone")
        if row.state not in Approval.LIVE:
            raise Refused(code_of(row), row)
        requests.end(row, State.WITHDRAWN, user.get_username())
    return row


def is_current(row: Approval, catalogue: Snapshot) -> bool:
    """Return whether everything that the request is bound to is as it was when the call asked. Reads the secrets."""
    tool = catalogue.items.get(("tool", row.tool_id or 0))
    if not isinstance(tool, ToolDefinition) or not bindings.is_sealed(row):
        return False
    rules = find_rules(catalogue, tool, row.rule_ids)
    if rules is None:
        return False
    found = bindings.find_contexts(catalogue, row.user_id, tool, [rules], time.time())
    return found == [row.context]


def find_rules(catalogue: Snapshot, tool: ToolDefinition, ids: list[int]) -> list[AskRule] | None:
    """Return the rules of a request that are still there, in their order; None when one is not."""
    known = {rule.id: rule for rule in catalogue.asks_by_tool.get(tool.id, ())}
    known |= {rule.id: rule for rules in catalogue.asks_by_grant.values() for rule in rules}
    return [known[number] for number in ids] if all(number in known for number in ids) else None


@contextmanager
def _locked(key: Any, user: User) -> Iterator[Approval]:
    """Yield a waiting request that this user may decide, locked. Raises Refused, and logs who tried."""
    try:
        with _open(key, user) as row:
            yield row
    except Refused as refused:
        if refused.code in NOT_THEIRS:
            found = refused.row or Approval.objects.select_related("user").filter(pk=key).first()
            if found is not None:
                after = {"reason": refused.code}
                log.record("failed to decide about", KIND, name_for_log(found), None, after, actor=user.get_username())
        raise


@contextmanager
def _open(key: Any, user: User) -> Iterator[Approval]:
    catalogue = snapshot.latest()
    void: Approval | None = None
    with transaction.atomic():
        row = requests.lock(key)
        if row is None or not is_asked(row, user):
            raise Refused("gone")
        if _is_own(row, user):
            raise Refused("own", row)
        if row.state != State.WAITING:
            raise Refused(code_of(row), row)
        if timezone.now() >= row.expires:
            raise Refused("expired", row)
        if is_current(row, catalogue):
            yield row
        else:
            requests.end(row, State.VOID, "toolhub")
            void = row
    if void is not None:
        raise Refused("void", void)


def code_of(row: Approval) -> str:
    """Return the code of Refused for a request that nobody can decide about any more."""
    return "decided" if row.state in (State.APPROVED, State.DENIED) else str(row.state)


def _decide(row: Approval, state: Approval.State, user: User, *, by_client: bool) -> None:
    row.state, row.decided_by, row.decided_at = state, user, timezone.now()
    row.decided_by_name, row.by_client = user.get_username(), by_client
    row.seal = bindings.seal(row)
    row.save()


def _describe(row: Approval) -> dict[str, Any]:
    return {"state": str(row.state), "call": str(row.call_id), **({"by": "client"} if row.by_client else {})}
