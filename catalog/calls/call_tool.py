"""The call pipeline: the only way to run a tool, get a prompt or read a resource, for every transport and the admin.

The order of every call: decide (policy), check rates, check the arguments against the schema and the conditions of
grants, take from quotas and places, log the start (durable), run, validate and sanitise the result, log the end
(durable), answer. Denied and rejected calls are logged too. Where an approval rule can ask: decide, check the
arguments, log that the call waits, ask, decide again, check rates, take from quotas and places, use the approval, then
on as above. Prompts and resources go the same way in
`catalog.calls.prompts` and `catalog.calls.resources`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn
from uuid import UUID

from audit import outcomes, recorder
from audit.redaction import redactor as redaction
from audit.redaction.rules import MAX_HIDDEN_VALUES, are_too_many
from audit.types import Caller, Reason
from catalog.calls import accounts, approval, call_log, masking, trial_notes
from catalog.calls.call_log import BegunCall, Ending, Intent
from catalog.calls.completion import complete
from catalog.calls.execution import Deadline, Outcome, RunningCalls, cancellation, perform, raise_error, tool_error
from catalog.calls.metered import Meter
from catalog.calls.prepared_tools import PreparedTool, get_prepared, load_catalogue
from catalog.calls.prompts import get_prompt
from catalog.calls.resources import read_resource
from catalog.conditions.forms import Refused
from catalog.errors import (
    TASKS_EXTENSION,
    WRITE_SCOPE,
    InsufficientScope,
    InternalFailure,
    InvalidArguments,
    MissingCapability,
    UnknownTool,
    capability_names,
)
from catalog.functions.channel import Channel
from catalog.functions.content import ABSENT
from catalog.functions.context import NO_SECRETS, Context
from catalog.functions.results import ToolResult
from catalog.language import in_english
from catalog.metering.limits import Attempt
from catalog.policy import snapshot, visibility
from catalog.policy.definitions import Snapshot, ToolDefinition
from catalog.schemas import errors as schema_errors
from catalog.schemas.errors import SchemaProblem
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
    waited: frozenset[UUID] = frozenset(),
) -> ToolResult:
    """Run a tool and log the call.

    `begun` is awaited once the start is durable and before anything runs: a task's row is committed there. `detached`
    says that the call runs as a task: without it a tool that must run as one raises MissingCapability. `waited` are the
    approvals that it has waited for, when it is decided again. Raises UnknownTool, InsufficientScope,
    MissingCapability, LimitReached, InvalidArguments, NotApproved, CallNotLogged, NeedsInput, ProtocolError,
    InternalFailure. Cancel the awaiting task with a reason (`task.cancel(errors.CLIENT_GONE)`): the
    audit log keeps the reason.
    """
    catalogue = await load_catalogue()
    seen = visibility.for_credential(caller.credential).tools.get(name)
    if seen is None:
        await _log_denied(caller, name, arguments, channel, catalogue)
        raise UnknownTool(name)
    tool, rule = seen
    prepared = get_prepared(tool)
    what = call_log.build_intent(caller, call_log.TOOL, name, "{}", channel.request_id, tool, rule)
    if not (caller.credential.may_write or tool.annotations.get("readOnlyHint")):
        await _refuse_scope(what, prepared, arguments)
    if prepared.has_requirements:
        missing = _find_missing_capabilities(prepared, channel, detached)
        if missing:
            what.arguments = prepared.rejected_arguments_text(arguments)
            error = MissingCapability(missing)
            reason = Reason("run.capabilities", {"names": ", ".join(capability_names(missing))})
            error.call_id = await call_log.refuse(
                what, outcomes.REFUSED, str(error), "MissingCapability", reason=reason
            )
            raise error
    may_ask = tool.id in catalogue.asking_tools
    meter: Meter | None = None
    if tool.id in catalogue.limits_by_tool or (catalogue.trials and trial_notes.has_limits(catalogue, tool)):
        is_continued = channel.continues is not None
        meter = Meter(what, prepared, Attempt(catalogue, tool, caller.credential, arguments, is_continued))
        if not may_ask:
            await meter.arrive()
    sent = arguments
    if tool.form is None:
        problem = await prepared.find_problem(arguments, caller.credential.user_id)
    else:
        judged = await prepared.judge(tool.form, arguments, caller.credential.user_id)
        call_log.name_rule(what, catalogue, judged.grant_id)
        problem = judged.problem if isinstance(judged, Refused) else None
        arguments = arguments if isinstance(judged, Refused) else judged.arguments
    if catalogue.trials and not waited:
        await _note_trials(what, catalogue, prepared, tool, sent, problem)
    approved: approval.Approved | None = None
    if may_ask:
        if problem is None:
            try:
                approved = await approval.check(
                    what, catalogue, prepared, tool, arguments, channel, begun, call_id, waited
                )
            except approval.NotShown as error:
                problem = error.problem
            if approved is not None and approved.waited:
                number = approved.call_id or call_id
                again = call_tool(
                    caller, name, sent, channel, call_id=number, detached=detached, waited=approved.waited
                )
                return await again
            if approved is not None and approved.was_logged:
                what.notes = ()  # the entry that waited has them
        if meter is not None:
            await meter.arrive()
    if problem is not None:
        named: list[str] = []
        what.arguments = prepared.rejected_arguments_text(arguments, named)
        message, reason = str(problem), problem.reason
        if meter is not None:
            await meter.reject(message)
        number = await call_log.refuse(what, outcomes.INVALID_ARGUMENTS, message, "InvalidArguments", named, reason)
        raise InvalidArguments(message, number, reason, schema_errors.as_data(problem))
    if meter is None:
        return await _log_and_run(what, prepared, arguments, channel, call_id, begun, approved)
    return await meter.run(
        arguments, lambda: _log_and_run(what, prepared, arguments, channel, call_id, begun, approved)
    )


async def _log_and_run(
    what: Intent,
    prepared: PreparedTool,
    arguments: dict[str, Any],
    channel: Channel,
    call_id: UUID | None,
    begun: Callable[[UUID], Awaitable[None]] | None,
    approved: approval.Approved | None,
) -> ToolResult:
    """Use the approval of a valid call that no limit refuses, log its start, and run it."""
    if approved is not None:
        call_id = call_id or recorder.new_call_id()
        await approval.use(approved, call_id)
    if prepared.secrets_sent:
        return await _call_with_secrets(what, prepared, arguments, channel, call_id, begun)
    hidden: list[str] = []
    what.arguments = prepared.arguments_text(arguments, hidden)
    if hidden and are_too_many(hidden):
        await _refuse_hidden(what)
    call = await call_log.begin(what, call_id)
    if begun is not None:
        await _announce(call, begun)
    return await _run(call, prepared, arguments, channel, hidden)


async def _note_trials(
    what: Intent,
    catalogue: Snapshot,
    prepared: PreparedTool,
    tool: ToolDefinition,
    sent: dict[str, Any],
    problem: SchemaProblem | None,
) -> None:
    """Note what rules in trial would have answered to arguments that the tool's own schema accepts."""
    if not trial_notes.find_trials(catalogue, tool):
        return
    if problem is None or await prepared.find_problem(sent, what.caller.user_id) is None:
        await trial_notes.note_answers(what, catalogue, tool, sent)


