"""Values of arguments with which a person had an approved call, for rules that ask the first time only.

Of a rule in trial, named by its id below 0, they are those about which it would have asked. They are other digests than
those of the rule in force, which asks all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.approvals import bindings
from catalog.models import KnownValue


def find(user_id: int, tool_id: int, values: Mapping[int, Any]) -> frozenset[int]:
    """Return those of the rules (by id, each with the value of this call) whose value is known. Reads the database."""
    by_digest = {bindings.digest_known(rule, user_id, tool_id, value): rule for rule, value in values.items()}
    rows = KnownValue.objects.filter(digest__in=by_digest).values_list("digest", flat=True)
    return frozenset(by_digest[digest] for digest in rows)


def remember(user_id: int, tool_id: int, values: Mapping[int, Any]) -> None:
    """Store the values of an approved call, with the rules that asked about them."""
    KnownValue.objects.bulk_create(
        [
            KnownValue(
                rule_id=abs(rule),
                user_id=user_id,
                tool_id=tool_id,
                digest=bindings.digest_known(rule, user_id, tool_id, value),
            )
            for rule, value in values.items()
        ],
        ignore_conflicts=True,
    )
