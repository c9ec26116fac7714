"""A change of rules that is compared with the catalogue as it is: by a rule in trial, or in an editor. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.policy import rules
from catalog.policy.definitions import (
    EMPTY,
    AskRule,
    GrantRule,
    Item,
    LimitRule,
    Snapshot,
    ToolDefinition,
    Trial,
    is_destructive,
)
from catalog.policy.rules import Requester


@dataclass(frozen=True)
class Change:
    """Rules that are added, and the ids of those that are gone.

    A grant that takes the place of another has its id: approval rules may be bound to it.
    """

    grants: tuple[GrantRule, ...] = ()
    removed_grants: frozenset[int] = EMPTY
    asks: tuple[AskRule, ...] = ()
    removed_asks: frozenset[int] = EMPTY
    limits: tuple[LimitRule, ...] = ()
    removed_limits: frozenset[int] = EMPTY

    @classmethod
    def of(cls, trial: Trial) -> Change:
        """Return the change that puts a rule in trial into force."""
        return cls.replacing(trial.rule, trial.replaces)

    @classmethod
    def replacing(cls, rule: GrantRule | LimitRule | AskRule, replaced: int | None = None) -> Change:
        """Return the change that adds a rule, in the place of the one of its kind with the id `replaced`."""
        gone = EMPTY if replaced is None else frozenset({replaced})
        if isinstance(rule, GrantRule):
            return cls(grants=(rule if replaced is None else replace(rule, id=replaced),), removed_grants=gone)
        if isinstance(rule, LimitRule):
            return cls(limits=(rule,), removed_limits=gone)
        return cls(asks=(rule,), removed_asks=gone)

    def find_grants(self, catalogue: Snapshot, requester: Requester, item: Item, environment: str) -> list[GrantRule]:
        """Return the grants for this person and this item that apply in this environment, at whatever time, by id."""
        found = rules.find_applicable(catalogue, requester, item, environment)
        if not (self.grants or self.removed_grants):
            return found
        kept = [rule for rule in found if rule.id not in self.removed_grants]
        added = [rule for rule in self.grants if rules.applies_to(catalogue, rule, requester, item, environment)]
        return sorted([*kept, *added], key=lambda rule: rule.id)

    def find_asks(self, catalogue: Snapshot, tool: ToolDefinition) -> list[AskRule]:
        """Return the approval rules that ask about this tool by whatever grant."""
        found = [rule for rule in catalogue.asks_by_tool.get(tool.id, ()) if rule.id not in self.removed_asks]
        return found + [rule for rule in self.asks if _names(rule, tool)]

    def find_asks_of_grant(self, catalogue: Snapshot, grant_id: int) -> list[AskRule]:
        """Return the approval rules that ask about what only this grant allows."""
        found = [rule for rule in catalogue.asks_by_grant.get(grant_id, ()) if rule.id not in self.removed_asks]
        return found + [rule for rule in self.asks if (rule.target_kind, rule.target_id) == ("grant", grant_id)]

    def has_asks_of_grants(self, catalogue: Snapshot) -> bool:
        """Return whether any approval rule is bound to a grant."""
        return bool(catalogue.asks_by_grant) or any(rule.target_kind == "grant" for rule in self.asks)

    def find_limits(self, catalogue: Snapshot, tool: ToolDefinition) -> list[LimitRule]:
        """Return the limits of this tool."""
        found = [rule for rule in catalogue.limits_by_tool.get(tool.id, ()) if rule.id not in self.removed_limits]
        return found + [rule for rule in self.limits if _names(rule, tool) and rule.counts(tool)]


NO_CHANGE = Change()


def _names(rule: AskRule | LimitRule, tool: ToolDefinition) -> bool:
    if isinstance(rule, AskRule) and rule.destructive_only and not is_destructive(tool):
        return False
    if rule.target_kind == "toolset":
        return rule.target_id in tool.toolset_ids
    return rule.target_kind == "all" or (rule.target_kind, rule.target_id) == ("tool", tool.id)
