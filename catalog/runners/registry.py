"""The kinds of runner, loaded when first needed.

A runner is a module with `Settings`, a pydantic model of what the row's settings hold, and
`prepare(settings) -> run`, where `await run(arguments, context)` does the work and returns what
`catalog.functions.results.produce` understands. Arguments fit the tool's input schema. A runner raises ToolError for
what the caller should read; it is cancelled when the call is.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from pydantic import BaseModel, ValidationError

from catalog.functions.context import Context
from catalog.runners import settings_errors as runners_settings_errors

KINDS = {
    "python_function": "catalog.runners.python_function.runner",
    "http_api": "catalog.runners.http_api.runner",
    "command": "catalog.runners.command.runner",
    "sql_query": "catalog.runners.sql_query.runner",
    "upstream_mcp": "catalog.runners.upstream_mcp.runner",
}

Run = Callable[[dict[str, Any], Context], Awaitable[Any]]


class Runner(Protocol):
    Settings: type[BaseModel]

    def prepare(self, settings: Any) -> Run: ...


def runner(kind: str) -> Runner:
    """KeyError when there is no such kind."""
    return cast(Runner, importlib.import_module(KINDS[kind]))


def parse_settings(kind: str, data: Any) -> BaseModel:
    """The typed settings. KeyError for an unknown kind, ValueError with a sentence that names the field."""
    model = runner(kind).Settings
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ValueError(runners_settings_errors.sentence(error)) from None


def not_ready(kind: str, data: Any) -> str | None:
    """Why a tool with these valid settings could not run on this installation, as a sentence."""
    module = runner(kind)
    check = getattr(module, "not_ready", None)
    return check(parse_settings(kind, data)) if check is not None else None


def prepare(kind: str, data: Any) -> Run:
    """What runs with these settings. LookupError or ValueError when it cannot."""
    return runner(kind).prepare(parse_settings(kind, data))


def settings_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a runner's settings, for a form. KeyError when there is no such kind."""
    return runner(kind).Settings.model_json_schema()


def settings_errors(kind: str, data: Any) -> list[tuple[tuple[str | int, ...], str, str]]:
    """(location, type, message) of everything that is wrong. KeyError for an unknown kind."""
    try:
        runner(kind).Settings.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return [(entry["loc"], entry["type"], runners_settings_errors.words(entry)) for entry in found]
    return []
