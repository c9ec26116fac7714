"""Runs a program of the hub's own machine. There is no shell: every value arrives as one whole argument, or not at all.

    {"program": "wc", "arguments": ["-l", {"option": "--files0-from", "value": "list"}, "{path}"]}

- `"{path}"` is the argument of that name, alone; text around it is refused. One without a value is left out.
- `{"option": "--lines", "value": "count"}` is an option and its value; when the value is true, the option alone; when
  there is none, nothing.
- A value that begins with a dash is refused, unless its argument is listed in `allow_dash`. Before the first `"{...}"`
  the runner puts `--`, after which no program takes an argument for an option.
- `commands` with `choose` lets one argument choose among several programs.

Only programs that the setting TOOLHUB_COMMANDS lists are started; saving such a tool needs the permission
`catalog.use_command_runner`. A program runs as the hub's own user, so that what it can read, the hub's files included,
is bounded by what it does and not by this runner: list programs that do one harmless thing.
"""

from __future__ import annotations

import asyncio
import re
import signal
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Literal

from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from catalog import workspace
from catalog.errors import ToolError
from catalog.functions.content import Result, Text
from catalog.functions.context import Context
from catalog.functions.results import dump
from catalog.functions.sanitise import harmless
from catalog.processes import allowed
from catalog.processes.launch import Child, Limits, Order, Report, feed, launched, read
from catalog.runners import secret_refs

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")
MAX_VALUE_BYTES = 100_000
EXCERPT_CHARACTERS = 2000


class Option(BaseModel):
    model_config = ConfigDict(extra="forbid")

    option: str = Field(pattern=r"^--?[A-Za-z0-9][A-Za-z0-9_-]*$", description="For example --lines or -n.")
    value: str = Field(min_length=1, description="The name of the argument whose value follows the option.")


class Command(BaseModel):
    """One program and what it is given."""

    model_config = ConfigDict(extra="forbid")

    program: str = Field(default="", max_length=500, description="The program, exactly as listed in TOOLHUB_COMMANDS.")
    arguments: list[str | Option] = Field(
        default_factory=list,
        max_length=100,
        description='Fixed texts, "{argument}" alone, or {"option": "--lines", "value": "argument"}.',
    )
    allow_dash: list[str] = Field(default_factory=list, description="Arguments whose value may begin with a dash.")
    separator: bool = Field(default=True, description='Put "--" before the first "{argument}".')
    stdin: str = Field(default="", description="The argument whose text the program reads as standard input.")
    stdin_file: str = Field(
        default="",
        description="The argument that names a workspace file. The program reads this file as standard input.",
    )
    folder_argument: str = Field(
        default="", description="The argument that names a workspace folder. The program runs in this folder."
    )

    @field_validator("arguments")
    @classmethod
    def _a_placeholder_is_a_whole_argument(cls, arguments: list[str | Option]) -> list[str | Option]:
        for item in arguments:
            if isinstance(item, str) and "\0" in item:
                raise ValueError(_("an argument cannot contain a NUL character"))
            if isinstance(item, str) and PLACEHOLDER.search(item) and not PLACEHOLDER.fullmatch(item):
                partial = _("%(argument)s: a placeholder must be a whole argument, with no text around it")
                raise ValueError(partial % {"argument": repr(item)})
        return arguments

    @model_validator(mode="after")
    def _it_fits_together(self) -> Command:
        if self.stdin and self.stdin_file:
            raise ValueError(_("give either stdin or stdin_file"))
        positional = False
        before = ""
        for item in self.arguments:
            if isinstance(item, str) and PLACEHOLDER.fullmatch(item):
                if not positional and self.separator and before.startswith("-") and before != "--":
                    unclear = _(
                        'write {"option": "%(option)s", "value": "%(name)s"} if {%(name)s} is the value of that '
                        'option. If it is not, put "--" between them'
                    )
                    raise ValueError(unclear % {"option": before, "name": item.strip("{}")})
                positional = True
            elif positional and self.separator and (isinstance(item, Option) or item.startswith("-")):
                raise ValueError(_('put options before the first "{argument}"'))
            before = item if isinstance(item, str) else ""
        return self


