"""Limits around a call: the refusal when it arrives, what it takes before it runs, and what its end costs.

A call that a limit refuses is logged. What limits in trial would have done is noted where the real answer is known.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

from django.utils import timezone

from audit import outcomes
from audit.types import Intent
from catalog.calls import call_log, trial_notes
from catalog.calls.prepared_tools import PreparedTool
from catalog.conditions import measures
from catalog.errors import CallNotLogged, CatalogError, EndNotLogged, NeedsInput, NotApproved
from catalog.functions.results import ToolResult
from catalog.metering import cost, limits, loops, reserving
from catalog.metering.limits import Attempt, Remaining
from catalog.metering.reserving import Reservation
from catalog.metering.trying import Tried
from toolhub.wire import meta

_NOTHING_RAN: Final = (CallNotLogged, NotApproved)
log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Meter:
    """The limits of one call of a tool."""

    what: Intent
    prepared: PreparedTool
    attempt: Attempt
    left: list[Remaining] = field(default_factory=list)
    tried: Tried = field(default_factory=Tried)

    async def arrive(self) -> None:
        """Count the call against what counts when it arrives. Raises LimitReached, CallNotLogged."""
        try:
            self.left = await limits.atake(self.attempt)
        except TimeoutError:
            raise CallNotLogged("the limits cannot be counted now") from None
        except limits.LimitReached as reached:
            await self._refuse(reached, cost.find_units(self.attempt.tool, self.attempt.arguments))

    async def reject(self, error: str) -> None:
        """Note that the call is rejected because of its arguments, with the sentence that its client reads."""
        if self.attempt.snapshot.trials:
            self.tried = await trial_notes.note_limits(self.what, self.attempt, is_valid=False)
        await self._note_end(error)

    async def run(self, arguments: dict[str, Any], work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Take what the call takes before it runs, await `work`, and count what its end costs.

        `arguments` are valid, with fixed values. Raises LimitReached, CallNotLogged, and what `work` raises.
        """
        tool = self.attempt.tool
        units = cost.find_units(tool, self.prepared.complete(arguments) if tool.cost_argument else arguments)
        reservation = await self._reserve(units)
        try:
            if self.attempt.snapshot.trials:
                self.tried = await trial_notes.note_limits(self.what, self.attempt, units=units)
            result = await work()
        except _NOTHING_RAN:
            self._leave(reservation)
            await reservation.give_back()
            await self.tried.give_back()
            raise
        except BaseException as error:
            self._leave(reservation)
            if isinstance(error, CatalogError) and not isinstance(error, NeedsInput | EndNotLogged):
                await self._note_end(str(error))
            raise
        self._leave(reservation)
        await self._end(reservation, result)
        return result

    async def _reserve(self, units: int) -> Reservation:
        rules = self.attempt.snapshot.reserved_by_tool.get(self.attempt.tool.id, ())
        if not rules:
            return Reservation(timezone.now())
        try:
            return await reserving.reserve(self.attempt, rules, units)
        except (TimeoutError, reserving.QuotasUnavailable):
            raise CallNotLogged("the limits cannot be counted now") from None
        except limits.LimitReached as reached:
            await self._refuse(reached, units)

    async def _refuse(self, reached: limits.LimitReached, units: int) -> NoReturn:
        """Log that a limit is reached, and raise LimitReached."""
        if self.attempt.snapshot.trials:
            tried = await trial_notes.note_limits(self.what, self.attempt, units=units, limited=True)
            tried.leave()
        self.what.arguments = self.prepared.rejected_arguments_text(self.attempt.arguments)
        number = await call_log.refuse(self.what, outcomes.LIMITED, reached.detail, reason=reached.reason)
        raise reached.for_client(number) from None

    def _leave(self, reservation: Reservation) -> None:
        reservation.leave()
        self.tried.leave()

    async def _end(self, reservation: Reservation, result: ToolResult) -> None:
        """Count the cost of a result and whether it is an error, and tell the client what is left."""
        units = cost.find_units_of_result(self.attempt.tool, result.size)
        if units:
            await reservation.charge_result(units)
            await self.tried.charge_result(units)
        await self._note_end(_read_error(result) if result.is_error else None)
        left = [*self.left, *reservation.left]
        if left:
            result.meta = {**(result.meta or {}), meta.LIMITS: list(map(_describe, limits.sort_by_left(left)))}

    async def _note_end(self, error: str | None) -> None:
        """Note for limits of the same error how the call ended."""
        rules = [
            rule
            for rule in self.attempt.snapshot.limits_by_tool.get(self.attempt.tool.id, ())
            if rule.measure == measures.ERRORS
        ]
        found = [rule for rule, _ in self.attempt.find_pairs(rules)] + self.tried.error_rules
        if not found:
            return
        credential = self.attempt.credential
        try:
            await limits.run(partial(loops.note_end, found, credential.id, self.attempt.tool.id, error))
        except TimeoutError:
            log.warning(
                "how a call of %s ended could not be noted for limits of the same error", self.attempt.tool.name
            )


def _read_error(result: ToolResult) -> str:
    texts = (block.get("text", "") for block in result.content if block.get("type") == "text")
    return " ".join(texts) or "The tool reported an error without a text."


def _describe(left: Remaining) -> dict[str, Any]:
    """Return what is left of a limit as clients read it."""
    return {
        "limit": left.rule.english,
        "measure": left.measure,
        "left": left.left,
        "of": left.limit,
        "resetsInSeconds": left.seconds,
    }
