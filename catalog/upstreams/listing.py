"""What an upstream server lists: its tools, resources, templates and prompts, as definitions that can be pinned.

The tools decide whether the server can be used. When it cannot list its resources or prompts, or lists them in a form
that is not valid, its tools are served all the same, and the problem is kept for the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_noop

from catalog import quarantine
from catalog.canonical import dumps
from catalog.models import app_pages
from catalog.models import validators as check
from catalog.models.pinned import HINTS
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.failures import UpstreamError, failure, refusal, timeout_error
from catalog.runners.upstream_mcp.link import MAX_PAGES, Link, list_pages
from catalog.runners.upstream_mcp.steps import Report, Steps

Kind = Literal["tool", "resource", "prompt"]
KINDS: Final[tuple[Kind, ...]] = ("tool", "resource", "prompt")
MAX_ITEMS, MAX_DEFINITION_CHARACTERS = 1000, 262_144
MAX_APP_PAGES, MAX_APP_PAGE_CHARACTERS = 100, 2_097_152
"""Maximum number of pages for MCP Apps of one server, and maximum size of one."""
ICON_MEMBERS = ("src", "mimeType", "sizes", "theme")
CAPABILITIES: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
"""Servers show some tools only to clients that can answer questions. Questions during the listing are rejected."""
Definition = dict[str, Any]


@dataclass(slots=True)
class Listing:
    """The lists of a server, with definitions in the shape that `catalog.quarantine` pins."""

    revision: str
    server: str
    items: dict[Kind, list[Definition]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    problems: dict[Kind, UpstreamError] = field(default_factory=dict)
    """The kinds that could not be listed, and why."""

    @property
    def tools(self) -> list[Definition]:
        return self.items["tool"]


async def list_items(connection: Connection, values: Mapping[str, str], report: Report | None = None) -> Listing:
    """List all items of the server, on a connection of its own; `report` hears of each step.

    Raises UpstreamError when it has no list of tools.
    """
    steps = Steps(report)
    link = Link(connection, {name: values[name] for name in connection.secret_names}, CAPABILITIES, steps=steps)
    try:
        async with _bounded_step(connection):
            if connection.transport == "stdio":
                steps.begin("initialize")
            await link.open()
            steps.end("initialize")
            steps.begin("tool")
            server = link.client.server_info if link.client is not None else None
            found = Listing(link.revision, f"{server.name} {server.version}"[:200] if server else "")
            too_many = gettext_noop("lists more than %(most)d tools.")
            async for tool in _listed(link, link.session.list_tools, "tools", too_many):
                found.items["tool"].append(tool_definition(tool, connection))
            steps.end("tool", len(found.tools))
        await _list_more(link, found, "resource", _list_resources, steps)
        await _list_more(link, found, "prompt", _list_prompts, steps)
        return found
    finally:
        await link.wait_closed()


async def _list_more(
    link: Link, found: Listing, kind: Kind, lists: Callable[[Link], Awaitable[list[Definition]]], steps: Steps
) -> None:
    """List another kind; a failure is a problem of that kind alone, and its step does not end."""
    steps.begin(kind)
    try:
        async with _bounded_step(link.connection):
            found.items[kind] = await lists(link)
        steps.end(kind, len(found.items[kind]))
    except UpstreamError as error:
        found.problems[kind] = error


@asynccontextmanager
async def _bounded_step(connection: Connection) -> AsyncIterator[None]:
    """Bound one step of the listing by the timeout of the connection, and raise UpstreamError for all that fails."""
    try:
        async with asyncio.timeout(connection.timeout):
            yield
    except TimeoutError:
        raise timeout_error(connection) from None
    except UpstreamError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary to a foreign library
        raise failure(connection, error) from None


async def _list_resources(link: Link) -> list[Definition]:
    assert link.client is not None  # noqa: S101 - only after `open`
    if link.client.server_capabilities.resources is None:
        return []
    found, pages = [], 0
    too_many = gettext_noop("lists more than %(most)d resources.")
    async for resource in _listed(link, link.session.list_resources, "resources", too_many):
        definition = resource_definition(resource, link.connection)
        if app_pages.is_page(definition["uri"]):
            if not link.connection.apps:
                continue
            pages += 1
            if pages > MAX_APP_PAGES:
                raise refusal(link.connection, gettext_noop("lists more than %(most)d pages."), most=MAX_APP_PAGES)
            definition |= await _read_page(link, definition)
        found.append(definition)
    async for template in _listed(link, link.session.list_resource_templates, "resource_templates", too_many):
        if not app_pages.is_page(template.uri_template):  # the content of a template cannot be approved
            found.append(resource_definition(template, link.connection))
    return found


async def _list_prompts(link: Link) -> list[Definition]:
    assert link.client is not None  # noqa: S101 - only after `open`
    if link.client.server_capabilities.prompts is None:
        return []
    too_many = gettext_noop("lists more than %(most)d prompts.")
    listed = _listed(link, link.session.list_prompts, "prompts", too_many)
    return [prompt_definition(prompt, link.connection) async for prompt in listed]


async def _listed(link: Link, ask: Callable[..., Awaitable[Any]], member: str, too_many: str) -> AsyncIterator[Any]:
    """Yield the items of a list, page by page. Raises UpstreamError for a list without an end."""
    number, more = 0, None
    async for page in list_pages(ask):
        for item in getattr(page, member):
            yield item
        number += len(getattr(page, member))
        more = page.next_cursor
        if number > MAX_ITEMS:
            raise refusal(link.connection, too_many, most=MAX_ITEMS)
    if more is not None:
        raise refusal(link.connection, gettext_noop("sends a list of more than %(most)d pages."), most=MAX_PAGES)


async def _read_page(link: Link, definition: Definition) -> Definition:
    """Return the content of a page, which is pinned with its definition. Raises UpstreamError."""
    result = await link.session.read_resource(definition["uri"])
    contents = [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in result.contents]
    if len(contents) != 1 or len(contents[0].get("text") or contents[0].get("blob") or "") > MAX_APP_PAGE_CHARACTERS:
        raise refusal(
            link.connection,
            gettext_noop("has no page of at most %(most)s characters at %(address)s."),
            most=f"{MAX_APP_PAGE_CHARACTERS:,}",
            address=definition["uri"],
        )
    content = contents[0]
    found = {"blob": content["blob"]} if "blob" in content else {"text": content.get("text", "")}
    if mime_type := content.get("mimeType"):
        found["mimeType"] = mime_type
    if (app := _app(content, app_pages.check_resource)) is not None:  # it counts more than that of the list
        found["ui"] = app
    return found


def tool_definition(tool: Any, connection: Connection) -> Definition:
    """Return the pinned parts of a tool as the official client parsed it."""
    listed = _dump(tool)
    hints = _take(listed.get("annotations", {}), "title", *HINTS)
    if hints.get("readOnlyHint") is True:
        hints.pop("destructiveHint", None)  # it has a meaning only for tools that write
    members = ("name", "title", "description", "inputSchema", "outputSchema")
    found = {**_take(listed, *members), "annotations": hints, **_kept(listed, connection)}
    if connection.apps:
        found["ui"] = _own_app(listed, connection)
    return _bounded(found)


def resource_definition(resource: Any, connection: Connection) -> Definition:
    """Return the pinned parts of a resource or template as the official client parsed it."""
    listed = _dump(resource)
    found = _take(listed, "uri", "uriTemplate", "name", "title", "description", "mimeType")
    found["annotations"] = _take(listed.get("annotations", {}), "audience", "priority")
    found |= _kept(listed, connection)
    if connection.apps and app_pages.is_page(str(found.get("uri", ""))):
        found["ui"] = _app(listed, app_pages.check_resource)
    return _bounded(found)


def prompt_definition(prompt: Any, connection: Connection) -> Definition:
    """Return the pinned parts of a prompt as the official client parsed it."""
    listed = _dump(prompt)
    arguments = [_take(one, "name", "title", "description", "required") for one in listed.get("arguments", ())]
    found = _take(listed, "name", "title", "description")
    if arguments:
        found["arguments"] = arguments
    return _bounded(found | _kept(listed, connection))


def page_address(connection: Connection, address: str) -> str:
    """Return the local address of a page: two servers may use the same one, and must not get each other's data."""
    return f"{app_pages.SCHEME}{connection.name}/{address.removeprefix(app_pages.SCHEME)}"