class Settings(Command):
    commands: dict[str, Command] = Field(
        default_factory=dict, description="Several programs. The value of one argument chooses the program."
    )
    choose: str = Field(default="", description="The argument that chooses among `commands`.")
    environment: dict[str, secret_refs.Text] = Field(
        default_factory=dict,
        description='All environment variables except PATH and LANG. A value may be {"secret": "name"}.',
    )
    folder: Literal["temporary", "workspace"] = Field(
        default="temporary",
        description="The folder that the program runs in: a new empty folder, removed afterwards, or the workspace.",
    )
    accept_status: list[int] = Field(default=[0], description="The exit statuses that count as success.")
    max_output_bytes: int = Field(
        default=262_144, ge=1, le=16_777_216, description="The program is stopped if it writes more."
    )
    cpu_seconds: int = Field(default=30, ge=1, le=3600, description="Limit for each process.")
    memory_bytes: int = Field(
        default=1_073_741_824, ge=16_777_216, le=68_719_476_736, description="Limit for each process."
    )
    max_processes: int = Field(
        default=32, ge=1, le=1000, description="Exceeding this number kills all processes of the call."
    )
    max_file_bytes: int = Field(default=67_108_864, ge=0, description="The largest file that the program may write.")
    max_open_files: int = Field(default=256, ge=16, le=4096)

    @field_validator("environment")
    @classmethod
    def _names_are_names(cls, environment: dict[str, secret_refs.Text]) -> dict[str, secret_refs.Text]:
        for name in environment:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(_("%(name)s is not a valid environment variable name") % {"name": repr(name)})
            if name.startswith("LD_") or name in {"PATH", "IFS", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONHOME"}:
                raise ValueError(_("%(name)s cannot be set because it decides which code runs") % {"name": name})
        return environment

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> Settings:
        if bool(self.commands) == bool(self.program) or bool(self.commands) != bool(self.choose):
            raise ValueError(_("give either program, or commands with choose"))
        for name, command in self.commands.items():
            if not command.program:
                said = {"what": f"commands.{name}.program", "why": _("Field required")}
                raise ValueError(_("%(what)s: %(why)s") % said)
        if self.commands and (self.arguments or self.stdin or self.stdin_file or self.folder_argument):
            raise ValueError(_("with commands, set arguments, stdin and folder in each command"))
        return self


def not_ready(settings: Settings) -> str | None:
    """Why a tool with these settings could not run on this installation."""
    for command in settings.commands.values() or [settings]:
        if problem := allowed.problem(command.program):
            return problem
    return None


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
        given = build(command, arguments)
        environment = {"PATH": allowed.PATH, "LANG": "C.UTF-8"}
        environment |= {name: secret_refs.reveal(text, context.secrets) for name, text in settings.environment.items()}
        if any("\0" in text for text in environment.values()):
            raise ToolError("A value of the program's environment holds a NUL character.")
        with ExitStack() as stack:
            order = Order(
                allowed.programs()[command.program],
                given,
                environment,
                **_place(settings, command, arguments, stack),
                limits=limits,
                name=command.program,
            )
            text = _text(command.stdin, arguments[command.stdin]) if arguments.get(command.stdin) is not None else None
            stdin: int | None = asyncio.subprocess.PIPE if text is not None else None
            if command.stdin_file and arguments.get(command.stdin_file) is not None:
                stdin = stack.enter_context(workspace.opened(str(arguments[command.stdin_file])))
            async with launched(order, stdin=stdin) as child:
                stack.close()  # the child has its own copies
                return await _finish(child, settings, text)

    return run


def build(command: Command, arguments: dict[str, Any]) -> list[str]:
    """The list of arguments: each value is one of them, whole and literal."""
    built: list[str] = []
    separated = not command.separator
    for item in command.arguments:
        if isinstance(item, Option):
            built += _option(command, item, arguments.get(item.value))
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
        raise ToolError(f"The argument {name} holds a NUL character.")
    if size > MAX_VALUE_BYTES:
        raise ToolError(f"The argument {name} is longer than {MAX_VALUE_BYTES} bytes.")
    return text


def _place(settings: Settings, command: Command, arguments: dict[str, Any], stack: ExitStack) -> dict[str, Any]:
    """Where it runs. A folder of the workspace is handed over open, so that nothing can be swapped for it."""
    wanted = arguments.get(command.folder_argument) if command.folder_argument else None
    if wanted is not None or settings.folder == "workspace" or command.folder_argument:
        descriptor = stack.enter_context(workspace.opened_folder(str(wanted or "")))
        return {"folder": "/", "folder_fd": descriptor}
    return {"folder": tempfile.mkdtemp(prefix="toolhub-command-"), "remove": True}


async def _finish(child: Child, settings: Settings, text: str | None) -> Any:
    most = settings.max_output_bytes
    feeding = asyncio.ensure_future(feed(child, text.encode())) if text is not None else None
    errors = asyncio.ensure_future(_read_or_stop(child, child.stderr, most))
    try:
        output, cut = await _read_or_stop(child, child.stdout, most)
        said, said_more = await errors
    finally:
        errors.cancel()
        if feeding is not None:
            feeding.cancel()
    report = await child.report()
    return _answer(settings, report, output, said, cut or said_more)


async def _read_or_stop(child: Child, stream: Any, most: int) -> tuple[bytes, bool]:
    output, cut = await read(stream, most)
    if cut:
        child.stop(at_once=True)
        while await stream.read(65_536):
            pass  # what was in the pipe already
    return output, cut


def _answer(settings: Settings, report: Report, output: bytes, said: bytes, cut: bool) -> Any:
    text = output.decode("utf-8", "replace")
    if cut:
        note = f"[The output was cut off after {settings.max_output_bytes} bytes and the program was stopped.]"
        return Result([Text(text), Text(note)], is_error=True)
    if report.why == "processes":
        raise ToolError(f"The program was stopped: it had started more than {settings.max_processes} processes.")
    if report.status in settings.accept_status and report.why == "ended":
        return Text(text)
    sentence = _ending(settings, report)
    excerpt = " ".join(harmless(said.decode("utf-8", "replace"))[0].split())[:EXCERPT_CHARACTERS]
    if excerpt:
        sentence += f" It said: {excerpt}"
    return Result([Text(sentence), *([Text(text)] if text else [])], is_error=True)


def _ending(settings: Settings, report: Report) -> str:
    status = report.status
    if status is None:
        return "The program was stopped from outside."
    if status >= 0:
        return f"The program ended with status {status}."
    bound = {
        signal.SIGXCPU: f" It used more than {settings.cpu_seconds} s of processor time.",
        signal.SIGXFSZ: f" It wrote a file of more than {settings.max_file_bytes} bytes.",
    }
    try:
        name = signal.Signals(-status)
    except ValueError:
        return f"The program was ended by signal {-status}."
    return f"The program was ended by {name.name}.{bound.get(name, '')}"
