"""Python functions as tools, prompts and resources: the decorators, what is derived from a signature, the registry.

    from catalog.functions import Context, prompt, resource, tool

    @tool(read_only=True)
    async def greet(name: Annotated[str, Field(description="Whom to greet")], ctx: Context) -> str:
        '''Greet a person.'''
        return f"Hello, {name}!"

The function runs only through a row of the catalogue that names it. An `async def` function runs on the server's event
loop and must not block it; any other runs in a thread of a bounded pool, where it can be asked to stop
(`ctx.cancelled`) but not be made to.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from django.conf import settings

from catalog.functions.context import Context, SyncContext
from catalog.functions.elicitation import Elicit, ElicitUrl, Roots, Sample
from catalog.functions.signatures import Function, Kind, derive, derive_arguments

__all__ = ["Context", "Elicit", "ElicitUrl", "Roots", "Sample", "SyncContext", "prompt", "resource", "tool"]

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
Complete = Mapping[str, Callable[..., Any] | Sequence[str]]
"""For an argument or variable: the values to suggest, or a function (value, earlier arguments) -> values."""

_registered: dict[tuple[Kind, str], Function] = {}
"""Filled by the decorators when a module is imported, once, as Django fills its registries of models and tags."""
_loaded: dict[str, str] = {}
"""The modules that were tried, each with the reason why it could not be imported, if any."""
_lock = threading.RLock()


def tool(
    name: str | None = None,
    *,
    title: str = "",
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    timeout: float = 30.0,
    max_argument_bytes: int = 262_144,
    max_result_bytes: int = 1_048_576,
    task_support: Literal["forbidden", "optional", "required"] = "forbidden",
    requires_capabilities: Sequence[str] = (),
    asks_before_task: bool = False,
) -> Callable[[F], F]:
    """Register a function as a tool.

    Values that are not given are derived: the schemas from the type hints, the description from the docstring.
    `asks_before_task`: a tool that can run as a task puts its questions before it becomes one.
    """

    def register(call: F) -> F:
        function = derive("tool", name or call.__name__, call, input_schema)
        function.title, function.description = title, description or function.description
        function.output_schema = output_schema or function.output_schema
        function.options = {
            "read_only": read_only,
            "destructive": destructive,
            "idempotent": idempotent,
            "open_world": open_world,
            "timeout": timeout,
            "max_argument_bytes": max_argument_bytes,
            "max_result_bytes": max_result_bytes,
            "task_support": task_support,
            "requires_capabilities": list(requires_capabilities),
        }
        function.asks_before_task = asks_before_task
        _add(function)
        return call

    return register


def prompt(
    name: str | None = None, *, title: str = "", description: str = "", complete: Complete | None = None
) -> Callable[[F], F]:
    """Register a function that makes the messages of a prompt: text, `User(...)`, `Assistant(...)` or a list of them.

    Its parameters are the arguments of the prompt, all of them text; a Literal suggests its values.
    """

    def register(call: F) -> F:
        function = derive("prompt", name or call.__name__, call, None)
        function.title, function.description = title, description or function.description
        function.arguments = derive_arguments(function)
        function.complete = dict(complete or {})
        _add(function)
        return call

    return register


def resource(
    uri: str,
    *,
    name: str | None = None,
    title: str = "",
    description: str = "",
    mime_type: str = "text/plain",
    complete: Complete | None = None,
) -> Callable[[F], F]:
    """Register a function that makes the content of a resource: text, bytes, or anything else as JSON.

    With `{variables}` in the address it answers all addresses of that form; its parameters are the variables.
    """

    def register(call: F) -> F:
        function = derive("resource", name or call.__name__, call, None)
        function.title, function.description = title, description or function.description
        function.uri, function.mime_type, function.complete = uri, mime_type, dict(complete or {})
        _add(function)
        return call

    return register


def _add(function: Function) -> None:
    key = (function.kind, function.name)
    with _lock:
        existing = _registered.get(key)
        if existing is not None and existing.origin != function.origin:
            raise ValueError(f"two functions are registered as {function.kind} {function.name!r}: "
                             f"{existing.origin} and {function.origin}")  # fmt: skip
        _registered[key] = function


def load() -> None:
    """Import every module of TOOL_MODULES that was not tried yet. One that cannot be imported is a `problem`."""
    with _lock:
        for module in settings.TOOL_MODULES:
            if module in _loaded:
                continue
            _loaded[module] = ""
            try:
                importlib.import_module(module)
            except Exception as error:
                log.warning("the tool module %s cannot be imported", module, exc_info=True)
                _loaded[module] = f"{type(error).__name__}: {error}"


def problems() -> dict[str, str]:
    """Return {module: why it could not be imported}."""
    load()
    return {module: why for module, why in _loaded.items() if why and module in settings.TOOL_MODULES}


def lookup(kind: Kind, name: str) -> Function:
    """Return the registered function. Raises LookupError when there is none."""
    function = _registered.get((kind, name))
    if function is None:
        load()
        function = _registered.get((kind, name))
    if function is None:
        raise LookupError(f"No {kind} function is registered as {name!r} in {', '.join(settings.TOOL_MODULES)}.")
    return function


def lookup_imported(kind: Kind, name: str) -> Function:
    """Return the function as `lookup` does, but only from modules that are imported already."""
    return _registered[kind, name]


def list_functions(kind: Kind) -> dict[str, Function]:
    """Return all functions of a kind, by name."""
    load()
    return {name: function for (of, name), function in sorted(_registered.items()) if of == kind}


def tool_row(name: str) -> dict[str, Any]:
    """Return the columns of a catalogue row for a registered tool, as its decorator and signature give them."""
    function = lookup("tool", name)
    return {
        "name": name,
        "title": function.title,
        "description": function.description,
        "input_schema": function.input_schema,
        "output_schema": function.output_schema,
        "runner": "python_function",
        "settings": {"function": name},
        **function.options,
    }


def prompt_row(name: str) -> dict[str, Any]:
    """Return the columns of a catalogue row for a registered prompt."""
    function = lookup("prompt", name)
    return {
        "name": name,
        "title": function.title,
        "description": function.description,
        "arguments": function.arguments,
        "function": name,
    }


def resource_row(name: str) -> dict[str, Any]:
    """Return the columns of a catalogue row for a registered resource or resource template."""
    function = lookup("resource", name)
    return {
        "name": name,
        "title": function.title,
        "description": function.description,
        "mime_type": function.mime_type,
        "function": name,
        "uri_template" if "{" in function.uri else "uri": function.uri,
    }
