"""Settings of a tool that runs a program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from catalog.processes import allowlist
from catalog.runners import destinations, secret_refs
from catalog.runners.destinations import Destination
from catalog.runners.hints import DESCRIPTION, MAX_HINTS, Hint
from catalog.runners.settings_errors import SettingsProblem

OPTION = re.compile(r"-[A-Za-z0-9]|--[A-Za-z0-9][A-Za-z0-9-]*(=[^\0]*)?")
LETTERS = re.compile(r"-[A-Za-z0-9]+")
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")


class Option(BaseModel):
    model_config = ConfigDict(extra="forbid")

    option: str = Field(pattern=r"^--?[A-Za-z0-9][A-Za-z0-9_-]*$", description=_("For example --lines or -n."))
    value: str = Field(min_length=1, description=_("The name of the argument whose value follows the option."))


class Each(BaseModel):
    """The values of an argument that is a list, each of them one complete argument of the program."""

    model_config = ConfigDict(extra="forbid")

    each: str = Field(min_length=1, description=_("The name of the argument that is a list."))
    options: list[str] = Field(
        default_factory=list,
        max_length=100,
        description=_("Options that the values can be, such as -l. Options of one letter can be combined, as in -la."),
    )
    others: bool = Field(default=False, description=_("Whether a value can be anything else, without a leading dash."))

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: list[str]) -> list[str]:
        for option in options:
            if not OPTION.fullmatch(option):
                raise SettingsProblem(_("%(option)s is not an option such as -l or --all"), option=repr(option))
        return options

    def allows(self, text: str) -> bool:
        """Return whether a value with a leading dash is a declared option, or combines several of one letter."""
        if text in self.options:
            return True
        return bool(LETTERS.fullmatch(text)) and all(f"-{letter}" in self.options for letter in text[1:])


def _variant(value: Any) -> str:
    """Return the form of an item, so that a problem is one of that form alone."""
    if isinstance(value, Option | Each):
        return type(value).__name__
    return ("Each" if "each" in value else "Option") if isinstance(value, Mapping) else "str"


Item = Annotated[
    Annotated[str, Tag("str")] | Annotated[Option, Tag("Option")] | Annotated[Each, Tag("Each")],
    Discriminator(_variant),
]


class Command(BaseModel):
    """One program and what it is given."""

    model_config = ConfigDict(extra="forbid")

    program: str = Field(
        default="", max_length=500, description=_("The program, exactly as listed in TOOLHUB_COMMANDS.")
    )
    arguments: list[Item] = Field(
        default_factory=list,
        max_length=100,
        description=_(
            'Fixed texts, "{argument}" alone, {"option": "--lines", "value": "argument"}, or '
            '{"each": "argument", "options": ["-l"]} for a list.'
        ),
    )
    allow_dash: list[str] = Field(default_factory=list, description=_("Arguments whose value may begin with a dash."))
    separator: bool = Field(default=True, description=_('Put "--" before the first "{argument}".'))
    stdin: str = Field(default="", description=_("The argument whose text the program reads as standard input."))
    stdin_file: str = Field(
        default="",
        description=_("The argument that names a workspace file. The program reads this file as standard input."),
    )
    folder_argument: str = Field(
        default="",
        description=_("The argument that names a workspace folder. The program runs in this folder."),
    )

    @field_validator("arguments")
    @classmethod
    def _check_placeholders(cls, arguments: list[Item]) -> list[Item]:
        for item in arguments:
            if isinstance(item, str) and "\0" in item:
                raise SettingsProblem(_("an argument cannot contain a NUL character"))
            if isinstance(item, str) and PLACEHOLDER.search(item) and not PLACEHOLDER.fullmatch(item):
                partial = _("%(argument)s: a placeholder must be a whole argument, with no text around it")
                raise SettingsProblem(partial, argument=repr(item))
        return arguments

    @model_validator(mode="after")
    def _check_combination(self) -> Command:
        if self.stdin and self.stdin_file:
            raise SettingsProblem(_("give either stdin or stdin_file"))
        positional = False
        before = ""
        for item in self.arguments:
            if isinstance(item, str) and PLACEHOLDER.fullmatch(item):
                if not positional and self.separator and before.startswith("-") and before != "--":
                    unclear = _(
                        'write {"option": "%(option)s", "value": "%(name)s"} if {%(name)s} is the value of that '
                        'option. If it is not, put "--" between them'
                    )
                    raise SettingsProblem(unclear, option=before, name=item.strip("{}"))
                positional = True
            elif positional and self.separator and (not isinstance(item, str) or item.startswith("-")):
                raise SettingsProblem(_('put options before the first "{argument}"'))
            before = item if isinstance(item, str) else ""
        return self


class Settings(Command):
    commands: dict[str, Command] = Field(
        default_factory=dict,
        description=_("Several programs. The value of one argument chooses the program."),
    )
    choose: str = Field(default="", description=_("The argument that chooses among `commands`."))
    environment: dict[str, secret_refs.Text] = Field(
        default_factory=dict,
        description=_('All environment variables except PATH and LANG. A value may be {"secret": "name"}.'),
    )
    folder: Literal["temporary", "workspace"] = Field(
        default="temporary",
        description=_("The folder that the program runs in: a new empty folder, removed afterwards, or the workspace."),
    )
    result: Literal["text", "object"] = Field(
        default="text",
        description=_('"object": the result is {"status": 0, "output": "..."}, for a tool with an output schema.'),
    )
    accept_status: list[int] = Field(default=[0], description=_("The exit statuses that count as success."))
    hints: list[Hint] = Field(default_factory=list, max_length=MAX_HINTS, description=DESCRIPTION)
    max_output_bytes: int = Field(
        default=262_144, ge=1, le=16_777_216, description=_("The program is stopped if it writes more.")
    )
    cpu_seconds: int = Field(default=30, ge=1, le=3600, description=_("Limit for each process."))
    memory_bytes: int = Field(
        default=1_073_741_824, ge=16_777_216, le=68_719_476_736, description=_("Limit for each process.")
    )
    max_processes: int = Field(
        default=32, ge=1, le=1000, description=_("Exceeding this number kills all processes of the call.")
    )
    max_file_bytes: int = Field(default=67_108_864, ge=0, description=_("The largest file that the program may write."))
    max_open_files: int = Field(default=256, ge=16, le=4096)

    @field_validator("environment")
    @classmethod
    def _check_names(cls, environment: dict[str, secret_refs.Text]) -> dict[str, secret_refs.Text]:
        for name in environment:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise SettingsProblem(_("%(name)s is not a valid environment variable name"), name=repr(name))
            if name.startswith("LD_") or name in {"PATH", "IFS", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONHOME"}:
                raise SettingsProblem(_("%(name)s cannot be set because it decides which code runs"), name=name)
        return environment

    @model_validator(mode="after")
    def _check_choice(self) -> Settings:
        if bool(self.commands) == bool(self.program) or bool(self.commands) != bool(self.choose):
            raise SettingsProblem(_("give either program, or commands with choose"))
        for name, command in self.commands.items():
            if not command.program:
                missing = SettingsProblem(_("Field required"))
                raise SettingsProblem(_("%(what)s: %(why)s"), what=f"commands.{name}.program", why=missing)
        if self.commands and (self.arguments or self.stdin or self.stdin_file or self.folder_argument):
            raise SettingsProblem(_("with commands, set arguments, stdin and folder in each command"))
        return self


def secret_destinations(settings: Settings) -> Iterator[Destination]:
    """Yield each program: the environment with its secrets is the same for all of them."""
    shared = {"environment": destinations.describe_texts(settings.environment), "folder": settings.folder}
    for command in settings.commands.values() or [settings]:
        own = command.model_dump(mode="json", include=set(Command.model_fields))
        words = [_describe(item) for item in command.arguments]
        yield destinations.to_program(command.program, words, {**own, **shared})


def _describe(item: Item) -> str:
    if isinstance(item, Each):
        return f"{{{item.each}}}..."
    return item if isinstance(item, str) else f"{item.option} {{{item.value}}}"


def not_ready(settings: Settings) -> str | None:
    """Return the reason why a tool with these settings could not run on this installation, or None."""
    for command in settings.commands.values() or [settings]:
        if problem := allowlist.find_problem(command.program):
            return problem
    return None
