"""The example of an upstream server: the official server-everything over stdio, where npm is and may be started."""

from __future__ import annotations

from django.conf import settings

from catalog.models import Upstream
from catalog.processes import allowed

NAME = "everything"
PROGRAM = "npx"
PACKAGE = "@modelcontextprotocol/server-everything@2026.8.31"


def load() -> None:
    """Switched off unless TOOLHUB_COMMANDS lists npx and it is there. Nothing is started: importing is for a person."""
    if Upstream.objects.filter(name=NAME).exists():
        return
    upstream = Upstream(
        name=NAME,
        transport=Upstream.Transport.STDIO,
        command=PROGRAM,
        args=["-y", PACKAGE, "stdio"],
        # Its home is a temporary folder: what it downloads is kept for the next time.
        env={"npm_config_cache": str(settings.DATA_DIR / "npm")},
        prefix=NAME,
        timeout=120.0,
        refresh_seconds=3600,
        enabled=allowed.problem(PROGRAM) is None,
    )
    upstream.full_clean()
    upstream.save()


def standing() -> tuple[int, str] | None:
    """Its number, and what keeps it from being used, in a sentence ("" for nothing); None when somebody removed it."""
    upstream = Upstream.objects.filter(name=NAME).first()
    if upstream is None:
        return None
    problem = allowed.problem(PROGRAM)
    if problem is not None:
        return upstream.pk, f"{problem} It needs {PROGRAM}, which comes with Node."
    return upstream.pk, "" if upstream.enabled else "It is switched off."
