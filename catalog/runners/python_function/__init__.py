"""Python functions of the installation, in the server process or in a child process."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from catalog.functions import registry as functions
from catalog.runners.base import FormWords, Runner
from catalog.runners.python_function.settings import Settings


def _asks_before_task(settings: Settings) -> bool:
    try:
        return functions.lookup("tool", settings.function).asks_before_task
    except LookupError:
        return False


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
    asks_before_task=_asks_before_task,
    position=10,
)
