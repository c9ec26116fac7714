"""The call pipeline: the only way to run a tool, get a prompt or read a resource, for every transport and the admin.

The order of every call: decide (policy), check rate limits, check the arguments against the schema, log the start
(durable), run, validate and sanitise the result, log the end (durable), answer. Denied and rejected calls are logged
too. Prompts and resources go the same way in `catalog.calls.prompts` and `catalog.calls.resources`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from audit import outcomes
from audit.types import Caller, Reason
from catalog.calls import masking, recording
from catalog.calls.completion import complete
from catalog.calls.execution import Deadline, Outcome, RunningCalls, cancelled, perform
from catalog.calls.prepared import Gate, catalogue_now, gate_of
from catalog.calls.prompts import get_prompt
from catalog.calls.recording import BegunCall, Ending, Intent
from catalog.calls.resources import read_resource
from catalog.errors import (
    TASKS_EXTENSION,
    InternalFailure,
    InvalidArguments,
    LimitReached,
    MissingCapability,
    UnknownTool,
    capability_names,
)
from catalog.functions.channel import Channel
from catalog.functions.context import NO_SECRETS, Context
from catalog.functions.results import ToolResult, failure
from catalog.language import in_english
from catalog.policy import limits, visibility
from catalog.policy.definitions import ToolDefinition
from catalog.secrets import resolve
from toolhub.parts import parts

__all__ = ["asks_before_task", "call_tool", "complete", "find_task", "get_prompt", "read_resource"]

log = logging.getLogger(__name__)


@in_english
async def call_tool(
    caller: Caller,
    name: str,
    arguments: dict[str, Any],
    channel: Channel,
    *,
    call_id: UUID | None = None,
    begun: Callable[[UUID], Awaitable[None]] | None = None,
    detached: bool = False,
) -> ToolResult:
    """Run a tool and log the call.

    `begun` is awaited once the start is durable and before anything runs: a task's row is committed there. `detached`
    says that the call runs as a task: without it a tool that must run as one raises MissingCapability. Raises
    UnknownTool, MissingCapability, LimitReached, InvalidArguments, RecordUnavailable, NeedsInput, ProtocolError,
    InternalFailure. Cancel the awaiting task with a reason (`task.cancel(errors.CLIENT_GONE)`): the audit log keeps
    the reason.
    """
    catalogue = await catalogue_now()
    seen = visibility.for_credential(caller.credential).tools.get(name)
    if seen is None:
        await _refuse_unseen(caller, name, arguments, channel, catalogue.tools.get(name))
        raise UnknownTool(name)
    tool, rule = seen
    gate = gate_of(tool)
    what = recording.intent(caller, recording.TOOL, name, "{}", channel.request_id, tool, rule)
    if gate.demanding:
        missing = _missing(gate, channel, detached)
        if missing:
            what.arguments = gate.bounded_text(arguments)
            error = MissingCapability(missing)
            reason = Reason("run.capabilities", {"names": ", ".join(capability_names(missing))})
            error.call_id = await recording.refuse(
                what, outcomes.REFUSED, str(error), "MissingCapability", reason=reason
            )
            raise error
    if tool.id in catalogue.limits_by_tool:
        try:
            await limits.atake(catalogue, tool, caller.credential)
        except limits.LimitReached as reached:
            what.arguments = gate.bounded_text(arguments)
            label = reached.rule.english
            detail, reason = f"{label}: wait {reached.seconds} s", reached.reason
            number = await recording.refuse(what, outcomes.LIMITED, detail, reason=reason)
            raise LimitReached(label, reached.seconds, number, reason) from None
    problem = await gate.problem(arguments)
    if problem is not None:
        named: list[str] = []
        what.arguments = gate.bounded_text(arguments, named)
        said, reason = str(problem), problem.reason
        number = await recording.refuse(what, outcomes.INVALID_ARGUMENTS, said, "InvalidArguments", named, reason)
        raise InvalidArguments(said, number, reason)
    if gate.secret_names:
        return await _call_with_secrets(what, gate, arguments, channel, call_id, begun)
    hidden: list[str] = []
    what.arguments = gate.arguments_text(arguments, hidden)
    call = await recording.begin(what, call_id)
    if begun is not None:
        await _announce(call, begun)
    return await _run(call, gate, arguments, channel, hidden, NO_SECRETS)


def asks_before_task(definition: ToolDefinition) -> bool:
    """Return whether the tool asks its questions before it becomes a task.

    Such a tool is called without `detached` while the request carries no answers (it ends in NeedsInput), and with
    `detached` once it does.
    """
    return gate_of(definition).asks_before_task


def find_task(call_id: UUID) -> asyncio.Task[Any] | None:
    """Return the task that runs this call, so that it can be cancelled; None when it does not run in this process."""
    return parts.get(RunningCalls).find(call_id)


async def _call_with_secrets(
    what: Intent,
    gate: Gate,
    arguments: dict[str, Any],
    channel: Channel,
    call_id: UUID | None,
    begun: Callable[[UUID], Awaitable[None]] | None,
) -> ToolResult:
    """Call a tool that uses secrets: load them before the call begins, and mask them wherever they would appear."""
    missing = None
    found = NO_SECRETS
    try:
        found = await resolve.resolve(gate.secret_names, what.caller)
    except resolve.MissingSecret as error:
        missing = Outcome(outcomes.TOOL_ERROR, failure(str(error)), None, "MissingSecret", str(error))
    known = list(found.values())
    hidden: list[str] = []
    what.arguments = gate.arguments_text(arguments, hidden, known)
    hidden += known
    call = await recording.begin(what, call_id)
    if begun is not None:
        await _announce(call, begun)
    if missing is not None:
        return await _end(call, gate, missing, hidden)
    return await _run(call, gate, arguments, masking.Veiled(channel, found), hidden, found)


async def _run(
    call: BegunCall,
    gate: Gate,
    arguments: dict[str, Any],
    channel: Channel,
    hidden: list[str],
    found: Mapping[str, str],
) -> ToolResult:
    """Run the tool between the two log entries, then write the second one."""
    clock = Deadline(gate.tool.timeout)
    context = Context(call.intent.caller, channel, gate.tool.name, call.id, clock, found)
    outcome = await perform(call, clock, context, gate.work(arguments, context))
    if found:
        masking.veil_outcome(outcome, found)
    return await _end(call, gate, outcome, hidden)


async def _end(call: BegunCall, gate: Gate, outcome: Outcome, hidden: list[str]) -> ToolResult:
    """Log the end of the call and return the answer."""
    produced = outcome.produced
    ending = outcome.ending(hidden)
    if produced is None:
        await recording.finish(call, ending)
        assert outcome.error is not None  # noqa: S101 - an outcome has one or the other
        raise outcome.error
    kept: dict[str, Any] = {"content": produced.content}
    if produced.structured is not None:
        kept["structuredContent"] = produced.structured
    if produced.is_error:
        kept["isError"] = True
    await recording.finish_with(call, ending, gate.result_redactor, kept, hidden, produced.size)
    return ToolResult(produced.content, produced.structured, produced.is_error, produced.meta, call.id)


def _missing(gate: Gate, channel: Channel, detached: bool) -> dict[str, Any]:
    """Return the capabilities that the client would have to declare, in the shape of client capabilities."""
    declared = channel.capabilities
    missing: dict[str, Any] = {name: {} for name in gate.tool.requires_capabilities if name not in declared}
    if gate.tool.task_support == "required" and not detached:
        extensions = declared.get("extensions")
        opted = isinstance(extensions, dict) and TASKS_EXTENSION in extensions
        if not (opted and gate.asks_before_task):
            missing["extensions"] = {TASKS_EXTENSION: {}}
    return missing


async def _refuse_unseen(
    caller: Caller, name: str, arguments: Any, channel: Channel, tool: ToolDefinition | None
) -> None:
    """Log a denied call; the caller must not learn whether the tool exists."""
    if tool is None:
        text = recording.unknown_arguments(arguments)
        what = recording.intent(caller, recording.TOOL, name, text, channel.request_id)
        reason = Reason("unknown.tool")
        await recording.refuse(what, outcomes.UNKNOWN_TOOL, "unknown tool", reason=reason)
        return
    # The schema marks the secret arguments, also for callers who may not know that the tool exists.
    text = gate_of(tool).bounded_text(arguments)
    rule = visibility.decide(caller.credential, tool).rule
    what = recording.intent(caller, recording.TOOL, name, text, channel.request_id, tool, rule)
    await recording.refuse(what, outcomes.REFUSED, rule.english, reason=rule)


async def _announce(call: BegunCall, begun: Callable[[UUID], Awaitable[None]]) -> None:
    try:
        await begun(call.id)
    except asyncio.CancelledError as error:
        await recording.finish(call, cancelled(error.args[0] if error.args else "").ending([]))
        raise
    except Exception as error:
        log.exception("call %s could not be announced", call.id)
        detail, said = "it could not be started", Reason("run.not_started").text
        ending = Ending(outcomes.TOOL_ERROR, type(error).__name__, detail, detail_reason=said)
        await recording.finish(call, ending)
        raise InternalFailure(call.id) from None
