"""Quarantine: an imported definition (from an upstream or a document) is served as approved, or not at all.

The source's side of a definition is a dict, see `catalog.models.pinned`. `pinned` of a tool, resource or prompt is its
hash as approved and `approved` its text, both untouched when an administrator edits the item by hand. A definition with
another hash is kept in `proposed` ("null": the source no longer has it) and the item is hidden from every list until a
user with the permission `catalog.review_tool` has reviewed the difference. A rejected definition is kept, so that it
can be taken up again, and the last decision about an item can be undone: both lead back to the review, never to users.

Optional members, such as icons, are in a definition only while a setting of the source keeps them. Turning the setting
on approves them as they are; from then on they count like the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit.actions import log
from catalog.canonical import dumps, loads
from catalog.models import ImportedDocument, ReviewDecision, Upstream
from catalog.models.base import CatalogueItem
from catalog.models.pinned import ALL_MEMBERS, MEMBERS, OPTIONAL, columns, is_unedited, own_value, set_member
from toolhub.invisible import show

PERMISSION = "catalog.review_tool"
GONE_PIN = "gone"
"""The pin of an item whose disappearance was approved."""

Definition = Mapping[str, Any]


class StaleReview(Exception):
    """An error for a decision on another definition than the one that the reviewer saw."""


def name_source(item: CatalogueItem) -> str:
    """Return the name of the item's source, in the language of the page; empty for an item that was made here."""
    return name_origin(item.origin)


def name_origin(origin: str) -> str:
    """Return the name of a source from the column `origin`, in the language of the page."""
    kind, _colon, key = origin.partition(":")
    if kind == "upstream" and (name := Upstream.objects.filter(pk=key).values_list("name", flat=True).first()):
        return gettext("the upstream server %(name)s") % {"name": name}
    if kind == "openapi" and (
        document := ImportedDocument.objects.filter(pk=key).values_list("name", flat=True).first()
    ):
        return gettext("the OpenAPI document %(name)s") % {"name": document}
    return origin


def pinned_members(definition: Definition) -> dict[str, Any]:
    """Return only the pinned members, without empty ones; an optional one may be empty."""
    return {
        key: definition[key]
        for key in ALL_MEMBERS
        if definition.get(key) not in (None, "", {}) or (key in OPTIONAL and key in definition)
    }


