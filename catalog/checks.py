"""System checks of the catalogue."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError

from catalog import encryption
from catalog.functions import registry
from catalog.processes import allowlist
from catalog.runners import registry as runners


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


@register(Tags.database)
def check_tool_runners(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check the runners of tools; Django runs this where a command checks databases, such as migrate and serve."""
    off = {
        kind: hint
        for kind, runner in runners.runners().items()
        if runner.switched_off is not None and (hint := runner.switched_off())
    }
    if not off or not databases:
        return []
    from catalog.models import Tool

    warnings: list[CheckMessage] = []
    for kind, hint in off.items():
        try:
            names = list(Tool.objects.filter(runner=kind, enabled=True).values_list("name", flat=True)[:10])
        except DatabaseError:
            return []  # before the first migrate
        if names:
            needed = f"The {kind} runner is off, and these tools need it: {', '.join(names)}."
            warnings.append(Warning(needed, hint=hint, id="catalog.W001"))
    return warnings
