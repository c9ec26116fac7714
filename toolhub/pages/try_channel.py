"""How a tool that is tried in the admin reaches the person there: progress, log lines, and questions in the page."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from catalog.channel import Question
from catalog.errors import ClientLacks, ClientRefused
from toolhub.server.channels import require_capabilities

CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""What the page can do for a tool: show a form or an address. It has no model and no folders."""
ANSWER_SECONDS = 600.0
LOG_LINES = 200
LINE_CHARACTERS = 2000


class TryChannel:
    """A `catalog.channel.Channel` whose state the page reads."""

    capabilities = CAPABILITIES
    request_id = "try"

    def __init__(self) -> None:
        self.reported: tuple[float, float | None, str | None] | None = None
        self.lines: deque[tuple[str, str]] = deque(maxlen=LOG_LINES)
        """Level and text of the last log lines."""
        self.asked: dict[str, Question] = {}
        """The questions that wait for an answer."""
        self.logged = self.asking = 0
        """Versions of the lines and of the questions: each goes up when its part changes."""
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.reported = (progress, total, message and message[:LINE_CHARACTERS])

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        self.logged += 1
        self.lines.append((level, f"{logger}: {text}"[:LINE_CHARACTERS] if logger else text[:LINE_CHARACTERS]))

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Show the questions and wait for the answers. Raises ClientLacks for what a page cannot do."""
        require_capabilities(requests, self.capabilities)
        if any(key in self._answers for key in requests):
            raise ClientLacks("two questions of one name at once")
        loop = asyncio.get_running_loop()
        self._answers |= {key: loop.create_future() for key in requests}
        self.asked |= requests
        self.asking += 1
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return {key: await self._answers[key] for key in requests}
        except TimeoutError:
            raise ClientRefused(f"no answer within {ANSWER_SECONDS:g} s") from None
        finally:
            self.asking += 1
            for key in requests:
                self.asked.pop(key, None)
                self._answers.pop(key).cancel()

    def answer(self, key: str, result: dict[str, Any]) -> bool:
        """What the person did about one question; False when nobody waits for it any more."""
        future = self._answers.get(key)
        if future is None or future.done():
            return False
        self.asked.pop(key, None)
        self.asking += 1
        future.set_result(result)
        return True

    def close_stream(self) -> None:
        return
