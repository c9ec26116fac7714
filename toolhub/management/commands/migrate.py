"""`manage.py migrate`: Django's command, which makes a new database in about a third of the time."""

from __future__ import annotations

from typing import Any

from django.core.management.base import no_translations
from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

LIBRARIES = ({"auth", "oauth2_provider"}, {"account", "admin", "mfa", "socialaccount"})
"""Applications whose migrations alter their tables in many steps, in the order in which they run."""
PARTIAL = ("app_label", "check_unapplied", "fake", "fake_initial", "plan", "prune")
"""Options with which the command does something else than to run all migrations."""


class Command(migrate.Command):
    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        if not any(options[name] for name in PARTIAL):
            self.verbosity = options["verbosity"]
            self.migrate_libraries(options["database"])
        super().handle(*args, **options)

    def migrate_libraries(self, using: str) -> None:
        """Run the migrations of libraries, if the database has no tables.

        After each step, Django renders every model again that is related to users. By the order of their labels, the
        libraries would come last, when there are most models.
        """
        connection = connections[using]
        if connection.introspection.table_names():
            return
        for labels in LIBRARIES:
            executor = MigrationExecutor(connection, self.migration_progress_callback)  # type: ignore[arg-type]
            targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] in labels]
            if targets:  # none where tests run without migrations
                executor.migrate(targets)