def asks_before_task(definition: ToolDefinition) -> bool:
    """Return whether the tool asks its questions before it becomes a task.

    Such a tool is called without `detached` while the request carries no answers (it ends in NeedsInput), and with
    `detached` once it does.
    """
    return get_prepared(definition).asks_before_task


def rejected_arguments_text(name: str, arguments: Any) -> str:
    """Return the arguments of a call that was rejected before the pipeline, redacted as its tool's schema says."""
    try:
        tool = snapshot.current().tools.get(name)
    except snapshot.NotLoaded:
        return redaction.canonical({"$redacted": "the catalogue is not loaded"})
    if tool is None:
        return call_log.redact_rejected_arguments(arguments)
    return get_prepared(tool).rejected_arguments_text(arguments)


def is_known(method: str, name: str) -> bool:
    """Return whether the catalogue has a tool, prompt or resource of this name, whoever may use it."""
    try:
        catalogue = snapshot.current()
    except snapshot.NotLoaded:
        return False
    if method == call_log.TOOL:
        return name in catalogue.tools
    return name in (catalogue.prompts if method == call_log.PROMPT else catalogue.resources)


def find_task(call_id: UUID) -> asyncio.Task[Any] | None:
    """Return the task that runs this call, so that it can be cancelled; None when it does not run in this process."""
    return parts.get(RunningCalls).find(call_id)


