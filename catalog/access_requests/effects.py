"""What an approval of a request would give, and what an administrator has to know before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from catalog.models import AccessRequest
from catalog.policy import definitions, rules
from catalog.policy.definitions import GrantRule, Item, Snapshot, ToolDefinition

INACTIVE, EMPTY, CLOSED, MOVED, DENIED = "inactive", "empty", "closed", "moved", "denied"
"""Codes of warnings: the account is not active; there is nothing to use in it now; the toolset is closed for requests;
the tool left the toolset; a grant in force denies the person some of it.
"""


@dataclass(frozen=True, slots=True)
class Effect:
    items: tuple[Item, ...]
    """The tools, resources and prompts that the grant would cover, quarantined ones too; not those switched off."""
    destructive: int
    """How many of its tools may delete or overwrite data."""
    warnings: tuple[str, ...]

    @property
    def needs_attention(self) -> bool:
        """Whether the request has to be read by itself, and is not approved among others."""
        return bool(self.destructive or self.warnings)

    @property
    def digest(self) -> str:
        """Text that differs when anything of the effect does: a decision names the effect that was read."""
        items = sorted((item.kind, item.id, is_destructive(item)) for item in self.items)
        return hashlib.sha256(repr((items, sorted(self.warnings))).encode()).hexdigest()


@dataclass(slots=True)
class Examiner:
    """Effects of requests at one time and in one environment; cheap for all requests of a page."""

    catalogue: Snapshot
    now: float
    environment: str
    _destructive: dict[tuple[str, int], int] = field(default_factory=dict, init=False)

    def examine(self, request: AccessRequest) -> Effect:
        """Return the effect of a request that was read with its person, toolset and tool."""
        items = self._find_items(request)
        key = (str(request.kind), (request.tool_id if request.kind == request.Kind.TOOL else request.toolset_id) or 0)
        if key not in self._destructive:
            self._destructive[key] = sum(is_destructive(item) for item in items)
        return Effect(items, self._destructive[key], tuple(self._find_warnings(request, items)))

    def _find_items(self, request: AccessRequest) -> tuple[Item, ...]:
        if request.kind == request.Kind.TOOL:
            item = self.catalogue.items.get(("tool", request.tool_id or 0))
            return () if item is None else (item,)
        return self.catalogue.by_toolset.get(request.toolset_id or 0, ())

    def _find_warnings(self, request: AccessRequest, items: tuple[Item, ...]) -> Iterable[str]:
        if not request.person.is_active:
            yield INACTIVE
        if not items:
            yield EMPTY
        if request.toolset is not None and not request.toolset.requestable:
            yield CLOSED
        if request.kind == request.Kind.TOOL and items and request.toolset_id not in items[0].toolset_ids:
            yield MOVED
        if any(self._denies(rule, request.person_id, items) for rule in self._rules_of(request.person_id)):
            yield DENIED

    def _rules_of(self, user_id: int) -> Iterable[GrantRule]:
        member = self.catalogue.members.get(user_id)
        yield from self.catalogue.grants_by_user.get(user_id, ())
        yield from self.catalogue.grants_to_everyone
        for group_id in member.group_ids if member is not None else ():
            yield from self.catalogue.grants_by_group.get(group_id, ())

    def _denies(self, rule: GrantRule, user_id: int, items: tuple[Item, ...]) -> bool:
        """Return whether the grant denies this person some of it: a tool, or calls with some arguments."""
        if rule.effect != "deny" or not rules.is_in_force(rule, self.now):
            return False
        if not rules.applies_in(rule, self.environment) or not rules.is_switched_on(self.catalogue, rule, user_id):
            return False
        if rule.target_kind == "toolset":
            return any(rule.target_id in item.toolset_ids for item in items)
        return any((item.kind, item.id) == (rule.target_kind, rule.target_id) for item in items)


def is_destructive(item: Item) -> bool:
    """Return whether this is a tool that may delete or overwrite data, or does not say that it does not."""
    return isinstance(item, ToolDefinition) and definitions.is_destructive(item)
