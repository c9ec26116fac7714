"""One exchange with an upstream server for one call: its questions, cancellation, and errors in sentences."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from catalog.errors import CLIENT_CAPABILITIES, ClientLacks, NeedsInput, ProtocolError, ToolError
from catalog.functions.context import Context
from catalog.runners.upstream_mcp import notifications, pool
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.failures import UpstreamError, explain_error, failure, one_line, refused_error
from catalog.runners.upstream_mcp.link import Link, QuestionHandler
from toolhub.wire import meta

logger = logging.getLogger(__name__)
MAX_ROUNDS = 10
"""Maximum number of question rounds of an upstream before it answers (from 2026-07-28 on)."""
CANCEL_GRACE_SECONDS = 2.0
SESSION_GONE = (-32600, "Session terminated")
"""The official client's error for HTTP 404: the server does not know the session, so nothing ran."""
CONNECTION_CLOSED, MISSING_CLIENT_CAPABILITY = -32000, -32021
URL_ELICITATION_REQUIRED = -32042
T = TypeVar("T")
Request = Callable[[dict[str, Any] | None, str | None], Awaitable[Any]]
"""Sends a request with the answers and the state of the round before, and returns its result."""


class _QuestionForwarder(QuestionHandler):
    """Questions of the upstream during one call, passed on to that call's client."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asked: dict[str, int] = {}
        self.paused: asyncio.Future[NeedsInput] = asyncio.get_running_loop().create_future()

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = self._asked[method] = self._asked.get(method, 0) + 1
        key = f"{method.partition('/')[0]}_{number}"
        try:
            return (await self._context.ask({key: (method, params)}))[key]
        except NeedsInput as needed:
            # From 2026-07-28 on the client sends the answer with a new call, so this one ends here.
            if not self.paused.done():
                self.paused.set_result(needed)
            raise UpstreamError("the answer is not there yet") from None
        except ToolError as error:
            raise UpstreamError(str(error)) from None
        except Exception as error:  # noqa: BLE001 - the boundary to a foreign library, which would log a traceback
            logger.warning("a question of an upstream could not be asked: %s: %s", type(error).__name__, error)
            raise UpstreamError("the client cannot be asked") from None

    async def log(self, level: str, data: Any, name: str | None) -> None:
        await self._context.log(data, level, name)


class _SessionGone(Exception):
    """An upstream that does not know the session any more, so nothing ran."""


async def exchange(connection: Connection, context: Context, work: Callable[[Link], Awaitable[T]]) -> T:
    """Return what `work` makes of a link that belongs to this call alone; once more when the server lost the session.

    Raises ToolError, ProtocolError, NeedsInput, ClientLacks.
    """
    try:
        try:
            return await _exchange(connection, context, work)
        except _SessionGone:
            return await _exchange(connection, context, work)
    except UpstreamError as error:
        words, code = error.audit_message, error.code
        raise ToolError(str(error), audit_message=words, code=code, rejected=error.rejected) from None
    except _SessionGone:
        raise ToolError(f"{connection.label} ended the session. Try again in a few seconds.") from None


async def _exchange(connection: Connection, context: Context, work: Callable[[Link], Awaitable[T]]) -> T:
    questions = _QuestionForwarder(context)
    credential = context.caller.credential
    declared = _select_capabilities(context.capabilities)
    borrowed = pool.current_pool().borrow(
        connection, credential.user_id, credential.id, context.secrets, declared, questions
    )
    failed: BaseException
    async with borrowed as link:
        running = asyncio.ensure_future(work(link))
        try:
            ends: set[asyncio.Future[Any]] = {running, questions.paused}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise questions.paused.result()
        finally:
            if not running.done():
                running.cancel()
                # The official client tells the upstream about the cancellation before it releases the call.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({running}, timeout=CANCEL_GRACE_SECONDS)
        try:
            return running.result()
        except (ToolError, ProtocolError, NeedsInput) as error:
            failed = error  # the connection itself works
        except _SessionGone:
            link.close()
            raise
        except Exception as error:  # noqa: BLE001 - the boundary to a foreign library
            broken = _connection_error(link, error)
            notifications.notify_health(connection.upstream, broken.audit_message)
            link.close()  # so that the next call tests the connection again
            raise broken from None
    raise failed


async def answer(link: Link, context: Context, send: Request) -> Any:
    """Return the result of a request, after as many rounds of questions as it needs. Raises what `exchange` expects."""
    from mcp import MCPError
    from mcp_types import InputRequiredResult

    responses: dict[str, Any] | None = None
    state: str | None = None
    for _round in range(MAX_ROUNDS):
        try:
            result = await send(responses, state)
        except MCPError as error:
            raise _convert_error(link, error, context) from None
        if not isinstance(result, InputRequiredResult):
            return result
        state, responses = result.request_state, None
        if result.input_requests:
            asked = {key: _question(request) for key, request in result.input_requests.items()}
            answers = await context.ask(asked)
            responses = {key: _read(asked[key][0], answer) for key, answer in answers.items()}
        else:
            await asyncio.sleep(0.1)
    raise ToolError(f"{link.connection.label} kept sending requests instead of a result.")


def carried_meta(link: Link, context: Context) -> Any:
    """Return the members of the caller's `_meta` that this server gets; None for none."""
    return meta.forwarded(context.channel.meta, link.connection.forward_meta) or None


