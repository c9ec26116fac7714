"""The available runners: every folder here, and the modules in TOOLHUB_RUNNERS. Discovered on first use.

This module describes runners, for pages, checks and imports. `catalog.runners.factory` loads the code that runs, for
calls only.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from django.conf import settings as configured
from pydantic import BaseModel, ValidationError

from catalog.runners import destinations, secret_refs
from catalog.runners import settings_errors as runners_settings_errors
from catalog.runners.base import Runner
from catalog.runners.destinations import Flow

RUNNER_ATTRIBUTE = "RUNNER"


def runners() -> Mapping[str, Runner]:
    """Return all runners by name, in the order of lists."""
    return _found(tuple(configured.RUNNERS))[0]


def problems() -> Mapping[str, str]:
    """Return {module named in TOOLHUB_RUNNERS: the reason why it provides no runner}."""
    return _found(tuple(configured.RUNNERS))[1]


def runner(kind: str) -> Runner:
    """Return a runner by its name. Raises KeyError when there is no such runner."""
    return runners()[kind]


def parse_settings(kind: str, data: Any) -> BaseModel:
    """Return the typed settings. Raises KeyError for an unknown runner.

    Raises ValueError with a sentence that names the field when the settings are invalid.
    """
    model = runner(kind).settings
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ValueError(runners_settings_errors.format_errors(error)) from None


def not_ready(kind: str, data: Any) -> str | None:
    """Return the reason why a tool with these valid settings could not run on this installation, or None."""
    check = runner(kind).not_ready
    return check(parse_settings(kind, data)) if check is not None else None


def find_obstacle(kind: str, data: Any) -> str | None:
    """Return why calls of a tool with these settings, valid or not, would fail on this installation, or None."""
    described = runners().get(kind)
    if described is None:
        return None
    try:
        settings = parse_settings(kind, data)
    except ValueError:
        return described.blocked(None) if described.blocked is not None else None
    for check in (described.blocked, described.not_ready):
        if check is not None and (reason := check(settings)):
            return reason
    return None


def flows(kind: str, data: Any) -> frozenset[Flow]:
    """Return where settings as stored send secrets; nothing when the runner is unknown or rejects the settings."""
    try:
        return flows_of(kind, parse_settings(kind, data))
    except (LookupError, ValueError):
        return frozenset()


def flows_of(kind: str, settings: BaseModel) -> frozenset[Flow]:
    """Return where valid settings send secrets. Raises KeyError for an unknown runner."""
    described = runner(kind)
    if not secret_refs.names(settings):
        return frozenset()
    if described.secret_destinations is not None:
        receivers = tuple(described.secret_destinations(settings))
    else:
        receivers = (destinations.tool_type(kind, described.title, settings.model_dump(mode="json")),)
    return destinations.flows(settings, receivers, described.bounds)


def settings_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a runner's settings, for a form. Raises KeyError when there is no such runner."""
    return runner(kind).settings.model_json_schema()


def settings_errors(kind: str, data: Any) -> list[tuple[tuple[str | int, ...], str, str]]:
    """Return (location, type, message) of every problem with the settings. Raises KeyError for an unknown runner."""
    try:
        runner(kind).settings.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return [(entry["loc"], entry["type"], runners_settings_errors.translate_error(entry)) for entry in found]
    return []


@functools.lru_cache(maxsize=8)
def _found(outside: tuple[str, ...]) -> tuple[Mapping[str, Runner], Mapping[str, str]]:
    here = importlib.import_module(__package__)
    inside = [f"{here.__name__}.{folder.name}" for folder in pkgutil.iter_modules(here.__path__) if folder.ispkg]
    found: dict[str, Runner] = {}
    for module in inside:
        described: Runner = getattr(importlib.import_module(module), RUNNER_ATTRIBUTE)
        found[described.name] = described
    wrong = {}
    for module in outside:
        try:
            described = _described(module)
            if described.name in found:
                raise LookupError(f'there is another runner named "{described.name}"')
            found[described.name] = described
        except Exception as error:  # noqa: BLE001 - the module is not ours; a system check says what it raised
            wrong[module] = f"{type(error).__name__}: {error}"
    ordered = sorted(found.values(), key=lambda one: (one.position, one.name))
    return {one.name: one for one in ordered}, wrong


def _described(module: str) -> Runner:
    described = getattr(importlib.import_module(module), RUNNER_ATTRIBUTE, None)
    if not isinstance(described, Runner):
        raise LookupError(f"it has no {RUNNER_ATTRIBUTE} that is a catalog.runners.base.Runner")
    return described
