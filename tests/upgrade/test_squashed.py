"""The squashed migrations make the same database as those that they replace, and no other database takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_servers import DATABASE_FILE, Hub, migrated_postgres, migrated_sqlite
from tests.upgrade import replaced, schema

HALFWAY = {
    "access": "0004_edge_of_a_process",
    "audit": "0002_keyed_digests",
    "catalog": "0013_saved_test_cases",
    "identity": "0001_initial",
    "oauth": "0001_initial",
    "oauth2_provider": "0022_refreshtoken_token_family_index",
    "people": "0001_initial",
    "scim": "0001_initial",
}
"""What a database has whose version was released between the first migrations and the squashed ones."""


@pytest.fixture(
    scope="module",
    params=[False, pytest.param(True, marks=pytest.mark.postgres)],
    ids=["sqlite", "pg"],
)
def halfway(request: pytest.FixtureRequest) -> Iterator[Hub]:
    """A database that stopped halfway through the replaced migrations, and was then migrated to the end.

    It also has the names of squashed migrations that are no longer there.
    """
    hub = Hub(postgres=request.param, tables=False)
    try:
        hub.prepare()
        Path(hub.environment()["TOOLHUB_DATA_DIR"]).mkdir(mode=0o700, parents=True, exist_ok=True)
        hub.call(replaced.migrate, migrations=HALFWAY)
        hub.call(replaced.make_connections)
        hub.call(replaced.remember_retired)
        hub.manage("migrate", "--verbosity", "0")
        yield hub
    finally:
        hub.remove()


def read(hub: Hub) -> dict[str, Any]:
    if hub.postgres:
        return schema.read_postgresql(hub.environment()["TOOLHUB_DATABASE_URL"])
    return schema.read_sqlite(Path(hub.environment()["TOOLHUB_DATA_DIR"]) / DATABASE_FILE)


def read_new(postgres: bool) -> dict[str, Any]:
    if postgres:
        from tests.real_servers import POSTGRES

        return schema.read_postgresql(f"{POSTGRES}/{migrated_postgres()}")
    return schema.read_sqlite(migrated_sqlite())


def test_a_new_database_equals_one_that_took_every_replaced_migration(halfway: Hub) -> None:
    old, new = read(halfway), read_new(halfway.postgres)
    assert {name for name in old if name.startswith("rows")} > {"rows auth_permission", "rows auth_group"}
    assert old.keys() == new.keys()
    assert {name: made for name, made in old.items() if new[name] != made} == {
        name: made for name, made in new.items() if old[name] != made
    }


def test_a_database_with_every_replaced_migration_needs_nothing(halfway: Hub) -> None:
    halfway.call(replaced.forget_squashed)
    assert halfway.manage("migrate", "--plan").endswith("No planned migration operations.")
    before = read(halfway)
    halfway.manage("migrate", "--verbosity", "0")
    assert read(halfway) == before
    assert halfway.manage("migrate", "--plan").endswith("No planned migration operations.")
    assert halfway.manage("makemigrations", "--check", "--dry-run") == "No changes detected"
