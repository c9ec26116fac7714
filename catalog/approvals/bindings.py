"""What an approval is bound to, as keyed digests: nobody who reads or writes the table can make one that fits.

The context has the definition, the grants, the rules and the secrets; the binding adds who calls with which credential,
and the arguments as canonical JSON. The seal covers a whole request with its decision. The key is Django's SECRET_KEY:
with another one, every open approval is void.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from catalog.models import Approval, PersonalSecret, Secret, TemporaryApproval
from catalog.policy import asking
from catalog.policy.asking import Ask
from catalog.policy.definitions import AskRule, Snapshot, ToolDefinition
from catalog.policy.rules import Requester
from catalog.secrets import resolve

CONTEXT_SALT: Final = "toolhub.approvals.context"
BINDING_SALT: Final = "toolhub.approvals.binding"
ARGUMENT_SALT: Final = "toolhub.approvals.argument"
KNOWN_SALT: Final = "toolhub.approvals.known"
SEAL_SALT: Final = "toolhub.approvals.seal"
TEMPORARY_SALT: Final = "toolhub.approvals.temporary"
_canonical = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one call, and what its answer is bound to."""

    ask: Ask
    context: str
    binding: str


def find_contexts(
    snapshot: Snapshot, user_id: int, tool: ToolDefinition, questions: Iterable[Sequence[AskRule]], now: float
) -> list[str]:
    """Return for the rules of each question the digest of what would run, and why it may. Reads the secrets.

    It is another one when any of that changes.
    """
    grants = asking.grants_digest(snapshot, Requester(user_id), tool, now, settings.ENVIRONMENT)
    common = [tool.id, tool.hash, grants, _states_of(resolve.sent_by(tool), user_id)]
    return [digest(CONTEXT_SALT, [*common, _terms_of(rules)]) for rules in questions]


def _terms_of(rules: Iterable[AskRule]) -> list[Any]:
    return [[one.id, one.asks, one.group_id, one.four_eyes, one.accepts_client, one.minutes] for one in rules]


def bind(context: str, user_id: int, credential_id: str, ask: Ask, arguments: Mapping[str, Any]) -> str:
    """Return the digest of one call of one person, in its context, for one question."""
    return digest(BINDING_SALT, [context, user_id, credential_id, ask.asks, ask.group_id, arguments])


def digest_arguments(context: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of the value of each argument, for comparisons in this context."""
    return {name: digest(ARGUMENT_SALT, [context, name, value]) for name, value in arguments.items()}


def digest_known(rule_id: int, user_id: int, tool_id: int, value: Any) -> str:
    """Return the digest of a value that a person has had an approved call with."""
    return digest(KNOWN_SALT, [rule_id, user_id, tool_id, value])


def seal(row: Approval | TemporaryApproval) -> str:
    """Return the seal of a request as it is now, with its decision if it has one, or of a temporary approval."""
    if isinstance(row, TemporaryApproval):
        return digest(
            TEMPORARY_SALT,
            [
                *(row.pk, row.user_id, row.credential, row.credential_name, row.tool_id, row.rule_name),
                *(row.asks, row.group_id, row.context, row.argument_digests),
                *(row.free_arguments, row.arguments, row.created.isoformat(), row.expires.isoformat(), row.given_by_id),
                row.revoked and row.revoked.isoformat(),
            ],
        )
    return digest(
        SEAL_SALT,
        [
            *(str(row.id), str(row.call_id), row.user_id, row.maker_id, row.credential, row.tool_id, row.tool_name),
            *(row.credential_name, row.client, row.rule_name, row.decided_by_name),
            *(row.rule_ids, row.asks, row.group_id, row.four_eyes, row.arguments, row.argument_digests),
            *(row.binding, row.context),
            *(str(row.state), row.created.isoformat(), row.expires.isoformat()),
            row.used_by and str(row.used_by),
            *(row.decided_by_id, row.decided_at and row.decided_at.isoformat(), row.by_client, row.reason),
        ],
    )


def is_sealed(row: Approval | TemporaryApproval) -> bool:
    """Return whether toolhub itself wrote this row."""
    return constant_time_compare(row.seal, seal(row))


def digest(salt: str, value: Any) -> str:
    """Return the keyed digest of a JSON value, whose objects may have their members in any order."""
    return salted_hmac(salt, _canonical(value), algorithm="sha256").hexdigest()


def _states_of(names: Iterable[str], user_id: int) -> list[Any]:
    """Return the state of each secret: other ones when its value, its hosts or the user's own entry changes.

    The tokens of an account change by themselves; what counts is when the account was connected.
    """
    wanted = sorted(names)
    if not wanted:
        return []
    columns = ("name", "kind", "value", "hosts")
    shared = {row[0]: list(row) for row in Secret.objects.filter(name__in=wanted).values_list(*columns)}
    own: dict[str, Any] = {}
    entries = PersonalSecret.objects.filter(user_id=user_id, secret__name__in=wanted)
    for name, value, destinations, connected in entries.values_list(
        "secret__name", "value", "destinations", "account__connected_at"
    ):
        own[name] = [value, destinations, connected.isoformat() if connected is not None else None]
    return [[name, shared.get(name), own.get(name)] for name in wanted]
