"""What a call takes from limits at the last moment before it runs: quotas of calls and cost units, places of calls.

A call that is not valid, or not approved, takes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from catalog import threads
from catalog.conditions import measures
from catalog.metering import cost, quotas, refusals
from catalog.metering.limits import Attempt, LimitReached, Remaining, remaining_of_quota
from catalog.metering.quota_writer import QuotaWriter
from catalog.metering.quotas import Charge, QuotaReached, Usage
from catalog.metering.running import Pair, RunningReached, Slot, Slots
from catalog.policy.definitions import LimitRule
from toolhub import deadline
from toolhub.parts import parts

RUNNING_SECONDS: Final = 5
"""When to try again while as many calls run as may: nobody knows when one ends."""
T = TypeVar("T")
log = logging.getLogger(__name__)


class QuotasUnavailable(Exception):
    """An error: the database does not answer, so that no quota can be counted."""


@dataclass(slots=True)
class Reservation:
    """What one call has taken."""

    at: datetime
    charges: tuple[Charge, ...] = ()
    slot: Slot | None = None
    left: list[Remaining] = field(default_factory=list)
    """What is left of the limits after this call."""

    def leave(self) -> None:
        """Give back the places of the call, at once."""
        if self.slot is not None:
            self.slot.leave()

    async def give_back(self) -> None:
        """Give back everything: the call did not run."""
        self.leave()
        await _add(self, [replace(charge, units=-charge.units) for charge in self.charges])

    async def charge_result(self, units: int) -> None:
        """Count the cost of the result, which nothing refuses any more: the next call is."""
        costly = [replace(charge, units=units) for charge in self.charges if charge.rule.measure == measures.COST]
        await _add(self, costly)
        rules = {charge.rule.rule for charge in costly}
        self.left = [replace(one, left=max(0, one.left - units)) if one.rule in rules else one for one in self.left]


async def reserve(attempt: Attempt, rules: Sequence[LimitRule], units: int) -> Reservation:
    """Take one call, and its cost units, from those of the rules that apply. Takes from all of them or from none.

    Raises LimitReached, QuotasUnavailable, TimeoutError.
    """
    pairs = attempt.find_pairs(rules)
    running = [pair for pair in pairs if pair[0].measure == measures.RUNNING]
    charges = find_charges(attempt, pairs, units)
    reservation = Reservation(timezone.now(), tuple(charges))
    if running:
        try:
            reservation.slot = await parts.get(Slots).enter(running)
        except RunningReached as reached:
            sentence = refusals.describe_running(reached.rule, RUNNING_SECONDS)
            raise LimitReached(reached.rule, RUNNING_SECONDS, sentence) from None
    if charges:
        try:
            usages = await _within(parts.get(QuotaWriter).take(charges, reservation.at))
        except QuotaReached as reached:
            reservation.leave()
            raise _refuse(reached, reservation.at) from None
        except BaseException:
            reservation.leave()
            raise
        reservation.left = [remaining_of_quota(usage) for usage in usages]
    return reservation


def find_charges(attempt: Attempt, pairs: Iterable[Pair], units: int) -> list[Charge]:
    """Return what the call takes from quotas. A tool that costs nothing is not refused when cost units are used up."""
    quotas_of_call = [pair for pair in pairs if pair[0].quota is not None]
    if cost.is_free(attempt.tool):
        quotas_of_call = [pair for pair in quotas_of_call if pair[0].measure != measures.COST]
    return [Charge(rule, subject, units if rule.measure == measures.COST else 1) for rule, subject in quotas_of_call]


def _refuse(reached: QuotaReached, now: datetime) -> LimitReached:
    usage = reached.usage
    seconds = int((usage.ends - now).total_seconds()) + 1
    sentence = refusals.describe_quota(usage.rule, usage.used, reached.units, usage.ends, now)
    return LimitReached(usage.rule, seconds, sentence)


async def _add(reservation: Reservation, charges: Sequence[Charge]) -> None:
    if not charges or not any(charge.units for charge in charges):
        return
    try:
        await _within(parts.get(QuotaWriter).add(charges, reservation.at))
    except (QuotasUnavailable, TimeoutError):
        log.warning("what a call used of its quotas could not be counted: the database does not answer")


async def read(charges: Sequence[Charge]) -> list[Usage]:
    """Return what is used of these quotas now. Raises QuotasUnavailable when the database does not answer."""
    return await _within(threads.storage().run(lambda: quotas.find(charges, timezone.now()), wait=30.0))


async def _within(work: Awaitable[T]) -> T:
    """Await work of the database until the deadline of the request. Raises QuotasUnavailable, QuotaReached."""
    try:
        return await deadline.within(work, settings.RECORD_SECONDS)
    except (TimeoutError, DatabaseError, InterfaceError, threads.Busy) as error:
        raise QuotasUnavailable(type(error).__name__) from None
