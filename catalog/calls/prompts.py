"""The call pipeline for prompts.

The order: decide, check the arguments, log, fill the template or call the function, log, answer.
"""

from __future__ import annotations

import functools
from typing import Any

from audit import outcomes
from audit.redaction import redactor
from audit.types import Caller, Reason
from catalog.calls import call_log, judgement, method_limits, trial_notes, upstream_items
from catalog.calls.prepared_tools import load_catalogue
from catalog.conditions.forms import Refused
from catalog.errors import InvalidArguments, ToolError, UnknownPrompt
from catalog.functions import registry
from catalog.functions.channel import Channel
from catalog.functions.content import BLOCKS, Message
from catalog.functions.context import Context
from catalog.functions.invoke import invoke
from catalog.functions.results import BadResult, Produced, PromptResult, block, size_of, size_of_block
from catalog.language import in_english
from catalog.policy import visibility
from catalog.policy.definitions import PromptDefinition, fill_template
from catalog.schemas import errors, validator
from catalog.schemas.errors import SchemaProblem
from toolhub import contact

MAX_ARGUMENT_BYTES = 262_144
_redactor = redactor.redactor(None)


@in_english
async def get_prompt(caller: Caller, name: str, arguments: dict[str, Any], channel: Channel) -> PromptResult:
    """Get a prompt and log the call.

    Raises UnknownPrompt, LimitReached, InvalidArguments, CallNotLogged, NeedsInput, ProtocolError, InternalFailure.
    """
    catalogue = await load_catalogue()
    text = call_log.redact_rejected_arguments(arguments)
    await method_limits.take_logged(call_log.build_intent(caller, call_log.PROMPT, name, text, channel.request_id))
    seen = visibility.for_credential(caller.credential).prompts.get(name)
    if seen is None:
        prompt = catalogue.prompts.get(name)
        rule = None if prompt is None else visibility.decide(caller.credential, prompt).rule
        what = call_log.build_intent(caller, call_log.PROMPT, name, text, channel.request_id, prompt, rule)
        outcome_code = outcomes.UNKNOWN_TOOL if prompt is None else outcomes.REFUSED
        detail = "unknown prompt" if rule is None else rule.english
        if prompt is not None and _find_problem(prompt, arguments) is None:
            await trial_notes.note_answers(what, catalogue, prompt, arguments)
        await call_log.refuse(what, outcome_code, detail, reason=rule or Reason("unknown.prompt"))
        raise UnknownPrompt(name)
    prompt, rule = seen
    what = call_log.build_intent(caller, call_log.PROMPT, name, text, channel.request_id, prompt, rule)
    base = prompt.base or prompt
    problem = _find_problem(base, arguments, ignores_missing=prompt.form is not None)
    sent = arguments
    if problem is None and prompt.form is not None:
        judged = judgement.judge(
            prompt.form, arguments, lambda filled: _find_problem(base, filled), validator.MAX_LOOP_SECONDS
        )
        call_log.name_rule(what, catalogue, judged.grant_id)
        problem = judged.problem if isinstance(judged, Refused) else None
        arguments = arguments if isinstance(judged, Refused) else judged.arguments
    if trial_notes.find_trials(catalogue, prompt) and (problem is None or _find_problem(base, sent) is None):
        await trial_notes.note_answers(what, catalogue, prompt, sent)
    if problem is not None:
        message, reason = str(problem), problem.reason
        number = await call_log.refuse(what, outcomes.INVALID_ARGUMENTS, message, "InvalidArguments", (), reason)
        raise InvalidArguments(message, number, reason)
    if prompt.form is not None:
        what.arguments = call_log.redact_rejected_arguments(arguments)
    reached = await upstream_items.reach(base, caller)
    make = functools.partial(_make_messages, base, reached, arguments)
    call, messages = await upstream_items.run(what, channel, reached, make, "messages")
    return PromptResult(prompt.description, messages, call.id)


def _find_problem(prompt: PromptDefinition, arguments: Any, *, ignores_missing: bool = False) -> SchemaProblem | None:
    if not isinstance(arguments, dict):
        return SchemaProblem((), errors.PROMPT_OBJECT)
    if size_of(arguments, MAX_ARGUMENT_BYTES) > MAX_ARGUMENT_BYTES:
        return SchemaProblem((), errors.TOO_LARGE, {"limit": MAX_ARGUMENT_BYTES})
    known = {argument["name"]: argument for argument in prompt.arguments}
    for name, value in arguments.items():
        if name not in known:
            return SchemaProblem((name[:100],), errors.PROMPT_UNKNOWN)
        if not isinstance(value, str):
            return SchemaProblem((name,), errors.PROMPT_TEXT)
        choices = known[name].get("enum")
        if choices and value not in choices:
            return SchemaProblem((name,), errors.PROMPT_CHOICE, {"values": ", ".join(map(str, choices))[:500]})
    for name, argument in known.items():
        if argument.get("required") and name not in arguments and not ignores_missing:
            return SchemaProblem((name,), errors.PROMPT_MISSING)
    return None


async def _make_messages(
    prompt: PromptDefinition, reached: upstream_items.Reach, arguments: dict[str, str], context: Context
) -> Produced:
    if reached.connection is not None:
        given = await upstream_items.get_prompt(reached.connection, prompt, arguments, context)
        return _produced(_convert_messages(given))
    if prompt.function is None:
        values = {argument["name"]: arguments.get(argument["name"], "") for argument in prompt.arguments}
        messages = [_fill_message(message, values) for message in prompt.messages]
        return _produced(messages)
    try:
        function = registry.lookup("prompt", prompt.function)
    except LookupError:
        raise ToolError(f"This prompt is not set up correctly. Ask {contact.english()} to check it.") from None
    return _produced(_convert_messages(await invoke(function, arguments, context)))


def _fill_message(message: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """Return a template message with every text in it filled; placeholders inside values are never filled."""

    def inner(value: Any) -> Any:
        if isinstance(value, str):
            return fill_template(value, values)
        if isinstance(value, dict):
            return {key: item if key in {"data", "blob", "type"} else inner(item) for key, item in value.items()}
        return [inner(item) for item in value] if isinstance(value, list) else value

    return {"role": message["role"], "content": block(inner(message["content"]))}


def _convert_messages(value: Any) -> list[dict[str, Any]]:
    """Return the messages for a function's return value: text, a block, a message, or a list of them."""
    found = []
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, (str, *BLOCKS)):
            item = {"role": "user", "content": item}
        elif isinstance(item, Message):
            item = item.wire()
        if not isinstance(item, dict) or item.get("role") not in {"user", "assistant"} or "content" not in item:
            raise BadResult("The prompt returned a value that is not a message.")
        found.append({"role": item["role"], "content": block(item["content"])})
    return found


def _produced(messages: list[dict[str, Any]]) -> Produced:
    return Produced(messages, size=sum(size_of_block(message["content"]) for message in messages))
