"""What hides an item from a person: every obstacle, with the nearest grant that would show it otherwise.

Lists and calls ask `rules.decide`. Pages ask here, to tell an administrator what to change; the two always agree.

    explainer = Explainer(snapshot, now, environment)         once for a page
    explanation = explainer.explain(requester, item)
    explanation.obstacles       the reasons, in the order in which `decide` looks at them; empty: the item is visible
    explanation.grant           the grant that the reasons of code `obstacle.*` are about
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from audit.types import Reason
from catalog.policy import rules
from catalog.policy.definitions import EMPTY, GrantRule, Item, Kind, Member, Snapshot
from catalog.policy.rules import Requester

LATER, ENDED, ELSEWHERE = "obstacle.later", "obstacle.ended", "obstacle.elsewhere"
CLOSED, FLAGS, UNFIT = "obstacle.closed", "obstacle.flags", "obstacle.unfit"
NOT_MEMBER, ONLY_OTHERS = "obstacle.not_member", "obstacle.only_others"
_WEIGHTS: Final[Mapping[str, int]] = {
    LATER: 1, CLOSED: 1, ENDED: 2, ELSEWHERE: 4, FLAGS: 4, NOT_MEMBER: 8, ONLY_OTHERS: 16
}  # fmt: skip
"""How large a change each obstacle of a grant needs: a larger one outweighs all smaller ones together.

