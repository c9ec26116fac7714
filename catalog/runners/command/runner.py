"""One run of a program. There is no shell: every value is passed as one complete argument, or not at all."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from catalog import workspace
from catalog.errors import ToolError
from catalog.functions.content import Result, Structured, Text
from catalog.functions.context import Context
from catalog.functions.results import dump
from catalog.functions.sanitise import sanitise_text
from catalog.processes import allowlist
from catalog.processes.launch import Child, Limits, Order, Report, read, run_program, write_stdin
from catalog.runners import secret_refs
from catalog.runners.command.settings import PLACEHOLDER, Command, Each, Option, Settings, not_ready

MAX_VALUE_BYTES = 100_000
MAX_EXCERPT_CHARACTERS = 2000
MAX_VALUES = 100
"""Maximum number of values of a list."""


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    if problem := not_ready(settings):
        raise LookupError(problem)
    limits = Limits(
        settings.cpu_seconds,
        settings.memory_bytes,
        settings.max_processes,
        settings.max_file_bytes,
        settings.max_open_files,
    )

    async def run(arguments: dict[str, Any], context: Context) -> Any:
        command: Command = settings
        if settings.commands:
            chosen = settings.commands.get(str(arguments.get(settings.choose)))
            if chosen is None:
                raise ToolError(f"{settings.choose} must be one of: {', '.join(settings.commands)}.")
            command = chosen
        given = build_arguments(command, arguments)
        environment = {"PATH": allowlist.PATH, "LANG": "C.UTF-8"}
        environment |= {name: secret_refs.reveal(text, context.secrets) for name, text in settings.environment.items()}
        if any("\0" in text for text in environment.values()):
            raise ToolError("A value of the program's environment contains a NUL character.")
        with ExitStack() as stack:
            order = Order(
                allowlist.programs()[command.program],
                given,
                environment,
                _folder_fd(settings, command, arguments, stack),
                "toolhub-command-",
                limits=limits,
                name=command.program,
            )
            text = _text(command.stdin, arguments[command.stdin]) if arguments.get(command.stdin) is not None else None
            stdin: int | None = asyncio.subprocess.PIPE if text is not None else None
            if command.stdin_file and arguments.get(command.stdin_file) is not None:
                stdin = stack.enter_context(workspace.open_file(str(arguments[command.stdin_file])))
            async with run_program(order, stdin=stdin, user_id=context.caller.user_id) as child:
                stack.close()  # the child has its own copies
                return await _finish(child, settings, text)

    return run


def build_arguments(command: Command, arguments: dict[str, Any]) -> list[str]:
    """Return the list of arguments: each value is one of them, complete and literal."""
    built: list[str] = []
    separated = not command.separator
    for item in command.arguments:
        if isinstance(item, Option):
            built += _option(command, item, arguments.get(item.value))
            continue
        if isinstance(item, Each):
            options, others = _each(item, arguments.get(item.each))
            built += options
            if others and not separated:
                built.append("--")
                separated = True
            built += others
            continue
        match = PLACEHOLDER.fullmatch(item)
        if match is None:
            separated = separated or item == "--"
            built.append(item)
            continue
        if not separated:
            built.append("--")
            separated = True
        if arguments.get(match[1]) is not None:
            built.append(_value(command, match[1], arguments[match[1]]))
    return built


def _option(command: Command, item: Option, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    return [item.option] if value is True else [item.option, _value(command, item.value, value)]


def _each(item: Each, values: Any) -> tuple[list[str], list[str]]:
    """Return the options among the values of a list, and the others. Raises ToolError for one that is not declared."""
    if values is None:
        return [], []
    if not isinstance(values, list) or len(values) > MAX_VALUES:
        raise ToolError(f"The argument {item.each} must be a list of at most {MAX_VALUES} values.")
    options, others = [], []
    for value in values:
        text = _text(item.each, value)
        if text.startswith("-"):
            if not item.allows(text):
                declared = ", ".join(item.options) or "none"
                raise ToolError(f"{text[:100]!r} is not an option of this tool. Its options: {declared}.")
            options.append(text)
        elif item.others:
            others.append(text)
        else:
            raise ToolError(f"{text[:100]!r} is not allowed in {item.each}: it takes only options such as -l.")
    return options, others


def _value(command: Command, name: str, value: Any) -> str:
    text = _text(name, value)
    if text.startswith("-") and name not in command.allow_dash:
        raise ToolError(f"The argument {name} must not begin with a dash.")
    return text


def _text(name: str, value: Any) -> str:
    if isinstance(value, (dict, list)):
        raise ToolError(f"The argument {name} must be a text, a number or a boolean.")
    text = value if isinstance(value, str) else dump(value)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ToolError(f"The argument {name} is not valid text.") from None
    if "\0" in text:
        raise ToolError(f"The argument {name} contains a NUL character.")
    if size > MAX_VALUE_BYTES:
        raise ToolError(f"The argument {name} is longer than {MAX_VALUE_BYTES} bytes.")
    return text


def _folder_fd(settings: Settings, command: Command, arguments: dict[str, Any], stack: ExitStack) -> int | None:
    """Return the open working folder; None for a new one.

    A folder of the workspace is passed as an open descriptor, so that it cannot be swapped for another one.
    """
    wanted = arguments.get(command.folder_argument) if command.folder_argument else None
    if wanted is not None or settings.folder == "workspace" or command.folder_argument:
        return stack.enter_context(workspace.open_folder(str(wanted or "")))
    return None


async def _finish(child: Child, settings: Settings, text: str | None) -> Any:
    max_bytes = settings.max_output_bytes
    feeding = asyncio.ensure_future(write_stdin(child, text.encode())) if text is not None else None
    errors = asyncio.ensure_future(_read_or_stop(child, child.stderr, max_bytes))
    try:
        output, cut = await _read_or_stop(child, child.stdout, max_bytes)
        errors_output, errors_cut = await errors
    finally:
        errors.cancel()
        if feeding is not None:
            feeding.cancel()
    report = await child.report()
    return _answer(settings, report, output, errors_output, cut or errors_cut)


async def _read_or_stop(child: Child, stream: Any, max_bytes: int) -> tuple[bytes, bool]:
    output, cut = await read(stream, max_bytes)
    if cut:
        child.stop(at_once=True)
        while await stream.read(65_536):
            pass  # the output already in the pipe
    return output, cut


def _answer(settings: Settings, report: Report, output: bytes, errors_output: bytes, cut: bool) -> Any:
    text = output.decode("utf-8", "replace")
    if cut:
        note = f"[The output was truncated after {settings.max_output_bytes} bytes and the program was stopped.]"
        return Result([Text(text), Text(note)], is_error=True)
    if report.why == "processes":
        raise ToolError(f"The program was stopped: it had started more than {settings.max_processes} processes.")
    if report.status in settings.accept_status and report.why == "ended":
        if settings.result == "object":
            return Structured({"status": report.status, "output": text}, [text])
        return Text(text)
    sentence = _format_ending(settings, report)
    excerpt = " ".join(sanitise_text(errors_output.decode("utf-8", "replace"))[0].split())[:MAX_EXCERPT_CHARACTERS]
    if excerpt:
        sentence += f" Its output: {excerpt}"
    code = "" if report.status is None else str(report.status)
    return Result([Text(sentence), *([Text(text)] if text else [])], is_error=True, code=code)


def _format_ending(settings: Settings, report: Report) -> str:
    status = report.status
    if status is None:
        return "The program was stopped from outside."
    if status >= 0:
        return f"The program exited with status {status}."
    bound = {
        signal.SIGXCPU: f" It used more than {settings.cpu_seconds} s of processor time.",
        signal.SIGXFSZ: f" It wrote a file of more than {settings.max_file_bytes} bytes.",
    }
    try:
        name = signal.Signals(-status)
    except ValueError:
        return f"The program was stopped by signal {-status}."
    return f"The program was stopped by {name.name}.{bound.get(name, '')}"
