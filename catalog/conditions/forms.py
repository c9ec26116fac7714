"""One person's form of a definition: the narrowed schema that the list shows, and the judgement of a call.

Pure. Both come from one permission, so that they agree: what the shown schema accepts is allowed, and what is allowed
it accepts. Where arguments depend on each other, or a list of values is too long to show, the shown schema is wider
(`is_exact` is False) and the call decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from catalog.conditions.constraints import NOTHING, Constraint
from catalog.conditions.definitions import FIXED, ITEMS, ONLY, Condition, Steps
from catalog.conditions.fixed_values import FixedValues, remaining_required
from catalog.conditions.mistakes import ConditionError
from catalog.conditions.narrowing import Demand, Narrowing
from catalog.conditions.original import Original
from catalog.schemas import defaults, errors
from catalog.schemas.errors import SchemaProblem

BaseCheck: TypeAlias = Callable[[dict[str, Any]], SchemaProblem | None]
UNFIT = 1_000
"""Rank of arguments that do not even satisfy the definition's own schema."""


@dataclass(frozen=True)
class Alternative:
    """What one grant allows; comparable and hashable."""

    grant_id: int
    constraints: tuple[Constraint, ...] = ()
    fixed: tuple[Condition, ...] = ()
    names_item: bool = False
    """Whether the grant names the item itself: then the item must have every argument that a condition is about."""
    only: tuple[str, ...] | None = None
    """The only arguments that a client may send; None for any. What is filled in does not count."""

    @classmethod
    def of(
        cls,
        grant_id: int,
        conditions: Sequence[Condition],
        lists: Mapping[str, Sequence[str]],
        *,
        names_item: bool = False,
    ) -> Alternative:
        """Return what a grant with these conditions allows to a person with these value lists."""
        constraints = tuple(Constraint.of(one, lists) for one in conditions if one.operator not in (FIXED, ONLY))
        fixed = tuple(one for one in conditions if one.operator == FIXED)
        only = next((tuple(one.value) for one in conditions if one.operator == ONLY), None)
        return cls(grant_id, constraints, fixed, names_item, only)

    @property
    def is_free(self) -> bool:
        """Return whether it allows every call."""
        return not (self.constraints or self.fixed) and self.only is None

    def permits(self, name: str) -> bool:
        """Return whether a client may send an argument of this name, as far as names go."""
        return self.only is None or name in self.only

    def find_others(self, sent: Iterable[str]) -> list[SchemaProblem]:
        """Return a problem for each of these arguments that a client may not send, at most MAX_PROBLEMS."""
        others = [name for name in sent if not self.permits(name)]
        return [errors.unknown_member((), name, self.only or ()) for name in others[: errors.MAX_PROBLEMS]]


@dataclass(frozen=True)
class Denial:
    """What one grant denies: a call in which none of these constraints, which are negated, holds."""

    grant_id: int
    constraints: tuple[Constraint, ...]
    names_item: bool = False
    """Whether the grant names the item itself. Then it denies every call of an item without one of the arguments."""

    @classmethod
    def of(
        cls,
        grant_id: int,
        conditions: Sequence[Condition],
        lists: Mapping[str, Sequence[str]],
        *,
        names_item: bool = False,
    ) -> Denial:
        """Return what a grant with these conditions denies to a person with these lists; see `find_unfit`."""
        return cls(grant_id, tuple(Constraint.of(one, lists, is_negated=True) for one in conditions), names_item)


@dataclass(frozen=True)
class Permission:
    """What a person may do with one item: any of the alternatives, and none of the denials."""

    alternatives: tuple[Alternative, ...]
    denials: tuple[Denial, ...] = ()

    @classmethod
    def build(cls, alternatives: Iterable[Alternative], denials: Iterable[Denial]) -> Permission:
        """Return the permission with its alternatives in order: those without fixed values, then the oldest grant.

        Of grants that allow or deny the same, the oldest stands for all: the others would only repeat it in the schema.
        """
        ordered = sorted(alternatives, key=lambda one: (not one.is_free, bool(one.fixed), one.grant_id))
        if ordered and ordered[0].is_free:
            ordered = ordered[:1]
        allowed: dict[Any, Alternative] = {}
        for one in ordered:
            allowed.setdefault(replace(one, grant_id=0), one)
        denied: dict[Any, Denial] = {}
        for denial in sorted(denials, key=lambda one: one.grant_id):
            denied.setdefault(replace(denial, grant_id=0), denial)
        return cls(tuple(allowed.values()), tuple(denied.values()))


