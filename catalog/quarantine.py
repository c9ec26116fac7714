"""Quarantine: an imported definition (from an upstream or a document) is served as approved, or not at all.

The source's side of a definition is a dict in the shape of tools/list: name (as the source calls it), title,
description, inputSchema, outputSchema, annotations; an importer that also makes the runner's settings adds
`settings`. `Tool.pinned` is its hash as approved and `Tool.approved` its text, both untouched when an administrator
edits the tool by hand. A definition with another hash is kept in `Tool.proposed` ("null": the source no longer has
it) and the tool is hidden from every list until a user with the permission `catalog.review_tool` has reviewed the
difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit.actions import log
from catalog.canonical import dumps, loads
from catalog.functions.results import clean_text
from catalog.models import ImportedDocument, Tool, Upstream
from toolhub.invisible import show

PERMISSION = "catalog.review_tool"
MEMBERS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "settings")
"""The pinned members, in the order in which a review shows them."""
HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
GONE_PIN = "gone"
"""The pin of a tool whose disappearance was approved."""

Definition = Mapping[str, Any]


class StaleReview(Exception):
    """An error for a decision on another definition than the one that the reviewer saw."""


def name_source(tool: Tool) -> str:
    """Return the name of the tool's source, in the language of the page; empty for a tool that was made here."""
    kind, _colon, key = tool.origin.partition(":")
    if kind == "upstream" and (name := Upstream.objects.filter(pk=key).values_list("name", flat=True).first()):
        return gettext("the upstream server %(name)s") % {"name": name}
    if kind == "openapi" and (document := ImportedDocument.objects.filter(pk=key).first()):
        return gettext("the OpenAPI document %(name)s") % {"name": document}
    return tool.origin


def pinned_members(definition: Definition) -> dict[str, Any]:
    """Return only the pinned members, without empty ones."""
    return {key: definition[key] for key in MEMBERS if definition.get(key) not in (None, "", {})}


