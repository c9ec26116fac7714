"""Python functions of the installation, in the server process or in a child process."""

from __future__ import annotations

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.functions import registry as functions
from catalog.runners.base import FormWords, Runner
from catalog.runners.python_function.settings import Settings
from toolhub.invisible import show


def _asks_before_task(settings: Settings) -> bool:
    try:
        return functions.lookup("tool", settings.function).asks_before_task
    except LookupError:
        return False


def _blocked(settings: Settings | None) -> str | None:
    if settings is None:
        return None
    try:
        functions.lookup("tool", settings.function)
    except LookupError:
        missing = gettext(
            "No function is registered as %(name)s. Add the module that registers it to TOOLHUB_TOOL_MODULES and "
            "restart."
        )
        return missing % {"name": show(settings.function)}
    return None


RUNNER = Runner(
    name="python_function",
    title=_("Python function"),
    about=_("A Python function that a module in TOOLHUB_TOOL_MODULES registers."),
    settings=Settings,
    prepare="catalog.runners.python_function.runner.prepare",
    form=FormWords(
        main=("function",),
        labels={
            "function": _("Function"),
            "isolated": _("Isolated"),
            "django": _("Django"),
            "memory_bytes": _("Memory bytes"),
            "max_processes": _("Max processes"),
            "max_file_bytes": _("Max file bytes"),
            "max_output_bytes": _("Max output bytes"),
            "cpu_seconds": _("CPU seconds"),
        },
        choices={"function": lambda: functions.list_functions("tool")},
        fill_from="function",
        fill=functions.tool_row,
    ),
    blocked=_blocked,
    asks_before_task=_asks_before_task,
    position=10,
)
