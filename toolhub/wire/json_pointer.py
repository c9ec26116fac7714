"""The escapes in one step of a JSON pointer (RFC 6901, section 3). Pure."""

from __future__ import annotations


def escape(name: str) -> str:
    """Return the name of a member as a step of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """Return the name that a step of a pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")
