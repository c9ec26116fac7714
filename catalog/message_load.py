"""Bounds on what messages from outside cost this process: nobody else can run while one is decoded.

One message may have MAX_VALUES values. All connections to one upstream server together, and each process of a function,
may send as many at once, or 20 MB of text, and then VALUES_PER_SECOND: reading pauses, and the sender has to wait when
its connection is full.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakValueDictionary

from django.utils.translation import gettext_noop as _

from toolhub import egress
from toolhub.wire.json_size import MAX_VALUES, ValueCounter, count_values, has_many_strings, strip_strings

VALUES_PER_SECOND: Final = 100_000
"""Decoding so many takes 25 to 95 ms (measured)."""
MESSAGE_VALUES, LINE_VALUES, BYTES_PER_VALUE = 100, 4, 100
"""What a message, a line and the bytes of a text cost, as so many values: 16 MB of escapes take 0.2 s (measured)."""
EXACT_VALUES: Final = 1000
"""Above it, commas and brackets in strings are told apart from values."""


class TooManyValues(egress.TooLarge):
    """A message whose decoding would hold up everybody else."""

    def __init__(self) -> None:
        super().__init__(_("the response has more than %(most)d values"), most=MAX_VALUES)


class MessageLoad:
    """The load that one sender is for this event loop."""

    def __init__(self) -> None:
        self._ready_at = 0.0
        """Monotonic time at which the values that were read count no more."""

    def watch(self, is_event_stream: bool) -> Callable[[bytes], Awaitable[None]]:
        """Return the function that counts the pieces of one response before they are decoded, and waits.

        It raises TooManyValues.
        """
        counter = ValueCounter(events=is_event_stream)

        async def read(data: bytes) -> None:
            values, most = counter.add(data)
            if most > MAX_VALUES:
                raise TooManyValues
            if is_event_stream:
                lines = data.count(b"\n") + data.count(b"\r")
                events = data.count(b"\n\n") + data.count(b"\n\r\n") + data.count(b"\r\r") if lines else 0
                values += LINE_VALUES * lines + MESSAGE_VALUES * events
            await self._wait(values + len(data) // BYTES_PER_VALUE)

        return read

    async def read_lines(self, data: bytes) -> None:
        """Wait for what it costs to find the lines in this."""
        await self._wait(LINE_VALUES * data.count(b"\n"))

    async def read_whole(self, message: bytes) -> None:
        """Count a message before it is decoded, and wait. Raises TooManyValues."""
        values = count_values(message)
        if values > MAX_VALUES and has_many_strings(message):
            raise TooManyValues
        if values > EXACT_VALUES:
            values = count_values(strip_strings(message))
        if values > MAX_VALUES:
            raise TooManyValues
        await self._wait(values + MESSAGE_VALUES + len(message) // BYTES_PER_VALUE)

    async def _wait(self, values: int) -> None:
        now = time.monotonic()
        self._ready_at = max(self._ready_at, now) + values / VALUES_PER_SECOND
        pause = self._ready_at - now - MAX_VALUES / VALUES_PER_SECOND
        if pause > 0:
            await asyncio.sleep(pause)


class MessageLoads:
    """The loads of the upstreams that have a connection."""

    def __init__(self) -> None:
        self._loads: WeakValueDictionary[int, MessageLoad] = WeakValueDictionary()

    def of(self, upstream: int) -> MessageLoad:
        """Return the load that all connections to this upstream (its primary key) share."""
        load = self._loads.get(upstream)
        if load is None:
            load = self._loads[upstream] = MessageLoad()
        return load
