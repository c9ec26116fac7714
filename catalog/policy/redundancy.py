"""Grants that another grant covers wholly: without them, every decision stays as it is.

    redundancy = Redundancy(snapshot)      once for a page
    redundancy.find_cover(rule)            the grant that covers this one; None when it is needed
    redundancy.find_all()                  {id of a redundant grant: the grant that covers it}

A grant covers another one of the same effect that reaches no other people, no other items, at no other time and in no
other environment. It has no flag that the other one lacks, and no time windows and conditions, or the same ones. Of two
equal grants the older one stays. So all that are redundant can be removed together. A grant with an approval rule
covers none, because its calls ask, and is never redundant, because the rule would go with it. One whose calls run
without approval is covered only by another one like it.

It holds for the catalogue as it is: someone who leaves the group that covers their own grant would need it.
"""

from __future__ import annotations

from collections.abc import Iterator

from catalog.policy.definitions import GrantRule, Snapshot

Key = tuple[str, int, str, int | None, str]
"""The kind and the key of the target, the kind and the key of the subject, and the effect."""


class Redundancy:
    """Answers about the grants of one snapshot. Each asks only for the grants that could cover it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._grants: dict[Key, list[GrantRule]] = {}
        for rule in snapshot.grants:
            key = (rule.target_kind, rule.target_id, rule.subject_kind, rule.subject_id, rule.effect)
            self._grants.setdefault(key, []).append(rule)

    def find_cover(self, rule: GrantRule) -> GrantRule | None:
        """Return the widest grant that covers this one: to more people and to a toolset first, then the oldest."""
        if rule.id in self._snapshot.asks_by_grant:
            return None
        for key in self._wider_keys(rule):
            found = [other for other in self._grants.get(key, ()) if _covers(other, rule)]
            found = [other for other in found if other.id not in self._snapshot.asks_by_grant]
            if found:
                return min(found, key=_by_id)
        return None

    def find_all(self) -> dict[int, GrantRule]:
        """Return every redundant grant by its id, with the grant that covers it."""
        found = ((rule.id, self.find_cover(rule)) for rule in self._snapshot.grants)
        return {key: cover for key, cover in found if cover is not None}

    def _wider_keys(self, rule: GrantRule) -> Iterator[Key]:
        """Yield the keys of the grants that reach at least the same people and the same items."""
        item = self._snapshot.items.get((rule.target_kind, rule.target_id))
        toolset_ids = sorted(item.toolset_ids) if item is not None else []
        targets = [*(("toolset", key) for key in toolset_ids), (rule.target_kind, rule.target_id)]
        subjects: list[tuple[str, int | None]] = [("everyone", None)]
        member = self._snapshot.members.get(rule.subject_id or 0) if rule.subject_kind == "user" else None
        if member is not None:
            subjects += [("group", key) for key in sorted(member.group_ids)]
        if rule.subject_kind != "everyone":
            subjects.append((rule.subject_kind, rule.subject_id))
        for subject_kind, subject_id in subjects:
            for target_kind, target_id in targets:
                yield target_kind, target_id, subject_kind, subject_id, rule.effect


def _covers(other: GrantRule, rule: GrantRule) -> bool:
    """Return whether a grant that reaches the same people and items also holds whenever and wherever `rule` does."""
    if other.id == rule.id:
        return False
    begins = other.starts is None or (rule.starts is not None and other.starts <= rule.starts)
    ends = other.ends is None or (rule.ends is not None and rule.ends <= other.ends)
    everywhere = not other.environments or (bool(rule.environments) and rule.environments <= other.environments)
    if rule.skips_approval and not other.skips_approval:
        return False
    holds = begins and ends and everywhere and other.windows in {(), rule.windows} and other.flags <= rule.flags
    return holds and _limits_no_more(other, rule) and (not _is_equal(other, rule) or other.id < rule.id)


def _limits_no_more(other: GrantRule, rule: GrantRule) -> bool:
    """Return whether the conditions of a grant of the same effect let it apply to all calls that `rule` is for."""
    if not other.conditions:
        return True
    # A denial of a tool holds in doubt, where the tool lost an argument. One of a toolset does not.
    in_doubt = rule.effect == "allow" or other.target_kind == rule.target_kind
    return in_doubt and other.conditions == rule.conditions


def _is_equal(first: GrantRule, second: GrantRule) -> bool:
    return _reach(first) == _reach(second)


def _reach(rule: GrantRule) -> tuple[object, ...]:
    subject, target = (rule.subject_kind, rule.subject_id), (rule.target_kind, rule.target_id)
    when = (rule.starts, rule.ends, rule.environments, rule.windows)
    return (*subject, *target, *when, rule.conditions, rule.flags, rule.skips_approval)


def _by_id(rule: GrantRule) -> int:
    return rule.id
