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
KEPT_BYTES = 16 * 1024 * 1024
"""Maximum bytes of cached parts from other workers; the least recently requested are dropped first."""


@dataclass(slots=True)
class _Told:
    """The large parts of a state, as another worker last sent them."""

    versions: dict[str, int]
    parts: dict[str, str]
    """The parts as JSON text."""


class TryOwners:
    """Requests to the worker that has a run, and the cached parts of other workers' runs."""

    def __init__(self, bus: Bus, runs: TryRuns) -> None:
        self._bus, self._runs = bus, runs
        self._told: OrderedDict[UUID, _Told] = OrderedDict()
        self._asking: dict[str, asyncio.Future[dict[str, Any]]] = {}
        bus.on(ASK, self._asked)
        bus.on(REPLY, self._replied)

    async def act(self, run_id: UUID, actor_id: int, what: str, **given: Any) -> dict[str, Any] | None:
        """Send an action to the worker that has the run: `state`, `cancel` (by) or `answer` (key, result as JSON text).

        Returns None when no worker has the run (any more), or when another person started it.
        """
        question = {"id": str(run_id), "actor": actor_id, "what": what, **given}
        if self._runs.find(run_id) is not None or not settings.REDIS_URL:
            run = self._do(question)
            return None if run is None else run.state()
        number = recorder.new_call_id().hex
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asking[number] = future
        have = self._told.get(run_id)
        versions = {} if have is None else have.versions
        try:
            await self._bus.publish(ASK, {**question, "have": versions, "reply": number, "to": self._bus.worker})
            async with asyncio.timeout(REPLY_SECONDS):
                return self._whole(run_id, have, await future)
        except TimeoutError:
            self._told.pop(run_id, None)
            return None
        finally:
            del self._asking[number]

    def _whole(self, run_id: UUID, have: _Told | None, reply: dict[str, Any]) -> dict[str, Any]:
        """Combine the received and the cached parts into the complete state."""
        # A reply omits only parts that the request listed as cached.
        parts: dict[str, str] = {**(have.parts if have is not None else {}), **reply["parts"]}
        self._told[run_id] = _Told(reply["versions"], parts)
        self._told.move_to_end(run_id)
        total = sum(len(part) for told in self._told.values() for part in told.parts.values())
        while total > KEPT_BYTES:
            total -= sum(map(len, self._told.popitem(last=False)[1].parts.values()))
        return {**json.loads(reply["state"]), **{name: json.loads(text) for name, text in parts.items()}}

    def _do(self, question: dict[str, Any]) -> Run | None:
        run = self._runs.find(UUID(str(question["id"])))
        if run is None or run.wanted.actor_id != question["actor"]:
            return None
        if question["what"] == "cancel" and run.entry is not None and run.ended is None:
            run.entry.cancel(Cancellation("cancelled.in_admin", name=run.wanted.actor))
        elif question["what"] == "answer":
            run.channel.answer(str(question["key"]), json.loads(question["result"]))
        return run

    def _asked(self, payload: dict[str, Any]) -> None:
        if payload.get("to") == self._bus.worker or (run := self._do(payload)) is None:
            return
        state, versions, have = run.state(), run.versions(), payload.get("have") or {}
        parts = {name: state.pop(name) for name in versions}
        # As text: a number in it may be larger than a bus message can carry.
        changed = {name: json.dumps(part) for name, part in parts.items() if have.get(name) != versions[name]}
        reply = {"reply": payload["reply"], "state": json.dumps(state), "parts": changed, "versions": versions}
        self._bus.tell(REPLY, reply, str(payload["to"]))

    def _replied(self, payload: dict[str, Any]) -> None:
        future = self._asking.get(str(payload.get("reply")))
        if future is not None and not future.done():
            future.set_result(payload)