def _convert_error(link: Link, error: Any, context: Context) -> Exception:
    """Return an upstream's error answer as an exception of ours."""
    if (error.code, error.message) == SESSION_GONE:
        return _SessionGone()
    if error.code == CONNECTION_CLOSED or link.refused or link.rejected is not None or not link.alive:
        return error  # type: ignore[no-any-return]
    if error.code == MISSING_CLIENT_CAPABILITY and (missing := _find_missing(error.data, context)) is not None:
        return missing
    modes = context.capabilities.get("elicitation")
    if error.code == URL_ELICITATION_REQUIRED and isinstance(modes, Mapping) and "url" in modes:
        return ProtocolError(error.code, one_line(error.message), error.data)
    return ToolError(f"{link.connection.label} {explain_error(error)}", code=str(error.code))


def _find_missing(data: Any, context: Context) -> ClientLacks | None:
    """Return what our caller would have to declare for the upstream; None when that is not what is missing."""
    required = data.get("requiredCapabilities") if isinstance(data, Mapping) else None
    names = sorted(CLIENT_CAPABILITIES.intersection(required)) if isinstance(required, Mapping) else []
    return next((ClientLacks(name) for name in names if name not in context.capabilities), None)


def _connection_error(link: Link, error: Exception) -> UpstreamError:
    code = getattr(error, "code", None)
    if link.refused:
        return refused_error(link.connection)
    if link.rejected is not None:
        return UpstreamError(
            f"{link.connection.label} sent too much: {link.rejected}. The call may have taken effect. Ask for less."
        )
    if code == CONNECTION_CLOSED or not link.alive:
        return UpstreamError(
            f"{link.connection.label} closed the connection. The call may have taken effect. Check "
            "before you try again."
        )
    return failure(link.connection, error)


def _select_capabilities(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client capabilities to declare to the upstream: the questions it can answer, nothing else."""
    found: dict[str, Any] = {name: {} for name in ("elicitation", "roots") if name in capabilities}
    sampling = capabilities.get("sampling")
    if isinstance(sampling, Mapping):
        found["sampling"] = {name: {} for name in ("tools", "context") if name in sampling}
    return found


def _question(request: Any) -> tuple[str, dict[str, Any]]:
    params = request.params.model_dump(by_alias=True, mode="json", exclude_none=True) if request.params else {}
    params.pop("_meta", None)
    return request.method, params


def _read(method: str, answer: dict[str, Any]) -> Any:
    from mcp_types import CreateMessageResult, CreateMessageResultWithTools, ElicitResult, ListRootsResult

    try:
        if method == "elicitation/create":
            return ElicitResult.model_validate(answer)
        if method == "roots/list":
            return ListRootsResult.model_validate(answer)
        kind = CreateMessageResultWithTools if isinstance(answer.get("content"), list) else CreateMessageResult
        return kind.model_validate(answer)
    except ValueError:
        raise ToolError("The client's answer does not match the request.") from None
