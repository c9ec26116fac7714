"""A registered function in a child process that can be killed: the server's side of the module `child`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from catalog import threads
from catalog.errors import InvalidArguments, ProtocolError, ToolError
from catalog.functions.content import ABSENT
from catalog.functions.context import Context
from catalog.functions.results import Produced
from catalog.functions.signatures import Function
from catalog.functions.updates import resource_updated
from catalog.message_load import MessageLoad, TooManyValues
from catalog.processes import environment
from catalog.processes.launch import Child, Limits, Order, Report, read, run_program, write_stdin
from toolhub import contact
from toolhub.wire.json_size import MAX_VALUES

CHILD_MODULE = "catalog.runners.python_function.child"
ROOT = Path(__file__).resolve().parents[3]
MAX_INLINE_BYTES = 262_144
MAX_STDERR_BYTES = 65_536
log = logging.getLogger(__name__)


async def call(
    function: Function, arguments: dict[str, Any], context: Context, limits: Limits, max_bytes: int, *, django: bool
) -> Any:
    """Return the function's value as plain data. Raises ToolError with the reason when the child ends otherwise."""
    request = _request(function, arguments, context, django)
    order = Order(
        sys.executable,
        ["-m", CHILD_MODULE],
        {
            **environment.for_function(database=django),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *_search_path()]),
            "PYTHONFAULTHANDLER": "",
        },
        folder_prefix="toolhub-isolated-",
        limits=limits,
    )
    user_id = context.caller.user_id
    async with run_program(order, stdin=asyncio.subprocess.PIPE, user_id=user_id, max_line_bytes=max_bytes) as child:
        errors = asyncio.ensure_future(_drain(child))
        feeding = asyncio.ensure_future(write_stdin(child, request))
        try:
            message = await _listen(child, context, max_bytes)
        except BaseException:
            errors.cancel()
            raise
        finally:
            feeding.cancel()
        if message is None:
            report = await child.report()
            output = await errors
            _raise_ended(report, output, limits, context)
        child.stop(at_once=True)  # no process that it started outlives its answer
        output = await errors
        await child.report()
    return _result(message, context, output)


def _search_path() -> list[str]:
    return [path for path in sys.path if path and Path(path).is_dir()]


def _request(function: Function, arguments: dict[str, Any], context: Context, django: bool) -> bytes:
    caller = dataclasses.asdict(context.caller)
    toolsets = caller["credential"]["toolset_ids"]
    caller["credential"]["toolset_ids"] = None if toolsets is None else sorted(toolsets)
    remaining = context.deadline - time.monotonic()
    return json.dumps(
        {
            "module": function.call.__module__,
            "function": function.name,
            "django": django,
            "arguments": arguments,
            "caller": caller,
            "capabilities": dict(context.capabilities),
            "request_id": context.channel.request_id,
            "name": context.name,
            "call_id": str(context.call_id),
            "seconds": remaining if math.isfinite(remaining) else None,
            "secrets": dict(context.secrets),
        }
    ).encode()


async def _listen(child: Child, context: Context, max_bytes: int) -> dict[str, Any] | None:
    """Pass on progress and log lines until the answer, and return it. None when the child ends without an answer."""
    assert child.stdout is not None  # noqa: S101 - every child has its pipes
    load = MessageLoad()
    while True:
        try:
            line = await child.stdout.readline()
        except ValueError:
            child.stop(at_once=True)
            raise ToolError(f"The tool returned more than the {max_bytes} bytes that it may.") from None
        if not line.endswith(b"\n"):
            return None
        try:
            await load.read_whole(line)
        except TooManyValues:
            child.stop(at_once=True)
            raise ToolError(f"The tool returned more than {MAX_VALUES:,} values. Ask it for less.") from None
        message = await _parsed(line)
        if "progress" in message:
            await context.progress(*message["progress"])
        elif "log" in message:
            level, data, logger = message["log"]
            await context.log(data, level, logger)
        elif "updated" in message:
            resource_updated(str(message["updated"]))
        else:
            return message


async def _parsed(line: bytes) -> dict[str, Any]:
    parse: Callable[[], Any] = lambda: json.loads(line)  # noqa: E731
    try:
        found: dict[str, Any] = parse() if len(line) < MAX_INLINE_BYTES else await threads.checks().run(parse)
    except (ValueError, RecursionError):
        raise ToolError("The tool's process returned an unreadable result.") from None
    return found


async def _drain(child: Child) -> bytes:
    """Return the beginning of the printed output.

    The rest is read and dropped, so that the child never blocks on a full pipe.
    """
    output, more = await read(child.stderr, MAX_STDERR_BYTES)
    assert child.stderr is not None  # noqa: S101
    while more and await child.stderr.read(MAX_STDERR_BYTES):
        pass
    return output


def _raise_ended(report: Report, output: bytes, limits: Limits, context: Context) -> NoReturn:
    _log_output(output, context)
    raise ToolError(_format_ending(report, limits))


def _format_ending(report: Report, limits: Limits) -> str:
    if report.why == "processes":
        return f"The tool was stopped: it had started more than {limits.processes} processes."
    if report.status is None:
        return "The tool's process was stopped from outside."
    if report.status >= 0:
        return f"The tool's process exited with status {report.status}, without a result."
    if -report.status == signal.SIGXCPU:
        return f"The tool was stopped: it used more than {limits.cpu_seconds} s of processor time."
    try:
        name = signal.Signals(-report.status).name
    except ValueError:
        name = f"signal {-report.status}"
    return f"The tool's process crashed ({name}), without a result. toolhub is not affected."


def _log_output(output: bytes, context: Context) -> None:
    if output.strip():
        log.warning(
            "call %s of %s printed: %s", context.call_id, context.name, output.decode("utf-8", "replace")[-4000:]
        )


def _result(message: dict[str, Any], context: Context, output: bytes) -> Any:
    if "value" in message:
        return message["value"]
    if "produced" in message:
        content, structured, *rest = message["produced"]
        return Produced(content, structured[0] if structured else ABSENT, *rest)
    _log_output(output, context)
    match message.get("error"):
        case ["tool", str(sentence)]:
            raise ToolError(sentence)
        case ["arguments", str(sentence)]:
            raise InvalidArguments(sentence)
        case ["protocol", str(sentence), int(code)]:
            raise ProtocolError(code, sentence)
        case ["exit", str(status)]:
            raise ToolError(f"The tool ended its process (status {status}), without a result.")
        case _:
            raise ToolError(
                f"The tool failed unexpectedly. Ask {contact.english()}: the server log has the details under call "
                f"{context.call_id}."
            )
