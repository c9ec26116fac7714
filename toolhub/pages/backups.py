"""What to back up of this installation, and how: the exact commands, keys and files.

The hub cannot see a backup, so a person confirms it: their name and the time are stored, and logged as admin activity.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from audit.integrity import verification
from toolhub import env, invisible
from toolhub.pages.models import BackupConfirmation
from toolhub.pages.staff import page, staff_page

FOLDER = "/path/to/backups"
"""What stands for the operator's own folder in commands."""
RESTORED = "/path/to/new-data"
"""What stands for the new data folder in the commands of a restore."""
PYTHON_COPY = (
    "import pathlib, sqlite3, sys; "
    "sqlite3.connect(pathlib.Path(sys.argv[1]).as_uri() + '?mode=ro', uri=True).backup(sqlite3.connect(sys.argv[2]))"
)
KEYS = (
    ("TOOLHUB_ENCRYPTION_KEYS", "encryption-key",
     gettext_lazy("Without it, secrets, connected accounts and second factors cannot be read.")),
    ("TOOLHUB_RECORD_KEY", "record-key", gettext_lazy("Without it, the audit log cannot be verified.")),
    ("TOOLHUB_RECORD_OLD_KEYS", "", gettext_lazy("Earlier keys of the audit log. Verification needs them, too.")),
    ("TOOLHUB_SECRET_KEY", "secret-key",
     gettext_lazy("Without it, everybody signs in again, and open invitations stop working.")),
)  # fmt: skip
"""Variable, name of the generated file, and what the key is for."""
PLACES = {
    "variable": gettext_lazy("in the environment of the server"),
    "file": gettext_lazy("in the file"),
    "generated": gettext_lazy("generated, in the file"),
}
"""Kind of `env.locate_secret` -> its words."""
CHECKS = tuple(f".venv/bin/python manage.py {command}" for command in ("migrate", "verifycalls", "serve"))
EXAMPLE = "TOOLHUB_CHECKPOINT_FILE=/mnt/elsewhere/checkpoints.jsonl"


@dataclass(frozen=True, slots=True)
class Key:
    """A key that reading the backup needs: the variable, and where its value is kept now."""

    name: str
    purpose: str
    place: str
    path: str


@dataclass(frozen=True, slots=True)
class Commands:
    """Shell commands; each list is run line by line."""

    copy: list[str]
    copy_with_python: list[str]
    """The same without the sqlite3 program; [] on PostgreSQL."""
    restore: list[str]


@staff_page("pages.manage_backups")
@require_safe
def backups(request: HttpRequest) -> HttpResponse:
    last, confirmation = verification.find_last(), BackupConfirmation.objects.first()
    return page(
        request,
        "admin/pages/backups.html",
        _("Backups"),
        confirmation=confirmation,
        confirmed_by=invisible.show(confirmation.confirmed_by) if confirmation is not None else "",
        commands=list_commands(connection.settings_dict),
        is_sqlite=_is_sqlite(connection.settings_dict),
        keys=list_keys(),
        workspace=invisible.show(str(settings.WORKSPACE_DIR)),
        checks=CHECKS,
        example=[EXAMPLE],
        checkpoint_file=invisible.show(settings.CHECKPOINT_FILE),
        checkpoint_is_near=_is_in_data_folder(settings.CHECKPOINT_FILE),
        compared=last is not None and last.outside_head,
    )


@staff_page("pages.manage_backups")
@require_POST
def confirm(request: HttpRequest) -> HttpResponse:
    values = {"confirmed_by": cast(User, request.user).get_username(), "confirmed_at": timezone.now()}
    # The first one stays: it is not about who pressed last.
    BackupConfirmation.objects.get_or_create(pk=BackupConfirmation.ONLY, defaults=values)
    messages.success(request, _("Backups are confirmed."))
    return redirect("pages:backups")


@staff_page("pages.manage_backups")
@require_POST
def withdraw(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        for confirmation in BackupConfirmation.objects.all():
            confirmation.delete()
    messages.success(request, _("The confirmation was withdrawn."))
    return redirect("pages:backups")


def list_commands(database: Mapping[str, Any]) -> Commands:
    """Return the commands for a database with these settings (as in `settings.DATABASES`), without its password."""
    name = str(database["NAME"])
    if _is_sqlite(database):
        source, target = shlex.quote(str(Path(name).absolute())), f"{FOLDER}/toolhub.sqlite3"
        return Commands(
            copy=[f"sqlite3 -readonly {source} '.backup {target}'"],
            copy_with_python=[f'python3 -c "{PYTHON_COPY}" {source} {target}'],
            restore=[f"mkdir -m 700 {RESTORED}", f"cp {target} {RESTORED}/toolhub.sqlite3"],
        )
    pairs = (("host", database["HOST"]), ("port", database["PORT"]), ("username", database["USER"]))
    server = " ".join(f"--{option}={shlex.quote(str(value))}" for option, value in pairs if value)
    server, dump, quoted = f" {server}" if server else "", f"{FOLDER}/toolhub.dump", shlex.quote(name)
    return Commands(
        copy=[f"pg_dump{server} --format=custom --file={dump} {quoted}"],
        copy_with_python=[],
        restore=[
            f"createdb{server} toolhub_restored",
            f"pg_restore{server} --exit-on-error --no-owner --dbname=toolhub_restored {dump}",
        ],
    )


def list_keys() -> list[Key]:
    """Return the keys that this installation uses; only where they are, never a value."""
    found = []
    for name, file, purpose in KEYS:
        kind, path = env.locate_secret(name, settings.DATA_DIR / file)
        if kind:
            found.append(Key(name, str(purpose), str(PLACES[kind]), invisible.show(path)))
    return found


def _is_sqlite(database: Mapping[str, Any]) -> bool:
    return str(database["ENGINE"]).endswith(".sqlite3")


def _is_in_data_folder(path: str) -> bool:
    return bool(path) and Path(path).absolute().is_relative_to(settings.DATA_DIR)
