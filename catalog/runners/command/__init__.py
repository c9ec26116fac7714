"""Programs on the server's machine, without a shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings as configured
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.runners import hints, secret_refs
from catalog.runners.base import FormWords, Runner
from catalog.runners.command.settings import Settings, not_ready, secret_destinations
from toolhub import contact


def _switched_off() -> str | None:
    if configured.COMMANDS:
        return None
    return "List the programs that they start in TOOLHUB_COMMANDS, or switch the tools off."


def _blocked(settings: Settings | None) -> str | None:
    if configured.COMMANDS:
        return None
    return gettext("Commands are turned off. Add the program to TOOLHUB_COMMANDS and restart.")


def _advice(row: Any) -> Iterator[str]:
    yield from secret_refs.advise_on_plain_values(row.settings, "environment")


RUNNER = Runner(
    name="command",
    title=_("Command: a program on this machine"),
    about=_("A program listed in TOOLHUB_COMMANDS, run without a shell."),
    settings=Settings,
    prepare="catalog.runners.command.runner.prepare",
    form=FormWords(
        main=("program", "arguments", "stdin"),
        labels={
            "program": _("Program"),
            "arguments": _("Arguments"),
            "option": _("Option"),
            "value": _("Value"),
            "each": _("Each"),
            "options": _("Options"),
            "others": _("Others"),
            "result": _("Result"),
            "allow_dash": _("Allow dash"),
            "separator": _("Separator"),
            "folder_argument": _("Folder argument"),
            "commands": _("Commands"),
            "choose": _("Choose"),
            "environment": _("Environment"),
            "folder": _("Folder"),
            "accept_status": _("Accept status"),
            "max_output_bytes": _("Max output bytes"),
            "memory_bytes": _("Memory bytes"),
            "max_processes": _("Max processes"),
            "max_file_bytes": _("Max file bytes"),
            "max_open_files": _("Max open files"),
            "cpu_seconds": _("CPU seconds"),
            "stdin": _("Standard input"),
            "stdin_file": _("Standard input: a file"),
            **secret_refs.LABELS,
            **hints.LABELS,
        },
        choices={"program": lambda: configured.COMMANDS},
    ),
    blocked=_blocked,
    not_ready=not_ready,
    switched_off=_switched_off,
    advice=_advice,
    secret_destinations=secret_destinations,
    bounds=frozenset(
        {
            "accept_status",
            "result",
            "max_output_bytes",
            "cpu_seconds",
            "memory_bytes",
            "max_processes",
            "max_file_bytes",
        }
        | {"max_open_files", "hints"}
    ),
    permission="catalog.use_command_runner",
    permission_refusal=contact.fill_lazily(
        _('You need the permission "Can save tools that run programs on the server". Ask %(contact)s.')
    ),
    position=30,
)
