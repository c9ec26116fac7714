"""The context of a call: the caller, the deadline, and the way to reach the client.

Asking the client (`elicit`, `elicit_url`, `sample`, `roots`, `ask_all`) is written once for every protocol revision.
Up to 2025-11-25 the function waits while the client answers. From 2026-07-28 on the first question ends the call with
"input required", and when the client comes back with its answers **the function runs again from the top**, with every
earlier answer supplied at once. So a function that asks must do nothing before its last question that may not happen
twice, and must ask the same questions, in the same order or under the same `key`, each time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel

from audit.redaction import redactor
from audit.types import Caller
from catalog.errors import NeedsInput, ProtocolError, ToolError
from catalog.functions.channel import Channel, Question
from catalog.functions.content import Message
from catalog.functions.elicitation import (
    Answer,
    Ask,
    BadAnswer,
    Elicit,
    Elicited,
    ElicitUrl,
    Root,
    Roots,
    Sample,
    Sampled,
)
from catalog.functions.results import clean_text, to_plain_json
from toolhub.parts import parts
from toolhub.wire.versions import MODERN

MIN_PROGRESS_INTERVAL_SECONDS = 0.05
INVALID_PARAMS = -32602
NO_SECRETS: Mapping[str, str] = {}
T = TypeVar("T")


class ProgressListeners:
    """The listeners to every progress report, such as pages that show running calls. They must not block."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Context, float, float | None, str | None], None]] = []

    def add(self, listener: Callable[[Context, float, float | None, str | None], None]) -> None:
        """Add `listener` for all further reports; no effect when it was added already."""
        if listener not in self.listeners:
            self.listeners.append(listener)

    def remove(self, listener: Callable[[Context, float, float | None, str | None], None]) -> None:
        """Undo `add`."""
        self.listeners.remove(listener)


