"""What hides an item from a person: every obstacle, with the nearest grant that would show it otherwise.

Lists and calls ask `rules.decide`. Pages ask here, to tell an administrator what to change; the two always agree.

    explainer = Explainer(snapshot, now, environment)         once for a page
    explanation = explainer.explain(requester, item)
    explanation.obstacles       the reasons, in the order in which `decide` looks at them; empty: the item is visible
    explanation.grant           the grant that the reasons of code `obstacle.*` are about
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from audit.types import Reason
from catalog.conditions import flags, windows
from catalog.conditions.forms import Alternative
from catalog.conditions.mistakes import ConditionError
from catalog.policy import rules
from catalog.policy.definitions import EMPTY, GrantRule, Item, Kind, Member, Snapshot
from catalog.policy.narrowed_items import narrow
from catalog.policy.permissions import PersonalConditions
from catalog.policy.rules import Requester

LATER, ENDED, ELSEWHERE = "obstacle.later", "obstacle.ended", "obstacle.elsewhere"
CLOSED, FLAGS, UNFIT = "obstacle.closed", "obstacle.flags", "obstacle.unfit"
NOT_MEMBER, ONLY_OTHERS = "obstacle.not_member", "obstacle.only_others"
_WEIGHTS: Final[Mapping[str, int]] = {
    LATER: 1, CLOSED: 2, ENDED: 4, ELSEWHERE: 8, FLAGS: 16, UNFIT: 32, NOT_MEMBER: 64, ONLY_OTHERS: 128
}  # fmt: skip
"""How large a change each obstacle of a grant needs: a larger one outweighs all smaller ones together.

