"""`manage.py mcpstdio`: serve one MCP client over stdin and stdout, as the owner of a token."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from toolhub.access.token_errors import BadToken
from toolhub.hub import Hub
from toolhub.management import database, event_loop
from toolhub.transports import stdio


class Command(BaseCommand):
    help = "Serve one MCP client over stdin and stdout. The token comes from a file or from TOOLHUB_TOKEN."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--token-file", metavar="FILE", help="the file that contains the access token (default: TOOLHUB_TOKEN)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        database.require_usable()
        sink = stdio.take_stdout()
        token = read_token(options["token_file"])
        hub = Hub()
        try:
            credential = hub.server.authenticator.authenticate_now(token)
        except BadToken as bad:
            raise CommandError(
                f"The token was rejected: {bad.reason}. Create one with `manage.py createtoken USER`."
            ) from None

        async def run() -> None:
            await hub.start()
            try:
                await stdio.serve(hub.server, credential, token, os.fdopen(os.dup(0), "rb"), sink)
            finally:
                await hub.stop(settings.STOP_SECONDS)

        event_loop.run(run())


def read_token(path: str | None) -> str:
    if path is None:
        token = os.environ.get("TOOLHUB_TOKEN", "").strip()
        if not token:
            raise CommandError("No token: add --token-file FILE, or set TOOLHUB_TOKEN.")
        return token
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Cannot read the token from {path}: {error}") from error
    if not token:
        raise CommandError(f"{path} is empty. Write an access token into it.")
    return token
