"""The migrations that squashed ones replace, which an empty database never meets."""

from __future__ import annotations


def migrate(migrations: dict[str, str]) -> None:
    """Migrate each application up to this migration, without those that are squashed."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor
    from django.db.migrations.loader import MigrationLoader

    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    executor.migrate(list(migrations.items()))


def forget_squashed() -> None:
    """Forget that squashed migrations were applied: a database of a version without them does not know them."""
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.recorder import MigrationRecorder

    for app, name in MigrationLoader(connection).replacements:
        MigrationRecorder(connection).record_unapplied(app, name)


def remember_retired() -> None:
    """Note the squashed migrations of earlier versions, as they did."""
    from django.db import connection
    from django.db.migrations.recorder import MigrationRecorder

    from toolhub.management.database import RETIRED

    for app, name in RETIRED:
        MigrationRecorder(connection).record_applied(app, name)


def make_connections() -> None:
    """Make the two tables that the first migration of `oauth` made, until the second did."""
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.state import ProjectState

    from toolhub.migration_operations import CreateModels

    loader = MigrationLoader(connection, replace_migrations=False)
    state: ProjectState = loader.project_state([("oauth", "0001_initial"), ("catalog", "0013_saved_test_cases")])
    create, *_ = loader.disk_migrations["oauth", "0002_assertions"].operations
    assert isinstance(create, CreateModels)
    create.models = [model for model in create.models if model.name in ("ConnectedApp", "DeviceRequest")]
    after = state.clone()
    create.state_forwards("oauth", after)
    with connection.schema_editor() as editor:
        create.database_forwards("oauth", editor, state, after)
