"""One call of a tool of another MCP server: progress, log lines, questions and content pass through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from django.utils.translation import gettext as _
from pydantic import TypeAdapter

from catalog.functions.content import Result, Structured
from catalog.functions.context import Context
from catalog.runners.upstream_mcp import tasks
from catalog.runners.upstream_mcp.exchange import answer, carried_meta, exchange
from catalog.runners.upstream_mcp.link import Link, list_pages
from catalog.runners.upstream_mcp.settings import Settings

HEADER_MISMATCH = -32020


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    connection = settings.connection
    if connection is None:
        raise ValueError(_("there is no upstream server %(name)s") % {"name": settings.upstream})

    async def run(arguments: dict[str, Any], context: Context) -> Any:
        async def call(link: Link) -> Result:
            async def send(responses: dict[str, Any] | None, state: str | None) -> Any:
                return await _request(link, settings, arguments, context, responses, state)

            return _result(await answer(link, context, send))

        return await exchange(connection, context, call)

    return run


async def _request(
    link: Link,
    settings: Settings,
    arguments: dict[str, Any],
    context: Context,
    responses: dict[str, Any] | None,
    state: str | None,
) -> Any:
    from mcp import MCPError
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult

    tool = settings.tool
    request = CallToolRequest(
        params=CallToolRequestParams(
            name=tool,
            arguments=arguments,
            input_responses=responses,
            request_state=state,
            _meta=carried_meta(link, context),
        )
    )
    expected: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)
    if settings.mirrors or tasks.has_tasks(link):
        await _learn(link, tool)
    if link.listed.get(tool) == "required":
        return await tasks.call(link, tool, arguments, context)
    try:
        return await link.session.send_request(request, expected, progress_callback=context.progress)
    except MCPError as error:
        if error.code != HEADER_MISMATCH or tool in link.listed:
            raise
    # The definition changed since it was approved, and nothing ran.
    await _learn(link, tool)
    return await link.session.send_request(request, expected, progress_callback=context.progress)


async def _learn(link: Link, tool: str) -> None:
    """Let the session list the tool: it then repeats some arguments in headers (2026-07-28), or runs it as a task."""
    if tool in link.listed:
        return
    async for page in list_pages(link.session.list_tools):
        found = next((one for one in page.tools if one.name == tool), None)
        if found is not None:
            if found.execution is not None and tasks.has_tasks(link):
                link.listed[tool] = found.execution.task_support or ""
            break
    link.listed.setdefault(tool, "")


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
