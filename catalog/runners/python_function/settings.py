"""Settings of a tool that runs a Python function."""

from __future__ import annotations

from django.utils.translation import gettext_noop
from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    function: str = Field(
        min_length=1, max_length=200, description=gettext_noop("The name the function is registered under.")
    )
    isolated: bool = Field(
        default=False, description=gettext_noop("Run each call in its own process, which can be killed.")
    )
    django: bool = Field(
        default=False,
        description=gettext_noop("Isolated only: set up Django first, for functions that use the database."),
    )
    memory_bytes: int = Field(
        default=1_073_741_824,
        ge=134_217_728,
        le=68_719_476_736,
        description=gettext_noop("Isolated only: limit for each process."),
    )
    cpu_seconds: int = Field(
        default=60, ge=1, le=86_400, description=gettext_noop("Isolated only: limit for each process.")
    )
    max_processes: int = Field(
        default=16,
        ge=1,
        le=1000,
        description=gettext_noop("Isolated only: exceeding this number kills all processes of the call."),
    )
    max_file_bytes: int = Field(
        default=67_108_864, ge=0, description=gettext_noop("Isolated only: the largest file it may write.")
    )
    max_output_bytes: int = Field(
        default=16_777_216, ge=1024, le=134_217_728, description=gettext_noop("Isolated only: the largest result.")
    )
