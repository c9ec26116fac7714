"""`manage.py quickstart`: set up and start a hub with an account, a token and example tools."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from catalog.examples import catalogue
from toolhub.access.models import AccessToken

DEMO = "demo"
"""The user who uses the examples."""


class Command(BaseCommand):
    help = "Set up toolhub with SQLite and an example catalogue, print the addresses, and serve it in one process."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="the port to serve on (default: 8000)")
        parser.add_argument("--data", help="the data folder (default: TOOLHUB_DATA_DIR or .data)")
        parser.add_argument(
            "--json", action="store_true", help="first print one line of JSON with addresses and accounts"
        )
        parser.add_argument("--no-serve", action="store_true", help="set up without serving")

    def handle(self, *args: Any, **options: Any) -> None:
        restart_with_options(options["data"], options["port"])
        if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.sqlite3":
            raise CommandError(
                "quickstart uses SQLite. Unset TOOLHUB_DATABASE_URL, or run `migrate` and `serve` instead."
            )
        if not options["no_serve"]:
            require_free_port(options["port"])
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
        call_command("migrate", interactive=False, verbosity=0)
        password = create_admin()
        with transaction.atomic():  # a first run that fails half-way is repeated as a first run
            demo_password, token = create_demo_user()
            if token is not None:
                catalogue.load(DEMO)
        facts = {
            "url": settings.PUBLIC_URL,
            "admin_url": f"{settings.PUBLIC_URL}/admin/",
            "admin_username": "admin",
            "admin_password": password,
            "mcp_url": f"{settings.PUBLIC_URL}/mcp",
            "websocket_url": f"{settings.PUBLIC_URL.replace('http', 'ws', 1)}/ws/mcp",
            "username": DEMO,
            "password": demo_password,
            "token": token,
        }
        if options["json"]:
            self.stdout.write(json.dumps(facts))
            self.stderr.writelines(line.strip() for line in describe_example_upstream())
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


def create_admin() -> str | None:
    """Create the `admin` account if needed; return its password, or None when the account existed."""
    if User.objects.filter(username="admin").exists():
        return None
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser("admin", password=password)
    return password


def create_demo_user() -> tuple[str | None, str | None]:
    """Create the `demo` user if needed; return a password and an access token, or None twice when the user existed."""
    user, made = User.objects.get_or_create(username=DEMO)
    if not made:
        return None, None
    password = secrets.token_urlsafe(12)
    user.set_password(password)
    user.save()
    _, token = AccessToken.objects.issue(user, name="quickstart")
    return password, token


def describe_example_upstream() -> list[str]:
    """Return lines that say whether and where the example of another MCP server can be used."""
    state = catalogue.upstream_state()
    if state is None:
        return []
    number, problem = state
    place = f"{settings.PUBLIC_URL}/admin/catalog/upstream/{number}/tools/"
    return [f"  Example upstream       {f'not available: {problem} See' if problem else 'list its tools at'} {place}"]


def format_welcome(facts: dict[str, str | None]) -> str:
    url, mcp, token = facts["url"], facts["mcp_url"], facts["token"]
    earlier = "(printed by the first run)"
    lines = [
        "",
        f"  toolhub is ready at {url}",
        "",
        f"  Connect an AI client   {mcp}",
        f"  and sign in as         {facts['username']} / {facts['password'] or earlier}",
        f"  or with the token      {token or '(printed by the first run; createtoken demo prints a new one)'}",
        "",
        f"  Manage tools           {facts['admin_url']}",
        f"  as                     admin / {facts['admin_password'] or earlier}",
        *describe_example_upstream(),
        "",
    ]
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