def pin(definition: Definition | None) -> str:
    """Return the hash of a source's definition; the order of members does not count."""
    if definition is None:
        return GONE_PIN
    text = json.dumps(pinned_members(definition), sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def adopt(tool: Tool, definition: Definition) -> None:
    """Fill a new tool from a definition that was chosen for import, and pin it. The caller saves it."""
    fill(tool, pinned_members(definition))
    _pin(tool, definition)


def pin_existing(tool: Tool, origin: str, definition: Definition) -> None:
    """Pin a tool that was made by hand for this source: from now on a changed definition waits for review.

    The tool keeps its own texts.
    """
    with transaction.atomic():
        row = _lock(tool)
        row.origin = origin
        _pin(row, definition)
        _save(row, tool)
        log.record("pinned", "tool", f"{row} (id {row.pk})", None, {"pinned": row.pinned})


def fill(tool: Tool, definition: Definition, before: Definition | None = None) -> list[str]:
    """Copy everything but the name to the tool; where `before` is given, only members that still have its value.

    Returns the members that were not changed, because an administrator had edited them by hand.
    """
    edited_by_hand = []
    for member in MEMBERS[1:]:
        if (
            before is not None
            and member in (*before, *definition)
            and not _is_unedited(_own_value(tool, member), before, member)
        ):
            edited_by_hand.append(member)
        elif before is None or definition.get(member) != before.get(member):
            _set_member(tool, member, definition.get(member))
    return edited_by_hand


def propose(tool: Tool, definition: Definition | None) -> bool:
    """Process the source's current definition (None: it no longer has the tool); return whether anything changed here.

    Nothing happens when it is the approved one; otherwise the tool is quarantined with this proposal.
    """
    wanted = pin(definition)
    with transaction.atomic():
        row = _lock(tool)
        if row.quarantined_since is None and wanted == row.pinned:
            return False
        waiting = pin(proposal(row)) if row.proposed else row.rejected
        if row.quarantined_since is not None and wanted == waiting:
            return False
        row.proposed = dumps(None if definition is None else pinned_members(definition))
        row.rejected = ""
        first = row.quarantined_since is None
        row.quarantined_since = row.quarantined_since or timezone.now()
        _save(row, tool)
        before, after = _differing_members(row)
        verb = "quarantined" if first else "changed in quarantine"
        log.record(verb, "tool", f"{row} (id {row.pk})", before, after)
    return True


def proposal(tool: Tool) -> dict[str, Any] | None:
    """Return the proposal that waits for review.

    None when the source no longer has the tool (and when nothing waits).
    """
    found: dict[str, Any] | None = loads(tool.proposed) if tool.proposed else None
    return found


def approved(tool: Tool) -> dict[str, Any]:
    found: dict[str, Any] = loads(tool.approved) if tool.approved else {}
    return found


def fingerprint(tool: Tool) -> str:
    """Return the fingerprint for a reviewer's form, so that only the reviewed definition can be approved."""
    return hashlib.sha256(f"{tool.pinned}:{tool.proposed}".encode("utf-8", "surrogatepass")).hexdigest()


def approve(tool: Tool, by: str, reviewed: str = "") -> list[str]:
    """Serve the proposed definition, or switch the tool off when its source no longer has it. Logged as done by `by`.

    Members that an administrator edited by hand stay as edited; their names are returned. Raises StaleReview when
    the proposal is another one than `reviewed` (see `fingerprint`), ValidationError when the definition breaks a rule.
    """
    with transaction.atomic():
        row = _lock_reviewed(tool, reviewed)
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
        _save(row, tool)
        log.record("approved", "tool", f"{row} (id {row.pk})", before, after, actor=by)
    return edited_by_hand


def reject(tool: Tool, by: str, reviewed: str = "") -> None:
    """Reject the proposal: the tool stays in quarantine until its source sends another definition.

    Logged as done by `by`. Raises StaleReview when the proposal is another one than `reviewed` (see `fingerprint`).
    """
    with transaction.atomic():
        row = _lock_reviewed(tool, reviewed)
        before, after = _differing_members(row)
        row.rejected, row.proposed = pin(proposal(row)), ""
        _save(row, tool)
        log.record("rejected", "tool", f"{row} (id {row.pk})", after, before, actor=by)


def difference(tool: Tool) -> list[tuple[str, str, str]]:
    """Return (member, approved, proposed) of every member that differs, as text without invisible characters."""
    before, after = approved(tool), proposal(tool) or {}
    if not tool.proposed:
        return []
    return [
        (member, _text(before.get(member)), _text(after.get(member)))
        for member in MEMBERS
        if before.get(member) != after.get(member)
    ]


def edited_members(tool: Tool) -> list[tuple[str, str]]:
    """Return (member, text) of every member in which an administrator replaced the source's text."""
    before = approved(tool)
    return [
        (member, _text(_own_value(tool, member)))
        for member in MEMBERS[1:]
        if member in before and not _is_unedited(_own_value(tool, member), before, member)
    ]


def _lock(tool: Tool) -> Tool:
    row: Tool = Tool.objects.select_for_update().get(pk=tool.pk)
    return row


def _lock_reviewed(tool: Tool, reviewed: str) -> Tool:
    row = _lock(tool)
    if row.quarantined_since is None or not row.proposed:
        raise StaleReview(_("This tool no longer needs review."))
    if reviewed and reviewed != fingerprint(row):
        raise StaleReview(_("The definition changed again after you opened the page. Review it again."))
    return row


def _pin(tool: Tool, definition: Definition) -> None:
    tool.pinned, tool.approved = pin(definition), dumps(pinned_members(definition))


def _save(row: Tool, tool: Tool) -> None:
    row.save()
    tool.refresh_from_db()


def _differing_members(row: Tool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the differing members, approved and proposed, for the audit log."""
    before, after = approved(row), proposal(row)
    if after is None:
        return {"pinned": row.pinned}, {"gone": True}
    names = [member for member in MEMBERS if before.get(member) != after.get(member)]
    return {name: before.get(name) for name in names}, {name: after.get(name) for name in names}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return show(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def _is_unedited(own: Any, before: Definition, member: str) -> bool:
    other = before.get(member)
    return bool(own == (_default(member) if other is None else other))


def _default(member: str) -> Any:
    return {"title": "", "description": "", "outputSchema": None, "annotations": {}, "settings": None}.get(member)


def _own_value(tool: Tool, member: str) -> Any:
    """Return the tool's own value in the shape of a definition."""
    if member == "annotations":
        hints = {hint: getattr(tool, column) for hint, column in HINTS.items() if getattr(tool, column) is not None}
        return {**({"title": tool.annotation_title} if tool.annotation_title else {}), **hints}
    return getattr(tool, {"inputSchema": "input_schema", "outputSchema": "output_schema"}.get(member, member))


def _set_member(tool: Tool, member: str, value: Any) -> None:
    if member == "annotations":
        hints = value if isinstance(value, dict) else {}
        tool.annotation_title = clean_text(str(hints.get("title") or "")).replace("\0", "\ufffd")[:200]
        for hint, column in HINTS.items():
            given = hints.get(hint)
            setattr(tool, column, given if isinstance(given, bool) else None)
    elif member == "inputSchema":
        if not isinstance(value, dict):
            raise ValidationError({"input_schema": _("The definition has no input schema.")})
        tool.input_schema = value
    elif member == "outputSchema":
        tool.output_schema = value
    elif member == "settings":
        if isinstance(value, dict):
            tool.settings = value
    else:
        setattr(tool, member, clean_text(str(value or "")).replace("\0", "\ufffd"))
