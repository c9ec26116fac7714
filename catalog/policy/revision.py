"""The catalogue revision: a number that the database itself raises in the transaction of every change.

Triggers do it, not signals: a bulk update, another process or a line of SQL cannot bypass them. They also write the
number into the `version` of a changed tool, resource or prompt, so that a reload reads only the changed rows. They
are installed after every migrate, because changing a table on SQLite copies it and drops its triggers.

The number starts at the clock (milliseconds times 1000), so that a database that was emptied or restored does not
come back to a number that a running process already knows.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import DEFAULT_DB_ALIAS, connections, models, transaction

from catalog.models import (
    ApprovalRule,
    CatalogueRevision,
    Flag,
    Grant,
    Limit,
    PersonalSecret,
    Prompt,
    Resource,
    Secret,
    Tool,
    Toolset,
    Upstream,
    ValueList,
    ValueListPart,
)

REVISION = CatalogueRevision._meta.db_table
VERSIONED_MODELS = (Tool, Resource, Prompt)
USER_FIELDS = ("username", "is_active")


def current(using: str = DEFAULT_DB_ALIAS) -> int:
    """Return the current number; 0 before the first change."""
    return CatalogueRevision.objects.using(using).values_list("number", flat=True).first() or 0


def bump(using: str = DEFAULT_DB_ALIAS) -> int:
    """Raise the number by hand, for changes that no table shows."""
    from catalog.signals import announce

    connection = connections[using]
    with transaction.atomic(using=using):
        with connection.cursor() as cursor:
            for statement in _bump_statements(connection.vendor):
                cursor.execute(statement)
        announce(using)
        return current(using)


def watched_columns() -> dict[type[models.Model], tuple[str, ...]]:
    """Return every model that the snapshot and `catalog.secrets.resolve` read, with the columns whose update counts.

    An empty tuple means all columns.
    """
    user = get_user_model()
    return {
        Tool: (),
        Resource: (),
        Prompt: (),
        Toolset: ("name",),
        Grant: (),
        Limit: (),
        ApprovalRule: (),
        ValueList: ("name",),
        ValueListPart: (),
        Flag: ("name", "percentage"),
        Secret: ("name", "kind", "hosts", "value"),
        PersonalSecret: (),
        Upstream: ("name", "enabled", *Upstream.CONNECTION_FIELDS),
        Tool.toolsets.through: (),
        Resource.toolsets.through: (),
        Prompt.toolsets.through: (),
        user: USER_FIELDS,
        Group: ("name",),
        user.groups.through: (),
    }


def _columns(model: type[models.Model], named: tuple[str, ...]) -> list[str]:
    fields = model._meta.concrete_fields
    return [str(field.column) for field in fields if (field.name in named if named else field.name != "version")]


def _bump_statements(vendor: str) -> list[str]:
    if vendor == "sqlite":
        # Two plain statements: a conflict clause here would be overruled by that of the statement that fired.
        clock = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000"
        return [
            f"INSERT INTO {REVISION} (id, number) SELECT 1, {clock} "  # noqa: S608 - names of our own
            f"WHERE NOT EXISTS (SELECT 1 FROM {REVISION} WHERE id = 1)",
            f"UPDATE {REVISION} SET number = number + 1 WHERE id = 1",  # noqa: S608 - names of our own
        ]
    return [
        f"INSERT INTO {REVISION} AS r (id, number) "  # noqa: S608 - names of our own
        "VALUES (1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint * 1000) "
        "ON CONFLICT (id) DO UPDATE SET number = r.number + 1"
    ]


def _sqlite_triggers() -> dict[str, str]:
    bump = "; ".join(_bump_statements("sqlite"))
    result = {}
    for model, named in watched_columns().items():
        table = model._meta.db_table
        for event in ("INSERT", "UPDATE", "DELETE"):
            of = f" OF {', '.join(_columns(model, named))}" if event == "UPDATE" else ""
            body = bump
            if model in VERSIONED_MODELS and event != "DELETE":
                body += f"; UPDATE {table} SET version = (SELECT number FROM {REVISION} WHERE id = 1) WHERE id = NEW.id"  # noqa: S608 - names of our own
            name = f"toolhub_{event.lower()}_{table}"
            result[name] = f"CREATE TRIGGER {name} AFTER {event}{of} ON {table} BEGIN {body}; END"
    return result


def _install_on_sqlite(connection: Any) -> None:
    wanted = _sqlite_triggers()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'toolhub\\_%' ESCAPE '\\'"
        )
        found = dict(cursor.fetchall())
        for name, statement in wanted.items():
            if found.get(name) != statement:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
                cursor.execute(statement)


def _postgresql_statements() -> list[str]:
    (bump,) = _bump_statements("postgresql")
    result = [
        "CREATE OR REPLACE FUNCTION toolhub_definition_changed() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {bump} RETURNING r.number INTO NEW.version; RETURN NEW; END $$",
        "CREATE OR REPLACE FUNCTION toolhub_catalogue_changed() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {bump}; RETURN NULL; END $$",
    ]
    for model, named in watched_columns().items():
        table, columns = model._meta.db_table, ", ".join(_columns(model, named))
        events = "DELETE" if model in VERSIONED_MODELS else f"INSERT OR DELETE OR UPDATE OF {columns}"
        result += [
            f"DROP TRIGGER IF EXISTS toolhub_changed ON {table}",
            f"CREATE TRIGGER toolhub_changed AFTER {events} ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION toolhub_catalogue_changed()",
        ]
        if model in VERSIONED_MODELS:
            result += [
                f"DROP TRIGGER IF EXISTS toolhub_version ON {table}",
                f"CREATE TRIGGER toolhub_version BEFORE INSERT OR UPDATE OF {columns} ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION toolhub_definition_changed()",
            ]
    return result


def _install_on_postgresql(connection: Any) -> None:
    """Install the triggers only when they differ from the existing ones: making a trigger locks its table."""
    statements = _postgresql_statements()
    wanted = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT obj_description(to_regprocedure('toolhub_catalogue_changed()'), 'pg_proc'), count(*) "
            "FROM pg_trigger WHERE tgname IN ('toolhub_changed', 'toolhub_version')"
        )
        if cursor.fetchone() == (wanted, len(watched_columns()) + len(VERSIONED_MODELS)):
            return
        for statement in statements:
            cursor.execute(statement)
        cursor.execute(f"COMMENT ON FUNCTION toolhub_catalogue_changed() IS '{wanted}'")


def install(using: str = DEFAULT_DB_ALIAS) -> None:
    """Install the triggers, once every table and column that they name exists: after a partial migrate some do not."""
    connection = connections[using]
    wanted = {model._meta.db_table: set(_columns(model, named)) for model, named in watched_columns().items()}
    with connection.cursor() as cursor:
        if {REVISION, *wanted} - set(connection.introspection.table_names(cursor)):
            return
        for table, columns in wanted.items():
            if columns - {column.name for column in connection.introspection.get_table_description(cursor, table)}:
                return
    with transaction.atomic(using=using):
        if connection.vendor == "sqlite":
            _install_on_sqlite(connection)
        elif connection.vendor == "postgresql":
            _install_on_postgresql(connection)


def after_migrate(using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    install(using)
