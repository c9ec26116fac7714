"""An administrator's side: approve a request with a grant, decline it, undo that, and close reported calls.

Each decision is made once: the row is locked, so that of two administrators the second is told.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from audit.actions import log
from catalog import signals
from catalog.access_requests.submissions import KIND, REPORT_KIND, Refused, name_for_log
from catalog.models import AccessRequest, CallReport, Grant

State = AccessRequest.State
_LATER_COLUMNS = frozenset({"conditions", "windows", "flags", "skips_approval", "trial", "trial_since", "replaces_id"})
"""Columns that grants did not always have: while one is empty, it is no change of an earlier approval."""


class Stale(Exception):
    """The request or report was decided about, withdrawn or deleted meanwhile."""


def approve(
    key: int,
    by: str,
    *,
    ends: datetime | None = None,
    environments: tuple[str, ...] = (),
    note: str | None = None,
    answer: str = "",
    conditions: list[dict[str, Any]] | None = None,
) -> AccessRequest:
    """Approve an open request with a grant to its person, from now on; without a note, the reason becomes the note.

    `conditions`: those of the grant, as it stores them; None for those that are asked for. Raises Stale, Refused, and
    ValidationError for a grant that cannot be saved.
    """
    with transaction.atomic():
        found = _lock(key)
        if not found.person.is_active:
            raise Refused(_("The account is not active. Activate it first, or decline the request."))
        grant = _save_grant(
            found,
            ends=ends,
            environments=environments,
            note=found.reason if note is None else note,
            conditions=found.conditions if conditions is None else conditions,
        )
        found.grant, found.granted = grant, digest_of(grant)
        _decide(found, State.APPROVED, by, answer)
        before: dict[str, Any] = {"state": "open"}
        after: dict[str, Any] = {"grant": grant.pk, "answer": answer}
        if grant.conditions != found.conditions:
            before["conditions"], after["conditions"] = found.conditions, grant.conditions
        log.record("approved", KIND, name_for_log(found), before, after)
    return found


def decline(key: int, by: str, answer: str = "") -> AccessRequest:
    """Decline an open request. Raises Stale."""
    with transaction.atomic():
        found = _lock(key)
        _decide(found, State.DECLINED, by, answer)
        log.record("declined", KIND, name_for_log(found), {"state": "open"}, {"answer": answer})
    return found


def name_decision(request: AccessRequest) -> str:
    """Return a text that no earlier or later decision about this request has; empty for an open one."""
    return request.decided_at.astimezone(UTC).isoformat() if request.decided_at is not None else ""


def undo(key: int, decision: str = "") -> AccessRequest:
    """Open a request again, and delete the grant of its approval. Raises Stale and Refused.

    `decision`: the name of the decision that is meant; empty for the current one, whichever it is.
    """
    with transaction.atomic():
        found = _find(key)
        if found.state not in (State.APPROVED, State.DECLINED) or decision not in ("", name_decision(found)):
            raise Stale
        if found.target is not None and found.toolset_id is None:
            text = _("The toolset in which it was requested was deleted, so the request cannot be opened again.")
            raise Refused(text)
        if found.target is None:
            raise Refused(_("What was requested was deleted, so the request cannot be opened again."))
        grant = found.grant
        if grant is not None and digest_of(grant) != found.granted:
            text = _("Grant %(number)s was changed since the approval. Change or delete it by hand.")
            raise Refused(text % {"number": grant.pk})
        before = {"state": str(found.state), "decided by": found.decided_by, "grant": grant.pk if grant else None}
        found.state, found.decided_by, found.decided_at = State.OPEN, "", None
        found.answer, found.granted, found.grant, found.seen = "", "", None, None
        try:
            with transaction.atomic():
                found.save()
        except IntegrityError:
            text = _("The person requested the same again meanwhile. Decide about that request.")
            raise Refused(text) from None
        if grant is not None:
            grant.delete()
        log.record("undone", KIND, name_for_log(found), before, {"state": "open"})
    return found


def close(key: int, by: str, answer: str) -> CallReport:
    """Close a reported call with an answer for its person. Raises Stale."""
    with transaction.atomic():
        rows = CallReport.objects.select_for_update(of=("self",)).select_related("person")
        found = rows.filter(pk=key, state=CallReport.State.OPEN).first()
        if found is None:
            raise Stale
        found.state, found.closed_by, found.closed_at = CallReport.State.CLOSED, by, timezone.now()
        found.answer = answer
        found.full_clean(exclude=("person",))
        found.save()
        log.record("closed", REPORT_KIND, f"{found.name} ({found.call_id})", None, {"answer": answer})
    return found


def digest_of(grant: Grant) -> str:
    """Return a digest of what the grant gives to whom, and why; the same as long as nobody changes it."""
    values: dict[str, Any] = {field.attname: getattr(grant, field.attname) for field in grant._meta.concrete_fields}
    plain = {
        name: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if name not in _LATER_COLUMNS or value not in ([], None, False)
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _find(key: int) -> AccessRequest:
    rows = AccessRequest.objects.select_for_update(of=("self",))
    found = rows.select_related("person", "toolset", "tool", "grant").filter(pk=key).first()
    if found is None:
        raise Stale
    return found


def _lock(key: int) -> AccessRequest:
    """Return an open request, locked for a decision in this transaction."""
    found = _find(key)
    if not found.is_open:
        raise Stale
    return found


def _save_grant(
    request: AccessRequest,
    *,
    ends: datetime | None,
    environments: tuple[str, ...],
    note: str,
    conditions: list[dict[str, Any]],
) -> Grant:
    """Save the grant that a request asks for. Raises ValidationError."""
    if conditions and request.kind != AccessRequest.Kind.TOOL:
        raise ValidationError({"conditions": _("Only access to one tool can have conditions here.")})
    grant = Grant(
        **{str(request.kind): request.target},
        user=request.person,
        ends=ends,
        environments=list(environments),
        note=note,
        conditions=conditions,
    )
    grant.full_clean()
    grant.save()
    return grant


def _decide(found: AccessRequest, state: AccessRequest.State, by: str, answer: str) -> None:
    found.state, found.decided_by, found.decided_at = state, by, timezone.now()
    found.answer, found.seen = answer, None
    found.full_clean(exclude=("person", "toolset", "tool", "grant"))
    found.save()
    signals.request_decided.send(sender=AccessRequest, request=found)
