"""Resources and prompts of another MCP server: one read, one prompt, or suggestions for an argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.functions.context import Context
from catalog.runners.upstream_mcp import pool
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.exchange import answer, carried_meta, exchange
from catalog.runners.upstream_mcp.link import NO_CLIENT, Link


async def read_resource(connection: Connection, uri: str, context: Context) -> list[dict[str, Any]]:
    """Return the contents of a resource, as the server sent them. Raises what `exchange` raises."""

    async def read(link: Link) -> list[dict[str, Any]]:
        async def send(responses: dict[str, Any] | None, state: str | None) -> Any:
            return await link.session.read_resource(
                uri,
                input_responses=responses,
                request_state=state,
                meta=carried_meta(link, context),
                allow_input_required=True,
            )

        return _members(await answer(link, context, send), "contents")

    return await exchange(connection, context, read)


async def get_prompt(
    connection: Connection, name: str, arguments: dict[str, str], context: Context
) -> list[dict[str, Any]]:
    """Return the messages of a prompt, as the server sent them. Raises what `exchange` raises."""

    async def get(link: Link) -> list[dict[str, Any]]:
        async def send(responses: dict[str, Any] | None, state: str | None) -> Any:
            return await link.session.get_prompt(
                name,
                arguments,
                input_responses=responses,
                request_state=state,
                meta=carried_meta(link, context),
                allow_input_required=True,
            )

        return _members(await answer(link, context, send), "messages")

    return await exchange(connection, context, get)


async def complete(
    connection: Connection,
    user_id: int,
    credential: str,
    secrets: Mapping[str, str],
    ref: Mapping[str, str],
    argument: str,
    typed: str,
    earlier: Mapping[str, str],
) -> list[str]:
    """Return the server's suggestions for an argument of a prompt (`ref` has its name) or a template (its `uri`).

    None when the server has no suggestions at all. Raises UpstreamError, and the errors of the official client.
    """
    from mcp_types import PromptReference, ResourceTemplateReference

    async with pool.current_pool().borrow(connection, user_id, credential, secrets, {}, NO_CLIENT) as link:
        if link.client is None or link.client.server_capabilities.completions is None:
            return []
        target: Any = (
            PromptReference(type="ref/prompt", name=ref["name"])
            if "name" in ref
            else ResourceTemplateReference(type="ref/resource", uri=ref["uri"])
        )
        found = await link.session.complete(target, {"name": argument, "value": typed}, dict(earlier) or None)
        return list(found.completion.values)


def _members(result: Any, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.model_dump(by_alias=True, mode="json", exclude_none=True).get(name, [])
    return found
