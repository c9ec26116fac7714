"""The tools of an upstream: listed, imported under local names, and compared with the approved definitions."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, override

from audit.actions import actor, log
from catalog import quarantine
from catalog.canonical import dumps
from catalog.language import ENGLISH
from catalog.models import Tool, Upstream
from catalog.runners.destinations import by_secret
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.failures import UpstreamError, failure, refusal, timeout_error
from catalog.runners.upstream_mcp.link import Link
from catalog.secrets import resolve
from toolhub.invisible import show

RUNNER = "upstream_mcp"
MAX_TOOLS, MAX_PAGES, MAX_DEFINITION_CHARACTERS = 1000, 100, 262_144
HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
MAX_NAME_CHARACTERS = 128
CAPABILITIES: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
"""Servers show some tools only to clients that can answer questions. Questions during the listing are rejected."""
SETTINGS_ERRORS = (ValueError, resolve.MissingSecret)
"""Errors before a connection attempt, as a sentence in the active language."""
T = TypeVar("T")
ConnectionWithSecrets = tuple[Connection, Mapping[str, str]]


@dataclass(slots=True)
class ToolList:
    """The list of tools of a server."""

    revision: str
    server: str
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Definitions in the shape that `catalog.quarantine` pins."""


@dataclass(slots=True)
class Candidate:
    """One listed tool, with its local name and the reason against an import, if any."""

    definition: dict[str, Any]
    name: str
    """The local name after an import."""
    problem: str = ""
    tool: Tool | None = None
    """The tool that was imported from it."""

    @property
    def pin(self) -> str:
        return quarantine.pin(self.definition)

    @property
    def description(self) -> str:
        return show(str(self.definition.get("description", "")))

    @property
    def shown_name(self) -> str:
        return show(str(self.definition["name"]))

    @property
    def value(self) -> str:
        """The value in a form: an import takes exactly the reviewed definition. The pin includes the name."""
        return self.pin


class Refusal(NamedTuple):
    name: str
    """The name of the tool at its source; "" when the reviewed definition no longer exists there."""
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}" if self.name else self.why


@dataclass(slots=True)
class Outcome:
    imported: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    changed: list[str] = field(default_factory=list)
    """Names of local tools that are, or stay, in quarantine because of the comparison."""
    new: list[str] = field(default_factory=list)
    problem: str = ""


def definition_of(tool: Any) -> dict[str, Any]:
    """Return the pinned parts of a tool as the official client parsed it."""
    listed = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
    hints = {name: listed["annotations"][name] for name in HINTS if name in listed.get("annotations", {})}
    if hints.get("readOnlyHint") is True:
        hints.pop("destructiveHint", None)  # it has a meaning only for tools that write
    found = quarantine.pinned_members({**listed, "annotations": hints})
    found.pop("settings", None)
    if len(dumps(found)) > MAX_DEFINITION_CHARACTERS:
        digest = quarantine.pin(found)
        return {"name": found["name"], "description": f"The definition is too large to be shown. SHA-256: {digest}"}
    return found


async def list_tools(connection: Connection, values: Mapping[str, str]) -> ToolList:
    """List the server's tools, on a connection of its own. Raises UpstreamError."""
    from mcp_types import PaginatedRequestParams

    link = Link(connection, {name: values[name] for name in connection.secret_names}, CAPABILITIES)
    try:
        async with asyncio.timeout(connection.timeout):
            await link.open()
            server = link.client.server_info if link.client is not None else None
            found = ToolList(link.revision, f"{server.name} {server.version}"[:200] if server else "")
            cursor = None
            for _page in range(MAX_PAGES):
                page = await link.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
                found.tools += [definition_of(tool) for tool in page.tools]
                cursor = page.next_cursor
                if len(found.tools) > MAX_TOOLS:
                    raise refusal(connection, gettext_noop("lists more than %(most)d tools."), most=MAX_TOOLS)
                if cursor is None:
                    return found
            raise refusal(connection, gettext_noop("lists its tools on more than %(most)d pages."), most=MAX_PAGES)
    except TimeoutError:
        raise timeout_error(connection) from None
    except UpstreamError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary to a foreign library
        raise failure(connection, error) from None
    finally:
        await link.wait_closed()


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine for a page: in a thread with its own loop, independent of the page's thread."""
    with ThreadPoolExecutor(1, "upstream") as executor:
        return executor.submit(asyncio.run, work).result()


