"""Look-ups of names for outgoing requests: bounded in threads, in seconds and per domain, with a short memory.

The operating system resolves, through `getaddrinfo`: only it knows the hosts file, nsswitch.conf, search domains and
the names of containers, so toolhub finds what every other program on the machine finds. DNS libraries (aiodns,
dnspython) read none or a part of these. The price is that a running look-up cannot be stopped. So each has a daemon
thread of its own, there is at most one per name, and the threads are limited in all and per domain. The event loop's
default executor is not used: its few threads serve everything else.

A remembered address is as untrusted as a new one: whoever connects checks it again, and connects to what was checked.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from django.utils.translation import gettext_noop as _

from .addresses import is_address
from .errors import DeadlineExceeded, Unreachable

MAX_LOOKUPS: Final = 32
"""Maximum number of look-ups at a time, each in a thread; those that are slow do not count."""
SLOW_SECONDS: Final = 2.0
"""Seconds after which a running look-up gives its place to the next name: most names have an answer within 0.1."""
MAX_THREADS: Final = 128
"""Maximum number of threads, those of slow look-ups included. They wait in the system and cost some kB each."""
MAX_LOOKUPS_PER_DOMAIN: Final = 8
"""Maximum number of threads for names of one domain, so that a domain whose servers hang leaves most to others."""
MAX_WAITING: Final = 512
"""Maximum number of names that wait for a thread."""
LOOKUP_SECONDS: Final = 10.0
"""Maximum seconds for a look-up, its wait for a thread included: a dead first DNS server costs 5 by default."""
KEEP_SECONDS: Final = 30.0
KEEP_FAILURE_SECONDS: Final = 5.0
MAX_KEPT: Final = 1024
"""Maximum number of names whose answers are remembered."""

log = logging.getLogger(__name__)

LookUp: TypeAlias = Callable[[str], Sequence[str]]


def look_up(host: str) -> Sequence[str]:
    """Return the addresses of a name as this machine resolves it. May block for long. Raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(slots=True, eq=False)
class _LookUp:
    """One look-up, for all who ask for this name meanwhile."""

    host: str
    deadline: float
    running: bool = False
    slow_at: float = 0.0
    """When it gives up its place; set when it starts to run."""
    waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[Sequence[str]]]] = field(default_factory=list)


