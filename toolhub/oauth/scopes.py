"""Scopes of access tokens: `mcp` reaches what the person may use.

Where TOOLHUB_WRITE_SCOPE is on, tools that are not read-only take `mcp:write`, too; a client asks for it when a call is
answered with 403 (step-up).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from oauth2_provider.scopes import BaseScopes

from catalog.errors import WRITE_SCOPE

MCP = "mcp"


class Scopes(BaseScopes):  # type: ignore[misc]
    def get_all_scopes(self) -> dict[str, str]:
        found = {MCP: "Use the tools of the person who signs in"}
        if settings.WRITE_SCOPE:
            found[WRITE_SCOPE] = "Use tools that change something, too"
        return found

    def get_available_scopes(self, application: Any = None, request: Any = None, *args: Any, **kwargs: Any) -> Any:
        return list(self.get_all_scopes())

    def get_default_scopes(self, application: Any = None, request: Any = None, *args: Any, **kwargs: Any) -> Any:
        return [MCP]


def may_write(scope: str) -> bool:
    """Return whether a token of these scopes may use tools that are not read-only."""
    return not settings.WRITE_SCOPE or WRITE_SCOPE in scope.split()


def select_known(wanted: Iterable[str]) -> list[str]:
    """Return the known ones of the scopes that a client asked for, and always the basic one.

    Clients ask for scopes of other servers (`openid offline_access`): RFC 6749, section 3.3, lets a server ignore them.
    """
    known = Scopes().get_all_scopes()
    return [MCP, *sorted({scope for scope in wanted if scope in known} - {MCP})]
