"""Access to tries across workers: any worker's page reaches the worker that has the run.

A page polls every second, and a result may be large. The asking worker caches the parts it received, sends their
versions, and receives only the changed parts. The owning worker checks permissions at every request.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from audit import recorder
from catalog.errors import Cancellation
from toolhub.pages.try_it.run import Run, TryRuns
from toolhub.server.bus import Bus

ASK, REPLY = "try.ask", "try.reply"
REPLY_SECONDS = max(5.0, 4 * settings.REDIS_SECONDS)
"""Maximum seconds for another worker's reply: the question and the answer both go through Redis."""
MAX_CACHED_CHARACTERS = 16 * 1024 * 1024
"""Maximum characters of cached parts from other workers; the least recently requested are dropped first."""


@dataclass(slots=True)
class _CachedParts:
    """The large parts of a state, as another worker last sent them."""

    versions: dict[str, int]
    parts: dict[str, str]
    """The parts as JSON text."""


class TryOwners:
    """Requests to the worker that has a run, and the cached parts of other workers' runs."""

    def __init__(self, bus: Bus, runs: TryRuns) -> None:
        self._bus, self._runs = bus, runs
        self._cached: OrderedDict[UUID, _CachedParts] = OrderedDict()
        self._pending: dict[str, asyncio.Future[dict[str, Any]]] = {}
        bus.on(ASK, self._on_ask)
        bus.on(REPLY, self._on_reply)

    async def act(self, run_id: UUID, actor_id: int, action: str, **given: Any) -> dict[str, Any] | None:
        """Send an action to the worker that has the run: `state`, `cancel` (by) or `answer` (key, result as JSON text).

        Returns None when no worker has the run (any more), or when another person started it.
        """
        question = {"id": str(run_id), "actor": actor_id, "what": action, **given}
        if self._runs.find(run_id) is not None or not settings.REDIS_URL:
            run = self._perform(question)
            return None if run is None else run.state()
        number = recorder.new_call_id().hex
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        cached = self._cached.get(run_id)
        versions = {} if cached is None else cached.versions
        try:
            await self._bus.publish(ASK, {**question, "have": versions, "reply": number, "to": self._bus.worker})
            async with asyncio.timeout(REPLY_SECONDS):
                return self._merge_state(run_id, cached, await future)
        except TimeoutError:
            self._cached.pop(run_id, None)
            return None
        finally:
            del self._pending[number]

    def _merge_state(self, run_id: UUID, cached: _CachedParts | None, reply: dict[str, Any]) -> dict[str, Any]:
        """Combine the received and the cached parts into the complete state."""
        # A reply omits only parts that the request listed as cached.
        parts: dict[str, str] = {**(cached.parts if cached is not None else {}), **reply["parts"]}
        self._cached[run_id] = _CachedParts(reply["versions"], parts)
        self._cached.move_to_end(run_id)
        total = sum(len(part) for entry in self._cached.values() for part in entry.parts.values())
        while total > MAX_CACHED_CHARACTERS:
            total -= sum(map(len, self._cached.popitem(last=False)[1].parts.values()))
        return {**json.loads(reply["state"]), **{name: json.loads(text) for name, text in parts.items()}}

    def _perform(self, question: dict[str, Any]) -> Run | None:
        run = self._runs.find(UUID(str(question["id"])))
        if run is None or run.try_request.actor_id != question["actor"]:
            return None
        if question["what"] == "cancel" and run.entry is not None and run.ended is None:
            run.entry.cancel(Cancellation("cancelled.in_admin", name=run.try_request.actor))
        elif question["what"] == "answer":
            run.channel.answer(str(question["key"]), json.loads(question["result"]))
        return run

    def _on_ask(self, payload: dict[str, Any]) -> None:
        if payload.get("to") == self._bus.worker or (run := self._perform(payload)) is None:
            return
        state, versions, cached = run.state(), run.versions(), payload.get("have") or {}
        parts = {name: state.pop(name) for name in versions}
        # As text: a number in it may be larger than a bus message can carry.
        changed = {name: json.dumps(part) for name, part in parts.items() if cached.get(name) != versions[name]}
        reply = {"reply": payload["reply"], "state": json.dumps(state), "parts": changed, "versions": versions}
        self._bus.publish_soon(REPLY, reply, str(payload["to"]))

    def _on_reply(self, payload: dict[str, Any]) -> None:
        future = self._pending.get(str(payload.get("reply")))
        if future is not None and not future.done():
            future.set_result(payload)
