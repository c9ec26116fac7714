"""The call pipeline for resources.

The order: decide, log, read the row, call the function or fetch a stored result, log, answer.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from audit import outcomes
from audit.redaction import redactor
from audit.types import Caller, Reason
from catalog.calls import call_log, judgement, method_limits, stored_results, trial_notes, upstream_items
from catalog.calls.call_log import Intent
from catalog.calls.prepared_tools import load_catalogue
from catalog.conditions.forms import Accepted
from catalog.errors import ResultRemoved, ToolError, UnknownResource
from catalog.functions import registry
from catalog.functions.channel import Channel
from catalog.functions.content import EmbeddedResource
from catalog.functions.context import Context
from catalog.functions.invoke import invoke
from catalog.functions.results import BadResult, Produced, ResourceResult, resource_content, to_plain_json
from catalog.language import in_english
from catalog.policy import visibility
from catalog.policy.definitions import ResourceDefinition, Rule, Snapshot
from catalog.policy.rules import OWN_RESULT, Visible
from catalog.schemas.errors import SchemaProblem
from toolhub import contact
from toolhub.wire import uritemplate

MAX_URI_CHARACTERS = 8192
MAX_CONTENT_CHARACTERS = 33_554_432


@in_english
async def read_resource(caller: Caller, uri: str, channel: Channel) -> ResourceResult:
    """Read a resource and log the call.

    Raises UnknownResource, LimitReached, InvalidArguments, CallNotLogged, NeedsInput, ProtocolError, InternalFailure.
    """
    catalogue = await load_catalogue()
    name = redactor.redact_text(uri[:1000])
    await method_limits.take_logged(call_log.build_intent(caller, call_log.RESOURCE, name, "{}", channel.request_id))
    if uri.startswith(stored_results.URI_PREFIX):
        what = call_log.build_intent(caller, call_log.RESOURCE, name, "{}", channel.request_id, None, OWN_RESULT)
        try:
            stored = await stored_results.get(caller.credential, uri)
        except ResultRemoved:
            detail, reason = "removed to make room for newer results", Reason("unknown.result_removed")
            await call_log.refuse(what, outcomes.UNKNOWN_TOOL, detail, reason=reason)
            raise
        if stored is None:
            detail, reason = "no such result, another user's or toolset's, or expired", Reason("unknown.result")
            await call_log.refuse(what, outcomes.UNKNOWN_TOOL, detail, reason=reason)
            raise UnknownResource(uri)
        return await _read(what, channel, upstream_items.LOCAL, functools.partial(_produce_stored, stored))
    match = find_match(visibility.for_credential(caller.credential), uri)
    if match is None:
        resource = _find_anywhere(catalogue, uri)
        rule = None if resource is None else visibility.decide(caller.credential, resource).rule
        what = call_log.build_intent(caller, call_log.RESOURCE, name, "{}", channel.request_id, resource, rule)
        outcome = outcomes.UNKNOWN_TOOL if resource is None else outcomes.REFUSED
        detail = "unknown resource" if rule is None else rule.english
        if resource is not None:
            await trial_notes.note_answers(what, catalogue, resource, find_values(resource, uri))
        await call_log.refuse(what, outcome, detail, reason=rule or Reason("unknown.resource"))
        raise UnknownResource(uri)
    arguments = call_log.redact_rejected_arguments(match.values)
    resource = match.resource
    what = call_log.build_intent(caller, call_log.RESOURCE, name, arguments, channel.request_id, resource, match.rule)
    call_log.name_rule(what, catalogue, match.grant_id)
    await trial_notes.note_answers(what, catalogue, resource, dict(match.values))
    if match.problem is not None:  # what a person may not read does not exist for them
        await call_log.refuse(what, outcomes.REFUSED, str(match.problem), reason=match.problem.reason)
        raise UnknownResource(uri)
    reached = await upstream_items.reach(resource, caller)
    return await _read(what, channel, reached, functools.partial(_make_contents, resource, reached, uri, match.values))


async def _read(
    what: Intent, channel: Channel, reached: upstream_items.Reach, make: upstream_items.Make
) -> ResourceResult:
    call, contents = await upstream_items.run(what, channel, reached, make, "contents")
    return ResourceResult(contents, call.id)


@dataclass(frozen=True, slots=True)
class Match:
    """A visible resource, or a template with the values of its variables, that has this address."""

    resource: ResourceDefinition
    rule: Rule
    values: dict[str, str]
    grant_id: int | None = None
    """The grant that allows or denies these values, where grants have conditions."""
    problem: SchemaProblem | None = None
    """Why the person may not read it."""


def find_match(visible: Visible, uri: str) -> Match | None:
    """Return the resource, or the first template that this person may read at this address.

    Without one, the first template that matches the address, with the problem; None when there is none at all.
    """
    found = visible.resources.get(uri)
    if found is not None:
        return Match(*found, {})
    refused: Match | None = None
    for template, rule in visible.templates.values():
        values = parse_template(template.uri).match(uri)
        if values is None:
            continue
        if template.form is None:
            return Match(template, rule, values)
        judged = judgement.judge_small(template.form, dict(values))
        if isinstance(judged, Accepted):
            return Match(template, rule, values, judged.grant_id)
        refused = refused or Match(template, rule, values, judged.grant_id, judged.problem)
    return refused


def is_readable(visible: Visible, uri: str) -> bool:
    """Return whether this person may read a resource at this address."""
    match = find_match(visible, uri)
    return match is not None and match.problem is None


def _find_anywhere(catalogue: Snapshot, uri: str) -> ResourceDefinition | None:
    """Return the matching resource or template of the whole catalogue, visible or not: for the audit log only."""
    found = catalogue.resources.get(uri)
    if found is None:
        found = next((item for item in catalogue.templates if parse_template(item.uri).match(uri) is not None), None)
    return found


def find_values(resource: ResourceDefinition, uri: str) -> dict[str, Any]:
    """Return the values that the variables of a resource have in an address that it matches."""
    return dict(parse_template(resource.uri).match(uri) or {}) if resource.is_template else {}


@functools.lru_cache(maxsize=2048)
def parse_template(template: str) -> uritemplate.Template:
    try:
        return uritemplate.parse(template)
    except ValueError:
        return uritemplate.Template(template, (), (template,))  # matches its own text only


async def _produce_stored(stored: stored_results.StoredContent, context: Context) -> Produced:
    return _produced([stored.content()])


async def _make_contents(
    resource: ResourceDefinition,
    reached: upstream_items.Reach,
    uri: str,
    values: dict[str, str],
    context: Context,
) -> Produced:
    if reached.connection is not None:
        address = upstream_items.source_address(resource, values)
        given = await upstream_items.read(reached.connection, address, context)
        # What the upstream has at its own address is at the requested one here.
        return _produced([resource_content(one | {"uri": uri} if one.get("uri") == address else one) for one in given])
    if resource.function is None:
        content: dict[str, Any] = {"uri": uri}
        if resource.mime_type:
            content["mimeType"] = resource.mime_type
        if resource.app:
            content["_meta"] = {"ui": resource.app}
        if resource.blob is not None:
            return _produced([content | {"blob": resource.blob}])
        return _produced([content | {"text": resource.text or ""}])
    try:
        function = registry.lookup("resource", resource.function)
    except LookupError:
        raise ToolError(f"This resource is not set up correctly. Ask {contact.english()} to check it.") from None
    value = await invoke(function, values, context)
    if value is None:
        raise ToolError("This address has no content.")
    several = isinstance(value, list) and bool(value) and all(isinstance(item, EmbeddedResource) for item in value)
    contents = [
        _convert_content(item, uri, resource.mime_type or function.mime_type)
        for item in (value if several else [value])
    ]
    return _produced(contents)


def _convert_content(value: Any, uri: str, mime_type: str) -> dict[str, Any]:
    if isinstance(value, EmbeddedResource):
        return resource_content(value.wire()["resource"])
    if isinstance(value, bytes):
        return resource_content(EmbeddedResource(uri, blob=value, mime_type=mime_type).wire()["resource"])
    text = value if isinstance(value, str) else to_plain_json(value)[1]
    return resource_content({"uri": uri, "mimeType": mime_type, "text": text})


def _produced(contents: list[dict[str, Any]]) -> Produced:
    size = sum(len(content.get("text") or content.get("blob") or "") + 64 for content in contents)
    if size > MAX_CONTENT_CHARACTERS:
        raise BadResult("The resource is too large to send.")
    return Produced(contents, size=size)
