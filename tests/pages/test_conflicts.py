"""Two changes at the same time: the second page says what happened and how to go on, and nothing is half saved."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, connections, transaction
from django.db.models.signals import pre_delete
from django.test import Client

from catalog.access_requests import decisions, requestable, submissions
from catalog.models import AccessRequest, Grant, Tool, Toolset
from catalog.views.tools import visible_to
from tests import factories
from tests.pages.test_imports import make_batch
from tests.polling import wait_until
from tests.real_servers import POSTGRES, ROOT, postgres
from toolhub import conflicts
from toolhub.access.models import AccessToken

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif("connection.vendor == 'sqlite'", reason="on SQLite writers wait for each other")
MEANWHILE = "Somebody changed this at the same time"


def run_apart(work: Callable[[], Any]) -> threading.Thread:
    """Start `work` as another process would do it: in a thread with a connection of its own."""

    def body() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def is_waiting() -> bool:
    """Return whether another connection to this database waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        return cursor.fetchone() is not None


def ask(user: User, toolset: Toolset, tool: str = "") -> AccessRequest:
    choice = requestable.find_toolset(visible_to(user), toolset.pk)
    assert choice is not None
    return submissions.submit(user, choice, choice.find(tool) if tool else None, "Reports.")


def test_an_import_is_undone_although_somebody_requests_one_of_its_tools_meanwhile(
    browser: Client, charlie: User
) -> None:
    toolset = factories.make_toolset("Pets", requestable=True)
    batch = make_batch("idle", "other")
    toolset.tools.set(Tool.objects.all())
    person = Client()
    person.force_login(charlie)
    answers: list[Any] = []
    requests: list[threading.Thread] = []

    def ask_meanwhile(**_: Any) -> None:
        """Request the tool while the undo deletes it: SQLite works on a copy then, PostgreSQL holds its row."""
        if not requests:
            address, fields = f"/requests/toolset/{toolset.pk}/", {"tool": "idle", "reason": "Reports."}
            requests.append(run_apart(lambda: answers.append(person.post(address, fields))))
            wait_until(lambda: answers or (connection.vendor != "sqlite" and is_waiting()), what="the request")

    pre_delete.connect(ask_meanwhile, sender=Tool, weak=False, dispatch_uid="test.conflicts")
    try:
        answer = browser.post(f"/admin/imports/{batch.pk}/undo/", follow=True)
    finally:
        pre_delete.disconnect(sender=Tool, dispatch_uid="test.conflicts")
    requests[0].join(60)
    assert "2 items removed." in answer.content.decode()
    assert not Tool.objects.exists()
    if connection.vendor == "sqlite":
        made = AccessRequest.objects.get()
        assert answers[0].status_code == 302 and made.state == AccessRequest.State.GONE and made.tool is None
    else:
        assert answers[0].status_code == 409 and MEANWHILE in answers[0].content.decode()
        assert not AccessRequest.objects.exists()


def test_a_request_for_a_toolset_that_is_being_deleted_is_refused_with_a_sentence(charlie: User) -> None:
    toolset = factories.make_toolset("Pets", requestable=True)
    factories.make_tool("idle", toolset=toolset)
    choice = requestable.find_toolset(visible_to(charlie), toolset.pk)
    assert choice is not None
    toolset.delete()
    with pytest.raises(submissions.Refused, match="no longer there"):
        submissions.submit(charlie, choice, None, "Reports.")
    assert not AccessRequest.objects.exists()


@on_postgresql
def test_a_toolset_whose_request_is_approved_meanwhile_is_not_deleted_and_the_page_says_so(
    browser: Client, charlie: User
) -> None:
    toolset = factories.make_toolset("Pets", requestable=True)
    factories.make_tool("idle", toolset=toolset)
    made = ask(charlie, toolset)
    address = f"/admin/catalog/toolset/{toolset.pk}/delete/"
    answers: list[Any] = []
    with transaction.atomic():
        AccessRequest.objects.select_for_update().get(pk=made.pk)
        deletion = run_apart(
            lambda: answers.append(
                browser.post(address, {"post": "yes"}, headers={"referer": f"http://testserver{address}"})
            )
        )
        wait_until(is_waiting, what="the deletion waits for the request")
        decisions.approve(made.pk, "rita")
    deletion.join(60)
    text = answers[0].content.decode()
    assert answers[0].status_code == 409
    assert MEANWHILE in text and f'href="{address}"' in text
    assert Grant.objects.get().toolset == toolset


@on_postgresql
def test_a_request_whose_toolset_is_deleted_meanwhile_is_not_approved_and_the_page_says_so(
    browser: Client, charlie: User
) -> None:
    toolset = factories.make_toolset("Pets", requestable=True)
    factories.make_tool("idle", toolset=toolset)
    made = ask(charlie, toolset)
    answers: list[Any] = []
    approval = None
    with transaction.atomic():
        toolset.delete()
        approval = run_apart(
            lambda: answers.append(browser.post(f"/admin/requests/{made.pk}/decide/", {"decision": "approve"}))
        )
        wait_until(is_waiting, what="the approval waits for the deletion")
    approval.join(60)
    assert answers[0].status_code == 302 and not Grant.objects.exists()
    text = browser.get("/admin/requests/").content.decode()
    assert "Somebody answered it, withdrew it or deleted it meanwhile." in text


@on_postgresql
def test_of_two_changes_that_wait_for_each_other_meanwhile_one_is_made_and_the_other_is_told(
    browser: Client, root: User
) -> None:
    first, second = (AccessToken.objects.issue(root, name)[0] for name in ("first", "second"))
    chosen = {"action": "revoke_chosen", "_selected_action": [first.pk, second.pk]}
    answers: list[Any] = []
    refused: list[DatabaseError] = []
    try:
        with transaction.atomic():
            AccessToken.objects.select_for_update().get(pk=second.pk)
            revoking = run_apart(lambda: answers.append(browser.post("/admin/access/accesstoken/", chosen)))
            wait_until(is_waiting, what="the page waits for the second token")
            AccessToken.objects.select_for_update().get(pk=first.pk)
    except DatabaseError as error:
        refused.append(error)
    revoking.join(60)
    assert all(conflicts.is_conflict(error) for error in refused)
    made = answers[0].status_code == 302
    assert made or (answers[0].status_code == 409 and MEANWHILE in answers[0].content.decode())
    assert made == bool(refused), "the database chose one of them"
    assert AccessToken.objects.filter(revoked=None).count() == (0 if made else 2)


@pytest.mark.postgres
def test_on_postgresql_they_do_too() -> None:
    """The tests above, in a process of its own whose database is on PostgreSQL."""
    postgres("SELECT 1")  # skips without a server
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "-n", "0", "-k", "meanwhile", "-p", "no:cacheprovider"],
        env={**plain, "TOOLHUB_TEST_DATABASE_URL": f"{POSTGRES}/conflicts_{secrets.token_hex(4)}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "4 passed" in done.stdout
