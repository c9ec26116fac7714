"""Resource indicators (RFC 8707): every token is for this server's /mcp, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

ISSUER = settings.PUBLIC_URL
RESOURCE = f"{settings.PUBLIC_URL}/mcp"
DESCRIPTION = f"This server issues tokens for {RESOURCE} only."


def is_ours(resource: str) -> bool:
    """Return whether a resource indicator names this server, however its address is spelt.

    Clients send /mcp, /mcp/, the address of the whole server, or the host in capitals (2026-07-28, "Canonical Server
    URI").
    """
    try:
        wanted, ours = urlsplit(resource), urlsplit(RESOURCE)
        same = (wanted.scheme.lower(), wanted.hostname, _port(wanted)) == (ours.scheme, ours.hostname, _port(ours))
    except ValueError:
        return False
    plain = not wanted.query and "#" not in resource and "@" not in wanted.netloc
    base = urlsplit(ISSUER).path
    return same and plain and wanted.path.rstrip("/") in {base, ours.path}


def _port(parts: object) -> int | None:
    port: int | None = parts.port  # type: ignore[attr-defined]
    return port or {"https": 443, "http": 80}.get(parts.scheme.lower())  # type: ignore[attr-defined]


def check(resources: Iterable[str], **echoed: str | None) -> None:
    """Check what a client wants a token for; none means this server. Raises CustomOAuth2Error (invalid_target)."""
    if not all(is_ours(resource) for resource in resources):
        raise CustomOAuth2Error(error="invalid_target", description=DESCRIPTION, **echoed)
