"""What the log tells limits of a call: its time, its end, its cost, its arguments and its error."""

from __future__ import annotations

from typing import Protocol

from audit import outcomes
from catalog.metering import cost, loops
from catalog.policy import matching
from catalog.policy.answers import Sent
from catalog.policy.definitions import Item
from catalog.policy.matching import hides_nothing
from catalog.replay import log_arguments, log_errors
from catalog.replay.counter_sets import CounterSet
from catalog.replay.counters import FOREVER, Use


class Attempt(Protocol):
    """What a simulation needs of a logged call."""

    @property
    def user_id(self) -> int: ...
    @property
    def credential_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def target_id(self) -> int | None: ...
    @property
    def outcome(self) -> str: ...
    @property
    def duration_us(self) -> int | None: ...
    @property
    def result_bytes(self) -> int: ...
    @property
    def ms(self) -> int: ...


class Bodies(Protocol):
    """What the log has of the arguments and the error of a call; only where the simulation needs them."""

    def read_arguments(self, item: Item) -> Sent: ...

    def read_error(self) -> str | None:
        """Return the error; None where the log does not show it."""
        ...


def needs_error(attempt: Attempt, limits: CounterSet) -> bool:
    """Return whether limits look at the error with which a call ended."""
    return limits.looks_at_errors and attempt.outcome in log_errors.ERRORS


def read(attempt: Attempt, limits: CounterSet, bodies: Bodies) -> Use | None:
    """Return what the limits see of a call; None where the log does not show something that they look at.

    The arguments are those that the log has: of a call that ran, with the values that its grant fixed.
    """
    units, digest, error = cost.find_units(limits.tool, {}), "", ""
    if limits.looks_at_arguments:
        sent = bodies.read_arguments(limits.tool)
        if sent.arguments is None:
            return None
        hides_some = sent.hides is not hides_nothing
        if limits.repeats:
            if hides_some:
                return None
            try:
                digest = loops.digest_arguments(sent.arguments)
            except (ValueError, RecursionError):
                return None
        if limits.reads_factor:
            complete = matching.complete(limits.tool, sent.arguments)
            if hides_some and log_arguments.has_hidden(complete, limits.tool.cost_argument):
                return None
            units = cost.find_units(limits.tool, complete)
    if needs_error(attempt, limits):
        read_error = bodies.read_error()
        if read_error is None:
            return None
        error = read_error
    return Use(
        ms=attempt.ms,
        end_ms=find_end(attempt),
        credential_id=attempt.credential_id,
        tool_id=limits.tool.id,
        digest=digest,
        units=units,
        units_of_result=cost.find_units_of_result(limits.tool, attempt.result_bytes),
        has_end=bool(error) or attempt.outcome == outcomes.OK,
        error=error,
    )


def find_end(attempt: Attempt) -> int:
    """Return when a call ended, in Unix milliseconds; the time at which it was made for one that did not run.

    A call that still runs keeps its place until the period ends. Nobody knows when a call ended whose process was
    killed, nor how long one would have run that never did: neither takes a place, so that nothing is refused because
    of a guess. A call that waited for approval is one of these: the log has its run as another entry.
    """
    if attempt.outcome == outcomes.RUNNING:
        return FOREVER
    if attempt.outcome in outcomes.NOT_RUN or attempt.duration_us is None:
        return attempt.ms
    return attempt.ms + -(-attempt.duration_us // 1000)
