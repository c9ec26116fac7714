"""What a transactional test wrote is gone after it, and what the migrations made is as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections, transaction
from django.db.models.signals import post_migrate
from django.test import TransactionTestCase

from audit.auditors import GROUP_NAME
from audit.models import Link
from catalog.policy import revision
from tests import factories
from tests.audit_log import stop_audit_log
from tests.database_cleaner import Baseline, cleaning
from tests.polling import wait_until

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def baseline(transactional_db: None) -> Baseline:
    return Baseline("default")


@pytest.fixture
def migrations_sent() -> Iterator[list[Any]]:
    """What was sent `post_migrate` during the test."""
    sent: list[Any] = []

    def note(sender: Any, **options: Any) -> None:
        sent.append(sender)

    post_migrate.connect(note)
    yield sent
    post_migrate.disconnect(note)


def read_all_rows() -> dict[str, Any]:
    """Every row of the database, read without the code under test; the revision never comes back."""
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found[table] = sorted(map(repr, cursor.fetchall()))
    assert found.pop(revision.REVISION) == []
    return found


def make_link(number: int) -> Link:
    return Link(id=number, writer=1, sequence=number, kind="begin", subject="s", content="c", hash="h")


def test_the_baseline_holds_what_the_migrations_made(baseline: Baseline) -> None:
    made = {"auth_group", "auth_group_permissions", "auth_permission", "django_content_type"}
    assert set(baseline.rows) - {"django_migrations"} == made
    assert len(baseline.empty) > 30 and len(baseline.schema) > 60


def test_written_rows_are_deleted_and_nothing_is_migrated(baseline: Baseline, migrations_sent: list[Any]) -> None:
    before = read_all_rows()
    alice = User.objects.create_user("alice")
    alice.groups.add(Group.objects.get(name=GROUP_NAME))
    alice.user_permissions.add(Permission.objects.all()[0])
    factories.grant(alice, factories.make_tool(toolset="Numbers"))
    Link.objects.bulk_create(map(make_link, range(500)))
    stop_audit_log()
    assert {"auth_user", "auth_user_groups", "catalog_tool", "audit_link"} <= set(baseline.differences())
    baseline.restore()
    assert read_all_rows() == before
    assert baseline.differences() == [] and migrations_sent == []


def change_a_row() -> None:
    Permission.objects.update(name="changed")
    Group.objects.update(name="changed")


def delete_rows() -> None:
    Group.objects.get(name=GROUP_NAME).delete()
    ContentType.objects.get(app_label="audit", model="call").delete()


def add_rows() -> None:
    kind = ContentType.objects.create(app_label="audit", model="another")
    Group.objects.create(name="others").permissions.add(
        Permission.objects.create(codename="may", content_type=kind, name="May")
    )


@pytest.mark.parametrize("change", [change_a_row, delete_rows, add_rows])
def test_rows_of_the_baseline_come_back_with_their_keys(
    baseline: Baseline, change: Any, migrations_sent: list[Any]
) -> None:
    before = read_all_rows()
    change()
    stop_audit_log()
    assert set(baseline.differences()) & set(baseline.rows)
    baseline.restore()
    assert read_all_rows() == before
    assert baseline.differences() == [] and migrations_sent == []
    assert Group.objects.get(name=GROUP_NAME).permissions.count() > 0
    # The next one gets a key of its own.
    assert Group.objects.create(name="next").pk not in {row[0] for row in baseline.rows["auth_group"]}


def test_a_trigger_that_was_dropped_comes_back(baseline: Baseline) -> None:
    before = read_all_rows()
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER toolhub_insert_catalog_tool")
        else:
            cursor.execute("DROP TRIGGER toolhub_version ON catalog_tool")
    assert len(baseline.differences()) == 1
    baseline.restore()
    assert read_all_rows() == before
    assert factories.make_tool().pk
    assert revision.current() > 0


def test_a_table_that_a_test_leaves_is_reported(baseline: Baseline) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE left_behind (id integer)")
        with pytest.raises(AssertionError, match="left_behind"):
            baseline.restore()
        cursor.execute("DROP TABLE left_behind")
    baseline.restore()


def test_the_revision_of_the_catalogue_never_comes_back(baseline: Baseline) -> None:
    seen = []
    for _ in range(3):
        factories.make_tool()
        seen.append(revision.current())
        stop_audit_log()
        baseline.restore()
        assert revision.current() == 0
    assert seen == sorted(set(seen))


def test_a_thread_that_still_writes_is_waited_for(baseline: Baseline) -> None:
    writing, end = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                make_link(1).save(force_insert=True)
                writing.set()
                end.wait(60)
        finally:
            connections["default"].close()

    def clean() -> None:
        try:
            baseline.restore()
        finally:
            connections["default"].close()

    writer, cleaner = threading.Thread(target=write), threading.Thread(target=clean)
    writer.start()
    assert writing.wait(60)
    cleaner.start()
    # It is seen to wait where that can be seen; elsewhere the row shows whether it did.
    if connection.vendor == "postgresql":
        wait_until(is_waiting_for_lock)
    assert cleaner.is_alive()
    end.set()
    writer.join(60)
    cleaner.join(60)
    assert Link.objects.count() == 0 and baseline.differences() == []


def is_waiting_for_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock'")
        return bool(cursor.fetchone()[0])


def test_leftovers_at_the_end_of_a_run_are_named(transactional_db: None) -> None:
    left = r"left something behind in the database 'default': .*auth_user"
    with pytest.raises(AssertionError, match=left), cleaning("default"):
        User.objects.create_user("alice")


def test_a_transactional_test_is_cleaned_up_like_this(transactional_db: None, migrations_sent: list[Any]) -> None:
    class Case(TransactionTestCase):
        def runTest(self) -> None:
            User.objects.create_user("alice")
            stop_audit_log()

    before = read_all_rows()
    result = unittest.TestResult()
    with cleaning("default"):
        Case()(result)
    assert result.wasSuccessful() and result.testsRun == 1, result.errors + result.failures
    assert read_all_rows() == before and migrations_sent == []


@pytest.mark.postgres
def test_all_of_this_holds_on_postgresql(tmp_path: Path) -> None:
    """The tests above, in a process of its own whose database is on PostgreSQL."""
    from tests.real_servers import POSTGRES, postgres

    if connection.vendor == "postgresql":
        return
    name = f"toolhub_cleaner_{os.getpid()}"
    postgres("SELECT 1")
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            __file__,
            "-n",
            "0",
            "--no-migrations",
            "-p",
            "no:cacheprovider",
            "--basetemp",
            str(tmp_path / "t"),
        ],
        env={**plain, "TOOLHUB_TEST_DATABASE_URL": f"{POSTGRES}/{name}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
