"""Scopes of access tokens: `mcp` reaches what the person may use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oauth2_provider.scopes import BaseScopes

MCP = "mcp"


class Scopes(BaseScopes):  # type: ignore[misc]
    def get_all_scopes(self) -> dict[str, str]:
        return {MCP: "Use the tools of the person who signs in"}

    def get_available_scopes(self, application: Any = None, request: Any = None, *args: Any, **kwargs: Any) -> Any:
        return list(self.get_all_scopes())

    def get_default_scopes(self, application: Any = None, request: Any = None, *args: Any, **kwargs: Any) -> Any:
        return [MCP]


def select_known(wanted: Iterable[str]) -> list[str]:
    """Return the known ones of the scopes that a client asked for, and always the basic one.

    Clients ask for scopes of other servers (`openid offline_access`): RFC 6749, section 3.3, lets a server ignore them.
    """
    known = Scopes().get_all_scopes()
    return [MCP, *sorted({scope for scope in wanted if scope in known} - {MCP})]
