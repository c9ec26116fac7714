"""Constraints: what the arguments of a call must satisfy, at one place each, and the first place where they do not.

Pure. A condition of a grant that allows is a constraint; one of a grant that denies is a negated one. Over the items of
a list, the first must hold for all of them, and the second for none.

A list or an object is compared as it was sent, as the shown schema does: what defaults add to it is not the client's. A
negated one looks at the value with them as well, so that nobody evades a denial by leaving out what is filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog.conditions.definitions import ITEMS, Condition, Steps
from catalog.conditions.expectations import Expectation
from catalog.schemas import errors
from catalog.schemas.errors import SchemaProblem

NOTHING: Final = object()
"""Instead of the value of a member that is not there."""
Complete: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Fills fixed values and defaults into arguments; returns new arguments."""


@dataclass(frozen=True)
class Constraint:
    """One constraint; comparable and hashable."""

    steps: Steps
    expectation: Expectation
    is_negated: bool = False
    may_be_absent: bool = False
    """Whether it also holds when the value is left out, or null."""

    @classmethod
    def of(cls, condition: Condition, lists: Mapping[str, Sequence[str]], *, is_negated: bool = False) -> Constraint:
        """Return the constraint of a condition for a person with these value lists; negated for a grant that denies."""
        absent = condition.is_optional != is_negated
        return cls(condition.steps, condition.expectation(lists), is_negated, absent)

    def accepts(self, value: Any) -> bool:
        """Return whether a value at its place satisfies it."""
        if value is None:
            found = self.expectation.holds(None)
            return (self.may_be_absent and not found) if self.is_negated else (self.may_be_absent or found)
        return self.expectation.holds(value) != self.is_negated

    @property
    def looks_at_filled(self) -> bool:
        """Return whether it looks at a value as it was sent, and as it is with what was filled into it."""
        return self.is_negated and self.expectation.is_structured

    def find_violation(self, arguments: Any, sent: Any, filled: Any = NOTHING) -> SchemaProblem | None:
        """Return the first violation in complete arguments, or None.

        `sent` are the arguments before fixed values and defaults were filled in: a value counts as left out that the
        client left out. `filled` are those with fixed values alone, where a grant fixes any. Raises BudgetError beyond
        the budget of patterns.
        """
        problem = self.find_from(0, arguments, sent, ())
        if problem is None and filled is not NOTHING and self.looks_at_filled:
            problem = self.find_from(0, arguments, filled, ())
        return problem

    def find_from(self, index: int, value: Any, sent: Any, path: tuple[str | int, ...]) -> SchemaProblem | None:
        """Return the first violation in the value before the step of this index."""
        if index == len(self.steps):
            return self._find_wrong(value, sent, path)
        step = self.steps[index]
        if step is ITEMS:
            if not isinstance(value, list):
                return self._misplaced(value, path, "array")
            sent_items = sent if isinstance(sent, list) and len(sent) == len(value) else [NOTHING] * len(value)
            for number, item in enumerate(value):
                found = self.find_from(index + 1, item, sent_items[number], (*path, number))
                if found is not None:
                    return found
            return None
        if not isinstance(value, dict):
            return self._misplaced(value, path, "object")
        was_sent = isinstance(sent, dict) and step in sent
        if step not in value:
            return None if self.may_be_absent else errors.missing_member(path, step)
        if not was_sent and self.may_be_absent and not self.is_negated:
            return None  # left out is fine, whatever is filled in; a grant that denies looks at what is filled in
        found = self.find_from(index + 1, value[step], sent[step] if was_sent else NOTHING, (*path, step))
        # A value that we filled in is none that the client could correct: it has to send one.
        return errors.missing_member(path, step) if found is not None and not was_sent else found

    def _find_wrong(self, value: Any, sent: Any, path: tuple[str | int, ...]) -> SchemaProblem | None:
        """Return the problem of the value at the place, complete and as it was sent; NOTHING: it was not."""
        if sent is NOTHING or not self.expectation.is_structured:
            return None if self.accepts(value) else self._wrong(value, path)
        if self.is_negated and not self.accepts(value):
            return self._wrong(value, path)
        return None if self.accepts(sent) else self._wrong(sent, path)

    def _misplaced(self, value: Any, path: tuple[str | int, ...], kind: str) -> SchemaProblem | None:
        """Return the problem of a value without the place of the constraint: it counts as left out."""
        if self.may_be_absent and (self.is_negated or value is None):
            return None
        return errors.wrong_value(path, errors.expected_of("type", kind), value, secret=False)

    def _wrong(self, value: Any, path: tuple[str | int, ...]) -> SchemaProblem:
        expected = self.expectation.expected(value, negated=self.is_negated)
        return errors.wrong_value(path, expected, value, secret=False)

    def required_levels(self, complete: Complete) -> tuple[bool, ...]:
        """Return for each step whether its member must be sent, given that all before it were; False for items."""
        found = []
        for index, step in enumerate(self.steps):
            if step is ITEMS or (self.may_be_absent and not self.is_negated):
                found.append(False)
            elif ITEMS in self.steps[:index]:
                found.append(not self.may_be_absent)  # no default is filled into the items of a list
            else:
                found.append(self._must_be_sent(index, complete))
        return tuple(found)

    def _must_be_sent(self, index: int, complete: Complete) -> bool:
        arguments: dict[str, Any] = {}
        inner = arguments
        for step in self.steps[:index]:
            assert step is not None  # noqa: S101
            inner[step] = inner = {}
        value: Any = complete(arguments)
        for step in self.steps[: index + 1]:
            if not isinstance(value, dict) or step not in value:
                return not self.may_be_absent
            value = value[step]
        return self.find_from(index + 1, value, NOTHING, ()) is not None
