"""Settings of a tool that reads a database."""

from __future__ import annotations

from django.conf import settings as configured
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from pydantic import BaseModel, ConfigDict, Field, field_validator

from catalog.runners.hints import DESCRIPTION, MAX_HINTS, Hint
from catalog.runners.sql_query import statements


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    database: str = Field(
        min_length=1, max_length=64, description=gettext_noop("A database name from TOOLHUB_SQL_DATABASES.")
    )
    statement: str = Field(
        min_length=1,
        max_length=20_000,
        description=gettext_noop("One SELECT, WITH or VALUES statement with :parameters."),
    )
    parameters: dict[str, str] = Field(
        default_factory=dict,
        description=gettext_noop(
            "Maps SQL parameters to arguments. A parameter that is not listed uses the argument of the same name."
        ),
    )
    hints: list[Hint] = Field(default_factory=list, max_length=MAX_HINTS, description=DESCRIPTION)
    max_rows: int = Field(default=200, ge=1, le=100_000)
    max_bytes: int = Field(
        default=262_144, ge=100, le=16_777_216, description=gettext_noop("Maximum size of the rows as JSON.")
    )
    timeout: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description=gettext_noop("Time limit in seconds. The tool's own time limit also applies."),
    )

    @field_validator("statement")
    @classmethod
    def _check_statement(cls, statement: str) -> str:
        statements.names(statement)
        return statement


def not_ready(settings: Settings) -> str | None:
    """Return the reason why a tool with these settings could not run on this installation, or None."""
    if settings.database in configured.SQL_DATABASES:
        return None
    values = {"name": settings.database, "there": ", ".join(configured.SQL_DATABASES)}
    if not configured.SQL_DATABASES:
        return _("TOOLHUB_SQL_DATABASES has no database %(name)s. Add it and restart.") % values
    return _("TOOLHUB_SQL_DATABASES has no database %(name)s. Available: %(there)s.") % values
