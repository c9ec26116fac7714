"""Resources and prompts of upstream servers in the call pipeline: how they are reached, and what they answer.

The client of the upstream is imported at the first use: a process without upstream servers never needs it.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from audit.redaction import redactor
from audit.types import Caller
from catalog.calls import accounts, call_log, masking
from catalog.calls.call_log import BegunCall, Intent
from catalog.calls.execution import MAX_FUNCTION_SECONDS, Deadline, Outcome, answer, perform, tool_error
from catalog.errors import ToolError
from catalog.functions.channel import Channel
from catalog.functions.context import NO_SECRETS, Context
from catalog.functions.results import Produced
from catalog.policy.definitions import PromptDefinition, ResourceDefinition
from catalog.runners.destinations import by_secret
from catalog.runners.upstream_mcp import connection as reaching
from catalog.secrets import resolve
from toolhub import contact
from toolhub.wire import uritemplate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reach:
    """How an item is reached for one call; `LOCAL` for everything that is in the catalogue itself."""

    connection: reaching.Connection | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    missing: Outcome | None = None
    """The end of the call when a secret is missing."""
    needed: resolve.AccountNeeded | None = None
    """The account that the caller has to connect first."""

    @property
    def sent(self) -> resolve.Sent:
        """Where the connection sends each of its secrets."""
        return by_secret(self.connection.flows()) if self.connection is not None else {}


LOCAL: Final = Reach()
Make = Callable[[Context], Coroutine[Any, Any, Produced]]
"""Makes the messages of a prompt, or the contents of a resource."""


async def reach(item: ResourceDefinition | PromptDefinition, caller: Caller) -> Reach:
    """Return how the item is reached, with this caller's secrets. Raises CallNotLogged when they cannot be read."""
    if item.connection is None:
        return LOCAL
    connection = _parse(json.dumps(item.connection))
    if connection is None:
        sentence = f"This is not set up correctly. Ask {contact.english()} to check the upstream server."
        return Reach(missing=tool_error(ToolError(sentence)))
    try:
        secrets = (
            await resolve.resolve(by_secret(connection.flows()), caller) if connection.secret_names else NO_SECRETS
        )
    except resolve.AccountNeeded as error:
        return Reach(connection, needed=error)
    except resolve.MissingSecret as error:
        return Reach(connection, missing=tool_error(error, error.audit_message))
    return Reach(connection, secrets)


async def run(
    what: Intent, channel: Channel, reached: Reach, make: Make, member: str
) -> tuple[BegunCall, list[dict[str, Any]]]:
    """Run `make` between the two log entries of a prompt or a resource, and return what it made.

    Raises what ends the call otherwise, see `catalog.calls.execution.answer`.
    """
    call = await call_log.begin(what, None)

    async def attempt(secrets: Mapping[str, str]) -> Outcome:
        clock = Deadline(MAX_FUNCTION_SECONDS)
        masked = masking.MaskedChannel(channel, secrets) if secrets else channel
        context = Context(what.caller, masked, what.name, call.id, clock, secrets)
        outcome = await perform(call, clock, context, _masked(make(context), secrets))
        if secrets:
            masking.mask_outcome(outcome, secrets)
        return outcome

    if reached.missing is not None:
        return call, await answer(call, reached.missing, member)
    outcome, used = await accounts.run(call, channel, reached.sent, reached.needed or reached.secrets, attempt)
    return call, await answer(call, outcome, member, used)


async def _masked(work: Awaitable[Produced], secrets: Mapping[str, str]) -> Produced:
    produced = await work
    if secrets:
        masking.mask_result(produced, secrets)
    return produced


async def read(connection: reaching.Connection, address: str, context: Context) -> list[Any]:
    """Return what the upstream has at one of its own addresses. Raises ToolError and what else ends a call."""
    from catalog.runners.upstream_mcp import items

    return await items.read_resource(connection, address, context)


async def get_prompt(
    connection: reaching.Connection, prompt: PromptDefinition, arguments: Mapping[str, str], context: Context
) -> list[dict[str, Any]]:
    """Return the messages that the upstream has for a prompt. Raises ToolError and what else ends a call."""
    from catalog.runners.upstream_mcp import items

    return await items.get_prompt(connection, prompt.source, dict(arguments), context)


async def complete(
    item: ResourceDefinition | PromptDefinition, caller: Caller, argument: str, typed: str, earlier: Mapping[str, Any]
) -> list[str]:
    """Return the upstream's suggestions for an argument; none when it cannot be asked."""
    from catalog.runners.upstream_mcp import items

    found = await reach(item, caller)
    if found.connection is None or found.missing is not None or found.needed is not None:
        return []
    ref = {"name": item.source} if isinstance(item, PromptDefinition) else {"uri": item.source}
    known = {str(name): value for name, value in earlier.items() if isinstance(value, str)}
    credential = caller.credential
    try:
        values = await items.complete(
            found.connection, credential.user_id, credential.id, found.secrets, ref, argument, typed, known
        )
    except Exception as error:  # noqa: BLE001 - the boundary to a foreign library; a person types on without them
        log.info("%s: no suggestions: %s", found.connection.label, type(error).__name__)
        return []
    hidden = tuple(found.secrets.values())
    return [redactor.mask_values(hidden, value) for value in values]


def source_address(resource: ResourceDefinition, values: Mapping[str, str]) -> str:
    """Return the address that the upstream server knows."""
    return uritemplate.parse(resource.source).expand(dict(values)) if resource.is_template else resource.source


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> reaching.Connection | None:
    try:
        return reaching.parse(json.loads(text))
    except ValueError as error:
        log.warning("an upstream server is not set up: %s", error)
        return None
