"""The arguments of a call as the log shows them, and what in them stands for a value that it does not show."""

from __future__ import annotations

import json
from typing import Any, Final

from audit.redaction.redactor import MASK
from catalog.conditions.definitions import Steps
from catalog.policy.answers import Sent
from catalog.policy.definitions import Item, ResourceDefinition
from catalog.policy.matching import meets_hidden
from toolhub.wire import uritemplate

REDACTED: Final = "$redacted"
_MARKS: Final = (MASK, "[redacted hmac-sha256:", f'"{REDACTED}"')
"""What a text has in it where a part of it, or of the JSON that it is, is hidden."""
UNKNOWN: Final = Sent(None)


def hides(value: Any) -> bool:
    """Return whether a value stands for one that the log does not show, or has a part that does.

    A client can send such a value itself. Then nobody can tell the two apart, and it counts as hidden.
    """
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    return isinstance(value, dict) and REDACTED in value


def read(text: str, item: Item, name: str) -> Sent:
    """Return what is known of the arguments of a call that the log has as `text`; `name` is what the client asked for.

    Nothing is known of arguments that were pruned, hidden as a whole or too large to keep.
    """
    if isinstance(item, ResourceDefinition) and item.is_template:
        return _read_address(item, name)
    try:
        found = json.loads(text)
        hides_some = has_hidden(found)
    except (ValueError, RecursionError):
        return UNKNOWN
    if not isinstance(found, dict) or REDACTED in found:
        return UNKNOWN
    return Sent(found, hides) if hides_some else Sent(found)


def _read_address(item: ResourceDefinition, name: str) -> Sent:
    """Return the variables of an address: the log has them only of calls that were allowed."""
    try:
        values = uritemplate.parse(item.uri).match(name)
    except ValueError:
        values = None
    return UNKNOWN if values is None or hides(name) else Sent(values, hides)


def has_hidden(value: Any, steps: Steps = ()) -> bool:
    """Return whether the value at this place, anything around it, or anything in it is hidden."""
    return meets_hidden(value, steps, hides)