def resolve_connection(upstream: Upstream, user_id: int | None) -> ConnectionWithSecrets:
    """Return the connection, with this user's secrets where personal ones are needed. Raises UpstreamError."""

    def way() -> ConnectionWithSecrets:
        connection = upstream.connection()
        return connection, resolve.resolve_now(by_secret(connection.flows()), user_id)

    def words() -> str:
        try:
            way()
        except SETTINGS_ERRORS as error:
            return _explain(error)
        return ""

    try:
        with override(ENGLISH):
            return way()
    except SETTINGS_ERRORS as error:
        raise UpstreamError(str(error), _explain(error), words) from None


def _explain(error: ValueError | resolve.MissingSecret) -> str:
    """Return the error as a sentence for staff and the audit log."""
    return error.audit_message if isinstance(error, resolve.MissingSecret) else str(error)


def discover(upstream: Upstream, user_id: int | None, verb: str) -> ToolList:
    """Connect and list the tools, log the admin activity, and store the health. Raises UpstreamError."""
    try:
        found = run_in_thread(list_tools(*resolve_connection(upstream, user_id)))
    except UpstreamError as error:
        store_health(upstream, problem=error.audit_message)
        log.record(verb, "upstream", _name(upstream), None, {"problem": error.audit_message})
        raise
    store_health(upstream, found)
    log.record(verb, "upstream", _name(upstream), None, {"revision": found.revision, "tools": len(found.tools)})
    return found


def candidates(upstream: Upstream, found: ToolList) -> list[Candidate]:
    """Return every listed tool with its future local name, and the reason why it cannot be imported."""
    imported = {str(quarantine.approved(tool).get("name")): tool for tool in _tools(upstream)}
    result = [
        Candidate(definition, _find_local_name(upstream, definition, imported), tool=imported.get(definition["name"]))
        for definition in found.tools
    ]
    by_name: dict[str, list[Candidate]] = {}
    for one in result:
        by_name.setdefault(one.name.lower(), []).append(one)
    taken = {name.lower(): (name, pk) for name, pk in Tool.objects.values_list("name", "pk")}
    for same in by_name.values():
        for one in same:
            others = [other.shown_name for other in same if other is not one]
            holder = taken.get(one.name.lower())
            if others:
                both = _("%(tool)s and %(others)s would get the same name: %(name)s.")
                one.problem = both % {"tool": one.shown_name, "others": ", ".join(others[:5]), "name": one.name}
            elif holder is not None and (one.tool is None or one.tool.pk != holder[1]):
                there = _("%(tool)s would be named %(name)s, but the tool %(other)s already exists. Change the prefix.")
                one.problem = there % {"tool": one.shown_name, "name": one.name, "other": holder[0]}
    return result


def import_tools(upstream: Upstream, found: ToolList, wanted: Iterable[str]) -> Outcome:
    """Import the chosen tools (values of `Candidate.value`); reject those that cannot be imported, with a reason."""
    outcome = Outcome()
    choices = {one.value: one for one in candidates(upstream, found)}
    for value in wanted:
        one = choices.get(value)
        if one is None:
            outcome.refused.append(
                Refusal(
                    "", _("One of the tools you chose changed in the meantime. List the tools again and review it.")
                )
            )
        elif one.problem or one.tool is not None:
            there_already = _("Already imported as %(name)s.") % {"name": one.tool}
            outcome.refused.append(Refusal(one.shown_name, one.problem or there_already))
        else:
            try:
                with transaction.atomic():
                    tool = _new_tool(upstream, one)
            except ValidationError as error:
                outcome.refused.append(Refusal(one.shown_name, " ".join(error.messages)))
            else:
                outcome.imported.append(tool.name)
    if outcome.imported or outcome.refused:
        refused = [refusal.name or "one that changed after it was looked at" for refusal in outcome.refused]
        after = {"imported": outcome.imported, "refused": refused}
        log.record("imported from", "upstream", _name(upstream), None, after)
        store_health(upstream, found)
    return outcome


