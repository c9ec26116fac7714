"""`manage.py quickstart`: set up and start a hub with an account, a token and example tools."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, transaction

from catalog.examples import catalogue
from catalog.models import Tool
from toolhub.access.models import AccessToken
from toolhub.management import database

ADMIN, DEMO = "admin", "demo"
"""The administrator of a new installation, and the user who uses the examples."""


@dataclass(frozen=True, slots=True)
class Made:
    """Accounts and the token that this run made: None stands for those that it did not make."""

    admin_password: str | None = None
    demo_password: str | None = None
    token: str | None = None


class Command(BaseCommand):
    help = (
        "Set up toolhub, with an example catalogue when the database is empty, print the addresses, and serve it in "
        "one process. Uses SQLite unless TOOLHUB_DATABASE_URL names a PostgreSQL database."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="the port to serve on (default: 8000)")
        parser.add_argument("--data", help="the data folder (default: TOOLHUB_DATA_DIR or .data)")
        parser.add_argument(
            "--json", action="store_true", help="first print one line of JSON with addresses and accounts"
        )
        parser.add_argument("--no-serve", action="store_true", help="set up without serving")

    def handle(self, *args: Any, **options: Any) -> None:
        restart_with_options(options["data"], options["port"])
        if not options["no_serve"]:
            require_free_port(options["port"])
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
        database.require_connection()
        database.require_own_keys()
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except DatabaseError as error:
            raise CommandError(
                f"The tables cannot be created: {str(error).partition(chr(10))[0]}. The user in TOOLHUB_DATABASE_URL "
                "must own the database, or be allowed to create tables in it."
            ) from error
        made = fill_database()
        facts = {
            "url": settings.PUBLIC_URL,
            "admin_url": f"{settings.PUBLIC_URL}/admin/",
            "admin_username": find_username(ADMIN),
            "admin_password": made.admin_password,
            "mcp_url": f"{settings.PUBLIC_URL}/mcp",
            "websocket_url": f"{settings.PUBLIC_URL.replace('http', 'ws', 1)}/ws/mcp",
            "username": find_username(DEMO),
            "password": made.demo_password,
            "token": made.token,
        }
        if options["json"]:
            self.stdout.write(json.dumps(facts))
            for line in filter(None, (*describe_example_upstream(), *describe_omission(facts))):
                self.stderr.write(line.strip())
        else:
            self.stdout.write(format_welcome(facts))
        self.stdout.flush()
        if not options["no_serve"]:
            call_command("serve", port=options["port"], stderr=StringIO() if options["json"] else self.stderr)


def restart_with_options(data: str | None, port: int) -> None:
    """Restart the process with the options in its environment, because settings are read at the start."""
    wanted = {}
    if data and Path(data).absolute() != settings.DATA_DIR:
        wanted["TOOLHUB_DATA_DIR"] = str(Path(data).absolute())
    if "TOOLHUB_PUBLIC_URL" not in os.environ and f"http://localhost:{port}" != settings.PUBLIC_URL:
        wanted["TOOLHUB_PUBLIC_URL"] = f"http://localhost:{port}"
    if wanted:
        os.environ.update(wanted)
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606


def require_free_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise CommandError(f"Port {port} cannot be used: {error}. Choose another with --port.") from error


def fill_database() -> Made:
    """Create the accounts and the examples, once.

    Without any account, `admin` is created, because nobody could sign in. `demo` and the example catalogue need a
    database without tools, too: an installation that is in use gets no account and no tool that nobody asked for.
    """
    with transaction.atomic():  # a first run that fails half-way is repeated as a first run
        if User.objects.exists():
            return Made()
        password = secrets.token_urlsafe(12)
        User.objects.create_superuser(ADMIN, password=password)
        if Tool.objects.exists():
            return Made(admin_password=password)
        demo_password, token = create_demo_user()
        catalogue.load(DEMO)
    return Made(password, demo_password, token)


def create_demo_user() -> tuple[str, str]:
    """Create the `demo` user; return a password and an access token."""
    password = secrets.token_urlsafe(12)
    user = User.objects.create_user(DEMO, password=password)
    _, token = AccessToken.objects.issue(user, name="quickstart")
    return password, token


def find_username(name: str) -> str | None:
    """Return the name, if this account exists."""
    return name if User.objects.filter(username=name).exists() else None


def describe_example_upstream() -> list[str]:
    """Return lines that say whether and where the example of another MCP server can be used."""
    state = catalogue.upstream_state()
    if state is None:
        return []
    number, problem = state
    place = f"{settings.PUBLIC_URL}/admin/catalog/upstream/{number}/tools/"
    return [f"  Example upstream       {f'not available: {problem} See' if problem else 'list its tools at'} {place}"]


def describe_omission(facts: dict[str, str | None]) -> list[str]:
    """Return lines that say what was not added to a database in use; [] where the demo user is there."""
    if facts["username"]:
        return []
    lines = ["  This database was in use before: no demo user and no example tool was added."]
    if not User.objects.filter(is_superuser=True, is_active=True).exists():
        lines += ["  There is no administrator: create one with `python manage.py createsuperuser`."]
    return [*lines, ""]


def format_welcome(facts: dict[str, str | None]) -> str:
    url, mcp, token = facts["url"], facts["mcp_url"], facts["token"]
    earlier = "(printed by the first run)"
    lines = ["", f"  toolhub is ready at {url}", "", f"  Connect an AI client   {mcp}"]
    if facts["username"]:
        lines += [
            f"  and sign in as         {facts['username']} / {facts['password'] or earlier}",
            f"  or with the token      {token or '(printed by the first run; createtoken demo prints a new one)'}",
        ]
    else:
        lines += ["  and sign in            with your own account"]
    lines += ["", f"  Manage tools           {facts['admin_url']}"]
    if facts["admin_username"]:
        lines += [f"  as                     {ADMIN} / {facts['admin_password'] or earlier}"]
    lines += [*describe_example_upstream(), "", *describe_omission(facts)]
    if token:
        lines += [
            "  For example, with Claude Code, which then signs in with /mcp:",
            f"    claude mcp add --transport http toolhub {mcp}",
            "  or, where there is no browser:",
            f"    claude mcp add --transport http toolhub {mcp} \\",
            f'      --header "Authorization: Bearer {token}"',
            "",
        ]
    return "\n".join([*lines, "  Press Ctrl+C to stop.", ""])