def _own_app(listed: Definition, connection: Connection) -> Definition | None:
    """Return the link of a tool to its page, at the page's local address."""
    if "ui" not in listed.get("_meta", {}) and (old := listed.get("_meta", {}).get("ui/resourceUri")):
        listed = {"_meta": {"ui": {"resourceUri": old}}}  # the name of the first drafts
    app = _app(listed, app_pages.check_tool)
    if app and "resourceUri" in app:
        app = {**app, "resourceUri": page_address(connection, app["resourceUri"])}
    return app


def _app(listed: Definition, checked: Callable[[Any], None]) -> Definition | None:
    """Return the `ui` of `_meta` without members that are unknown here; None when it is not valid."""
    value = listed.get("_meta", {}).get("ui")
    if not isinstance(value, dict):
        return None
    known = ("resourceUri", "visibility") if checked is app_pages.check_tool else app_pages.RESOURCE_MEMBERS
    value = _take(value, *known)
    try:
        checked(value)
    except ValidationError:
        return None
    return value


def _kept(listed: Definition, connection: Connection) -> Definition:
    """Return the icons, where they are kept, without those that this server would refuse."""
    if not connection.icons:
        return {}
    found = []
    for icon in listed.get("icons", ()):
        one = _take(icon, *ICON_MEMBERS)
        try:
            check.icons([one])
        except ValidationError:
            continue
        found.append(one)
    return {"icons": found}


def _dump(item: Any) -> Definition:
    dumped: Definition = item.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


def _take(values: Mapping[str, Any], *names: str) -> Definition:
    return {name: values[name] for name in names if name in values}


def _bounded(found: Definition) -> Definition:
    found = quarantine.pinned_members(found)
    if len(dumps(found)) <= MAX_DEFINITION_CHARACTERS:
        return found
    text = f"The definition is too large to be shown. SHA-256: {quarantine.pin(found)}"
    return {**_take(found, "uri", "uriTemplate", "name"), "description": text}