def compare(upstream: Upstream, found: ToolList) -> Comparison:
    """Quarantine every tool of this server whose definition is not the approved one, or no longer exists.

    A tool that was made by hand is pinned to the definition that the server has now.
    """
    listed: dict[str, list[dict[str, Any]]] = {}
    for definition in found.tools:
        listed.setdefault(definition["name"], []).append(definition)
    result, called = Comparison(), set[str]()
    with actor.override(f"comparison with upstream {upstream.name}"):
        for tool in _made_by_hand(upstream):
            same = {quarantine.pin(one): one for one in listed.get(_source_name(tool), ())}
            if len(same) == 1:
                quarantine.pin_existing(tool, upstream.origin, next(iter(same.values())))
        for tool in _tools(upstream):
            called.add(_source_name(tool))
            definitions = listed.get(_source_name(tool), [])
            # Listed twice: a deviation in either definition counts.
            changed = [one for one in definitions if quarantine.pin(one) != tool.pinned]
            quarantine.propose(tool, changed[0] if changed else definitions[0] if definitions else None)
            if tool.quarantined_since is not None:
                result.changed.append(tool.name)
    result.new = sorted(listed.keys() - called)
    store_health(upstream, found)
    return result


def refresh(upstream: Upstream, user_id: int | None = None) -> Comparison:
    """List and compare now. A server that cannot be reached changes nothing but its health."""
    try:
        found = run_in_thread(list_tools(*resolve_connection(upstream, user_id)))
    except UpstreamError as error:
        store_health(upstream, problem=error.audit_message)
        return Comparison(problem=error.audit_message)
    return compare(upstream, found)


def store_health(upstream: Upstream, found: ToolList | None = None, problem: str = "") -> None:
    """Store the health, which is neither logged nor a change of the catalogue."""
    rows = Upstream.objects.filter(pk=upstream.pk)
    if found is None:
        rows.update(last_error=problem[:1000])
    else:
        imported = {quarantine.approved(tool).get("name") for tool in _tools(upstream)}
        new = sorted({tool["name"] for tool in found.tools} - imported)
        rows.update(
            last_seen=timezone.now(), last_error="", revision=found.revision, server=found.server, new_tools=new
        )
    upstream.refresh_from_db()


def secret_uses() -> Iterator[tuple[str, resolve.Use]]:
    """Yield (name of a secret, its use) for every use, for `catalog.secrets.resolve.uses`."""
    for upstream in Upstream.objects.all():
        for name, destinations in by_secret(upstream.secret_flows()).items():
            yield name, resolve.Use(_("upstream server %s") % upstream.name, destinations)


def local_name(upstream: Upstream, name: str) -> str:
    """Return a valid name under the upstream's prefix; a shortened one ends with a hash of the whole name."""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "_", name) or "tool"
    whole = f"{upstream.prefix}{upstream.separator}{clean}" if upstream.prefix else clean
    if len(whole) <= MAX_NAME_CHARACTERS:
        return whole
    return f"{whole[: MAX_NAME_CHARACTERS - 9]}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _find_local_name(upstream: Upstream, definition: Mapping[str, Any], imported: Mapping[str, Tool]) -> str:
    tool = imported.get(str(definition["name"]))
    return local_name(upstream, definition["name"]) if tool is None else tool.name


def _new_tool(upstream: Upstream, one: Candidate) -> Tool:
    tool = Tool(
        name=one.name,
        runner=RUNNER,
        settings={"upstream": upstream.name, "tool": one.definition["name"]},
        origin=upstream.origin,
    )
    quarantine.adopt(tool, one.definition)
    if not tool.description.strip():
        tool.description = f"The tool {one.definition['name']} of {upstream.name}, which does not describe it."
    tool.full_clean()
    tool.save()
    return tool


def _tools(upstream: Upstream) -> list[Tool]:
    return list(Tool.objects.filter(origin=upstream.origin))


def _made_by_hand(upstream: Upstream) -> list[Tool]:
    """Return the tools that call this server and were neither imported from it nor pinned yet."""
    tools = Tool.objects.filter(runner=RUNNER, origin="", pinned="")
    return [tool for tool in tools if tool.settings.get("upstream") == upstream.name]


def _source_name(tool: Tool) -> str:
    """Return the name of the tool that is really called: somebody may have changed it after the approval."""
    return str(tool.settings.get("tool"))


def _name(upstream: Upstream) -> str:
    return f"{upstream} (id {upstream.pk})"
