"""Settings of a tool that an upstream server runs."""

from __future__ import annotations

from django.utils.translation import gettext_noop
from pydantic import BaseModel, ConfigDict, Field

from catalog.runners.hints import DESCRIPTION, MAX_HINTS, Hint
from catalog.runners.upstream_mcp.connection import Connection


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    upstream: str = Field(min_length=1, max_length=40, description=gettext_noop("The name of the upstream server."))
    tool: str = Field(
        min_length=1, max_length=1000, description=gettext_noop("The tool's name on the upstream server.")
    )
    hints: list[Hint] = Field(default_factory=list, max_length=MAX_HINTS, description=DESCRIPTION)
    connection: Connection | None = Field(
        default=None, description="Filled in by toolhub: how the upstream server is reached."
    )
    mirrors: bool = Field(
        default=False, description="Filled in by toolhub: whether arguments are repeated in headers (x-mcp-header)."
    )
