"""One call of an HTTP API, with retries, a circuit breaker and a limit on concurrent calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from catalog.circuit_breaker import CircuitBreaker
from catalog.errors import ToolError
from catalog.functions.context import Context
from catalog.runners import networks
from catalog.runners.http_api.request import Builder, Request
from catalog.runners.http_api.resilience import TEMPORARY_STATUSES, breaker, enter, pause_seconds, slots
from catalog.runners.http_api.response import ResponseConverter
from catalog.runners.http_api.settings import IDEMPOTENT_METHODS, Settings
from toolhub import egress
from toolhub.parts import parts

__all__ = ["Settings", "prepare"]


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    builder, answers = Builder(settings), ResponseConverter(settings)
    places = slots(settings.max_concurrent)
    sender = _Sender(settings)

    async def run(arguments: dict[str, Any], context: Context) -> Any:
        try:
            request = builder.build(arguments, context.secrets)
        except egress.EgressError as error:
            raise _failed(error) from None
        share = await places.enter(settings.wait_seconds, context.user_id)
        try:
            reply = await sender.send(request, context.deadline)
        finally:
            places.leave(share)
        return await answers.content(reply, request.url)

    return run


def _failed(error: egress.EgressError) -> ToolError:
    reason = error.explanation if isinstance(error, egress.DeniedAddress) else error
    return ToolError(f"The request failed: {error}.", audit_message=f"The request failed: {reason}.")


class _Sender:
    __slots__ = ("_attempts", "_host", "_origin", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempts = 1 + (settings.retries if settings.method in IDEMPOTENT_METHODS else 0)
        target = egress.parse_url(settings.base)
        self._host = target.host
        self._origin = f"{target.scheme}://{target.host}:{target.port or ''}"

    async def send(self, request: Request, deadline: float) -> egress.Reply:
        """Return the answer, whatever its status, after the allowed number of attempts.

        Raises ToolError when no attempt got an answer.
        """
        for attempt in range(self._attempts):
            last = attempt == self._attempts - 1
            guard = breaker(self._origin)
            reply, failure = await self._attempt(request, deadline, guard)
            if reply is not None and (last or reply.status not in TEMPORARY_STATUSES):
                return reply
            asked = reply.headers.get("retry-after", "") if reply is not None else ""
            seconds = pause_seconds(attempt, asked)
            if last or guard.is_open or time.monotonic() + seconds >= deadline:
                break
            await asyncio.sleep(seconds)
        if reply is not None:
            return reply
        raise ToolError(f"The request failed: {failure}.", code="unreachable")

    async def _attempt(
        self, request: Request, deadline: float, guard: CircuitBreaker
    ) -> tuple[egress.Reply | None, str]:
        """Send one request; return its answer, or None and the reason why no connection was made."""
        settings = self._settings
        probe = enter(guard, self._host)
        counted = False
        try:
            reply = await egress.fetch(
                settings.method,
                request.url,
                headers=request.headers,
                content=request.content,
                timeout=settings.timeout,
                max_bytes=settings.max_response_bytes,
                resolver=networks.resolver(),
                allowed=networks.allowed(),
                pools=parts.find(egress.ConnectionPools),
            )
            counted = True
            if reply.status in TEMPORARY_STATUSES:
                guard.report_failure(settings.break_after, settings.break_seconds)
            else:
                guard.report_success()
            return reply, ""
        except egress.Unreachable as error:
            counted = True
            guard.report_failure(settings.break_after, settings.break_seconds)
            return None, str(error)
        except egress.DeadlineExceeded as error:
            counted = True
            guard.report_failure(settings.break_after, settings.break_seconds)
            raise ToolError(f"The request failed: {error}.", code="timeout") from None
        except egress.EgressError as error:
            raise _failed(error) from None
        except asyncio.CancelledError:
            # The deadline of the call itself passed: the host had its time as well.
            if time.monotonic() >= deadline - 0.05:
                counted = True
                guard.report_failure(settings.break_after, settings.break_seconds)
            raise
        finally:
            if not counted:
                guard.release_probe(probe)
