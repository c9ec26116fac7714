"""How many calls run at a time: exact in one process, and with Redis in all of them together.

Each running call has a slot with a place at every limit that applies. The places of this process are counted in its
memory. Redis has a sorted set for each limit and person in addition: its members are the slots of all processes, with
the times at which their leases end. A lease is renewed while the call runs, so the places of a process that was killed
are free again when it is over. While Redis does not answer, every process counts for itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import uuid4

from django.conf import settings
from django.core.cache import caches

from catalog.metering.limit_cache import LimitThreads, ask
from catalog.policy.definitions import LimitRule
from toolhub import deadline
from toolhub.parts import parts

LEASE_SECONDS: Final = 60.0
"""How long the places of a killed process stay taken."""
RENEWALS: Final = 3
"""How often a lease is renewed before it would end."""
_NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
"""Milliseconds of the clock of Redis: those of several machines may differ."""
ENTER: Final = (
    _NOW
    + """
local lease, member, places = tonumber(ARGV[1]), ARGV[2], #KEYS
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  for j = places + 3, #ARGV do redis.call('ZREM', key, ARGV[j]) end
end
for i, key in ipairs(KEYS) do
  if redis.call('ZCARD', key) >= tonumber(ARGV[i + 2]) then return i end
end
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, now + lease, member)
  if redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, lease) end
end
return 0
"""
)
"""Take a place at each key or at none; return 0, or the number of a key that has none left.

KEYS: the sets. ARGV: milliseconds of the lease, the new member, the places of each key, members that have left.
"""
RENEW: Final = (
    _NOW
    + """
local lease = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, now + lease, ARGV[i + 1])
  if redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, lease) end
end
"""
)
"""Renew the leases of the members ARGV[2...], one for each key, also where Redis has lost them."""
COUNT: Final = (
    _NOW
    + """