async def _call_with_secrets(
    what: Intent,
    prepared: PreparedTool,
    arguments: dict[str, Any],
    channel: Channel,
    call_id: UUID | None,
    begun: Callable[[UUID], Awaitable[None]] | None,
) -> ToolResult:
    """Call a tool that uses secrets: load them before the call begins, and mask them wherever they would appear."""
    missing = None
    found: Mapping[str, str] | resolve.AccountNeeded = NO_SECRETS
    try:
        found = await resolve.resolve(prepared.secrets_sent, what.caller)
    except asyncio.CancelledError as error:  # it may wait for the tokens of an account
        what.arguments = prepared.rejected_arguments_text(arguments)
        await call_log.finish(await call_log.begin(what, call_id), cancellation(error).ending([]))
        raise
    except resolve.AccountNeeded as error:
        found = error
    except resolve.MissingSecret as error:
        missing = tool_error(error, error.audit_message)
    known = [] if isinstance(found, resolve.AccountNeeded) else list(found.values())
    hidden: list[str] = []
    what.arguments = prepared.arguments_text(arguments, hidden, known)
    if hidden and are_too_many(hidden):
        await _refuse_hidden(what)
    hidden += known
    call = await call_log.begin(what, call_id)
    if begun is not None:
        await _announce(call, begun)
    if missing is not None:
        return await _end(call, prepared, missing, hidden)

    async def attempt(secrets: Mapping[str, str]) -> Outcome:
        return await _perform(call, prepared, arguments, masking.MaskedChannel(channel, secrets), secrets)

    outcome, used = await accounts.run(call, channel, prepared.secrets_sent, found, attempt)
    return await _end(call, prepared, outcome, list(dict.fromkeys([*hidden, *used])))


async def _run(
    call: BegunCall,
    prepared: PreparedTool,
    arguments: dict[str, Any],
    channel: Channel,
    hidden: list[str],
) -> ToolResult:
    """Run the tool between the two log entries, then write the second one."""
    return await _end(call, prepared, await _perform(call, prepared, arguments, channel, NO_SECRETS), hidden)


async def _perform(
    call: BegunCall,
    prepared: PreparedTool,
    arguments: dict[str, Any],
    channel: Channel,
    found: Mapping[str, str],
) -> Outcome:
    """Run the tool once, with these secrets."""
    clock = Deadline(prepared.tool.timeout)
    context = Context(call.intent.caller, channel, prepared.tool.name, call.id, clock, found)
    outcome = await perform(call, clock, context, prepared.execute(arguments, context))
    del clock, context  # the task of the clock may end with an error, whose traceback has this frame
    if found:
        masking.mask_outcome(outcome, found)
    return outcome


