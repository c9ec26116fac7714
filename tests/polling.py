"""Wait for an event instead of a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, overload

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 60.0, what: str = "") -> T:
    """The first true value of `condition`, asked every 20 ms for at most `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or condition}")
        time.sleep(0.02)


@overload
async def wait_until_async(condition: Callable[[], Awaitable[T]], timeout: float = 60.0, what: str = "") -> T: ...
@overload
async def wait_until_async(condition: Callable[[], T], timeout: float = 60.0, what: str = "") -> T: ...
async def wait_until_async(condition: Callable[[], Any], timeout: float = 60.0, what: str = "") -> Any:
    """`wait_until` for a running event loop; the condition may be a coroutine function."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or condition}")
        await asyncio.sleep(0.02)
