"""The event log of the stateful transport: the sent events of response streams, so that clients can resume them.

An event id names its stream (random, filed under the session, which is bound to its credential) and a position in it.
The log lives in this process and, where Redis is configured, in a Redis list as well, from which any worker replays it.
It is bounded in events, bytes and time; a stream that outgrows it can no longer be resumed, but continues. While Redis
is unavailable a stream can be resumed at the worker that runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator

from django.conf import settings
from redis.exceptions import RedisError

from toolhub.server.peer import Session
from toolhub.server.state import SharedState
from toolhub.wire import versions

log = logging.getLogger(__name__)

RETENTION_SECONDS = 600
"""Seconds after its last event for which a stream can be resumed."""
MAX_EVENTS = 1024
MAX_LOG_BYTES = 2_097_152
MAX_PROCESS_BYTES = 67_108_864
"""Maximum bytes of all logs of this process together. Above it the oldest log is dropped, of a user with more than half
of them first."""
POLL_SECONDS = 0.2
PREFIX = "toolhub:events:"
EVENT_ID = re.compile(r"([A-Za-z0-9_-]{22})\.(0|[1-9][0-9]{0,5})")
# The first element of a Redis list only makes the list exist; the last one marks the end of the stream.
BEGIN, END = "begin", "end"


class UnknownEvent(Exception):
    """The session has no such event: never sent, too old, or another session's."""


class _LocalLog:
    """The log of one stream in the process that writes it."""

    __slots__ = ("bytes", "changed", "dropped", "ended", "ends", "events", "user_id")

    def __init__(self, user_id: int) -> None:
        self.user_id, self.dropped = user_id, False
        self.events: list[bytes] = []
        self.bytes = 0
        self.ended = False
        self.ends = time.monotonic() + RETENTION_SECONDS
        self.changed = asyncio.Event()

    def notify_readers(self) -> None:
        self.ends = time.monotonic() + RETENTION_SECONDS
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class StreamLog:
    """The log of one response stream; nothing is stored before `start` or the first `append`."""

    __slots__ = ("_count", "_key", "_local", "_logs", "_name", "_redis", "_user_id", "primes")

    def __init__(self, logs: StreamLogs, session: Session) -> None:
        self._logs = logs
        self.primes = versions.is_at_least(session.revision, "2025-11-25")
        """Whether the revision has events without content, and with them streams that the server ends early."""
        self._name = secrets.token_urlsafe(16)
        self._key = f"{session.key}:{self._name}"
        self._local: _LocalLog | None = None
        self._user_id = session.user_id
        self._count = 0
        self._redis = bool(settings.REDIS_URL)

    async def start(self) -> str:
        """Store the priming event and return its id."""
        await self._open()
        return f"{self._name}.0"

    async def append(self, data: bytes) -> str:
        """Store one event and return its id."""
        if self._count == 0 and self._local is None:
            await self._open()
        self._count += 1
        if (local := self._local) is not None:
            if local.dropped or local.bytes + len(data) > MAX_LOG_BYTES or self._count > MAX_EVENTS:
                await self._give_up()
            else:
                self._logs.append_event(self._key, local, data)
                if not local.dropped:  # by its own size: what is pushed now would not be unlinked
                    await self._push(data.decode())
        return f"{self._name}.{self._count}"

    async def finish(self) -> None:
        if self._local is not None:
            self._local.ended = True
            self._local.notify_readers()
            if not self._local.dropped:
                await self._push(END)

    async def _open(self) -> None:
        self._local = self._logs.begin(self._key, self._user_id)
        await self._push(BEGIN)

    async def _give_up(self) -> None:
        log.debug("An event stream outgrew its log and can no longer be resumed")
        self._local = None
        self._logs.drop(self._key)
        self._redis = False

    async def _push(self, text: str) -> None:
        if not self._redis:
            return
        try:
            async with self._logs.state.client().pipeline(transaction=False) as pipeline:
                pipeline.rpush(PREFIX + self._key, text)
                pipeline.expire(PREFIX + self._key, RETENTION_SECONDS)
                await pipeline.execute()
        except (RedisError, OSError):
            # A gap would shift every later event: from here on this stream can only be resumed at this worker.
            self._redis = False


