"""One call of a registered Python function, in this process or in a process of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from catalog.functions import registry
from catalog.functions.context import Context
from catalog.functions.invoke import invoke
from catalog.processes.launch import Limits
from catalog.runners.python_function import isolated
from catalog.runners.python_function.settings import Settings


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    """Return the function that runs a call. Raises LookupError when no function is registered under the name."""
    function = registry.lookup("tool", settings.function)
    if settings.isolated:
        limits = Limits(settings.cpu_seconds, settings.memory_bytes, settings.max_processes, settings.max_file_bytes)

        def apart(arguments: dict[str, Any], context: Context) -> Awaitable[Any]:
            most = settings.max_output_bytes
            return isolated.call(function, arguments, context, limits, most, django=settings.django)

        return apart
    call, parameters = function.call, function.parameters
    if function.is_async and function.context is None and not function.convert and not function.defaults:

        def quick(arguments: dict[str, Any], context: Context) -> Awaitable[Any]:
            if arguments.keys() <= parameters:
                return call(**arguments)  # type: ignore[no-any-return]
            return invoke(function, arguments, context)

        return quick

    def run(arguments: dict[str, Any], context: Context) -> Awaitable[Any]:
        return invoke(function, arguments, context)

    return run
