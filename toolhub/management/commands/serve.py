"""`manage.py serve`: Daphne with one or several worker processes behind one port."""

from __future__ import annotations

from argparse import SUPPRESS
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from toolhub import privacy
from toolhub.edge import limits
from toolhub.management import database, workers


class Command(BaseCommand):
    help = "Serve toolhub with Daphne. More than one worker needs PostgreSQL and Redis."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="the port to listen on (default: 8000)")
        parser.add_argument(
            "--workers", type=int, default=1, help="the number of processes that share the port (default: 1)"
        )
        parser.add_argument(
            "--new-keys",
            action="store_true",
            help="go on with a database whose keys are lost, and log that; what it logged can no longer be verified",
        )
        parser.add_argument("--descriptor", type=int, help=SUPPRESS)
        parser.add_argument("--supervisor", type=int, help=SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        privacy.hide_memory()
        if options["descriptor"] is not None:
            raise SystemExit(run([f"fd:fileno={options['descriptor']}"], options["supervisor"]))
        count = options["workers"]
        if count < 1:
            raise CommandError("--workers must be at least 1.")
        if count > 1:
            require_shared_stores()
        database.require_usable(new_keys=options["new_keys"])
        try:
            listener = workers.listen(options["host"], options["port"])
        except (OSError, OverflowError) as error:
            raise CommandError(
                f"Cannot listen on {options['host']}:{options['port']}: {error}. Choose another --port."
            ) from error
        self.stderr.write(
            f"toolhub listens on http://{options['host']}:{listener.getsockname()[1]} ({count} worker(s))"
        )
        if count == 1:
            raise SystemExit(run([f"fd:fileno={listener.fileno()}"]))
        connection.close()
        supervisor = workers.Supervisor(listener, workers.worker_command("serve"), count, settings.STOP_SECONDS + 10)
        raise SystemExit(supervisor.run())


def require_shared_stores() -> None:
    """Require PostgreSQL and Redis; without them each worker would have its own sessions and limits."""
    missing = []
    if connection.vendor != "postgresql":
        missing.append("PostgreSQL (TOOLHUB_DATABASE_URL=postgresql://...)")
    if not settings.REDIS_URL:
        missing.append("Redis (TOOLHUB_REDIS_URL=redis://...)")
    if missing:
        raise CommandError(
            f"More than one worker needs {' and '.join(missing)}. Workers share sessions, limits and change "
            "notifications through them."
        )


def run(endpoints: list[str], supervisor: int | None = None) -> int:
    """Serve in this process until a signal ends it; return the exit status."""
    limits.raise_descriptor_limit()
    # This import installs Twisted's reactor, which must not happen when a mere command starts.
    from toolhub.management import worker_process

    return worker_process.serve(endpoints, supervisor)