async def _end(call: BegunCall, prepared: PreparedTool, outcome: Outcome, hidden: list[str]) -> ToolResult:
    """Log the end of the call and return the answer."""
    produced = outcome.produced
    ending = outcome.ending(hidden)
    if produced is None:
        await call_log.finish(call, ending)
        raise_error(outcome)
    result: dict[str, Any] = {"content": produced.content}
    if produced.structured is not ABSENT:
        result["structuredContent"] = produced.structured
    if produced.is_error:
        result["isError"] = True
    await call_log.finish_with_result(call, ending, prepared.result_redactor, result, hidden, produced.size)
    return ToolResult(produced.content, produced.structured, produced.is_error, produced.meta, call.id, produced.size)


def _find_missing_capabilities(prepared: PreparedTool, channel: Channel, detached: bool) -> dict[str, Any]:
    """Return the capabilities that the client would have to declare, in the shape of client capabilities."""
    declared = channel.capabilities
    missing: dict[str, Any] = {name: {} for name in prepared.tool.requires_capabilities if name not in declared}
    if prepared.tool.task_support == "required" and not detached:
        extensions = declared.get("extensions")
        opted = isinstance(extensions, dict) and TASKS_EXTENSION in extensions
        if not (opted and prepared.asks_before_task):
            missing["extensions"] = {TASKS_EXTENSION: {}}
    return missing


async def _refuse_scope(what: Intent, prepared: PreparedTool, arguments: Any) -> NoReturn:
    """Raise InsufficientScope for a tool that changes something."""
    what.arguments = prepared.rejected_arguments_text(arguments)
    error = InsufficientScope(WRITE_SCOPE)
    reason = Reason("run.scope", {"scope": WRITE_SCOPE})
    error.call_id = await call_log.refuse(what, outcomes.REFUSED, str(error), "InsufficientScope", reason=reason)
    raise error


async def _refuse_hidden(what: Intent) -> NoReturn:
    """Raise InvalidArguments for arguments with so many secrets that the log could show neither them nor the result.

    Nothing runs that the log cannot show: a caller could hide what they do behind invented secrets.
    """
    problem = SchemaProblem((), schema_errors.HIDDEN_LIMIT, {"most": MAX_HIDDEN_VALUES})
    message, reason = str(problem), problem.reason
    number = await call_log.refuse(what, outcomes.INVALID_ARGUMENTS, message, "InvalidArguments", reason=reason)
    raise InvalidArguments(message, number, reason, schema_errors.as_data(problem))


async def _log_denied(caller: Caller, name: str, arguments: Any, channel: Channel, catalogue: Snapshot) -> None:
    """Log a denied call; the caller must not learn whether the tool exists."""
    tool = catalogue.tools.get(name)
    if tool is None:
        text = call_log.redact_rejected_arguments(arguments)
        what = call_log.build_intent(caller, call_log.TOOL, name, text, channel.request_id)
        reason = Reason("unknown.tool")
        await call_log.refuse(what, outcomes.UNKNOWN_TOOL, "unknown tool", reason=reason)
        return
    # The schema marks the secret arguments, also for callers who may not know that the tool exists.
    prepared = get_prepared(tool)
    text = prepared.rejected_arguments_text(arguments)
    rule = visibility.decide(caller.credential, tool).rule
    what = call_log.build_intent(caller, call_log.TOOL, name, text, channel.request_id, tool, rule)
    if catalogue.trials and await prepared.find_problem(arguments, caller.user_id) is None:
        await trial_notes.note_answers(what, catalogue, tool, arguments)
    await call_log.refuse(what, outcomes.REFUSED, rule.english, reason=rule)


async def _announce(call: BegunCall, begun: Callable[[UUID], Awaitable[None]]) -> None:
    try:
        await begun(call.id)
    except asyncio.CancelledError as error:
        await call_log.finish(call, cancellation(error).ending([]))
        raise
    except Exception as error:
        log.exception("call %s could not be announced", call.id)
        detail, reason = "it could not be started", Reason("run.not_started").text
        ending = Ending(outcomes.TOOL_ERROR, type(error).__name__, detail, detail_reason=reason)
        await call_log.finish(call, ending)
        raise InternalFailure(call.id) from None