def pin(definition: Definition | None) -> str:
    """Return the hash of a source's definition; the order of members does not count."""
    if definition is None:
        return GONE_PIN
    text = json.dumps(pinned_members(definition), sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def adopt(item: CatalogueItem, definition: Definition) -> None:
    """Fill a new item from a definition that was chosen for import, and pin it. The caller saves it."""
    fill(item, pinned_members(definition))
    _pin(item, definition)


def pin_existing(item: CatalogueItem, origin: str, definition: Definition) -> None:
    """Pin an item that was made by hand for this source: from now on a changed definition waits for review.

    The item keeps its own texts.
    """
    with transaction.atomic():
        row = _lock(item)
        row.origin = origin
        _pin(row, definition)
        _save(row, item)
        _log("pinned", row, None, {"pinned": row.pinned})


def follow(item: CatalogueItem, definition: Definition) -> None:
    """Serve a definition at once that differs from the approved one only by choices that were made here.

    Raises ValidationError when it breaks a rule, also the one about who may send secrets where.
    """
    with transaction.atomic():
        row = _lock(item)
        fill(row, pinned_members(definition), approved(row))
        _pin(row, definition)
        row.full_clean()
        _save(row, item)
        _log("pinned", row, None, {"pinned": row.pinned})


def fill(item: CatalogueItem, definition: Definition, before: Definition | None = None) -> list[str]:
    """Copy everything but the identity to the item; where `before` is given, only members that still have its value.

    Returns the members that were not changed, because an administrator had edited them by hand.
    """
    edited_by_hand = []
    for member in MEMBERS[type(item)]:
        if before is not None and member in (*before, *definition) and not is_unedited(item, before, member):
            edited_by_hand.append(member)
        elif before is None or not are_equal(definition.get(member), before.get(member)):
            set_member(item, member, definition.get(member))
    return edited_by_hand


def propose(item: CatalogueItem, definition: Definition | None) -> bool:
    """Process the source's current definition (None: it no longer has the item); return whether it was quarantined.

    Nothing happens when it is the approved one; otherwise the item is quarantined with this proposal.
    """
    with transaction.atomic():
        row = _lock(item)
        if definition is not None and _follow_settings(row, definition):
            _save(row, item)
        wanted = pin(definition)
        if row.quarantined_since is None and wanted == row.pinned:
            return False
        waiting = pin(proposal(row)) if row.proposed else row.rejected
        if row.quarantined_since is not None and wanted == waiting:
            return False
        row.proposed = dumps(None if definition is None else pinned_members(definition))
        row.rejected = ""
        first = row.quarantined_since is None
        row.quarantined_since = row.quarantined_since or timezone.now()
        _save(row, item)
        _log("quarantined" if first else "changed in quarantine", row, *_differing_members(row))
    return True


def needs_review(item: CatalogueItem) -> bool:
    """Return whether a proposal waits for a decision."""
    return item.quarantined_since is not None and bool(item.proposed) and not item.rejected


def proposal(item: CatalogueItem) -> dict[str, Any] | None:
    """Return the proposal that waits for review, or was rejected.

    None when the source no longer has the item (and when there is no proposal).
    """
    found: dict[str, Any] | None = loads(item.proposed) if item.proposed else None
    return found


def approved(item: CatalogueItem) -> dict[str, Any]:
    found: dict[str, Any] = loads(item.approved) if item.approved else {}
    return found


def fingerprint(item: CatalogueItem) -> str:
    """Return the fingerprint for a reviewer's form, so that only the reviewed definition can be approved."""
    return hashlib.sha256(f"{item.pinned}:{item.proposed}".encode("utf-8", "surrogatepass")).hexdigest()


def approve(item: CatalogueItem, by: str, reviewed: str = "", batch: UUID | None = None) -> list[str]:
    """Serve the proposed definition, or switch the item off when its source no longer has it. Logged as done by `by`.

    Members that an administrator edited by hand stay as edited; their names are returned. Raises StaleReview when
    the proposal is another one than `reviewed` (see `fingerprint`), ValidationError when the definition breaks a rule.
    """
    with transaction.atomic():
        row = _lock_reviewed(item, reviewed)
        kept = _read_columns(row)
        wanted = proposal(row)
        before, after = _differing_members(row)
        edited_by_hand: list[str] = []
        if wanted is None:
            row.enabled = False
            row.pinned = GONE_PIN
        else:
            edited_by_hand = fill(row, wanted, approved(row))
            _pin(row, wanted)
            row.full_clean()
        row.proposed, row.rejected, row.quarantined_since = "", "", None
        _save(row, item)
        _keep_decision(row, kept, ReviewDecision.Decision.APPROVED, by, batch)
        _log("approved", row, before, after, by)
    return edited_by_hand


def reject(item: CatalogueItem, by: str, reviewed: str = "", batch: UUID | None = None) -> None:
    """Reject the proposal: the item stays in quarantine until its source sends another one, or `reopen`.

    Logged as done by `by`. Raises StaleReview when the proposal is another one than `reviewed` (see `fingerprint`).
    """
    with transaction.atomic():
        row = _lock_reviewed(item, reviewed)
        kept = _read_columns(row)
        before, after = _differing_members(row)
        row.rejected = pin(proposal(row))
        _save(row, item)
        _keep_decision(row, kept, ReviewDecision.Decision.REJECTED, by, batch)
        _log("rejected", row, after, before, by)


def reopen(item: CatalogueItem, by: str) -> bool:
    """Let a rejected change wait for review again; return whether it does.

    It does not where an earlier release rejected it and kept only its hash: the next comparison with the source brings
    it back. Raises StaleReview when there is no rejected change.
    """
    with transaction.atomic():
        row = _lock(item)
        if row.quarantined_since is None or not row.rejected:
            raise StaleReview(_("There is no rejected change of this item any more."))
        row.rejected = ""
        _save(row, item)
        _decisions(row).delete()
        _log("reopened", row, *_differing_members(row), by)
    return needs_review(item)


def find_decision(item: CatalogueItem) -> ReviewDecision | None:
    """Return the last decision about the item if it can still be undone."""
    found = _decisions(item).first()
    return found if found is not None and found.after == _digest(_read_columns(item)) else None


def undo(item: CatalogueItem, by: str) -> None:
    """Undo the last decision: the item is as before it, quarantined, and its change waits for review.

    Logged as done by `by`. Raises StaleReview when the item changed after the decision, PermissionDenied when the
    signed-in user may not save where the earlier settings send secrets.
    """
    with transaction.atomic():
        row = _lock(item)
        decision = find_decision(row)
        if decision is None:
            raise StaleReview(
                _("This decision cannot be undone: the item changed after it. Its history has every version.")
            )
        for name, value in loads(decision.before).items():
            if name == "quarantined_since":
                value = datetime.fromisoformat(value)
            setattr(row, name, value)
        _save(row, item)
        decision.delete()
        _log("undone", row, *_differing_members(row), by)


def _decisions(item: CatalogueItem) -> QuerySet[ReviewDecision]:
    return ReviewDecision.objects.filter(**{str(item._meta.model_name): item.pk})


def _read_columns(row: CatalogueItem) -> dict[str, Any]:
    """Return every column that a decision can change."""
    names = (*columns(type(row)), "enabled", *row.REVIEW_FIELDS)
    found = {name: getattr(row, name) for name in names}
    since = found["quarantined_since"]
    return {**found, "quarantined_since": None if since is None else since.isoformat()}


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _keep_decision(row: CatalogueItem, before: Mapping[str, Any], decision: str, by: str, batch: UUID | None) -> None:
    row.refresh_from_db()  # the columns as the database returns them: their digest is compared later
    found = _decisions(row).first() or ReviewDecision()
    setattr(found, str(row._meta.model_name), row)
    found.decision, found.made_by, found.batch = decision, by[:150], batch
    found.before, found.after = dumps(before), _digest(_read_columns(row))
    found.save()


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two values of definitions are the same JSON: `true` is not 1, although Python says so."""
    if type(one) is not type(other) or one != other:
        return False
    if not isinstance(one, dict | list):
        return True
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def differing_members(before: Definition, after: Definition) -> list[str]:
    """Return the members whose values differ, in the order in which a review shows them."""
    return [member for member in ALL_MEMBERS if not are_equal(before.get(member), after.get(member))]


def edited_members(item: CatalogueItem) -> list[tuple[str, str]]:
    """Return (member, text) of every member in which an administrator replaced the source's text."""
    before = approved(item)
    return [
        (member, readable(own_value(item, member)))
        for member in MEMBERS[type(item)]
        if member in before and not is_unedited(item, before, member)
    ]


def _follow_settings(row: CatalogueItem, definition: Definition) -> bool:
    """Give the approved definition the optional members that its source keeps now, and no others.

    Returns whether anything changed. A value that an administrator edited by hand stays.
    """
    before = approved(row)
    turned = [
        member for member in OPTIONAL if member in MEMBERS[type(row)] and (member in before) != (member in definition)
    ]
    if not before or not turned:
        return False
    after = {member: before[member] for member in before if member not in turned}
    after |= {member: definition[member] for member in turned if member in definition}
    for member in turned:
        if is_unedited(row, before, member):
            set_member(row, member, after.get(member))
    _pin(row, after)
    _log("pinned", row, None, {member: after.get(member) for member in turned})
    return True


def _lock(item: CatalogueItem) -> CatalogueItem:
    row: CatalogueItem = type(item)._default_manager.select_for_update().get(pk=item.pk)
    return row


def require_unchanged(item: CatalogueItem, reviewed: str) -> None:
    """Raise StaleReview when nothing waits for review, or another proposal than `reviewed` (see `fingerprint`)."""
    if not needs_review(item):
        raise StaleReview(_("This no longer needs review."))
    if reviewed and reviewed != fingerprint(item):
        raise StaleReview(_("The definition changed again after you opened the page. Review it again."))


def _lock_reviewed(item: CatalogueItem, reviewed: str) -> CatalogueItem:
    row = _lock(item)
    require_unchanged(row, reviewed)
    return row


def _pin(row: CatalogueItem, definition: Definition) -> None:
    row.pinned, row.approved = pin(definition), dumps(pinned_members(definition))


def _save(row: CatalogueItem, item: CatalogueItem) -> None:
    row.save()
    item.refresh_from_db()


def _log(verb: str, row: CatalogueItem, before: Any, after: Any, by: str | None = None) -> None:
    log.record(verb, str(row._meta.model_name), f"{row} (id {row.pk})", before, after, actor=by)


MAX_LOGGED_CHARACTERS = 20_000
"""Maximum size of one member in the log: the content of a page may have millions of characters."""


def _differing_members(row: CatalogueItem) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the differing members, approved and proposed, for the audit log."""
    before, after = approved(row), proposal(row)
    if after is None:
        return {"pinned": row.pinned}, {"gone": True}
    names = differing_members(before, after)
    return {name: _logged(before.get(name)) for name in names}, {name: _logged(after.get(name)) for name in names}


def _logged(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= MAX_LOGGED_CHARACTERS:
        return value
    return {"characters": len(value), "sha256": hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()}


def readable(value: Any) -> str:
    """Return a member of a definition as text with invisible characters made visible."""
    if value is None:
        return ""
    return show(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))
