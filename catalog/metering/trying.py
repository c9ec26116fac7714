"""What limits in trial would have answered to a call, with counters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from catalog.conditions import measures
from catalog.metering import limits, reserving
from catalog.metering.limits import Attempt, Counter, LimitReached
from catalog.metering.reserving import Reservation
from catalog.metering.running import Pair, Slots
from catalog.policy.changes import Change
from catalog.policy.definitions import LimitRule
from toolhub.parts import parts


@dataclass(slots=True)
class Tried:
    """What a call has taken from limits in trial that would have let it through."""

    reservations: list[Reservation] = field(default_factory=list)
    error_rules: list[LimitRule] = field(default_factory=list)
    """Limits of the same error that hear how the call ends."""

    def leave(self) -> None:
        for one in self.reservations:
            one.leave()

    async def give_back(self) -> None:
        for one in self.reservations:
            await one.give_back()

    async def charge_result(self, units: int) -> None:
        for one in self.reservations:
            await one.charge_result(units)


async def try_change(
    attempt: Attempt, change: Change, tried: Tried, *, units: int, is_valid: bool, is_counted: bool
) -> bool:
    """Return whether a change of limits would refuse this call, and count the call where it would not.

    `is_counted`: the limits in force have let the call through, and counted it. `is_valid`: its arguments are. Raises
    TimeoutError, QuotasUnavailable.
    """
    ids = {rule.id for rule in change.limits}
    rules = change.find_limits(attempt.snapshot, attempt.tool)
    mine, others = _split([rule for rule in rules if rule.id in ids]), _split([r for r in rules if r.id not in ids])
    if not is_counted and await _is_reached(attempt, others, units):
        return True
    if not await limits.run(partial(_arrive, limits.find_counters(attempt, mine.arriving))):
        return True
    tried.error_rules += [rule for rule, _ in attempt.find_pairs(mine.arriving) if rule.measure == measures.ERRORS]
    if is_valid and mine.reserved:
        try:
            tried.reservations.append(await reserving.reserve(attempt, mine.reserved, units))
        except LimitReached:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Rules:
    arriving: list[LimitRule]
    reserved: list[LimitRule]


def _split(rules: Sequence[LimitRule]) -> _Rules:
    return _Rules([one for one in rules if not one.is_reserved], [one for one in rules if one.is_reserved])


def _arrive(counters: Sequence[Counter]) -> bool:
    """Count in all of these; return False, and count in none, where one of them is full."""
    try:
        limits.take_counters(counters)
    except LimitReached:
        return False
    return True


async def _is_reached(attempt: Attempt, rules: _Rules, units: int) -> bool:
    """Return whether one of these limits would refuse the call now, without counting it."""

    def are_full() -> bool:
        counters = limits.find_counters(attempt, rules.arriving)
        return any(one.loop is not None or limits.is_full(one.read()) for one in counters)

    if await limits.run(are_full):
        return True
    pairs = attempt.find_pairs(rules.reserved)
    running = [pair for pair in pairs if pair[0].measure == measures.RUNNING]
    if running:
        are_taken = await limits.run(partial(_are_running, running))
        if are_taken:
            return True
    charges = reserving.find_charges(attempt, pairs, units)
    if not charges:
        return False
    usages = await reserving.read(charges)
    return any(
        usage.rule.quota is not None and not usage.rule.quota.admits(usage.used, charge.units)
        for usage, charge in zip(usages, charges, strict=True)
    )


def _are_running(pairs: Sequence[Pair]) -> bool:
    slots = parts.get(Slots)
    return any(slots.count(rule, subject) >= int(rule.rate) for rule, subject in pairs)
