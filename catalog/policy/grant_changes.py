"""Bulk changes of grants: a plan that previews the changes, and the execution of exactly that plan.

    plan = Plan.build(GrantChange("allow", targets, subjects, starts=..., ends=...))
    plan.to_create, plan.existing, plan.to_end    grants to create, grants that exist already, grants to end
    carry_out(change, plan.digest)       exactly that, in one transaction, each change logged

A grant is ended and not deleted: it stays to show what was once in force. A grant that has not begun yet is deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from catalog.models import Grant, Tool, Toolset
from catalog.policy import large_changes

MAX_PAIRS = 500
"""Maximum number of pairs of a target and a subject in one change."""
ALLOW, DENY, END = "allow", "deny", "end"
CHUNK_ROWS = 200


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a grant: a tool or a toolset."""

    kind: str
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a grant: a user, a group, or everyone (id 0)."""

    kind: str
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class GrantChange:
    effect: str
    """allow | deny | end"""
    targets: Sequence[Target]
    subjects: Sequence[Subject]
    starts: datetime | None = None
    ends: datetime | None = None
    environments: tuple[str, ...] = ()
    note: str = ""


class TooManyPairs(ValueError):
    """An error for a change with more pairs than one change may have."""


@dataclass(slots=True)
class Plan:
    """The planned changes. Nothing changes before `carry_out`."""

    change: GrantChange
    to_create: list[tuple[Target, Subject]] = field(default_factory=list)
    existing: list[Grant] = field(default_factory=list)
    """Grants that already give the requested access."""
    to_end: list[Grant] = field(default_factory=list)
    overriding: list[Grant] = field(default_factory=list)
    """Denials in force that override the new allows."""

    @classmethod
    def build(cls, change: GrantChange, now: datetime | None = None, *, locked: bool = False) -> Plan:
        """Return the plan for a change. Raises TooManyPairs.

        `locked`: the plan is carried out in this transaction, so its grants are locked against other changes.
        """
        if len(change.targets) * len(change.subjects) > MAX_PAIRS:
            raise TooManyPairs
        now = now or timezone.now()
        plan = cls(change)
        found: dict[tuple[str, int, str, int], list[Grant]] = {}
        for grant in _load_open_grants(change, now, locked=locked):
            found.setdefault(_key(grant), []).append(grant)
        for target in change.targets:
            for subject in change.subjects:
                grants = found.get((target.kind, target.id, subject.kind, subject.id), [])
                if change.effect == END:
                    plan.to_end += grants
                    continue
                same = [grant for grant in grants if grant.effect == change.effect and _covers(grant, change, now)]
                if same:
                    plan.existing.append(same[0])
                else:
                    plan.to_create.append((target, subject))
                if change.effect == ALLOW:
                    plan.overriding += [grant for grant in grants if grant.effect == DENY]
        return plan

    @property
    def changes(self) -> int:
        return len(self.to_create) + len(self.to_end)

    @property
    def digest(self) -> str:
        """Return a hash that stays equal as long as the plan would make the same changes."""
        change = self.change
        parts: list[Any] = [change.effect, change.starts, change.ends, change.environments, change.note]
        parts += [(target.kind, target.id, subject.kind, subject.id) for target, subject in self.to_create]
        parts += [grant.pk for grant in self.to_end]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _carry_out(self, now: datetime) -> None:
        """Apply the plan; only in a transaction that holds the targets and in which the plan was made."""
        change = self.change
        for target, subject in self.to_create:
            values: dict[str, Any] = {f"{target.kind}_id": target.id}
            values |= {"everyone": True} if subject.kind == "everyone" else {f"{subject.kind}_id": subject.id}
            made = Grant(
                effect=change.effect,
                starts=change.starts,
                ends=change.ends,
                environments=list(change.environments),
                note=change.note,
                **values,
            )
            made.full_clean()
            made.save()  # one by one: each has a history
        for grant in self.to_end:
            end_grant(grant, now)


def carry_out(change: GrantChange, digest: str) -> tuple[Plan, bool]:
    """Carry out the plan that was reviewed; return the current plan, and whether it was carried out.

    It is carried out only if the current plan has the digest of the reviewed one. Concurrent changes to grants of one
    target run one after the other, so the second sees the result of the first.
    """

    def work() -> tuple[Plan, bool]:
        there = _lock_targets(change.targets)
        plan = Plan.build(change, locked=True)
        done = there and plan.digest == digest
        if done:
            plan._carry_out(timezone.now())
        return plan, done

    try:
        return large_changes.run(work)
    except large_changes.Stale:
        return Plan.build(change), False


def end_grant(grant: Grant, now: datetime | None = None) -> None:
    """End a grant now; a grant that has not begun yet is deleted."""
    now = now or timezone.now()
    if grant.starts is not None and grant.starts >= now:
        grant.delete()
    elif grant.ends is None or grant.ends > now:
        grant.ends = now
        grant.save(update_fields=["ends"])  # concurrent changes of other columns are kept


def set_cell(toolset: Toolset, group: Group | None, wanted: str, environment: str) -> Plan:
    """Make a toolset allowed, denied or neither ("end") for a group, or for everyone (None), from now on.

    Conflicting grants in this environment are ended: an allow where access is denied now, and a denial where it is
    allowed now, those with conditions, time windows and flags too. Grants that hold only in other environments stay as
    they are. Returns the plan that was carried out.
    """
    subject = Subject("everyone", 0, "") if group is None else Subject("group", group.pk, group.name)
    target = Target("toolset", toolset.pk, toolset.name)
    now = timezone.now()
    with transaction.atomic():
        _lock_targets([target])
        plan = Plan.build(GrantChange(wanted, [target], [subject]), now)
        everything = Plan.build(GrantChange(END, [target], [subject]), now, locked=True).to_end
        plan.to_end = [
            grant
            for grant in everything
            if grant.effect != wanted and (not grant.environments or environment in grant.environments)
        ]
        plan.overriding = []
        plan._carry_out(now)
    return plan


def targets(tools: Iterable[int], toolsets: Iterable[int]) -> list[Target]:
    """Return the targets that exist, toolsets first, by name."""
    found = [Target("toolset", pk, name) for pk, name in _load_names(Toolset, toolsets)]
    return found + [Target("tool", pk, name) for pk, name in _load_names(Tool, tools)]


def subjects(
    users: Iterable[int], groups: Iterable[int], *, everyone: bool = False, word: str = "everyone"
) -> list[Subject]:
    """Return the subjects that exist: everyone, then groups, then users, by name. `word` is the name of everyone."""
    found = [Subject("everyone", 0, word)] if everyone else []
    found += [Subject("group", pk, name) for pk, name in _load_names(Group, groups)]
    return found + [Subject("user", pk, name) for pk, name in _load_names(get_user_model(), users, "username")]


def _load_names(model: Any, numbers: Iterable[int], name: str = "name") -> list[tuple[int, str]]:
    wanted = sorted(set(numbers))
    found: list[tuple[int, str]] = []
    for start in range(0, len(wanted), CHUNK_ROWS):
        found += model.objects.filter(pk__in=wanted[start : start + CHUNK_ROWS]).values_list("pk", name)
    return sorted(found, key=lambda pair: (pair[1].lower(), pair[0]))


def _lock_targets(targets: Sequence[Target]) -> bool:
    """Lock the targets against other plans until the transaction ends; return whether all of them still exist."""
    held = 0
    for kind, model in (("toolset", Toolset), ("tool", Tool)):
        numbers = sorted(target.id for target in targets if target.kind == kind)
        rows: Any = model._default_manager.select_for_update().order_by("pk")
        for start in range(0, len(numbers), CHUNK_ROWS):
            held += len(rows.filter(pk__in=numbers[start : start + CHUNK_ROWS]).values_list("pk"))
    return held == len(targets)


def _load_open_grants(change: GrantChange, now: datetime, *, locked: bool) -> list[Grant]:
    """Return the grants about these targets that are not over, oldest first."""
    found: list[Grant] = []
    for kind in ("tool", "toolset"):
        numbers = [target.id for target in change.targets if target.kind == kind]
        for start in range(0, len(numbers), CHUNK_ROWS):
            chunk = Grant.objects.filter(**{f"{kind}__in": numbers[start : start + CHUNK_ROWS]})
            chunk = chunk.filter(Q(ends__isnull=True) | Q(ends__gt=now))
            chunk = chunk.select_related("tool", "toolset", "user", "group").order_by("pk")
            found += chunk.select_for_update(of=("self",)) if locked else chunk
    return sorted(found, key=lambda grant: grant.pk)


def _key(grant: Grant) -> tuple[str, int, str, int]:
    kind = "toolset" if grant.toolset_id is not None else "tool"
    target = grant.toolset_id or grant.tool_id or 0
    if grant.everyone:
        return kind, target, "everyone", 0
    return kind, target, *(("group", grant.group_id) if grant.group_id is not None else ("user", grant.user_id or 0))


def _covers(grant: Grant, change: GrantChange, now: datetime) -> bool:
    """Return whether a grant of the same effect covers the whole requested period and all requested environments.

    One with conditions, time windows or flags covers less than what is requested, which has none.
    """
    if grant.is_limited or grant.windows:
        return False
    begins = change.starts or now
    if grant.starts is not None and grant.starts > begins:
        return False
    if grant.ends is not None and (change.ends is None or grant.ends < change.ends):
        return False
    return not grant.environments or (bool(change.environments) and set(change.environments) <= set(grant.environments))
