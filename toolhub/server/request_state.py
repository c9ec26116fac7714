"""`requestState` of 2026-07-28: what a call that asked for input hands to the client, and gets back with the answers.

Signed, bound to the user, the method, the name and the arguments, and good for an hour; it carries the answers of
earlier rounds, so no worker keeps anything. A fresh nonce makes every round's state different.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from django.core import signing

from toolhub.wire.errors import INVALID_PARAMS, McpError

SALT = "toolhub.server.requestState"
SECONDS = 3600
MAX_LENGTH = 1_500_000

_dump = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def seal(user_id: int, method: str, name: str, arguments: dict[str, Any], answers: dict[str, Any]) -> str:
    content = [user_id, method, name, digest(arguments), secrets.token_urlsafe(9), answers]
    return signing.dumps(content, salt=SALT, compress=True)


def unseal(state: object, user_id: int, method: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answers of earlier rounds. Raises McpError for anything but a state made for exactly this call and user."""
    if not isinstance(state, str) or len(state) > MAX_LENGTH:
        raise _invalid()
    try:
        content = signing.loads(state, salt=SALT, max_age=SECONDS)
    except signing.BadSignature:
        raise _invalid() from None
    bound, answers = content[:4], content[5]
    if bound != [user_id, method, name, digest(arguments)]:
        raise _invalid()
    return dict(answers)


def digest(arguments: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(arguments).encode()).hexdigest()


def _invalid() -> McpError:
    # One answer for tampered, foreign and expired: it says nothing about somebody else's call.
    return McpError(
        INVALID_PARAMS, "Invalid params: `requestState` is not valid for this request; start again without it"
    )
