"""One call of a tool of another MCP server: progress, log lines, questions and content pass through."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from pydantic import TypeAdapter

from catalog.errors import CLIENT_CAPABILITIES, ClientLacks, NeedsInput, ProtocolError, ToolError
from catalog.functions.content import Result, Structured
from catalog.functions.context import Context
from catalog.runners.upstream_mcp import notifications, pool
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.failures import UpstreamError, explain_error, failure, one_line
from catalog.runners.upstream_mcp.link import Link, QuestionHandler
from catalog.runners.upstream_mcp.settings import Settings
from toolhub.wire import meta

logger = logging.getLogger(__name__)
MAX_ROUNDS = 10
"""Maximum number of question rounds of an upstream before it answers (from 2026-07-28 on)."""
MAX_PAGES = 100
"""Maximum number of pages of the upstream's list that are read to find one tool."""
CANCEL_GRACE_SECONDS = 2.0
SESSION_GONE = (-32600, "Session terminated")
"""The official client's error for HTTP 404: the server does not know the session, so nothing ran."""
CONNECTION_CLOSED, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY = -32000, -32020, -32021
URL_ELICITATION_REQUIRED = -32042


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


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    connection = settings.connection
    if connection is None:
        raise ValueError(_("there is no upstream server %(name)s") % {"name": settings.upstream})
    reach = connection

    async def run(arguments: dict[str, Any], context: Context) -> Any:
        try:
            try:
                return await _call(reach, settings.tool, arguments, context, settings.mirrors)
            except _SessionGone:
                return await _call(reach, settings.tool, arguments, context, settings.mirrors)
        except UpstreamError as error:
            raise ToolError(str(error), audit_message=error.audit_message) from None
        except _SessionGone:
            raise ToolError(f"{reach.label} ended the session. Try again in a few seconds.") from None

    return run


class _SessionGone(Exception):
    """An upstream that does not know the session any more, so nothing ran."""


async def _call(
    connection: Connection, tool: str, arguments: dict[str, Any], context: Context, mirrors: bool
) -> Result:
    questions = _QuestionForwarder(context)
    credential = context.caller.credential
    declared = _select_capabilities(context.capabilities)
    borrowed = pool.current_pool().borrow(
        connection, credential.user_id, credential.id, context.secrets, declared, questions
    )
    failed: BaseException
    async with borrowed as link:
        work = asyncio.ensure_future(_answer(link, tool, arguments, context, mirrors))
        try:
            ends: set[asyncio.Future[Any]] = {work, questions.paused}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise questions.paused.result()
        finally:
            if not work.done():
                work.cancel()
                # The official client tells the upstream about the cancellation before it releases the call.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({work}, timeout=CANCEL_GRACE_SECONDS)
        try:
            return work.result()
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


async def _answer(link: Link, tool: str, arguments: dict[str, Any], context: Context, mirrors: bool) -> Result:
    from mcp import MCPError
    from mcp_types import InputRequiredResult

    responses: dict[str, Any] | None = None
    state: str | None = None
    for _round in range(MAX_ROUNDS):
        try:
            result = await _request(link, tool, arguments, context, responses, state, mirrors)
        except MCPError as error:
            raise _convert_error(link, error, context) from None
        if not isinstance(result, InputRequiredResult):
            return _result(result)
        state, responses = result.request_state, None
        if result.input_requests:
            asked = {key: _question(request) for key, request in result.input_requests.items()}
            answers = await context.ask(asked)
            responses = {key: _read(asked[key][0], answer) for key, answer in answers.items()}
        else:
            await asyncio.sleep(0.1)
    raise ToolError(f"{link.connection.label} kept sending requests instead of a result.")


async def _request(
    link: Link,
    tool: str,
    arguments: dict[str, Any],
    context: Context,
    responses: dict[str, Any] | None,
    state: str | None,
    mirrors: bool,
) -> Any:
    from mcp import MCPError
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult

    carried: Any = meta.forwarded(context.channel.meta, link.connection.forward_meta) or None
    request = CallToolRequest(
        params=CallToolRequestParams(
            name=tool, arguments=arguments, input_responses=responses, request_state=state, _meta=carried
        )
    )
    answer: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)
    if mirrors:
        await _learn_headers(link, tool)
    try:
        return await link.session.send_request(request, answer, progress_callback=context.progress)
    except MCPError as error:
        if error.code != HEADER_MISMATCH or tool in link.listed:
            raise
    # The definition changed since it was approved, and nothing ran.
    await _learn_headers(link, tool)
    return await link.session.send_request(request, answer, progress_callback=context.progress)


async def _learn_headers(link: Link, tool: str) -> None:
    """Let the session list the tool: from 2026-07-28 on it then repeats some arguments in headers."""
    from mcp_types import PaginatedRequestParams

    cursor: str | None = None
    for _page in range(0 if tool in link.listed else MAX_PAGES):
        listed = await link.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        cursor = listed.next_cursor
        if cursor is None or any(one.name == tool for one in listed.tools):
            break
    link.listed.add(tool)


def _convert_error(link: Link, error: Any, context: Context) -> Exception:
    """Return an upstream's error answer as an exception of ours."""
    if (error.code, error.message) == SESSION_GONE:
        return _SessionGone()
    if error.code == CONNECTION_CLOSED or not link.alive:
        return error  # type: ignore[no-any-return]
    if error.code == MISSING_CLIENT_CAPABILITY and (missing := _find_missing(error.data, context)) is not None:
        return missing
    modes = context.capabilities.get("elicitation")
    if error.code == URL_ELICITATION_REQUIRED and isinstance(modes, Mapping) and "url" in modes:
        return ProtocolError(error.code, one_line(error.message), error.data)
    return ToolError(f"{link.connection.label} {explain_error(error)}")


def _find_missing(data: Any, context: Context) -> ClientLacks | None:
    """Return what our caller would have to declare for the upstream; None when that is not what is missing."""
    required = data.get("requiredCapabilities") if isinstance(data, Mapping) else None
    names = sorted(CLIENT_CAPABILITIES.intersection(required)) if isinstance(required, Mapping) else []
    return next((ClientLacks(name) for name in names if name not in context.capabilities), None)


def _connection_error(link: Link, error: Exception) -> UpstreamError:
    code = getattr(error, "code", None)
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


def _result(result: Any) -> Result:
    found = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    # A null is a result of 2026-07-28 like any other, and the dump leaves it out.
    present = "structured_content" in result.model_fields_set
    return Result(
        content=found.get("content") or [],
        structured=Structured(result.structured_content) if present else None,
        is_error=bool(found.get("isError")),
        meta=found.get("_meta"),
    )
