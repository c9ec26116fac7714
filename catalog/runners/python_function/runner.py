"""Runs a registered Python function: {"function": "name"}.

With `"isolated": true` each call runs in a process of its own, which its deadline kills, and whose memory, processor
time and processes are bounded: for functions that may loop for ever, crash or grow. Starting it takes about half a
second; such a function can report progress and log, and cannot ask the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from catalog.functions import registry
from catalog.functions.context import Context
from catalog.functions.invoke import invoke
from catalog.processes.launch import Limits
from catalog.runners.python_function import isolated


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    function: str = Field(min_length=1, max_length=200, description="The name the function is registered under.")
    isolated: bool = Field(default=False, description="Run each call in its own process, which can be killed.")
    django: bool = Field(
        default=False, description="Isolated only: set up Django first, for functions that use the database."
    )
    memory_bytes: int = Field(
        default=1_073_741_824, ge=134_217_728, le=68_719_476_736, description="Isolated only: limit for each process."
    )
    cpu_seconds: int = Field(default=60, ge=1, le=86_400, description="Isolated only: limit for each process.")
    max_processes: int = Field(
        default=16, ge=1, le=1000, description="Isolated only: exceeding this number kills all processes of the call."
    )
    max_file_bytes: int = Field(default=67_108_864, ge=0, description="Isolated only: the largest file it may write.")
    max_output_bytes: int = Field(
        default=16_777_216, ge=1024, le=134_217_728, description="Isolated only: the largest result."
    )


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    """LookupError when no function is registered under the name."""
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
