"""Log entries of the call pipeline: the kept part of a result, and one error for when the log cannot be written."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings

from audit import outcomes, recorder
from audit.recorder import AuditLogBusy, AuditLogUnavailable, BegunCall, Ending, Intent
from audit.redaction import redactor as redaction
from audit.types import Caller, Reason
from catalog import threads
from catalog.errors import CallNotLogged, EndNotLogged, InternalFailure
from catalog.functions.results import size_of
from catalog.policy.definitions import Item, Rule, Snapshot

log = logging.getLogger(__name__)

MAX_RESULT_CHARACTERS = 65_536
"""Number of characters of a result that the log keeps; the full length and SHA-256 are always kept.

TOOLHUB_KEEP_WHOLE_BODIES_MB keeps the whole text beside the log.
"""
MAX_INLINE_CHARACTERS = 262_144
"""Size above which a result is written and hashed off the event loop."""
DIGEST_CHARACTERS = 1_000_000
"""Characters of a result that are encoded and hashed at a time."""
RESULT_WAIT_SECONDS = 60.0
"""How long the end of a call waits for a thread in which its large result is prepared for the log."""
INTERNAL_DETAIL = "an error of the hub itself"

MAX_NOTES = 20
NOTES = "trials"
"""The parameter of the rule code that has the notes of rules in trial."""
TOOL, PROMPT, RESOURCE = "tools/call", "prompts/get", "resources/read"
_default_redactor = redaction.redactor(None)


def build_intent(
    caller: Caller,
    method: str,
    name: str,
    arguments: str,
    request_id: str,
    item: Item | None = None,
    rule: Rule | None = None,
) -> Intent:
    english, reason = ("", "") if rule is None else (rule.english, rule.text)
    if item is None:
        return Intent(caller, method, name[:1000], None, "", english, arguments, request_id, reason)
    return Intent(caller, method, name, item.id, item.hash, english, arguments, request_id, reason)


def name_rule(what: Intent, catalogue: Snapshot, grant_id: int | None) -> None:
    """Name the grant that decided about the arguments, which may be another one than made the item visible."""
    grant = None if grant_id is None else catalogue.grants_by_id.get(grant_id)
    if grant is not None:
        what.rule, what.rule_reason = grant.rule.english, grant.rule.text


def redact_rejected_arguments(
    arguments: Any, redactor: redaction.Redactor = _default_redactor, hidden: list[str] | None = None
) -> str:
    """Return the arguments of a rejected call as redacted text; arguments that are too large are not kept."""
    if size_of(arguments, MAX_RESULT_CHARACTERS) > MAX_RESULT_CHARACTERS:
        return redaction.canonical({"$redacted": "too large to record"})
    return redactor.text(arguments, hidden)


def mask_detail(detail: str, secrets: list[str]) -> str:
    """Return `detail` without secrets, at a bounded length.

    It is masked before it is cut, since half a secret is not found.
    """
    return redaction.redact_text(detail[:20_000], secrets)[:2000] if detail else ""


async def begin(what: Intent, call_id: UUID | None) -> BegunCall:
    try:
        return await recorder.begin(_take_notes(what) if what.notes else what, call_id)
    except AuditLogUnavailable as error:
        raise CallNotLogged(error.reason, isinstance(error, AuditLogBusy)) from None


def _take_notes(what: Intent) -> Intent:
    """Return the values of the entry that has the notes. Another entry of the same call has not."""
    notes, what.notes = what.notes[:MAX_NOTES], ()
    reason = Reason.read(what.rule_reason)
    while reason is not None and notes:
        text = Reason(reason.code, {**reason.params, NOTES: notes}).text
        if f'"{NOTES}"' in text:
            return replace(what, rule_reason=text)
        notes = notes[: len(notes) // 2]  # the rule itself matters more
    return what


def mask_reason(reason: Reason | None, secrets: Sequence[str]) -> str:
    """Return the text of a reason without secrets; empty for none."""
    if reason is None:
        return ""

    def inner(value: Any) -> Any:
        if isinstance(value, str):
            return redaction.redact_text(value, secrets)
        if isinstance(value, dict):
            return {name: inner(item) for name, item in value.items()}
        return [inner(item) for item in value] if isinstance(value, list) else value

    return Reason(reason.code, {name: inner(value) for name, value in reason.params.items()}).text


async def refuse(
    what: Intent,
    outcome: str,
    detail: str = "",
    error_class: str = "",
    secrets: Sequence[str] = (),
    reason: Reason | None = None,
) -> UUID:
    # Masked before it is cut: half a secret would no longer be found.
    detail = redaction.redact_text(detail[:20_000], secrets)[:2000]
    ending = Ending(outcome, error_class, detail, detail_reason=mask_reason(reason, secrets))
    try:
        return await recorder.deny(_take_notes(what) if what.notes else what, ending)
    except AuditLogUnavailable as error:
        raise CallNotLogged(error.reason, isinstance(error, AuditLogBusy)) from None


async def finish(begun: BegunCall, ending: Ending) -> None:
    """Log the end of a call; it is durable when this returns.

    The write is queued before anything is awaited, so a cancelled caller loses nothing.
    """
    try:
        await recorder.finish(begun, ending)
    except asyncio.CancelledError:
        raise
    except AuditLogUnavailable as error:
        # The audit log itself has logged why, once for all calls.
        reason = error.reason.removeprefix("calls cannot be logged now: ")
        log.error("the end of call %s could not be logged: %s", begun.id, reason)
        raise EndNotLogged(begun.id, reason) from None
    except Exception:
        log.exception("the end of call %s could not be logged", begun.id)
        raise InternalFailure(begun.id) from None


def attach_result(ending: Ending, redactor: redaction.Redactor, result: dict[str, Any], secrets: list[str]) -> None:
    """Put `result` into `ending`: redacted, capped, with the length and digest of the whole redacted text.

    Where the settings keep longer results whole, the whole text goes with it.
    """
    text = redactor.text(result, extra=secrets)
    digest, size = hashlib.sha256(), 0
    for start in range(0, len(text), DIGEST_CHARACTERS):  # encoded at once, a large result would be there twice
        data = text[start : start + DIGEST_CHARACTERS].encode()
        digest.update(data)
        size += len(data)
    ending.result_bytes, ending.result_sha256 = size, digest.hexdigest()
    ending.result = text
    if len(text) > MAX_RESULT_CHARACTERS:
        ending.result = text[:MAX_RESULT_CHARACTERS]
        ending.whole = text if size <= settings.KEEP_WHOLE_BODIES_BYTES else ""


async def finish_with_result(
    begun: BegunCall,
    ending: Ending,
    redactor: redaction.Redactor,
    result: dict[str, Any],
    secrets: list[str],
    size: int,
) -> None:
    """Run `attach_result`, then `finish`: the end of the call is logged whatever happens in between."""
    ending_with_result = ending if size <= MAX_INLINE_CHARACTERS else replace(ending)
    try:
        if size <= MAX_INLINE_CHARACTERS:
            attach_result(ending_with_result, redactor, result, secrets)
        else:
            user_id = begun.intent.caller.credential.user_id
            attach = functools.partial(attach_result, ending_with_result, redactor, result, secrets)
            await threads.checks().run(attach, RESULT_WAIT_SECONDS, user_id)
    except threads.Busy:
        # Its outcome stands, and the log says that the text is missing.
        text = redaction.canonical({"$redacted": "not logged: too many large results at once", "length": size})
        ending_with_result = replace(ending, result=text, result_bytes=size)
    except asyncio.CancelledError:
        recorder.finish(begun, ending)
        raise
    except BaseException:
        log.exception("the result of call %s could not be written", begun.id)
        reason = Reason("run.internal").text
        await finish(begun, Ending(outcomes.TOOL_ERROR, "InternalFailure", INTERNAL_DETAIL, detail_reason=reason))
        raise InternalFailure(begun.id) from None
    return await finish(begun, ending_with_result)


__all__ = [
    "BegunCall",
    "Ending",
    "Intent",
    "begin",
    "build_intent",
    "finish",
    "finish_with_result",
    "outcomes",
    "refuse",
]
