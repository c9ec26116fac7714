"""Limits of the catalogue as the policy sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests import factories

if TYPE_CHECKING:
    from catalog.models import Limit
    from catalog.policy.definitions import LimitRule


def find_rule(limit: Limit | int) -> LimitRule:
    """The rule of this row, or of the row with this id, as it is now."""
    wanted = limit if isinstance(limit, int) else limit.pk
    return next(rule for rule in factories.load().limits if rule.id == wanted)


def make_rule(rate: str, measure: str = "calls", **fields: Any) -> LimitRule:
    """The rule of a new limit on all tools, for each user unless `scope` says otherwise."""
    return find_rule(factories.limit(rate, measure=measure, **fields))
