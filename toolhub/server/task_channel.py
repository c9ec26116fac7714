"""How a call that runs as a task reaches its client: its questions wait until `tasks/update` answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from catalog.channel import Question
from toolhub.server.channels import ModernChannel, require_capabilities
from toolhub.server.peer import Outlet, Peer
from toolhub.wire import answers, jsonrpc

Park = Callable[[dict[str, Any]], Awaitable[None]]
Say = Callable[[str], Awaitable[None]]


class TaskChannel(ModernChannel):
    """Answers that came with the request, and those of an earlier question, are there from the start."""

    __slots__ = ("_asked", "_park", "_say", "_waiting")

    def __init__(self, request: jsonrpc.Request, peer: Peer, outlet: Outlet, park: Park, say: Say) -> None:
        super().__init__(request, peer, outlet)
        self._park, self._say = park, say
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._asked: dict[str, Any] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        # A task has no stream; what a person could read of its progress is in its status message.
        if message:
            await self._say(message)

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        return

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        require_capabilities(requests, self.capabilities)
        given = self.answers()
        loop = asyncio.get_running_loop()
        mine: dict[str, asyncio.Future[None]] = {}
        for key, (method, params) in requests.items():
            if key not in given:
                mine[key] = self._waiting.setdefault(key, loop.create_future())
                params = answers.outgoing(method, self.peer.revision, params)
                self._asked[key] = {"method": method, "params": params}
        if mine:
            try:
                await self._park(dict(self._asked))
                for answer in mine.values():
                    await answer
            finally:
                for key in mine:
                    self._waiting.pop(key, None)
                    self._asked.pop(key, None)
            if not self._waiting:
                await self._park({})
        return {key: given[key] for key in requests}

    def answered(self, responses: Mapping[str, Any]) -> None:
        """Answers came in; what was not asked for, or is answered already, is ignored."""
        given = self.answers()
        for key, response in responses.items():
            waiting = self._waiting.get(key)
            if waiting is not None and not waiting.done():
                given[key] = response
                self._asked.pop(key, None)
                waiting.set_result(None)
