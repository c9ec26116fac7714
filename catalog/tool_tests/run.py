"""One run of a test case: a call like every other, through the call pipeline, as its user, with nobody to ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from audit import outcomes
from audit.models import Call
from audit.types import Caller, Credential, Reason
from catalog.calls import call_tool
from catalog.errors import (
    CallNotLogged,
    CatalogError,
    InvalidArguments,
    LimitReached,
    MissingCapability,
    NotApproved,
    UnknownTool,
)
from catalog.functions.channel import NullChannel
from catalog.models import ToolTest
from catalog.tool_tests.judge import Ended, join_texts, judge
from toolhub import __version__

TRANSPORT = "test"
CLIENT = "toolhub tests"
MAX_LABEL_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run was judged."""

    problem: Reason | None
    """None: passed."""
    call_id: UUID | None = field(default=None)

    @property
    def passed(self) -> bool:
        return self.problem is None


def make_caller(test: ToolTest, user_id: int, username: str, credential_id: str, by: str, address: str = "") -> Caller:
    """Return the caller of a run, whose label in the audit log names the test and who ran it."""
    label = f"test case {test.name!r}, run by {by}"[:MAX_LABEL_CHARACTERS]
    credential = Credential(
        user_id=user_id, username=username, id=credential_id, label=label, toolset_ids=None, expires_at=None
    )
    return Caller(credential, TRANSPORT, "", address, CLIENT, __version__)


async def run(test: ToolTest, caller: Caller, call_id: UUID) -> Outcome:
    """Run and judge one test. Raises CancelledError when the call was cancelled."""
    try:
        ended = await _call(test.tool.name, test.arguments, caller, call_id)
    except LimitReached as limited:
        return Outcome(Reason("test.limited", {"seconds": limited.seconds}), limited.call_id)
    except NotApproved as waiting:
        return Outcome(Reason("test.not_approved"), waiting.call_id)
    except CallNotLogged:
        return Outcome(Reason("test.not_logged"))
    except CatalogError as error:
        found = getattr(error, "call_id", None)
        return Outcome(Reason("test.internal", {"error": str(error)[:200]}), found if isinstance(found, UUID) else None)
    return Outcome(judge(ended, test.expectation), ended.call_id)


async def _call(name: str, arguments: dict[str, Any], caller: Caller, call_id: UUID) -> Ended:
    try:
        result = await call_tool.call_tool(caller, name, arguments, NullChannel("test"), call_id=call_id, detached=True)
    except InvalidArguments as error:
        return Ended(outcomes.INVALID_ARGUMENTS, error.message, call_id=error.call_id)
    except (UnknownTool, MissingCapability) as error:
        return Ended(outcomes.REFUSED, str(error), call_id=getattr(error, "call_id", None))
    # The log tells a timeout from an error of the tool, which the answer does not.
    status = await Call.objects.filter(pk=result.call_id).values_list("outcome", flat=True).afirst()
    fallback = outcomes.TOOL_ERROR if result.is_error else outcomes.OK
    return Ended(status or fallback, join_texts(result.content), result.structured, result.call_id)
