"""JSON as the catalogue stores it: strict when read, compact and in its own order when written."""

from __future__ import annotations

import json
from typing import Any

_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def dumps(value: Any) -> str:
    """Return compact text in the order given; a lone surrogate, which no database stores, stays an escape."""
    text = _compact(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _ascii(value)
    return text


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f'the name "{key[:100]}" appears twice in one object')
            seen.add(key)
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def loads(text: str) -> Any:
    """Parse JSON strictly.

    Raises ValueError with a sentence for duplicate names, NaN and absurd nesting or numbers.
    """
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