class Clock(Protocol):
    """The deadline of a running call; it stands still while a person is asked."""

    deadline: float

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Context:
    """The context for `async def` functions; a function that is not async declares `SyncContext` instead."""

    __slots__ = (
        "_asked",
        "_cancelled",
        "_clock",
        "_held",
        "_last_progress",
        "_last_sent",
        "call_id",
        "caller",
        "channel",
        "name",
        "secrets",
        "unanswered",
    )

    def __init__(
        self,
        caller: Caller,
        channel: Channel,
        name: str,
        call_id: UUID,
        clock: Clock | None = None,
        secrets: Mapping[str, str] = NO_SECRETS,
    ) -> None:
        self.caller, self.channel, self.name, self.call_id = caller, channel, name, call_id
        self.secrets = secrets
        """The values of the secrets that the tool's settings refer to, for this caller, by name."""
        self._clock = clock
        self._cancelled: threading.Event | None = None
        self._asked: dict[str, int] | None = None
        self._held: tuple[float, float | None, str | None] | None = None
        self._last_progress: float | None = None
        self._last_sent = 0.0
        self.unanswered: tuple[NeedsInput, ...] = ()
        """What the channel raised for questions whose answers come with another request."""

    @property
    def username(self) -> str:
        return self.caller.credential.username

    @property
    def user_id(self) -> int:
        return self.caller.credential.user_id

    @property
    def deadline(self) -> float:
        """Return the latest end of the call, on the clock of `time.monotonic()`."""
        return self._clock.deadline if self._clock is not None else float("inf")

    @property
    def cancelled(self) -> threading.Event:
        """Return the event that is set when the call is cancelled or times out.

        A function in a thread checks it regularly.
        """
        if self._cancelled is None:
            self._cancelled = threading.Event()
        return self._cancelled

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """Return the capabilities that the client declared."""
        return self.channel.capabilities

    def opted(self, name: str) -> bool:
        """Return whether the client declared the capability or the extension `name`."""
        extensions = self.channel.capabilities.get("extensions")
        return name in self.channel.capabilities or (isinstance(extensions, Mapping) and name in extensions)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress.

        A value that does not increase is dropped, and at most 20 reports a second are sent: the first and the last
        always are.
        """
        before = self._last_progress
        if before is not None and progress <= before:
            return
        self._last_progress = progress
        if message is not None:
            message = clean_text(message)
        now = time.monotonic()
        if before is not None and now - self._last_sent < MIN_PROGRESS_INTERVAL_SECONDS:
            reached = total is not None and before < total <= progress
            if not reached:
                self._held = (progress, total, message)
                return
        self._held, self._last_sent = None, now
        await self._report(progress, total, message)

    async def flush(self) -> None:
        """Send the report that was held back, if any: it was the last one."""
        held, self._held = self._held, None
        if held is not None:
            await self._report(*held)

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        progress_listeners = parts.find(ProgressListeners)  # None in the process of an isolated function
        if progress_listeners is not None and progress_listeners.listeners:
            masked = (
                redactor.mask_values(tuple(self.secrets.values()), message) if message and self.secrets else message
            )
            for listener in progress_listeners.listeners:
                listener(self, progress, total, masked)
        await self.channel.progress(progress, total, message)

    async def log(self, data: Any, level: str = "info", logger: str | None = None) -> None:
        """Send a log line to the client, which chose the lowest level that it wants."""
        data = clean_text(data) if isinstance(data, str) else to_plain_json(data)[0]
        await self.channel.log(level, data, logger)

    async def elicit(
        self, message: str, schema: Mapping[str, Any] | type[BaseModel], *, key: str | None = None
    ) -> Elicited:
        """Ask the person for values; their content fits `schema`."""
        answer = await self._ask(Elicit(message, schema), key)
        assert isinstance(answer, Elicited)  # noqa: S101 - for the type checker
        return answer

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Ask the person to open an address. `accept` means that they agreed, not that they have finished there."""
        answer = await self._ask(ElicitUrl(message, url), key)
        assert isinstance(answer, Elicited)  # noqa: S101
        return answer

    async def sample(
        self,
        messages: str | Sequence[Message | str | Mapping[str, Any]],
        *,
        max_tokens: int = 1000,
        system_prompt: str = "",
        key: str | None = None,
        **options: Any,
    ) -> Sampled:
        """Ask the client's model for a completion."""
        answer = await self._ask(Sample(messages, max_tokens, system_prompt, options), key)
        assert isinstance(answer, Sampled)  # noqa: S101
        return answer

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Return the folders or addresses that the client works in."""
        answer = await self._ask(Roots(), key)
        assert isinstance(answer, list)  # noqa: S101
        return answer

    async def ask_all(self, **questions: Ask) -> dict[str, Answer]:
        """Ask several questions at once.

        `await ctx.ask_all(name=Elicit(...), folders=Roots())` returns {"name": ..., ...}.
        """
        handshake = self.caller.revision not in MODERN
        requests = {key: question.request(self.capabilities, handshake) for key, question in questions.items()}
        results = await self.ask(requests)
        answers = {}
        for key, question in questions.items():
            try:
                answers[key] = question.parse(results.get(key))
            except BadAnswer as problem:
                # Up to 2025-11-25 the request that is answered here was fine: the client's reply was not.
                if handshake:
                    raise ToolError(f"The client's answer to '{key}' does not match the request: {problem}.") from None
                raise ProtocolError(
                    INVALID_PARAMS, f"inputResponses.{key} does not match the request: {problem}"
                ) from None
        return answers

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Ask the client in wire format, for runners that pass on questions of others: {key: request} to {key: result}.

        The deadline is paused meanwhile.
        """
        if self._clock is not None:
            self._clock.pause()
        try:
            return await self.channel.ask(requests)
        except NeedsInput as needs:
            self.unanswered = (*self.unanswered, needs)
            raise
        finally:
            if self._clock is not None:
                self._clock.resume()

    def close_stream(self) -> None:
        """End the response stream early and go on: the client comes back for the result (up to 2025-11-25)."""
        self.channel.close_stream()

    async def _ask(self, question: Ask, key: str | None) -> Answer:
        if key is None:
            self._asked = self._asked or {}
            number = self._asked[question.kind] = self._asked.get(question.kind, 0) + 1
            key = f"{question.kind}_{number}"
        return (await self.ask_all(**{key: question}))[key]


class SyncContext:
    """A `Context` for a function that runs in a thread: the same names, without `await`."""

    __slots__ = ("_context", "_loop", "_waiting")

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context, self._loop = context, loop
        self._waiting: concurrent.futures.Future[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        """Return a context attribute that needs no `await`: username, deadline, cancelled, capabilities, opted."""
        return getattr(self._context, name)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._wait(self._context.progress(progress, total, message))

    def log(self, data: Any, level: str = "info", logger: str | None = None) -> None:
        self._wait(self._context.log(data, level, logger))

    def elicit(self, message: str, schema: Mapping[str, Any] | type[BaseModel], *, key: str | None = None) -> Elicited:
        return self._wait(self._context.elicit(message, schema, key=key))

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        return self._wait(self._context.elicit_url(message, url, key=key))

    def sample(self, messages: str | Sequence[Message | str | Mapping[str, Any]], **options: Any) -> Sampled:
        return self._wait(self._context.sample(messages, **options))

    def roots(self, *, key: str | None = None) -> list[Root]:
        return self._wait(self._context.roots(key=key))

    def ask_all(self, **questions: Ask) -> dict[str, Answer]:
        return self._wait(self._context.ask_all(**questions))

    def close_stream(self) -> None:
        self._loop.call_soon_threadsafe(self._context.close_stream)

    def release(self) -> None:
        """Release the thread after the call is over: anything that it waits for is cancelled."""
        self._context.cancelled.set()
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._context.cancelled.is_set():
            work.close()
            raise concurrent.futures.CancelledError("the call is over")
        self._waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            if self._context.cancelled.is_set():
                self._waiting.cancel()
            return self._waiting.result()  # type: ignore[no-any-return]
        finally:
            self._waiting = None