@dataclass(frozen=True, slots=True)
class Accepted:
    """Arguments that may be used, with fixed values filled in, and the grant that allows them."""

    arguments: dict[str, Any]
    grant_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The problem of arguments, and the grant that denies them; None where no grant allows them."""

    problem: SchemaProblem
    grant_id: int | None = None


class Way:
    """One alternative, compiled for one schema."""

    def __init__(self, alternative: Alternative, original: Original, fill: defaults.Fill | None) -> None:
        self.alternative = alternative
        self.fixed = FixedValues(alternative.fixed, original, fills_defaults=fill is not None)
        self.narrowing = self.fixed.narrowing
        """The schema that is left, narrowed by each of the constraints in turn."""
        self._fill = fill

    def find_unfit(self, sent: dict[str, Any], find_base_problem: BaseCheck) -> Refused | None:
        """Return why the arguments, with the fixed values, do not satisfy the definition's own schema."""
        problem = self.fixed.find_problem(sent)
        if problem is None:
            problem = find_base_problem(self.fixed.fill(sent))
        return None if problem is None else Refused(problem)

    def complete(self, filled: dict[str, Any]) -> dict[str, Any]:
        """Return arguments that have their fixed values with the defaults filled in as well."""
        return filled if self._fill is None else self._fill(filled)

    def fill_all(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with fixed values and defaults filled in."""
        return self.complete(self.fixed.fill(sent))

    def used(self, fixed: Condition) -> Any:
        """Return a fixed value as it is used: with the defaults that are filled into it."""
        around: Any = {}
        for step in reversed(fixed.steps[:-1]):
            around = [around] if step is ITEMS else {step: around}
        value: Any = self.fill_all(around)
        for step in fixed.steps:
            value = value[0] if step is ITEMS else value[step]
        return value


class Form:
    """One person's form of a definition."""

    def __init__(
        self, permission: Permission, schema: dict[str, Any], *, fills_defaults: bool = True, takes_fixed: bool = True
    ) -> None:
        self.permission = permission
        self._takes_fixed = takes_fixed
        self.ways: list[Way] = []
        self.misfits: dict[int, ConditionError] = {}
        """Grants whose conditions do not fit this schema, with the reason: they allow nothing."""
        self.is_exact = True
        self.original = Original(schema)
        self.fill = (defaults.compile_fill(schema) or dict) if fills_defaults else None
        """Fills in defaults; None for a definition whose defaults are not filled in."""
        for alternative in permission.alternatives:
            try:
                self._check_places(alternative)
                way = Way(alternative, self.original, self.fill)
            except ConditionError as error:
                self.misfits[alternative.grant_id] = error
                continue
            if self._is_possible(way):
                self.ways.append(way)
            else:
                self.misfits[alternative.grant_id] = ConditionError("impossible")
        self.schema = self._shown() if self.ways else None
        """The schema that the list shows; None when nothing is allowed."""

    # --- the call ---------------------------------------------------------------------------------------------------

    def judge(
        self, sent: dict[str, Any], find_base_problem: BaseCheck, check_time: Callable[[], None] = lambda: None
    ) -> Accepted | Refused:
        """Return the arguments to use, or the problem of those that were sent.

        `find_base_problem` checks arguments against the definition's own schema. Of several alternatives, the first
        that accepts decides, and the nearest one names the problem. `check_time` is called before each constraint and
        may raise BudgetError, as patterns do beyond their budget: arguments can be long lists, and grants many.
        """
        best: tuple[int, Refused] | None = None
        known: dict[tuple[Condition, ...], Refused | None] = {}
        for way in self.ways:
            fixed = way.alternative.fixed
            if fixed not in known:  # most alternatives fix nothing, and the definition's own check takes the longest
                known[fixed] = way.find_unfit(sent, find_base_problem)
            unfit = known[fixed]
            rank, found = (UNFIT, unfit) if unfit is not None else self._judge_way(way, sent, check_time)
            if isinstance(found, Accepted):
                return found
            if best is None or rank < best[0]:
                best = rank, found
        assert best is not None, "a form without ways is never shown"  # noqa: S101
        return best[1]

    def judge_way(self, way: Way, sent: dict[str, Any], find_base_problem: BaseCheck) -> tuple[int, Accepted | Refused]:
        """Return the judgement of one alternative, and how far the arguments are from it: 0 when it accepts them."""
        unfit = way.find_unfit(sent, find_base_problem)
        return self._judge_way(way, sent, lambda: None) if unfit is None else (UNFIT, unfit)

    def _judge_way(
        self, way: Way, sent: dict[str, Any], check_time: Callable[[], None]
    ) -> tuple[int, Accepted | Refused]:
        """Return the judgement of arguments that satisfy the definition's own schema with the fixed values."""
        filled = way.fixed.fill(sent)
        complete = way.complete(filled)
        found: list[tuple[SchemaProblem, int | None]] = [
            (problem, None) for problem in way.alternative.find_others(sent)
        ]
        with_fixed = filled if way.alternative.fixed else NOTHING
        for constraint in way.alternative.constraints:
            check_time()
            problem = constraint.find_violation(complete, sent)
            if problem is not None:
                found.append((problem, None))
        for denial in self.permission.denials:
            check_time()
            problems = [one.find_violation(complete, sent, with_fixed) for one in denial.constraints]
            if (problem := problems[0]) is not None and None not in problems:
                found.append((problem, denial.grant_id))
        if not found:
            return 0, Accepted(filled, way.alternative.grant_id)
        others = tuple(problem for problem, _ in found[1 : errors.MAX_PROBLEMS])
        first, grant_id = found[0]
        return len(found), Refused(replace(first, others=others), grant_id)

    def may_send(self, name: str, value: str) -> bool:
        """Return whether one of the alternatives accepts this value of an argument, whatever the others are.

        Raises BudgetError beyond the budget of patterns.
        """
        steps = (name,)
        if not all(one.accepts(value) for one in self._singles() if one.steps == steps):
            return False
        return any(
            way.alternative.permits(name)
            and way.fixed.covering(steps) is None
            and all(one.accepts(value) for one in way.alternative.constraints if one.steps == steps)
            for way in self.ways
        )

    # --- the list ---------------------------------------------------------------------------------------------------

    def _check_places(self, alternative: Alternative) -> None:
        """Raise ConditionError for a constraint on an argument that the definition does not have."""
        for steps in [one.steps for one in alternative.constraints] + [one.steps for one in alternative.fixed]:
            if self.original.is_secret(steps):
                raise ConditionError("secret", path=steps)
        if alternative.fixed and not self._takes_fixed:
            raise ConditionError("no_fixed", path=alternative.fixed[0].steps)
        for constraint in alternative.constraints:
            needed = alternative.names_item or not constraint.may_be_absent
            if needed and not self.original.has_place(constraint.steps):
                raise ConditionError("no_argument", path=constraint.steps)
        for denial in self.permission.denials:
            self._check_denial(denial)

    def _check_denial(self, denial: Denial) -> None:
        """Raise ConditionError for a denial that holds for every call, or in doubt."""
        missing = []
        for one in denial.constraints:
            if self.original.is_secret(one.steps):
                raise ConditionError("denied_secret", path=one.steps, grant=denial.grant_id)
            if not self.original.has_place(one.steps):
                missing.append(one)
        if missing and denial.names_item:
            raise ConditionError("gone", path=missing[0].steps, grant=denial.grant_id)
        if len(missing) == len(denial.constraints) and not any(one.may_be_absent for one in missing):
            raise ConditionError("denied", path=missing[0].steps, grant=denial.grant_id)

    def _singles(self) -> list[Constraint]:
        return [denial.constraints[0] for denial in self.permission.denials if len(denial.constraints) == 1]

    def _is_possible(self, way: Way) -> bool:
        """Return whether some arguments satisfy the alternative, as far as the schema tells."""
        constraints = (*way.alternative.constraints, *self._singles())
        if not all(self._narrow(way.narrowing, way, one) for one in constraints):
            return False
        # The last: by now the schema names, and requires, what the constraints do.
        return way.alternative.only is None or way.narrowing.close(way.alternative.only)

    def _narrow(self, narrowing: Narrowing, way: Way, constraint: Constraint) -> bool:
        if not self.original.has_place(constraint.steps):
            narrowing.is_exact = False  # nothing is shown of an argument that the definition does not have
            return True
        covering = way.fixed.covering(constraint.steps)
        if covering is None:
            if self._may_be_filled(constraint):
                narrowing.is_exact = False
            return narrowing.apply(Demand([(constraint,)], constraint.required_levels(way.fill_all)))
        if constraint.find_from(len(covering.steps), way.used(covering), NOTHING, ()) is None:
            return True
        if ITEMS in covering.steps:
            narrowing.is_exact = False
            return True
        return False

    def _may_be_filled(self, constraint: Constraint) -> bool:
        """Return whether the constraint also looks at a value with more in it than a client sends."""
        if not constraint.looks_at_filled:
            return False
        steps = constraint.steps
        fixes = any(
            one.steps[: len(steps)] == steps
            for alternative in self.permission.alternatives
            for one in alternative.fixed
        )
        return fixes or self.fill not in (None, dict)

    def _shown(self) -> dict[str, Any]:
        if len(self.ways) == 1:
            narrowing = self.ways[0].narrowing
        else:
            narrowing = self._union()
        if any(len(denial.constraints) > 1 for denial in self.permission.denials):
            narrowing.is_exact = False
        self.is_exact = narrowing.is_exact
        return narrowing.schema

    def _union(self) -> Narrowing:
        """Return the schema of all alternatives together: at each place, what any of them accepts there."""
        first, others = self.ways[0], self.ways[1:]
        common = [one for one in first.alternative.fixed if all(_fixes(way, one.steps) for way in others)]
        same = all(way.alternative.fixed == first.alternative.fixed for way in others)
        if same:
            narrowing = first.fixed.narrowing
        else:
            narrowing = FixedValues(common, self.original, fills_defaults=False).narrowing
            partial = [one for way in self.ways for one in way.alternative.fixed]
            narrowing.schema = remaining_required(narrowing.schema, partial)
            narrowing.is_exact = False
        by_place = [_by_place(way.alternative.constraints) for way in self.ways]
        places = [steps for steps in by_place[0] if all(steps in found for found in by_place[1:])]
        for steps in places:
            if not self.original.has_place(steps) or any(way.fixed.covering(steps) for way in self.ways):
                narrowing.is_exact = False
                continue
            required = [
                _levels(any, [constraint.required_levels(way.fill_all) for constraint in found[steps]])
                for way, found in zip(self.ways, by_place, strict=True)
            ]
            if not narrowing.apply(Demand([tuple(found[steps]) for found in by_place], _levels(all, required))):
                narrowing.is_exact = False
        if any(
            len(found) != 1 or found.keys() != by_place[0].keys() or ITEMS in next(iter(found)) for found in by_place
        ):
            narrowing.is_exact = False
        for constraint in self._singles():
            steps = constraint.steps
            if not self.original.has_place(steps) or any(way.fixed.covering(steps) for way in self.ways):
                narrowing.is_exact = False
                continue
            levels = _levels(all, [constraint.required_levels(way.fill_all) for way in self.ways])
            if not narrowing.apply(Demand([(constraint,)], levels)) or self._may_be_filled(constraint):
                narrowing.is_exact = False
        self._close(narrowing)
        return narrowing

    def _close(self, narrowing: Narrowing) -> None:
        """Leave only the arguments that some alternative permits, where each of them names those that it does."""
        named = [way.alternative.only for way in self.ways]
        if len({None if one is None else frozenset(one) for one in named}) > 1:
            narrowing.is_exact = False
        names = dict.fromkeys(name for one in named for name in one or ())
        if None not in named and not narrowing.close(names):
            narrowing.is_exact = False


def _fixes(way: Way, steps: Steps) -> bool:
    return any(one.steps == steps for one in way.alternative.fixed)


def _by_place(constraints: Iterable[Constraint]) -> dict[Steps, list[Constraint]]:
    found: dict[Steps, list[Constraint]] = {}
    for one in constraints:
        found.setdefault(one.steps, []).append(one)
    return found


def _levels(combine: Callable[[Iterable[bool]], bool], levels: Sequence[tuple[bool, ...]]) -> tuple[bool, ...]:
    return tuple(combine(column) for column in zip(*levels, strict=True))