class NameResolver:
    """The look-ups of one process, for any number of event loops."""

    def __init__(
        self,
        look_up: LookUp = look_up,
        *,
        seconds: float = LOOKUP_SECONDS,
        keep_seconds: float = KEEP_SECONDS,
        keep_failure_seconds: float = KEEP_FAILURE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up, self._clock = look_up, clock
        self._seconds, self._keep_seconds, self._keep_failure_seconds = seconds, keep_seconds, keep_failure_seconds
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, Sequence[str]]] = OrderedDict()
        """Until when an answer may be used, and the answer; an empty one is a failure."""
        self._pending: dict[str, _LookUp] = {}
        """By name: those that run, and those that wait for a thread."""
        self._waiting: deque[_LookUp] = deque()
        self._running: dict[str, int] = {}
        """How many run, by domain."""
        self._started: deque[_LookUp] = deque()
        """Those that have a place, oldest first."""

    @property
    def running(self) -> int:
        """The number of threads that are looking up a name now."""
        with self._lock:
            return sum(self._running.values())

    async def resolve(self, host: str, port: int = 0) -> Sequence[str]:
        """Return the addresses of a name; empty for a name without any. The port does not matter.

        Raises DeadlineExceeded when there is no answer in time, and Unreachable when too many names wait.
        """
        host = host.lower()
        if is_address(host):
            return (host,)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()
        with self._lock:
            known = self._find_kept(host)
            if known is not None:
                return known
            pending = self._pending.get(host) or self._add(host)
            waiter = (loop, answer)
            pending.waiters.append(waiter)
            self._start_next()
            remaining = pending.deadline - self._clock()
        try:
            # One that hangs past its deadline fails all who ask for its name, until it has ended.
            async with asyncio.timeout(max(0.0, remaining)):
                return await self._await_turn(pending, answer)
        except TimeoutError:
            late = _("the address of %(host)s was not found within %(seconds)g seconds")
            raise DeadlineExceeded(late, host=host, seconds=self._seconds) from None
        finally:
            with self._lock:
                self._leave(pending, waiter)

    async def _await_turn(self, pending: _LookUp, answer: asyncio.Future[Sequence[str]]) -> Sequence[str]:
        """Return the answer; while the name waits for a thread, take the place of a look-up that became slow."""
        while not answer.done():
            with self._lock:
                if self._started and self._started[0].slow_at <= self._clock():
                    self._start_next()  # once for each that became slow, however many wait
                if pending.running or not self._started:
                    break
                wait = self._started[0].slow_at - self._clock()
            await asyncio.wait([answer], timeout=max(0.0, wait))
        return await answer

    def _find_kept(self, host: str) -> Sequence[str] | None:
        found = self._kept.get(host)
        if found is None:
            return None
        if self._clock() >= found[0]:
            del self._kept[host]
            return None
        self._kept.move_to_end(host)
        return found[1]

    def _add(self, host: str) -> _LookUp:
        if len(self._waiting) >= MAX_WAITING:
            raise Unreachable(_("too many addresses are being looked up"))
        made = self._pending[host] = _LookUp(host, self._clock() + self._seconds)
        self._waiting.append(made)
        return made

    def _leave(self, pending: _LookUp, waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[Sequence[str]]]) -> None:
        if waiter in pending.waiters:
            pending.waiters.remove(waiter)
        if not pending.waiters and not pending.running and self._pending.get(pending.host) is pending:
            del self._pending[pending.host]
            self._waiting.remove(pending)

    def _start_next(self) -> None:
        """Start all that may start, in the order of their arrival; a domain at its limit lets others pass."""
        now = self._clock()
        while self._started and self._started[0].slow_at <= now:
            self._started.popleft()
        for pending in list(self._waiting):
            if len(self._started) >= MAX_LOOKUPS or sum(self._running.values()) >= MAX_THREADS:
                return
            domain = _domain(pending.host)
            if self._running.get(domain, 0) >= MAX_LOOKUPS_PER_DOMAIN:
                continue
            thread = threading.Thread(target=self._run, args=(pending, domain), name="names", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left: those who wait meet their deadline, or the next one
                log.warning("no thread can be started to look up names")
                return
            self._waiting.remove(pending)
            self._running[domain] = self._running.get(domain, 0) + 1
            pending.running, pending.slow_at = True, now + SLOW_SECONDS
            self._started.append(pending)

    def _run(self, pending: _LookUp, domain: str) -> None:
        found: Sequence[str] = ()
        try:
            found = self._look_up(pending.host)
        except (OSError, UnicodeError) as error:  # getaddrinfo encodes names with a codec that refuses some
            log.debug("%s is not found: %s", pending.host, error)
        finally:
            with self._lock:
                self._running[domain] -= 1
                if not self._running[domain]:
                    del self._running[domain]
                del self._pending[pending.host]
                if pending in self._started:
                    self._started.remove(pending)
                self._keep(pending.host, found)
                waiters = list(pending.waiters)
                self._start_next()
            for loop, answer in waiters:
                with suppress(RuntimeError):  # its loop is closed
                    loop.call_soon_threadsafe(_settle, answer, found)

    def _keep(self, host: str, found: Sequence[str]) -> None:
        self._kept[host] = (self._clock() + (self._keep_seconds if found else self._keep_failure_seconds), found)
        self._kept.move_to_end(host)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


def _domain(host: str) -> str:
    """Return the last two labels of a name: who answers for them answers, or hangs, for all names below."""
    return ".".join(host.rstrip(".").rsplit(".", 2)[-2:])


def _settle(answer: asyncio.Future[Sequence[str]], found: Sequence[str]) -> None:
    if not answer.done():
        answer.set_result(found)