async def _replay_local(local: _LocalLog, name: str, position: int) -> AsyncIterator[tuple[str, bytes] | None]:
    while True:
        changed = local.changed
        while position < len(local.events):
            position += 1
            yield f"{name}.{position}", local.events[position - 1]
        if local.ended:
            return
        try:
            async with asyncio.timeout(POLL_SECONDS * 5):
                await changed.wait()
        except TimeoutError:
            yield None


class StreamLogs:
    """The event logs that this process writes, and those of other processes as far as Redis has them."""

    def __init__(self, state: SharedState) -> None:
        self.state = state
        self._local: OrderedDict[str, _LocalLog] = OrderedDict()
        self._bytes = 0
        self._user_bytes: Counter[int] = Counter()
        self._unlinking: set[asyncio.Task[None]] = set()

    def open(self, session: Session) -> StreamLog:
        """Return the log of a new response stream of this session."""
        return StreamLog(self, session)

    def begin(self, key: str, user_id: int) -> _LocalLog:
        """Start a log of this user under this key."""
        local = self._local[key] = _LocalLog(user_id)
        self._trim()
        return local

    def append_event(self, key: str, local: _LocalLog, data: bytes) -> None:
        """Add an event to a log; drop the oldest logs when all together are too large."""
        local.events.append(data)
        local.bytes += len(data)
        if self._local.get(key) is local:
            self._bytes += len(data)
            self._user_bytes[local.user_id] += len(data)
        local.notify_readers()
        self._trim()

    async def replay(self, session: Session, last_event_id: str) -> AsyncIterator[tuple[str, bytes] | None]:
        """Return the sent and future events after that id on its stream, until it ends.

        The iterator yields None occasionally while the stream is quiet. The stream is looked up before this returns.
        Raises UnknownEvent.
        """
        match = EVENT_ID.fullmatch(last_event_id)
        if match is None:
            raise UnknownEvent
        name, position = match[1], int(match[2])
        key = f"{session.key}:{name}"
        local = self._local.get(key)
        if local is not None and time.monotonic() < local.ends:
            if position > len(local.events):
                raise UnknownEvent
            return _replay_local(local, name, position)
        if settings.REDIS_URL:
            try:
                length = await self.state.client().llen(PREFIX + key)
            except (RedisError, OSError):
                length = 0
            if position < length:
                return self._replay_redis(key, name, position)
        raise UnknownEvent

    async def _replay_redis(self, key: str, name: str, position: int) -> AsyncIterator[tuple[str, bytes] | None]:
        while True:
            try:
                found = await self.state.client().lrange(PREFIX + key, position + 1, -1)
                if not found and not await self.state.client().exists(PREFIX + key):
                    return
            except (RedisError, OSError):
                found = []
            for text in found:
                if text == END:
                    return
                position += 1
                yield f"{name}.{position}", str(text).encode()
            if not found:
                yield None
                await asyncio.sleep(POLL_SECONDS)

    def drop(self, key: str) -> None:
        """Drop the log under this key, in Redis too; its stream can no longer be resumed."""
        local = self._local.pop(key, None)
        if local is None:
            return
        local.dropped = True
        self._bytes -= local.bytes
        self._user_bytes[local.user_id] -= local.bytes
        if not self._user_bytes[local.user_id]:
            del self._user_bytes[local.user_id]
        if settings.REDIS_URL and time.monotonic() < local.ends:
            task = asyncio.get_running_loop().create_task(self._unlink(key))
            self._unlinking.add(task)
            task.add_done_callback(self._unlinking.discard)

    async def _unlink(self, key: str) -> None:
        with contextlib.suppress(RedisError, OSError):  # it expires by itself
            await self.state.client().unlink(PREFIX + key)

    def _trim(self) -> None:
        now = time.monotonic()
        while self._local:
            key, oldest = next(iter(self._local.items()))
            if self._bytes <= MAX_PROCESS_BYTES and now < oldest.ends:
                return
            if len(self._local) == 1 and now < oldest.ends:
                return
            self.drop(self._find_oldest_of_greedy() or key)

    def _find_oldest_of_greedy(self) -> str | None:
        """Return the oldest log of the user whose logs have more than half of all bytes, if there is one."""
        if self._bytes <= MAX_PROCESS_BYTES:
            return None
        user_id, count = self._user_bytes.most_common(1)[0]
        if count <= MAX_PROCESS_BYTES // 2:
            return None
        return next(key for key, local in self._local.items() if local.user_id == user_id)
