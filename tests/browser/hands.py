"""A person's hand, whose clicks are counted, and a program on the person's machine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any

WAIT_SECONDS = 60


class Hand:
    """The person's hand: each click, and each key that stands for one, is counted."""

    def __init__(self, page: Any) -> None:
        self.page, self.clicks = page, 0

    def click(self, what: Any) -> None:
        self.clicks += 1
        self.page.click(what) if isinstance(what, str) else what.click()

    def press(self, what: str, key: str) -> None:
        self.clicks += 1
        self.page.press(what, key)

    def choose(self, what: str, value: str) -> None:
        self.clicks += 2  # the list is opened, and something chosen there
        self.page.select_option(what, value)

    def sidebar(self, name: str) -> None:
        self.click(f'a:has(:text-is("{name}")) >> visible=true >> nth=0')

    def take_count(self) -> int:
        """The clicks since the last time."""
        counted, self.clicks = self.clicks, 0
        return counted


class Program:
    """A client on somebody's machine: it lives in a thread of its own, as the browser has this one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def does(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.start(work).result(WAIT_SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()
