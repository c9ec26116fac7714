"""The change that saving the form of a rule would be, for its replay."""

from __future__ import annotations

from catalog.models import ApprovalRule, Grant, Limit
from catalog.policy import loader
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import EMPTY, AskRule, GrantRule, LimitRule, Snapshot


def find_change(row: Grant | Limit | ApprovalRule, catalogue: Snapshot) -> Change:
    """Return what would change if this row, saved or not, were in force.

    It takes the place of the rule that it is a form or a trial of. A rule that is switched off, or that cannot be read,
    is gone.
    """
    replaced = row.replaces_id if row.trial or row.pk is None else row.pk
    rule = _read(row, catalogue)
    if rule is not None:
        return Change.replacing(rule, replaced)
    gone = EMPTY if replaced is None else frozenset({replaced})
    if isinstance(row, Grant):
        return Change(removed_grants=gone)
    return Change(removed_asks=gone) if isinstance(row, ApprovalRule) and gone else NO_CHANGE


def _read(row: Grant | Limit | ApprovalRule, catalogue: Snapshot) -> GrantRule | LimitRule | AskRule | None:
    lists, flags = catalogue.value_lists.keys(), catalogue.flags.keys()
    if isinstance(row, Grant):
        return loader.grant_rule(row, lists, flags)
    if isinstance(row, ApprovalRule):
        return loader.ask_rule(row, lists) if row.enabled else None
    return loader.limit_rule(row)
