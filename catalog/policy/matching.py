"""The arguments of one call against the conditions of single grants and approval rules. Pure.

Of a call in the log, some arguments may be hidden. Whether a condition holds that is about one of them nobody can
tell: then the answer is the one that `lenient` says, and `met_hidden` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from catalog.conditions import windows
from catalog.conditions.constraints import Constraint
from catalog.conditions.definitions import ITEMS, Condition, Steps
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.fixed_values import FixedValues
from catalog.conditions.forms import Alternative, Denial
from catalog.conditions.mistakes import ConditionError
from catalog.conditions.original import Original
from catalog.policy.definitions import (
    AskRule,
    GrantRule,
    Item,
    ResourceDefinition,
    Snapshot,
    ToolDefinition,
    digest,
    is_destructive,
)
from catalog.policy.narrowed_items import arguments_of
from catalog.policy.permissions import list_values
from catalog.schemas import defaults

CheckTime = Callable[[], None]
Hides = Callable[[Any], bool]
MAX_KEPT: Final = 2_000


def hides_nothing(value: Any) -> bool:
    """Return that no value stands for one that is hidden."""
    return False


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """What conditions can be about in one item."""

    original: Original
    fill: defaults.Fill
    fills_defaults: bool
    takes_fixed: bool


@lru_cache(maxsize=MAX_KEPT)
def _prepare(item: Item) -> _Prepared:
    found = arguments_of(item)
    fill = defaults.compile_fill(found.schema) if found.fills_defaults else None
    return _Prepared(Original(found.schema), fill or dict, found.fills_defaults, found.takes_fixed)


def complete(item: Item, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of an item of the snapshot with its defaults filled in."""
    return _prepare(item).fill(dict(sent))


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call, as far as they are known."""

    sent: Mapping[str, Any]
    """With fixed values filled in, where a grant fixes any."""
    complete: Mapping[str, Any]
    """With defaults as well."""
    unfilled: Mapping[str, Any] | None = None
    """Without fixed values, where a grant fixes any."""


class Matcher:
    """The arguments of one call, against the conditions of rules and grants.

    What `check_time` raises ends the work, as BudgetError does beyond the budget of patterns.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        user_id: int,
        item: Item,
        check_time: CheckTime = lambda: None,
        hides: Hides = hides_nothing,
        *,
        lenient: bool = False,
    ) -> None:
        self._snapshot, self._user_id, self._check_time = snapshot, user_id, check_time
        self._item: Item = item if isinstance(item, ResourceDefinition) else item.base or item
        self._hides, self._lenient = hides, lenient
        self._prepared = _prepare(self._item)
        self.met_hidden = False
        """Whether a condition was about an argument that is hidden."""

    def complete(self, sent: Mapping[str, Any]) -> Arguments:
        """Return arguments with the defaults of the item."""
        return Arguments(sent, self._prepared.fill(dict(sent)))

    # --- approval rules ---------------------------------------------------------------------------------------------

    def asks(self, rule: AskRule, arguments: Arguments, now: float, known: Collection[int] = ()) -> bool:
        """Return whether the rule asks about this call. `known`: rules of which the value is known already."""
        tool = self._item
        if rule.destructive_only and not (isinstance(tool, ToolDefinition) and is_destructive(tool)):
            return False
        if rule.windows and windows.is_open(rule.windows, now) == rule.outside_windows:
            return False
        if rule.first_time and rule.id in known:
            is_gone = self._names_tool(rule) and not self._prepared.original.has_place(rule.first_time)
            if not is_gone:  # null would be known of it for ever
                return False
        return all(self._holds_for(rule, one, arguments) for one in rule.conditions)

    def _holds_for(self, rule: AskRule, condition: Condition, arguments: Arguments) -> bool:
        """Return whether a condition of an approval rule is satisfied. In doubt the rule asks."""
        self._check_time()
        if self._prepared.original.is_secret(condition.steps):
            return True  # no condition can be about a secret
        if self._names_tool(rule) and not self._prepared.original.has_place(condition.steps):
            return True  # the definition changed: the rule no longer knows what it is about
        if self._is_hidden(condition.steps, arguments.complete):
            return not self._lenient
        constraint = Constraint.of(condition, self._lists([condition]), is_negated=True)
        return constraint.find_violation(arguments.complete, arguments.sent) is not None

    # --- grants -----------------------------------------------------------------------------------------------------

    def allows(self, grant: GrantRule, arguments: Arguments) -> bool:
        """Return whether this grant by itself allows arguments that have their fixed values."""
        made = self._alternative(grant)
        constraints = all(self._satisfies(made, one, arguments) for one in made.constraints)
        constraints = constraints and self._permits(made, arguments.sent)
        return constraints and all(self._has_fixed(one, arguments.complete) for one in made.fixed)

    def fill(self, grant: GrantRule, sent: Mapping[str, Any]) -> Arguments | None:
        """Return the arguments of a call that this grant by itself allows, with its fixed values; None: it does not.

        A value that the grant fixes may be in them: the log has arguments as they were used.
        """
        made = self._alternative(grant)
        unfilled = sent
        if not all(self._can_be_about(one.steps, True) for one in made.fixed):
            return None
        if made.fixed:
            if not self._prepared.takes_fixed:
                return None
            try:
                fixed = FixedValues(made.fixed, self._prepared.original, fills_defaults=self._prepared.fills_defaults)
            except ConditionError:
                return None
            if any(self._is_hidden(one.steps, sent) for one in made.fixed):
                if not self._lenient:
                    return None
            else:
                rest: Any = sent
                for one in made.fixed:
                    rest = _without(rest, one.steps, digest(one.value))
                if fixed.find_problem(rest) is not None:
                    return None
                unfilled, sent = rest, fixed.fill(rest)
        if not self._permits(made, unfilled):
            return None
        arguments = replace(self.complete(sent), unfilled=unfilled)
        return arguments if all(self._satisfies(made, one, arguments) for one in made.constraints) else None

    def denies(self, grant: GrantRule, arguments: Arguments) -> bool:
        """Return whether this denial by itself denies the arguments, or everything, because it fits no longer."""
        original = self._prepared.original
        names_item = grant.target_kind != "toolset"
        made = Denial.of(grant.id, grant.conditions, self._lists(grant.conditions), names_item=names_item)
        missing = [one for one in made.constraints if not original.has_place(one.steps)]
        if any(original.is_secret(one.steps) for one in made.constraints) or (missing and names_item):
            return True
        if len(missing) == len(made.constraints) and not any(one.may_be_absent for one in missing):
            return True
        sent = arguments.sent if arguments.unfilled is None else arguments.unfilled
        for one in made.constraints:
            self._check_time()
            if self._is_hidden(one.steps, arguments.complete):
                if self._lenient:
                    return False
            elif one.find_violation(arguments.complete, sent, arguments.sent) is None:
                return False
        return True

    def _alternative(self, grant: GrantRule) -> Alternative:
        lists = self._lists(grant.conditions)
        return Alternative.of(grant.id, grant.conditions, lists, names_item=grant.target_kind != "toolset")

    def _permits(self, made: Alternative, sent: Mapping[str, Any]) -> bool:
        """Return whether a grant permits arguments with these names. The log hides values, and all names or none."""
        if made.only is None:
            return True
        if self._hides(sent):
            self.met_hidden = True
            return self._lenient
        return all(map(made.permits, sent))

    def _satisfies(self, made: Alternative, constraint: Constraint, arguments: Arguments) -> bool:
        self._check_time()
        if not self._can_be_about(constraint.steps, made.names_item or not constraint.may_be_absent):
            return False
        if self._is_hidden(constraint.steps, arguments.complete):
            return self._lenient
        return constraint.find_violation(arguments.complete, arguments.sent) is None

    def _can_be_about(self, steps: Steps, needed: bool) -> bool:
        """Return whether a condition of a grant can be about this argument: otherwise the grant allows nothing."""
        original = self._prepared.original
        return not original.is_secret(steps) and (not needed or original.has_place(steps))

    def _has_fixed(self, condition: Condition, complete: Mapping[str, Any]) -> bool:
        """Return whether the value that a grant fixes is there, in every item of a list on its way."""
        if not self._can_be_about(condition.steps, True):
            return False
        values: list[Any] = [complete]
        for step in condition.steps:
            if step is ITEMS:
                values = [item for value in values if isinstance(value, list) for item in value]
            elif all(isinstance(value, dict) and step in value for value in values):
                values = [value[step] for value in values]
            else:
                return False
        return all(digest(value) == digest(condition.value) for value in values)

    # --- both -------------------------------------------------------------------------------------------------------

    def _is_hidden(self, steps: Steps, arguments: Any) -> bool:
        if self._hides is hides_nothing or not meets_hidden(arguments, steps, self._hides):
            return False
        self.met_hidden = True
        return True

    def _names_tool(self, rule: AskRule) -> bool:
        """Return whether the rule names the tool itself, or a grant that does."""
        if rule.target_kind == "grant":
            grant = self._snapshot.grants_by_id.get(rule.target_id or 0)
            return grant is None or grant.target_kind != "toolset"
        return rule.target_kind == "tool"

    def _lists(self, conditions: Iterable[Condition]) -> dict[str, tuple[str, ...]]:
        names = {one.value for one in conditions if one.operator == BELONGS_TO}
        return {name: list_values(self._snapshot, name, self._user_id) for name in names}


def meets_hidden(value: Any, steps: Steps, hides: Hides) -> bool:
    """Return whether a hidden value is on the way to this place, or in it."""
    if hides(value):
        return True
    if not steps:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(meets_hidden(one, (), hides) for one in inside)
    if steps[0] is ITEMS:
        return isinstance(value, list) and any(meets_hidden(one, steps[1:], hides) for one in value)
    return isinstance(value, dict) and steps[0] in value and meets_hidden(value[steps[0]], steps[1:], hides)


def _without(value: Any, steps: Steps, fixed: str) -> Any:
    """Return a copy without the values at this place that have this digest."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step is ITEMS:
        return [_without(one, rest, fixed) for one in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or step not in value:
        return value
    if not rest and digest(value[step]) == fixed:
        return {name: one for name, one in value.items() if name != step}
    return {**value, step: _without(value[step], rest, fixed)}
