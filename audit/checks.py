"""System checks of the audit log, ids audit.W001 and up; each has a hint for the fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import connection

from audit.queries import text_index
from audit.redaction.rules import MIN_VALUE_CHARACTERS


@register("audit")
def check_secret_lengths(**_: Any) -> list[CheckMessage]:
    """Warn about configured secret values that are too short to be masked."""
    short = sum(1 for value in settings.REDACT_VALUES if 0 < len(value.strip()) < MIN_VALUE_CHARACTERS)
    if not short:
        return []
    return [
        Warning(
            f"{short} of the values in TOOLHUB_REDACT_VALUES have fewer than {MIN_VALUE_CHARACTERS} characters"
            " and are not hidden.",
            hint="So short a text stands in ordinary words. Name the fields that hold it in TOOLHUB_REDACT_NAMES.",
            id="audit.W001",
        )
    ]


@register("audit")
def check_retention(**_: Any) -> list[CheckMessage]:
    """Warn when calls are removed before their bodies, which makes the setting for bodies ineffective."""
    bodies, calls = settings.KEEP_BODIES_DAYS, settings.KEEP_CALLS_DAYS
    if not bodies or not calls or bodies <= calls:
        return []
    return [
        Warning(
            f"TOOLHUB_KEEP_BODIES_DAYS ({bodies}) has no effect: calls go after {calls} days already.",
            hint="Keep bodies for a shorter time than calls, or set it to 0.",
            id="audit.W002",
        )
    ]


@register(Tags.database)
def check_text_index(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn where the database refused the index over the texts of calls: a search then reads every call."""
    if not databases or "default" not in databases or text_index.TABLE not in connection.introspection.table_names():
        return []
    if text_index.exists():
        return []
    return [Warning("The audit log has no text index.", hint=text_index.advice(), id="audit.W003")]
