"""System checks of the catalogue."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections

from catalog import encryption
from catalog.functions import registry
from catalog.processes import allowlist
from catalog.runners import registry as runners

MAX_NAMED_TOOLS = 10


@register()
def check_limit_caches(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    problems: list[CheckMessage] = []
    for alias in (settings.RATELIMIT_USE_CACHE, "local"):
        if alias not in settings.CACHES:
            problems.append(
                Error(
                    f'There is no cache "{alias}", which limits count in.',
                    hint="Add it to CACHES; toolhub/settings.py has both.",
                    id="catalog.E001",
                )
            )
    return problems


@register()
def check_encryption_keys(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    try:
        encryption.keys()
    except encryption.KeysError as problem:
        return [Error(f"{problem}: secrets of tools cannot be kept.", hint=encryption.KEYS_HINT, id="catalog.E003")]
    if {settings.SECRET_KEY, settings.RECORD_KEY} & set(settings.ENCRYPTION_KEYS):
        return [
            Error(
                "TOOLHUB_ENCRYPTION_KEYS has a key that is TOOLHUB_SECRET_KEY or TOOLHUB_RECORD_KEY as well.",
                hint="Who can sign a session could read every secret: use a key of its own.",
                id="catalog.E004",
            )
        ]
    return []


@register()
def check_tool_modules(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [
        Error(
            f'The tool module "{module}" cannot be imported: {why}',
            hint="Correct the module, or take it out of TOOLHUB_TOOL_MODULES.",
            id="catalog.E002",
        )
        for module, why in registry.problems().items()
    ]


@register()
def check_runner_modules(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [
        Error(
            f'TOOLHUB_RUNNERS names "{module}", which brings no runner: {why}',
            hint="Correct the module, or remove it from TOOLHUB_RUNNERS.",
            id="catalog.E005",
        )
        for module, why in runners.problems().items()
    ]


@register(Tags.security)
def check_commands(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    problems: list[CheckMessage] = [
        Warning(
            f"TOOLHUB_COMMANDS lists {name}, which runs whatever its arguments say.",
            hint="List programs that do one harmless thing; an argument for this one can be anybody's program.",
            id="catalog.W002",
        )
        for name in allowlist.list_interpreters()
    ]
    found_programs = allowlist.programs()
    problems += [
        Warning(
            f"TOOLHUB_COMMANDS lists {name}, and there is no such program.",
            hint=f"Give an absolute path, or a name that is on {allowlist.PATH}.",
            id="catalog.W003",
        )
        for name in settings.COMMANDS
        if name not in found_programs
    ]
    return problems


@register(Tags.security)
def check_sql_databases(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn about the hub's own database: every SQL tool could read sessions, digests of tokens and the audit log."""
    own = _database_place(connections[DEFAULT_DB_ALIAS].settings_dict)
    return [
        Warning(
            f"TOOLHUB_SQL_DATABASES lists {name}, which is the database of toolhub itself.",
            hint="Remove it: everyone who can save a tool of the type SQL query could read sessions and the audit log.",
            id="catalog.W005",
        )
        for name, address in settings.SQL_DATABASES.items()
        if _address_place(address) == own
    ]


def _database_place(database: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the file, or host, port and name, of a database in Django's settings."""
    if database["ENGINE"].endswith("sqlite3"):
        return (os.path.realpath(str(database["NAME"])),)
    return (str(database["HOST"] or "localhost"), str(database["PORT"] or 5432), str(database["NAME"]))


def _address_place(address: str) -> tuple[str, ...]:
    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.scheme == "sqlite":
        return (os.path.realpath(path[1:] if path.startswith("//") else path),)
    return (parts.hostname or "localhost", str(parts.port or 5432), path.removeprefix("/"))


@register(Tags.database)
def check_tool_runners(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check the runners of tools; Django runs this where a command checks databases, such as migrate and serve."""
    off = {
        kind: hint
        for kind, runner in runners.runners().items()
        if runner.switched_off is not None and (hint := runner.switched_off())
    }
    if not databases:
        return []
    from catalog.models import Tool

    enabled = Tool.objects.filter(enabled=True).order_by("name")
    try:
        warnings: list[CheckMessage] = [
            Warning(
                f"The {kind} runner is off, and these tools need it: {', '.join(names)}.", hint=hint, id="catalog.W001"
            )
            for kind, hint in off.items()
            if (names := list(enabled.filter(runner=kind).values_list("name", flat=True)[:MAX_NAMED_TOOLS]))
        ]
        unknown = list(enabled.exclude(runner__in=runners.runners()).values_list("name", "runner")[:MAX_NAMED_TOOLS])
    except DatabaseError:
        return []  # before the first migrate
    if unknown:
        tools = ", ".join(f"{name} ({runner})" for name, runner in unknown)
        warnings.append(
            Warning(
                f"No runner of this installation runs these tools: {tools}. Calls of them fail.",
                hint="Add the module of the runner to TOOLHUB_RUNNERS, or disable the tools.",
                id="catalog.W004",
            )
        )
    return warnings


@register(Tags.database)
def check_approvers(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that somebody can approve what approval rules ask."""
    if not databases:
        return []
    from catalog.approvals import approvers
    from catalog.models import ApprovalRule

    enabled = ApprovalRule.objects.filter(enabled=True).order_by("name")
    try:
        names = list(approvers.find_without_approvers(enabled).values_list("name", flat=True)[:MAX_NAMED_TOOLS])
    except DatabaseError:
        return []  # before the first migrate
    if not names:
        return []
    return [
        Warning(
            f"Nobody can approve the calls of these approval rules, so that they do not run: {', '.join(names)}.",
            hint="Add active people to the group that the rule asks, choose another group, or switch the rule off.",
            id="catalog.W006",
        )
    ]
