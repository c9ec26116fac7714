"""Calls that need an account of the caller: the person is asked to connect it, and a refused token is replaced once.

The client is asked by a URL elicitation where it can show one (client/elicitation, "URL Mode Elicitation for OAuth
Flows"): up to 2025-11-25 the call ends with an error that carries the link, from 2026-07-28 on with a question. Other
clients get a sentence with the link. The tokens themselves never reach a client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

from audit import outcomes
from audit.types import Caller, Reason
from catalog.calls.call_log import BegunCall
from catalog.calls.execution import Deadline, Outcome, cancellation, perform
from catalog.errors import CallNotLogged, ProtocolError, ToolError
from catalog.functions.channel import Channel
from catalog.functions.context import Context
from catalog.functions.results import Produced
from catalog.secrets import resolve
from catalog.secrets.resolve import AccountNeeded, MissingSecret, Sent
from toolhub.wire.errors import URL_ELICITATION_REQUIRED
from toolhub.wire.versions import MODERN

URL_ERROR_REVISIONS = frozenset({"2025-11-25"})
"""Revisions in which an error carries links (`URLElicitationRequiredError`)."""
WAIT_SECONDS = 50.0
"""Seconds that a client's next request waits for the person in the browser: less than clients wait for an answer."""
POLL_SECONDS = 1.0
MAX_ASK_SECONDS = 60.0
"""Maximum seconds of asking, without the time in which the client has the question."""

Secrets = Mapping[str, str]
log = logging.getLogger(__name__)


async def ask(call: BegunCall, channel: Channel, needed: AccountNeeded, sent: Sent) -> Outcome | Secrets:
    """Ask the caller to connect an account; return the secrets once it is connected, or else how the call ends."""
    clock = Deadline(MAX_ASK_SECONDS)
    context = Context(call.intent.caller, channel, call.intent.name, call.id, clock)
    answered: list[Secrets] = []

    async def work() -> Produced:
        answered.append(await _connect(context, needed, sent))
        return Produced([])

    outcome = await perform(call, clock, context, work())
    if isinstance(outcome.error, ProtocolError) and outcome.error.code == URL_ELICITATION_REQUIRED:
        outcome.name, outcome.error_class = outcomes.INPUT_REQUIRED, ""
        outcome.detail, outcome.reason = f"asked for {_key(needed)}", Reason("run.asked", {"keys": _key(needed)})
    return answered[0] if outcome.name == outcomes.OK else outcome


async def run(
    call: BegunCall,
    channel: Channel,
    sent: Sent,
    found: Secrets | AccountNeeded,
    attempt: Callable[[Secrets], Awaitable[Outcome]],
) -> tuple[Outcome, list[str]]:
    """Return how the call ended, and the values of all secrets that it used.

    Asks for a missing account, and tries once more when a service refused a token. `attempt` runs the call with the
    secrets; the outcome says everything else, a cancellation too.
    """
    used: dict[str, None] = {}
    outcome: Outcome | None = None
    for again in (True, False):
        if isinstance(found, AccountNeeded):
            answered = await ask(call, channel, found, sent)
            if isinstance(answered, Outcome):
                return answered, list(used)
            found = answered
        used |= dict.fromkeys(found.values())
        outcome = await attempt(found)
        try:
            fresh = await _replace_rejected(outcome, found, sent, call.intent.caller) if again else None
        except asyncio.CancelledError as error:
            return cancellation(error), list(used)
        except Exception:  # the call has run, and its end is logged whatever happens here
            log.exception("the token of call %s cannot be replaced", call.id)
            fresh = None
        if fresh is None:
            break
        found = fresh
    assert outcome is not None  # noqa: S101 - there was an attempt
    return outcome, list(used)


async def _replace_rejected(
    outcome: Outcome, found: Secrets, sent: Sent, caller: Caller
) -> Secrets | AccountNeeded | None:
    """Return other secrets for another attempt after the service refused a token; None when this is the end."""
    if not found or not outcome.rejected:
        return None
    try:
        return await resolve.replace_rejected(found, sent, caller)
    except AccountNeeded as needed:
        return needed
    except (MissingSecret, CallNotLogged):
        return None  # the refusal itself is what happened


async def _connect(context: Context, needed: AccountNeeded, sent: Sent) -> Secrets:
    """Return the secrets when the account is connected. Raises NeedsInput, ProtocolError, ToolError."""
    modes, revision = context.capabilities.get("elicitation"), context.caller.revision
    link = ToolError(str(needed), audit_message=needed.audit_message)
    if not isinstance(modes, Mapping) or "url" not in modes:
        raise link
    asked = {"mode": "url", "message": needed.request, "url": needed.link}
    if revision in URL_ERROR_REVISIONS:
        data = {"elicitations": [{**asked, "elicitationId": str(uuid4())}]}
        raise ProtocolError(URL_ELICITATION_REQUIRED, needed.request, data)
    if revision not in MODERN:
        raise link
    answer = (await context.ask({_key(needed): ("elicitation/create", asked)}))[_key(needed)]
    if answer.get("action") != "accept":
        raise ToolError(f"The account {needed.name} was not connected, so the tool was not called.")
    return await _wait(context.caller, sent)


def _key(needed: AccountNeeded) -> str:
    return f"connect_{needed.name}"


async def _wait(caller: Caller, sent: Sent) -> Secrets:
    """Return the secrets as soon as the person has connected the account. Raises ToolError if they did not."""
    loop = asyncio.get_running_loop()
    until = loop.time() + WAIT_SECONDS
    while True:
        try:
            return await resolve.resolve(sent, caller)
        except MissingSecret as error:
            if loop.time() >= until:
                raise ToolError(str(error), audit_message=error.audit_message) from None
        except CallNotLogged:
            if loop.time() >= until:
                raise ToolError("The account cannot be read now. Call the tool again in a minute.") from None
        await asyncio.sleep(POLL_SECONDS)
