"""The programs that tools may start: those in TOOLHUB_COMMANDS, each looked up once on a fixed path."""

from __future__ import annotations

import functools
import os
import shutil

from django.conf import settings
from django.utils.translation import gettext as _

PATH = "/usr/local/bin:/usr/bin:/bin"
INTERPRETERS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "env", "xargs", "find"})
INTERPRETERS |= {"awk", "gawk", "mawk", "sed", "perl", "ruby", "node", "python", "php", "lua", "tclsh", "make", "vi"}
INTERPRETERS |= {"vim", "ed", "ssh", "sudo", "su", "doas", "nice", "nohup", "setsid", "timeout", "watch", "strace"}
INTERPRETERS |= {"gdb", "git", "tar", "rsync", "docker"}
"""Programs that run other programs: control over their arguments allows running anything."""


def programs() -> dict[str, str]:
    """Return {name in the setting: absolute path}; programs that were not found are missing."""
    return _resolve(tuple(settings.COMMANDS))


def find_problem(program: str) -> str | None:
    """Return the reason why this program may not be started, as a sentence, or None."""
    if not settings.COMMANDS:
        return _("Commands are turned off. Add the program to TOOLHUB_COMMANDS and restart.")
    if program not in settings.COMMANDS:
        listed = ", ".join(settings.COMMANDS)
        return _("%(program)s is not listed in TOOLHUB_COMMANDS: %(listed)s. Add it and restart.") % {
            "program": program,
            "listed": listed,
        }
    if program not in programs():
        missing = _(
            "%(program)s is listed in TOOLHUB_COMMANDS, but was not found in %(path)s. Install it on the server."
        )
        return missing % {"program": program, "path": PATH}
    return None


def list_interpreters() -> list[str]:
    """Return the listed programs that can run others."""
    return [name for name in settings.COMMANDS if os.path.basename(name).rstrip("0123456789.") in INTERPRETERS]


@functools.lru_cache(maxsize=8)
def _resolve(names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in names:
        if os.path.isabs(name):
            path: str | None = name if os.path.isfile(name) and os.access(name, os.X_OK) else None
        else:
            path = shutil.which(name, path=PATH) if "/" not in name else None
        if path is not None:
            found[name] = path
    return found
