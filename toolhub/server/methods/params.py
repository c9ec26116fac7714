"""The parameters of a request, parsed by hand: the error names the invalid one."""

from __future__ import annotations

from typing import Any

from toolhub.wire.errors import INVALID_PARAMS, McpError


def text(params: dict[str, Any], member: str) -> str:
    value = params.get(member)
    if type(value) is not str:
        raise invalid(f"`{member}` must be a string")
    return value


def mapping(params: dict[str, Any], member: str) -> dict[str, Any]:
    """Return an object parameter; an absent one is empty."""
    value = params.get(member)
    if type(value) is dict:
        return value
    if value is None and member not in params:
        return {}
    raise invalid(f"`{member}` must be an object")


def string_mapping(params: dict[str, Any], member: str) -> dict[str, str]:
    """Return an object of strings (arguments of a prompt)."""
    found = mapping(params, member)
    for name, value in found.items():
        if type(value) is not str:
            raise invalid(f"`{member}.{name}` must be a string")
    return found


def invalid(reason: str) -> McpError:
    return McpError(INVALID_PARAMS, f"Invalid params: {reason}")
