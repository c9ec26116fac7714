"""Entries that wait to be written, and their conversion to rows and links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from audit.format import chain
from audit.format.chain import Chain
from audit.redaction.redactor import redact_label
from audit.types import Ending, Intent

BEGIN, FINISH, REFUSAL, PING = range(4)
WAITING, SETTLED, GIVEN_UP, SPOOLED = range(4)
"""GIVEN_UP: its caller got an error, or has disconnected. SPOOLED: it is durable outside the database."""

Row = tuple[Any, ...]
OPEN_END: Final = ("running", "", "", "", 0, "", None, None, "")
_STARTED, _ARGUMENTS, _ENDED, _RESULT = (
    chain.STARTED_INDEX,
    chain.ARGUMENTS_INDEX,
    chain.ENDED_INDEX,
    chain.RESULT_INDEX,
)
_ENDED_OF_BOTH, _RESULT_OF_BOTH = chain.END_OFFSET + chain.ENDED_INDEX, chain.END_OFFSET + chain.RESULT_INDEX


class Entry:
    """One begin, finish or denial on its way to the database."""

    __slots__ = (
        "attempts",
        "duration",
        "ending",
        "future",
        "id",
        "intent",
        "kind",
        "link",
        "loop",
        "ms",
        "queued_at",
        "state",
        "why",
    )

    def __init__(
        self,
        kind: int,
        id: UUID,
        intent: Intent | None,
        ending: Ending | None,
        ms: int,
        queued_at: float,
        loop: asyncio.AbstractEventLoop | None = None,
        future: asyncio.Future[None] | None = None,
    ) -> None:
        self.kind, self.id, self.intent, self.ending = kind, id, intent, ending
        self.ms, self.queued_at, self.loop, self.future = ms, queued_at, loop, future
        self.state = WAITING
        self.attempts = 1
        """Identical attempts that this denial stands for."""
        self.duration: int | None = None
        self.link = chain.FINISH
        self.why = ""


def build_rows(entries: list[Entry], links: Chain, encode_time: Callable[[int], Any]) -> tuple[list[Row], list[Row]]:
    """Return the entries as rows of calls and rows of ends, and add their links to the chain."""
    calls: list[Row] = []
    ends: list[Row] = []
    for entry in entries:
        kind = entry.kind
        if kind == BEGIN:
            values, arguments = _begin_values(entry)
            link = links.add(chain.BEGIN, values[0], _content(values))
            values[_STARTED], values[_ARGUMENTS] = encode_time(entry.ms), arguments
            calls.append((*values, *OPEN_END, links.writer, link, None, ""))
        elif kind == FINISH:
            values, result = _end_values(entry)
            subject = entry.id.hex
            link = links.add(entry.link, subject, _content(values, subject))
            values[_ENDED], values[_RESULT] = encode_time(entry.ms), result
            ends.append((*values, link, subject))
        elif kind == REFUSAL:
            values, arguments = _begin_values(entry)
            end, result = _end_values(entry)
            both = values + end
            link = links.add(chain.REFUSED, values[0], _content(both))
            both[_STARTED] = both[_ENDED_OF_BOTH] = encode_time(entry.ms)
            both[_ARGUMENTS], both[_RESULT_OF_BOTH] = arguments, result
            calls.append((*both, links.writer, link, link, ""))
    return calls, ends


def _begin_values(entry: Entry) -> tuple[list[Any], str]:
    intent = entry.intent
    assert intent is not None  # noqa: S101
    caller = intent.caller
    credential = caller.credential
    arguments, digest = _body(intent.arguments)
    # Truncate to the columns: PostgreSQL rejects longer values, and client input must never stop the audit log.
    return [
        entry.id.hex,
        credential.user_id,
        credential.username[:150],
        credential.id[:64],
        credential.label[:200],
        redact_label(caller.client_name)[:200],
        redact_label(caller.client_version)[:100],
        caller.transport[:16],
        caller.revision[:16],
        caller.address[:64],
        intent.method[:64],
        redact_label(intent.name)[:500],
        intent.target_id,
        intent.definition[:64],
        intent.rule[:500],
        intent.rule_reason,
        redact_label(intent.request_id)[:200],
        entry.ms,
        digest,
    ], arguments


def _end_values(entry: Entry) -> tuple[list[Any], str]:
    ending = entry.ending
    assert ending is not None  # noqa: S101
    result, digest = _body(ending.result)
    return [
        ending.outcome,
        ending.error_class[:200],
        ending.detail,
        ending.detail_reason,
        ending.result_bytes,
        ending.result_sha256[:64],
        entry.ms,
        entry.duration,
        digest,
    ], result


def _body(text: str) -> tuple[str, str]:
    try:
        if "\x00" not in text:
            return text, chain.body_digest(text)
    except UnicodeEncodeError:
        pass
    text = clean_text(text)
    return text, chain.body_digest(text)


def _content(values: list[Any], subject: str = "") -> str:
    """Return the digest of the values, after replacing in `values` the characters that no database can store."""
    line = [subject, *values] if subject else values
    text = chain.encode(line)
    try:
        if "\\u0000" not in text:
            return sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        pass
    values[:] = [clean_text(value) if isinstance(value, str) else value for value in values]
    return chain.content([subject, *values] if subject else values)


def clean_text(text: str) -> str:
    """Return the text without NUL, which PostgreSQL rejects, and without lone surrogates, which are not UTF-8."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
