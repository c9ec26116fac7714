"""Compatibility of the database with this version and with the keys of this installation."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from audit.integrity import checkpoints
from audit.models import Checkpoint
from audit.writing.stores.base import StoreUnavailable
from audit.writing.stores.shared import SharedStore

OWN_APPS = frozenset({"access", "audit", "catalog"})
RETIRED = frozenset({("catalog", "0001_squashed_0018_import_batches")})
"""Squashed migrations of earlier versions. Their databases have the migrations that they replaced as well."""
MAX_LISTED_MIGRATIONS = 3
"""Maximum number of migrations that the error names."""


def require_connection() -> None:
    """Connect to the database. Raises CommandError with the reason and the next step when that fails."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        # The first line of PostgreSQL has the reason, with the host, the port and the user, never the password.
        reason = str(error).partition("\n")[0].strip().rstrip(".")
        step = (
            "Check TOOLHUB_DATABASE_URL, that PostgreSQL runs there, and that the database exists (`createdb NAME`)."
            if connection.vendor == "postgresql"
            else "Check TOOLHUB_DATA_DIR and TOOLHUB_DATABASE_URL, and who may write there."
        )
        raise CommandError(f"The database cannot be opened: {reason}. {step}") from error


def require_usable(*, new_keys: bool = False) -> None:
    """Require all migrations of this version, and the keys of the audit log or the decision to go on without them.

    Raises CommandError with the next step.
    """
    require_connection()
    require_known_migrations()
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError("The database is not up to date. Run `python manage.py migrate` first.")
    if new_keys:
        begin_with_new_keys()
    else:
        require_own_keys()


def begin_with_new_keys() -> None:
    """Go on with an audit log that other keys signed, and log that. Raises CommandError for one that these signed."""
    if not checkpoints.is_signed_by_others():
        raise CommandError("The audit log has checkpoints of these keys, or none. Start without --new-keys.")
    try:
        checkpoints.begin_with_new_keys(SharedStore())
    except StoreUnavailable as error:
        raise CommandError(f"The audit log cannot be signed: {error}. Try again.") from error


def require_own_keys() -> None:
    """Require the keys with which the audit log of the database was signed.

    A new data folder gets new keys. Beside an existing PostgreSQL database, they would go on with an audit log that
    they cannot verify, and could read no secret. Raises CommandError with the next step.
    """
    if Checkpoint._meta.db_table not in connection.introspection.table_names() or not checkpoints.is_signed_by_others():
        return
    raise CommandError(
        "The audit log of this database was signed with other keys than this installation has. Nothing was changed in "
        "the database. Put the keys back: the files record-key, encryption-key and secret-key into "
        f"{settings.DATA_DIR}, from the earlier data folder or from a backup, or TOOLHUB_RECORD_KEY, "
        "TOOLHUB_ENCRYPTION_KEYS and TOOLHUB_SECRET_KEY. After a planned change of TOOLHUB_RECORD_KEY, list the "
        "earlier one in TOOLHUB_RECORD_OLD_KEYS. If the keys are lost, run `python manage.py serve --new-keys` once: "
        "what was logged before can no longer be verified, and stored secrets and second factors must be entered "
        "again."
    )


def require_known_migrations(using: str = DEFAULT_DB_ALIAS) -> None:
    """Reject a database that another version of toolhub created. Raises CommandError with the next step.

    The first release starts from one initial migration for each application. An older database has an "initial"
    migration too, but other tables: Django would consider it up to date.
    """
    database = connections[using]
    known = {*MigrationLoader(None, ignore_no_migrations=True).disk_migrations, *RETIRED}
    applied = MigrationRecorder(database).applied_migrations()
    unknown = sorted(f"{app}.{name}" for app, name in applied if app in OWN_APPS and (app, name) not in known)
    if not unknown:
        return
    listed = ", ".join(unknown[:MAX_LISTED_MIGRATIONS])
    more = f" and {len(unknown) - MAX_LISTED_MIGRATIONS} more" if len(unknown) > MAX_LISTED_MIGRATIONS else ""
    raise CommandError(
        f"This database was made by another version of toolhub: it has {listed}{more}, which this "
        "version does not know. Nothing was changed. Start the version that made it; or, to move to this version, run "
        "its `python manage.py exporttools catalogue.yaml`, point TOOLHUB_DATABASE_URL (or TOOLHUB_DATA_DIR) to a new "
        "database, and run `python manage.py migrate` and `python manage.py importtools catalogue.yaml` here. Keep the "
        "old database for its audit log."
    )


def before_migrate(*, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """Reject an unknown database before `migrate` changes anything (a receiver of `pre_migrate`)."""
    require_known_migrations(using)