for j = 1, #ARGV do redis.call('ZREM', KEYS[1], ARGV[j]) end
return redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf')
"""
)
"""Return how many places of a key are taken, after the members in ARGV have left."""

Pair = tuple[LimitRule, str]
"""A limit that applies to a person, and who shares its counter: "user 5", "group 3" or "everyone"."""


class RunningReached(Exception):
    """An error: as many calls run as the limit allows."""

    def __init__(self, rule: LimitRule) -> None:
        super().__init__(f"{rule.rule}: reached")
        self.rule = rule


class Slot:
    """The places of one running call."""

    def __init__(self, slots: Slots, pairs: Sequence[Pair]) -> None:
        self.id = uuid4().hex
        self.pairs = tuple(pairs)
        self.keys = [_key(rule, subject) for rule, subject in pairs]
        self._slots = slots

    def leave(self) -> None:
        """Give the places back, at once in this process and soon in Redis.

        From any thread, and as often as you like; raises nothing.
        """
        self._slots.remove(self)


class Slots:
    """The slots of the running calls of this process."""

    def __init__(self, lease_seconds: float = LEASE_SECONDS) -> None:
        self.lease_seconds = lease_seconds
        self._lock = threading.Lock()
        self._held: dict[str, Slot] = {}
        """By id."""
        self._taken: Counter[str] = Counter()
        """The places of this process, by key."""
        self._gone: dict[str, tuple[Slot, float]] = {}
        """Slots that have left and that Redis may still have, by id, each with the time at which its lease is over."""
        self._renewing = False

    async def enter(self, pairs: Sequence[Pair]) -> Slot:
        """Take a place of every limit, whose `rate` is the number of places, or of none.

        Raises RunningReached, and TimeoutError at the deadline of the request.
        """
        slot = Slot(self, pairs)
        self._add(slot)
        if not settings.REDIS_URL:
            return slot
        try:
            asking = asyncio.get_running_loop().run_in_executor(parts.get(LimitThreads).executor, self._share, slot)
            reached = await deadline.within(asking, settings.RECORD_SECONDS)
        except BaseException:
            slot.leave()  # the thread may be at work: it looks whether somebody still waits for its answer
            raise
        if reached is not None:
            self._forget(slot, is_shared=False)
            raise RunningReached(reached)
        return slot

    def count(self, rule: LimitRule, subject: str) -> int:
        """Return how many calls run: in all processes, or in this one while Redis does not answer. Blocks for Redis."""
        key = _key(rule, subject)
        if not settings.REDIS_URL:
            return self._count_here(key)
        return ask(lambda: int(_run(COUNT, [key], self._list_gone({key}))), lambda: self._count_here(key))

    def remove(self, slot: Slot) -> None:
        """Give the places of this slot back, if it still has them."""
        is_shared = bool(settings.REDIS_URL)
        if self._forget(slot, is_shared=is_shared) and is_shared:
            self._submit(self._send_gone)

    # --- this process ------------------------------------------------------------------------------------------------

    def _add(self, slot: Slot) -> None:
        with self._lock:
            for (rule, _subject), key in zip(slot.pairs, slot.keys, strict=True):
                if self._taken[key] >= int(rule.rate):
                    raise RunningReached(rule)
            self._held[slot.id] = slot
            self._taken.update(slot.keys)

    def _forget(self, slot: Slot, *, is_shared: bool) -> bool:
        """Free the places in this process, and note that Redis may have them; return whether the slot had any."""
        with self._lock:
            if self._held.pop(slot.id, None) is None:
                return False
            self._taken.subtract(slot.keys)
            for key in slot.keys:
                if not self._taken[key]:
                    del self._taken[key]
            if is_shared:
                self._gone[slot.id] = slot, time.monotonic() + self.lease_seconds
            return True

    def _count_here(self, key: str) -> int:
        with self._lock:
            return self._taken.get(key, 0)

    def _has(self, slot: Slot) -> bool:
        with self._lock:
            return slot.id in self._held

    # --- Redis, in a thread ------------------------------------------------------------------------------------------

    def _submit(self, work: Callable[[], object]) -> None:
        try:
            parts.get(LimitThreads).executor.submit(work)
        except RuntimeError:
            return  # the process stops: the leases end by themselves

    def _share(self, slot: Slot) -> LimitRule | None:
        """Take the places in Redis as well; return the limit that has none left."""
        places = [rule.rate for rule, _subject in slot.pairs]
        arguments = [self._lease(), slot.id, *places, *self._list_gone(set(slot.keys))]
        number = ask(lambda: int(_run(ENTER, slot.keys, arguments)), lambda: 0)
        if number:
            return slot.pairs[number - 1][0]
        if not self._has(slot):  # who asked has gone away meanwhile, perhaps before Redis answered
            ask(lambda: _remove([slot]), lambda: False)
            return None
        self._start_renewing()
        return None

    def _list_gone(self, keys: set[str]) -> list[str]:
        with self._lock:
            now = time.monotonic()
            self._gone = {key: (slot, until) for key, (slot, until) in self._gone.items() if until > now}
            return [id_ for id_, (slot, _until) in self._gone.items() if not keys.isdisjoint(slot.keys)]

    def _send_gone(self) -> None:
        """Tell Redis which slots have left. It is told again with the next question while it does not answer."""
        with self._lock:
            gone = [slot for slot, _until in self._gone.values()]
        is_done: bool = ask(lambda: _remove(gone), lambda: False) if gone else False
        if is_done:
            with self._lock:
                for slot in gone:
                    self._gone.pop(slot.id, None)

    def _start_renewing(self) -> None:
        with self._lock:
            if self._renewing:
                return
            self._renewing = True
        threading.Thread(target=self._keep_renewing, name="running-calls", daemon=True).start()

    def _keep_renewing(self) -> None:
        """Renew the leases until no call runs. A thread, because calls run on several event loops."""
        pause = threading.Event()
        while not pause.wait(self.lease_seconds / RENEWALS):
            with self._lock:
                if not self._held:
                    self._renewing = False
                    return
            self._submit(self._renew)

    def _renew(self) -> None:
        self._send_gone()
        with self._lock:
            held = list(self._held.values())
        if not held:
            return
        pairs = [(key, slot.id) for slot in held for key in slot.keys]
        keys, members = [key for key, _id in pairs], [id_ for _key, id_ in pairs]
        ask(lambda: _run(RENEW, keys, [self._lease(), *members]), lambda: None)
        left = [slot for slot in held if not self._has(slot)]
        if left:  # Redis may have heard first that they left, and then that they are there
            ask(lambda: _remove(left), lambda: False)

    def _lease(self) -> int:
        return int(self.lease_seconds * 1000)


def _key(rule: LimitRule, subject: str) -> str:
    return f"running {rule.id} {subject}"


def _run(script: str, keys: Sequence[str], arguments: Sequence[object]) -> Any:
    cache: Any = caches["limits"]
    names = [cache.make_key(key) for key in keys]
    return cache._cache.get_client().register_script(script)(keys=names, args=arguments)


def _remove(slots: Sequence[Slot]) -> bool:
    cache: Any = caches["limits"]
    pipeline = cache._cache.get_client().pipeline(transaction=False)
    for slot in slots:
        for key in slot.keys:
            pipeline.zrem(cache.make_key(key), slot.id)
    pipeline.execute()
    return True
