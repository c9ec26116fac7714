"""What prompts and resources share: the second write, and the answer to a run that failed.

Neither has an `isError`: what a function says in a ToolError becomes the message of a JSON-RPC error.
"""

from __future__ import annotations

from typing import Any

from audit import redaction
from catalog import recording
from catalog.endings import Outcome
from catalog.errors import ProtocolError
from catalog.recording import Begun, Ending

FUNCTION_SECONDS = 30.0
"""How long a function behind a prompt or a resource may take."""
INTERNAL_ERROR = -32603
_redactor = redaction.redactor(None)


async def answer(call: Begun, outcome: Outcome, member: str) -> list[dict[str, Any]]:
    """Record how it ended; the messages or contents, or the error that the caller gets."""
    ending = Ending(outcome.name, outcome.error_class, recording.masked(outcome.detail, []))
    produced = outcome.produced
    if produced is None:
        await recording.finish(call, ending)
        assert outcome.error is not None  # noqa: S101 - an outcome has one or the other
        raise outcome.error
    await recording.finish_with(call, ending, _redactor, {member: produced.content}, [], produced.size)
    if produced.is_error:
        raise ProtocolError(INTERNAL_ERROR, produced.content[0]["text"], {"callId": str(call.id)})
    return produced.content