A grant that starts later will apply without any change. The time and the environments are a matter of one grant, while
a new member of a group gets whatever the group has. A grant to another person never becomes one's own.
"""
_BREADTH: Final[Mapping[str, int]] = {"user": 0, "group": 1, "everyone": 2}

Subject = tuple[str, int | None]
"""The kind (user, group, everyone) and the primary key; None for everyone."""
Cost = tuple[int, int, int, float, int]


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of an item that is not in the snapshot, because it is switched off."""

    kind: Kind
    id: int
    toolset_ids: frozenset[int] = EMPTY


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that hides one item from one person."""

    obstacles: tuple[Reason, ...]
    """Empty when the item is visible. Without every one of them, it would be.

    A reason of `rules`, or the rule of a grant that denies, or one of these, which are about `grant`: `obstacle.later`
    and `obstacle.ended` (at: seconds since 1970), `obstacle.closed` (at: when its time windows open next),
    `obstacle.elsewhere` (names), `obstacle.flags` (names of those that are off), `obstacle.unfit` (mistake: a
    ConditionError), `obstacle.not_member` (id and name of the group), `obstacle.only_others`. `rules.NO_GRANT` when
    nothing grants the item to anybody now.
    """
    grant: GrantRule | None
    """The grant that allows the item, or the nearest one that does not. With `obstacle.only_others`, an example."""

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(reason.code for reason in self.obstacles)


@dataclass(frozen=True, slots=True)
class _Candidate:
    cost: Cost
    rule: GrantRule
    obstacles: tuple[Reason, ...]


@dataclass(slots=True)
class _TargetGrants:
    """The grants of one tool, toolset, resource or prompt, read once however many people are asked about."""

    denials: dict[Subject, list[GrantRule]] = field(default_factory=dict)
    """Those in force."""
    nearest: dict[Subject, _Candidate] = field(default_factory=dict)
    """For each subject, its nearest grant that allows."""
    groups: list[_Candidate] = field(default_factory=list)
    """For those who are in none of the groups: the nearest grant of each, the nearest first."""
    in_force_for_user: _Candidate | None = None


class Explainer:
    """Explanations at one time and in one environment. Cheap for the rows of a page, however many grants there are."""

    def __init__(self, snapshot: Snapshot, now: float, environment: str) -> None:
        self._snapshot, self._now, self._environment = snapshot, now, environment
        self._rules: dict[tuple[str, int], list[GrantRule]] = {}
        for rule in snapshot.grants:
            self._rules.setdefault((rule.target_kind, rule.target_id), []).append(rule)
        self._targets: dict[tuple[str, int], _TargetGrants] = {}

    def explain(self, requester: Requester, item: Item | Target) -> Explanation:
        """Name everything that hides the item from the requester, and the nearest grant."""
        found: list[Reason] = []
        present = self._snapshot.items.get((item.kind, item.id))
        if present is None:
            found.append(rules.NOT_AVAILABLE)
        elif present.quarantined:
            found.append(rules.quarantine_rule(present))
        member = self._snapshot.members.get(requester.user_id)
        if member is None:
            return Explanation((*found, rules.NO_USER), None)
        if not member.is_active:
            found.append(rules.INACTIVE)
        if requester.toolset_ids is not None and requester.toolset_ids.isdisjoint(item.toolset_ids):
            found.append(rules.OTHER_TOOLSETS)
        keys = [(item.kind, item.id), *(("toolset", key) for key in sorted(item.toolset_ids))]
        targets = [self._target(key) for key in keys if key in self._rules]
        subjects = _subjects(requester.user_id, member)
        denials = [rule for target in targets for subject in subjects for rule in target.denials.get(subject, ())]
        found += [rule.rule for rule in sorted(denials, key=_by_id)]
        nearest = _find_nearest(targets, subjects)
        if nearest is None:
            return Explanation((*found, rules.NO_GRANT), None)
        return Explanation((*found, *nearest.obstacles), nearest.rule)

    def _target(self, key: tuple[str, int]) -> _TargetGrants:
        found = self._targets.get(key)
        if found is None:
            found = self._targets[key] = self._read(self._rules[key])
        return found

    def _read(self, found: Iterable[GrantRule]) -> _TargetGrants:
        target = _TargetGrants()
        for rule in found:
            subject = (rule.subject_kind, rule.subject_id)
            if rule.effect == "deny":
                if rules.is_in_force(rule, self._now) and rules.applies_in(rule, self._environment):
                    target.denials.setdefault(subject, []).append(rule)
                continue
            candidate = self._candidate(rule, self._obstacles_of(rule))
            target.nearest[subject] = _nearer(target.nearest.get(subject), candidate)
            if rule.subject_kind == "user" and not candidate.obstacles:
                other = self._candidate(rule, (Reason(ONLY_OTHERS),))
                target.in_force_for_user = _nearer(target.in_force_for_user, other)
        for candidate in target.nearest.values():
            rule = candidate.rule
            if rule.subject_kind == "group":
                group = Reason(NOT_MEMBER, {"id": rule.subject_id, "name": rule.subject_name})
                target.groups.append(self._candidate(rule, (group, *candidate.obstacles)))
        target.groups.sort(key=_by_cost)
        return target

    def _obstacles_of(self, rule: GrantRule) -> tuple[Reason, ...]:
        """Return what keeps the grant from applying to its own subject now."""
        found = []
        if rule.starts is not None and rule.starts > self._now:
            found.append(Reason(LATER, {"at": rule.starts}))
        if rule.ends is not None and rule.ends <= self._now:
            found.append(Reason(ENDED, {"at": rule.ends}))
        if not rules.applies_in(rule, self._environment):
            found.append(Reason(ELSEWHERE, {"names": sorted(rule.environments)}))
        return tuple(found)

    def _candidate(self, rule: GrantRule, obstacles: tuple[Reason, ...]) -> _Candidate:
        weight = sum(_WEIGHTS[reason.code] for reason in obstacles)
        away = max((abs(reason.params["at"] - self._now) for reason in obstacles if "at" in reason.params), default=0.0)
        cost = (weight, _BREADTH[rule.subject_kind], int(rule.target_kind == "toolset"), away, rule.id)
        return _Candidate(cost, rule, obstacles)


def explain(snapshot: Snapshot, requester: Requester, item: Item | Target, now: float, environment: str) -> Explanation:
    """Explain one item for one person, with the arguments of `rules.decide`."""
    return Explainer(snapshot, now, environment).explain(requester, item)


def _subjects(user_id: int, member: Member) -> list[Subject]:
    return [("user", user_id), ("everyone", None), *(("group", key) for key in sorted(member.group_ids))]


def _find_nearest(targets: Sequence[_TargetGrants], subjects: Iterable[Subject]) -> _Candidate | None:
    own = [target.nearest[subject] for subject in subjects for target in targets if subject in target.nearest]
    if own:
        return min(own, key=_by_cost)
    groups = [found for target in targets if (found := _find_group(target, targets)) is not None]
    if groups:
        return min(groups, key=_by_cost)
    others = [target.in_force_for_user for target in targets if target.in_force_for_user is not None]
    return min(others, key=_by_cost, default=None)


def _find_group(target: _TargetGrants, targets: Sequence[_TargetGrants]) -> _Candidate | None:
    """Return the nearest grant of a group whose members are not denied the item: joining another one would not help."""
    for candidate in target.groups:
        subject = (candidate.rule.subject_kind, candidate.rule.subject_id)
        if not any(subject in one.denials for one in targets):
            return candidate
    return None


def _nearer(first: _Candidate | None, second: _Candidate) -> _Candidate:
    return second if first is None or second.cost < first.cost else first


def _by_cost(candidate: _Candidate) -> Cost:
    return candidate.cost


def _by_id(rule: GrantRule) -> int:
    return rule.id