A grant that starts later, or whose windows are closed, will apply without any change. The time, the environments, the
flags and the conditions are a matter of one grant, while a new member of a group gets whatever the group has. A grant
to another person never becomes one's own.
"""
_BREADTH: Final[Mapping[str, int]] = {"user": 0, "group": 1, "everyone": 2}
_FREE: Final = Alternative(0)
"""What any grant without conditions allows."""

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

    A grant that denies under conditions is named where it denies whatever could be sent. Of an item that is
    switched off, nothing is known of its arguments, so that no condition is an obstacle yet.
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
    """For each subject, its nearest grant that allows; of those that mean the same for everybody."""
    personal: dict[Subject, list[_Candidate]] = field(default_factory=dict)
    """For each subject, the grants with flags or conditions, which differ between people and items."""
    groups: list[_Candidate] = field(default_factory=list)
    """For those who are in none of the groups: the nearest grant of each, the nearest first."""
    personal_groups: list[_Candidate] = field(default_factory=list)
    """For those who are in none of the groups: the grants with flags or conditions."""
    in_force_for_user: _Candidate | None = None

    def find(self, subject: Subject) -> list[_Candidate]:
        """Return the grants that allow something to this subject, without those that another one outdoes anyway."""
        found = self.nearest.get(subject)
        return [*([found] if found is not None else ()), *self.personal.get(subject, ())]


@dataclass(frozen=True, slots=True)
class _Question:
    """One person and one item, with the denials in force."""

    user_id: int
    member: Member
    item: Item | None
    """None for an item that is switched off."""
    conditions: PersonalConditions
    hiding: tuple[GrantRule, ...] = ()
    """Denials that leave nothing of the item."""
    narrowing: tuple[GrantRule, ...] = ()
    """All other denials: those with conditions."""


class Explainer:
    """Explanations at one time and in one environment. Cheap for the rows of a page, however many grants there are."""

    def __init__(self, snapshot: Snapshot, now: float, environment: str) -> None:
        self._snapshot, self._now, self._environment = snapshot, now, environment
        self._rules: dict[tuple[str, int], list[GrantRule]] = {}
        for rule in snapshot.grants:
            self._rules.setdefault((rule.target_kind, rule.target_id), []).append(rule)
        self._targets: dict[tuple[str, int], _TargetGrants] = {}
        self._conditions: dict[tuple[int, int | None], PersonalConditions] = {}

    def explain(self, requester: Requester, item: Item | Target) -> Explanation:
        """Name everything that hides the item from the requester, and the nearest grant."""
        found: list[Reason] = []
        user_id = requester.user_id
        present = self._snapshot.items.get((item.kind, item.id))
        if present is None:
            found.append(rules.NOT_AVAILABLE)
        elif present.quarantined:
            found.append(rules.quarantine_rule(present))
        member = self._snapshot.members.get(user_id)
        if member is None:
            return Explanation((*found, rules.NO_USER), None)
        if not member.is_active:
            found.append(rules.INACTIVE)
        if requester.toolset_ids is not None and requester.toolset_ids.isdisjoint(item.toolset_ids):
            found.append(rules.OTHER_TOOLSETS)
        keys = [(item.kind, item.id), *(("toolset", key) for key in sorted(item.toolset_ids))]
        targets = [self._target(key) for key in keys if key in self._rules]
        subjects = _subjects(user_id, member)
        asked = _Question(user_id, member, present, self._conditions_of(user_id, member))
        asked = self._with_denials(asked, targets, subjects)
        found += [rule.rule for rule in asked.hiding]
        nearest = self._find_nearest(asked, targets, subjects)
        if nearest is None:
            return Explanation((*found, rules.NO_GRANT), None)
        return Explanation((*found, *nearest.obstacles), nearest.rule)

    # --- the grants of a target, for all people ---------------------------------------------------------------------

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
            if rule.flags or rule.conditions:
                target.personal.setdefault(subject, []).append(candidate)
            else:
                target.nearest[subject] = _nearer(target.nearest.get(subject), candidate)
            if rule.subject_kind == "user" and not candidate.obstacles and self._is_on_for_its_user(rule):
                other = self._candidate(rule, (Reason(ONLY_OTHERS),))
                target.in_force_for_user = _nearer(target.in_force_for_user, other)
        target.groups = sorted(self._as_outsider(target.nearest.values()), key=_by_cost)
        target.personal_groups = self._as_outsider(one for found in target.personal.values() for one in found)
        return target

    def _is_on_for_its_user(self, rule: GrantRule) -> bool:
        return rules.is_switched_on(self._snapshot, rule, rule.subject_id or 0)

    def _as_outsider(self, found: Iterable[_Candidate]) -> list[_Candidate]:
        """Return the grants to groups, for somebody who is not in the group."""
        outside = []
        for candidate in found:
            rule = candidate.rule
            if rule.subject_kind == "group":
                group = Reason(NOT_MEMBER, {"id": rule.subject_id, "name": rule.subject_name})
                outside.append(self._candidate(rule, (group, *candidate.obstacles)))
        return outside

    def _obstacles_of(self, rule: GrantRule) -> tuple[Reason, ...]:
        """Return what keeps the grant from applying to its own subject now, whoever that is."""
        found = []
        if rule.starts is not None and rule.starts > self._now:
            found.append(Reason(LATER, {"at": rule.starts}))
        if rule.windows and not windows.is_open(rule.windows, self._now):
            found.append(Reason(CLOSED, {"at": self._next_opening(rule)}))
        if rule.ends is not None and rule.ends <= self._now:
            found.append(Reason(ENDED, {"at": rule.ends}))
        if not rules.applies_in(rule, self._environment):
            found.append(Reason(ELSEWHERE, {"names": sorted(rule.environments)}))
        return tuple(found)

    def _next_opening(self, rule: GrantRule) -> float:
        """Return when a window of the grant is open next, not before the grant starts. None is open now."""
        start = max(self._now, rule.starts or self._now)
        if windows.is_open(rule.windows, start):
            return start
        # All windows are closed, so the next change opens one of them.
        opening = windows.next_change(rule.windows, start)
        assert opening is not None, "each window opens within two weeks"  # noqa: S101
        return opening

    def _candidate(self, rule: GrantRule, obstacles: tuple[Reason, ...]) -> _Candidate:
        weight = sum(_WEIGHTS[reason.code] for reason in obstacles)
        away = max((abs(reason.params["at"] - self._now) for reason in obstacles if "at" in reason.params), default=0.0)
        cost = (weight, _BREADTH[rule.subject_kind], int(rule.target_kind == "toolset"), away, rule.id)
        return _Candidate(cost, rule, obstacles)

    # --- one person and one item ------------------------------------------------------------------------------------

    def _conditions_of(self, user_id: int, member: Member, group_id: int | None = None) -> PersonalConditions:
        """Return the conditions for a person, or as they would be for a new member of this group."""
        found = self._conditions.get((user_id, group_id))
        if found is None:
            catalogue = self._snapshot
            if group_id is not None:
                joined = replace(member, group_ids=member.group_ids | {group_id})
                catalogue = replace(catalogue, members={user_id: joined})
            found = self._conditions[user_id, group_id] = PersonalConditions(catalogue, user_id)
        return found

    def _with_denials(
        self, asked: _Question, targets: Sequence[_TargetGrants], subjects: Iterable[Subject]
    ) -> _Question:
        """Return the question with the denials in force to these subjects that are switched on for the person."""
        denials = [rule for target in targets for subject in subjects for rule in target.denials.get(subject, ())]
        hiding: list[GrantRule] = []
        narrowing: list[GrantRule] = []
        for rule in sorted(denials, key=_by_id):
            if not rules.is_switched_on(self._snapshot, rule, asked.user_id):
                continue
            # Each is judged beside those that leave something: so all that are named must go, and these are enough.
            leaves_some = bool(rule.conditions) and self._leaves_some(asked, [*narrowing, rule])
            (narrowing if leaves_some else hiding).append(rule)
        return replace(asked, hiding=tuple(hiding), narrowing=tuple(narrowing))

    def _leaves_some(self, asked: _Question, denials: Sequence[GrantRule]) -> bool:
        """Return whether a person who is denied this much could use anything of the item."""
        if asked.item is None:
            return True
        permission = replace(asked.conditions.permission(denials), alternatives=(_FREE,))
        return narrow(asked.item, permission).item is not None

    def _find_misfit(self, asked: _Question, rule: GrantRule) -> ConditionError | None:
        """Return why the conditions of the grant, beside the denials, allow nothing of the item; None if they do."""
        if asked.item is None or not rule.conditions:
            return None
        permission = asked.conditions.permission([rule, *asked.narrowing])
        return narrow(asked.item, permission).form.misfits.get(rule.id)

    def _with_flags(self, asked: _Question, candidate: _Candidate) -> _Candidate:
        """Return the candidate with the flags that are off for the person."""
        percentages = self._snapshot.flags
        off = [
            name
            for name in sorted(candidate.rule.flags)
            if not flags.are_on([name], percentages, asked.user_id, unknown=False)
        ]
        if not off:
            return candidate
        return self._candidate(candidate.rule, (*candidate.obstacles, Reason(FLAGS, {"names": off})))

    def _with_misfit(self, asked: _Question, candidate: _Candidate) -> _Candidate:
        """Return the candidate with what its conditions do not fit."""
        mistake = self._find_misfit(asked, candidate.rule)
        if mistake is None:
            return candidate
        return self._candidate(candidate.rule, (*candidate.obstacles, Reason(UNFIT, {"mistake": mistake})))

    def _find_nearest(
        self, asked: _Question, targets: Sequence[_TargetGrants], subjects: Sequence[Subject]
    ) -> _Candidate | None:
        own = [one for subject in subjects for target in targets for one in target.find(subject)]
        if own:
            flagged = [self._with_flags(asked, one) for one in own]
            fitting = [one for one in flagged if not one.obstacles and self._find_misfit(asked, one.rule) is None]
            if fitting:
                # The one that is the first to allow something decides, as in `rules`.
                first = asked.conditions.permission([one.rule for one in fitting]).alternatives[0]
                return next(one for one in fitting if one.rule.id == first.grant_id)
            return _find_cheapest(flagged, lambda one: self._with_misfit(asked, one))
        groups = [one for target in targets if (one := self._find_group(asked, target, targets)) is not None]
        if groups:
            return min(groups, key=_by_cost)
        others = [target.in_force_for_user for target in targets if target.in_force_for_user is not None]
        return min(others, key=_by_cost, default=None)

    def _find_group(
        self, asked: _Question, target: _TargetGrants, targets: Sequence[_TargetGrants]
    ) -> _Candidate | None:
        """Return the nearest grant of a group that helps: the denials to its members leave something of the item."""
        found = next((one for one in target.groups if self._as_member(asked, one.rule, targets) is not None), None)
        flagged = [self._with_flags(asked, one) for one in target.personal_groups]

        def finish(candidate: _Candidate) -> _Candidate | None:
            joined = self._as_member(asked, candidate.rule, targets)
            return None if joined is None else self._with_misfit(joined, candidate)

        personal = _find_cheapest(flagged, finish)
        return found if personal is None else _nearer(found, personal)

    def _as_member(self, asked: _Question, rule: GrantRule, targets: Sequence[_TargetGrants]) -> _Question | None:
        """Return the question for a new member of the group of this grant; None where more would be denied.

        The group may bring denials, and values of lists that a denial is about.
        """
        subject = (rule.subject_kind, rule.subject_id)
        changes = asked.narrowing or rule.conditions or any(subject in target.denials for target in targets)
        if not changes:
            return asked
        conditions = self._conditions_of(asked.user_id, asked.member, rule.subject_id)
        joined = replace(asked, conditions=conditions)
        joined = self._with_denials(joined, targets, [*_subjects(asked.user_id, asked.member), subject])
        return joined if set(joined.hiding) <= set(asked.hiding) else None


def explain(snapshot: Snapshot, requester: Requester, item: Item | Target, now: float, environment: str) -> Explanation:
    """Explain one item for one person, with the arguments of `rules.decide`."""
    return Explainer(snapshot, now, environment).explain(requester, item)


def _subjects(user_id: int, member: Member) -> list[Subject]:
    return [("user", user_id), ("everyone", None), *(("group", key) for key in sorted(member.group_ids))]


def _find_cheapest(
    candidates: Iterable[_Candidate], finish: Callable[[_Candidate], _Candidate | None]
) -> _Candidate | None:
    """Return the nearest candidate after `finish`, which makes it farther or leaves it out, for as few as possible."""
    best: _Candidate | None = None
    for candidate in sorted(candidates, key=_by_cost):
        if best is not None and best.cost <= candidate.cost:
            break
        finished = finish(candidate)
        best = best if finished is None else _nearer(best, finished)
    return best


def _nearer(first: _Candidate | None, second: _Candidate) -> _Candidate:
    return second if first is None or second.cost < first.cost else first


def _by_cost(candidate: _Candidate) -> Cost:
    return candidate.cost


def _by_id(rule: GrantRule) -> int:
    return rule.id
