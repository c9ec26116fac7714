"""The answers to logged calls by two catalogues, in the order in which the calls were made. Pure.

Both answers are computed: what the log has was decided by older rules. Starts and ends of grants count as they are now,
time windows as they were at the time of the call. Limits begin with empty counters and count the calls that would run.
Calls that ask count as approved: the first one with a value asks, and later ones with that value are known.

Calls that were rejected because their arguments do not fit the tool are rejected without and with the change.

A call counts in neither catalogue where the log hides an argument or an error that a limit looks at, and where it is of
somebody else whose arguments and errors the viewer may not read: the number of calls that the limit refuses would tell
them.

Most answers do not depend on arguments. They are found once for each person and item, by an answer to a call of which
nothing is known, and calls of others whose arguments the viewer may not read get no other answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from audit import outcomes
from catalog.calls import judgement
from catalog.canonical import dumps
from catalog.conditions import windows
from catalog.conditions.definitions import FIXED
from catalog.conditions.windows import Window
from catalog.policy import answers, asking, rules
from catalog.policy.answers import ALLOW, ASK, DENY, UNCLEAR, Answer, Sent
from catalog.policy.definitions import GrantRule, Item, ResourceDefinition, Snapshot, ToolDefinition
from catalog.policy.matching import Matcher
from catalog.policy.rules import Requester
from catalog.replay import log_arguments, log_uses, reach
from catalog.replay.counter_sets import Counters, CounterSet
from catalog.replay.counters import Use
from catalog.replay.log_uses import Attempt, Bodies
from catalog.replay.reach import Reach
from catalog.replay.report import LIMIT, Viewer
from catalog.schemas import errors, patterns, validator

MAX_PAIRS: Final = 20_000
"""Pairs of person and item of which answers are kept."""
MAX_STATES: Final = 200
"""Answers of one pair that are kept: one for each combination of open windows."""
MAX_KNOWN_VALUES: Final = 200_000
"""Values that are remembered for rules about the first time; beyond them, nobody can tell of a new one."""
UNREADABLE: Final = "unreadable"
"""The answer that is not computed, because it depends on arguments that the viewer may not read."""
CALL_SECONDS: Final = validator.MAX_LOOP_SECONDS
"""Processor time for the conditions of one call, as the pipeline has it; what takes longer is unclear."""
Kinds: TypeAlias = tuple[str, str]
"""The answers without and with the change."""
_RUNS: Final = frozenset({ALLOW, ASK})


@dataclass(slots=True, eq=False)
class Pair:
    """One person and one item, with what is known of their calls."""

    user_id: int
    items: tuple[Item | None, Item | None]
    is_readable: bool
    is_same: bool
    """Whether both catalogues have the same rules for them, so that only limits can make a difference."""
    windows: tuple[tuple[Window, ...], ...]
    """Those that decide which answer holds."""
    limits: tuple[CounterSet | None, CounterSet | None]
    """None where there are none."""
    answers: dict[tuple[bool, ...], tuple[str | None, str | None]] = field(default_factory=dict)
    """By which of the windows are open: the answers without and with the change, None where arguments decide."""

    @property
    def item(self) -> Item:
        """Return the item as it is after the change, or, where that has it no longer, before."""
        found = self.items[1] or self.items[0]
        assert found is not None  # noqa: S101 - no pair is made without an item
        return found


class _Side:
    """One of the two catalogues."""

    def __init__(self, snapshot: Snapshot, environment: str) -> None:
        self.snapshot, self._environment = snapshot, environment
        self.counters = Counters(snapshot)
        self._by_name: dict[tuple[str, str], Item] = {(one.kind, _name(one)): one for one in snapshot.items.values()}
        self._by_id: Mapping[tuple[str, int], Item] = snapshot.items
        self._known: set[int] = set()
        self._first_times: dict[int, frozenset[int]] = {}
        asks = reach.all_asks(snapshot)
        self._has_windows = any(rule.windows for rule in snapshot.grants) or any(rule.windows for rule in asks)
        self._fixes_values = any(one.operator == FIXED for rule in snapshot.grants for one in rule.conditions)
        self.asks_first_times = False
        """Whether a rule about the first time could ask about a call."""

    def find_item(self, attempt: Attempt) -> Item | None:
        """Return the item of a call, by the name that the client sent where its id means nothing here."""
        found = None
        if attempt.target_id is not None:
            found = self._by_id.get((attempt.kind, attempt.target_id))
        return found or self._by_name.get((attempt.kind, attempt.name))

    def find_windows(self, user_id: int, item: Item | None) -> set[tuple[Window, ...]]:
        """Return the windows of all rules that can decide about a call of this item."""
        if item is None or not self._has_windows:
            return set()
        grants = rules.find_applicable(self.snapshot, Requester(user_id), item, self._environment)
        found = {rule.windows for rule in grants}
        if isinstance(item, ToolDefinition):
            found |= {rule.windows for rule in self.snapshot.asks_by_tool.get(item.id, ())}
            found |= {ask.windows for rule in grants for ask in self.snapshot.asks_by_grant.get(rule.id, ())}
        return found - {()}

    def find_independent(self, user_id: int, item: Item | None, at: float) -> str | None:
        """Return the answer to a call whatever its arguments are; None when they decide."""
        if item is None:
            return DENY
        found = self._answer(user_id, item, at, log_arguments.UNKNOWN)
        asked = {rule.id for ask in found.asks for rule in ask.rules}
        return None if found.kind == UNCLEAR or asked & self._find_first_times(item) else found.kind

    def answer(self, user_id: int, item: Item | None, at: float, sent: Sent) -> tuple[str, list[int]]:
        """Return the answer to a call with these arguments, and what is known once it is approved."""
        if item is None:
            return DENY, []
        first_times = self._find_first_times(item)
        if not first_times:
            return self._answer(user_id, item, at, sent).kind, []
        values, hidden = self._read_values(user_id, item, sent)
        known = frozenset(rule for rule, value in values.items() if value in self._known)
        if len(self._known) >= MAX_KNOWN_VALUES:
            hidden |= first_times - known
        found = self._answer(user_id, item, at, sent, known)
        if hidden and found.kind != UNCLEAR:
            other = self._answer(user_id, item, at, sent, known | hidden)
            if other.kind != found.kind:
                return UNCLEAR, []
        asked = {rule.id for ask in found.asks for rule in ask.rules}
        return found.kind, [value for rule, value in values.items() if rule in asked and rule not in hidden]

    def is_unfit(self, item: Item | None, bodies: Bodies) -> bool:
        """Return whether arguments do not fit the definition of a tool, as far as the log shows them."""
        if not isinstance(item, ToolDefinition):
            return item is None
        sent = bodies.read_arguments(item)
        if sent.arguments is None or log_arguments.has_hidden(sent.arguments):
            return False
        with patterns.regex_budget(CALL_SECONDS):  # a check sets its own, and this one lifts it
            problem = validator.validator(item.hash, item.input_schema)(sent.arguments, CALL_SECONDS)
        # A grant may have filled in what is missing: the log has what a rejected call sent.
        return problem is not None and not (problem.code == errors.MISSING and self._fixes_values)

    def remember(self, values: Iterable[int]) -> None:
        """Remember values of an approved call."""
        self._known.update(values)

    def _read_values(self, user_id: int, item: Item, sent: Sent) -> tuple[dict[int, int], frozenset[int]]:
        """Return a key of the value of each rule about the first time, and the rules whose value is hidden."""
        first_times = self._find_first_times(item)
        if sent.arguments is None or not isinstance(item, ToolDefinition):
            return {}, first_times
        complete = Matcher(self.snapshot, user_id, item).complete(sent.arguments).complete
        values: dict[int, int] = {}
        hidden: set[int] = set()
        for rule, (path, value) in asking.find_first_times(self.snapshot, item, complete).items():
            if rule in first_times:
                if log_arguments.has_hidden(complete, tuple(path)):
                    hidden.add(rule)
                values[rule] = hash((rule, user_id, item.id, *path, dumps(value)))
        return values, frozenset(hidden)

    def _find_first_times(self, item: Item) -> frozenset[int]:
        """Return the ids of the rules about the first time with a value that can ask about this item."""
        if not isinstance(item, ToolDefinition) or item.id not in self.snapshot.asking_tools:
            return frozenset()
        found = self._first_times.get(item.id)
        if found is None:
            found = self._first_times[item.id] = frozenset(asking.find_first_times(self.snapshot, item, {}))
            self.asks_first_times = self.asks_first_times or bool(found)
        return found

    def _answer(self, user_id: int, item: Item, at: float, sent: Sent, known: frozenset[int] = frozenset()) -> Answer:
        requester = Requester(user_id)
        if sent.arguments is None:  # no pattern meets a text
            return answers.answer(self.snapshot, requester, item, at, self._environment, sent, known=known)
        try:
            with patterns.regex_budget(CALL_SECONDS):
                return answers.answer(
                    self.snapshot, requester, item, at, self._environment, sent, known=known, check_time=_TimeCheck()
                )
        except (patterns.BudgetError, RecursionError):
            return Answer(UNCLEAR, looked=True)


class _TimeCheck:
    """Raises BudgetError after the processor time for one call.

    The clock of a thread is slow to read: it starts only when as much time has passed on the wall.
    """

    __slots__ = ("_began", "_check")

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._check: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._check is not None:
            self._check()
        elif time.perf_counter() - self._began > CALL_SECONDS:
            self._check = judgement.make_time_check(CALL_SECONDS)


class Simulation:
    """Both catalogues, and what calls so far have left behind in them."""

    def __init__(
        self, before: Snapshot, after: Snapshot, reached: Reach, viewer: Viewer, environment: str, now: float
    ) -> None:
        """`now`, in Unix seconds, decides which grants have started and not ended."""
        self._reach, self._viewer = reached, viewer
        self._before, self._after = (_Side(_at_time(one, now), environment) for one in (before, after))
        self._pairs: dict[tuple[int, str, int, str], Pair | None] = {}
        self._minute = -1
        self._open: dict[tuple[Window, ...], bool] = {}
        self.counts_limits = False
        """Whether a limit could decide about a call."""

    @property
    def counts_first_times(self) -> bool:
        """Return whether a rule about the first time could ask about a call."""
        return self._before.asks_first_times or self._after.asks_first_times

    def find_pair(self, attempt: Attempt) -> Pair | None:
        """Return what is known of the person and the item of a call; None for one that the change does not reach."""
        by_name = attempt.target_id is None or bool(self._reach.names)
        key = (attempt.user_id, attempt.kind, attempt.target_id or 0, attempt.name if by_name else "")
        if key not in self._pairs:
            if len(self._pairs) >= MAX_PAIRS:
                self._pairs.clear()
            self._pairs[key] = self._make_pair(attempt)
        return self._pairs[key]

    def needs_arguments(self, attempt: Attempt, pair: Pair) -> bool:
        """Return whether `compare` has to know the arguments of a call."""
        if not (pair.is_readable and self._is_decided(pair)):
            return False
        if attempt.outcome == outcomes.INVALID_ARGUMENTS:
            return True
        kinds = self._find_independent(attempt, pair)
        return None in kinds or any(
            limits.looks_at_arguments and kind in _RUNS
            for kind, limits in zip(kinds, pair.limits, strict=True)
            if limits is not None
        )

    def needs_error(self, attempt: Attempt, pair: Pair) -> bool:
        """Return whether `compare` has to know the error of a call."""
        return pair.is_readable and any(log_uses.needs_error(attempt, one) for one in pair.limits if one is not None)

    def compare(self, attempt: Attempt, pair: Pair, bodies: Bodies) -> Kinds | None:
        """Return both answers to a call; None when they are the same for sure. Calls must come in order of time.

        `bodies` has the arguments and the error of the call where `needs_arguments` and `needs_error` say so.
        """
        if not self._is_decided(pair):
            return None
        sides = (self._before, self._after)
        found: list[tuple[str, list[int]]] = []
        at = attempt.ms / 1000
        for side, item, kind in zip(sides, pair.items, self._find_independent(attempt, pair), strict=True):
            if kind is not None:
                found.append((kind, []))
            elif not pair.is_readable:
                return UNREADABLE, UNREADABLE
            else:
                sent = log_arguments.UNKNOWN if item is None else bodies.read_arguments(item)
                found.append(side.answer(pair.user_id, item, at, sent))
        kinds = (found[0][0], found[1][0])
        if UNCLEAR in kinds:
            # It counts in neither catalogue: otherwise a limit would tell the two apart by a call that nobody can tell.
            return kinds
        is_unfit = attempt.outcome == outcomes.INVALID_ARGUMENTS and pair.is_readable and self._is_unfit(pair, bodies)
        if any(pair.limits):
            kinds = _limit(attempt, pair, kinds, bodies, is_unfit=is_unfit)
        if is_unfit and UNCLEAR not in kinds:
            return None  # it counts for the limits, and nothing else comes of it
        for side, kind, (_, values) in zip(sides, kinds, found, strict=True):
            if kind == ASK and values:
                side.remember(values)
        return kinds

    def _is_unfit(self, pair: Pair, bodies: Bodies) -> bool:
        """Return whether the arguments of a rejected call do not fit the tool in either catalogue, whatever rules say.

        Conditions have rejected some that do.
        """
        return all(
            side.is_unfit(item, bodies) for side, item in zip((self._before, self._after), pair.items, strict=True)
        )

    def _is_decided(self, pair: Pair) -> bool:
        return not pair.is_same or any(pair.limits)

    def _find_independent(self, attempt: Attempt, pair: Pair) -> tuple[str | None, str | None]:
        state = self._find_state(pair, attempt.ms)
        if state not in pair.answers:
            if len(pair.answers) >= MAX_STATES:
                pair.answers.clear()
            at = attempt.ms / 1000
            pair.answers[state] = (
                self._before.find_independent(pair.user_id, pair.items[0], at),
                self._after.find_independent(pair.user_id, pair.items[1], at),
            )
        return pair.answers[state]

    def _find_state(self, pair: Pair, ms: int) -> tuple[bool, ...]:
        if not pair.windows:
            return ()
        minute = ms // 60_000
        if minute != self._minute:  # windows open and close on the minute
            self._minute = minute
            self._open.clear()
        return tuple(self._is_open(one) for one in pair.windows)

    def _is_open(self, found: tuple[Window, ...]) -> bool:
        known = self._open.get(found)
        if known is None:
            known = self._open[found] = windows.is_open(found, self._minute * 60)
        return known

    def _make_pair(self, attempt: Attempt) -> Pair | None:
        items = (self._before.find_item(attempt), self._after.find_item(attempt))
        keys = {(item.kind, item.id) for item in items if item is not None}
        user_id = attempt.user_id
        if not any(self._reach.has(key, user_id) for key in keys):
            return None
        limits = (
            self._find_limits(self._before, user_id, items[0]),
            self._find_limits(self._after, user_id, items[1]),
        )
        self.counts_limits = self.counts_limits or any(limits)
        found = self._before.find_windows(user_id, items[0]) | self._after.find_windows(user_id, items[1])
        is_readable = self._viewer.may_read_all or user_id == self._viewer.user_id
        is_same = not any(self._reach.touches(key, user_id) for key in keys)
        return Pair(user_id, items, is_readable, is_same, tuple(found), limits)

    def _find_limits(self, side: _Side, user_id: int, item: Item | None) -> CounterSet | None:
        if not isinstance(item, ToolDefinition) or item.id not in self._reach.counted:
            return None
        return side.counters.find(item, user_id) or None


def _limit(attempt: Attempt, pair: Pair, kinds: Kinds, bodies: Bodies, *, is_unfit: bool) -> Kinds:
    """Return the answers after the limits of both catalogues, and count the call in those that let it through.

    `is_unfit`: its arguments fit no tool, so that it takes nothing that only a call that runs takes.
    """
    counted: list[tuple[CounterSet, Use] | None] = []
    for kind, limits in zip(kinds, pair.limits, strict=True):
        if limits is None or kind not in _RUNS:
            counted.append(None)
            continue
        if limits.looks_at_bodies and not pair.is_readable:
            return UNREADABLE, UNREADABLE
        use = log_uses.read(attempt, limits, bodies)
        if use is None or not limits.is_known(use):
            return UNCLEAR, UNCLEAR
        counted.append((limits, use))
    found: list[str] = []
    for kind, one in zip(kinds, counted, strict=True):
        if one is None:
            found.append(kind)
            continue
        limits, use = one
        if limits.arrive(use) and (is_unfit or limits.reserve(use)):
            limits.end(use)
            found.append(kind)
        else:
            found.append(LIMIT)
    return found[0], found[1]


def _name(item: Item) -> str:
    return item.uri if isinstance(item, ResourceDefinition) else item.name


def _at_time(snapshot: Snapshot, now: float) -> Snapshot:
    """Return the catalogue with the grants that have started and not ended, at whatever time a call was made."""
    if all(rule.starts is None and rule.ends is None for rule in snapshot.grants):
        return snapshot
    return reach.rebuild(
        snapshot,
        grants=[replace(rule, starts=None, ends=None) for rule in snapshot.grants if _has_started(rule, now)],
        asks=reach.all_asks(snapshot),
        limits=snapshot.limits,
    )


def _has_started(rule: GrantRule, now: float) -> bool:
    return (rule.starts is None or rule.starts <= now) and (rule.ends is None or now < rule.ends)
