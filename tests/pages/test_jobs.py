"""The page of background jobs: of every process, as each said itself, for whoever may see the sessions."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from tests.polling import wait_until_async
from tests.server.conftest import hub as hub
from tests.server.conftest import run_in_database
from toolhub.access.models import ServingProcess
from toolhub.hub import Hub, background_jobs
from toolhub.jobs import Job, Scheduler
from toolhub.pages.jobs import TRANSLATED_NAMES
from toolhub.server import presence


def sign_in_staff(client: Any, *permissions: str) -> None:
    user = User.objects.create_user("sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)


def process(name: str, said: str, age: float = 1.0) -> None:
    now = timezone.now()
    beat = now - timedelta(seconds=age)
    ServingProcess.objects.create(pk=name, host=name, pid=1, started=now, beat=beat, peers="[]", jobs=said)


@pytest.mark.django_db
def test_staff_without_the_permission_are_refused(client):
    sign_in_staff(client, "disconnect_client")
    assert client.get("/admin/jobs/").status_code == 403


@pytest.mark.django_db
def test_the_jobs_of_every_process_that_lives_are_shown_and_errors_are_text(client):
    row = {"name": "Apply retention", "every": 60.0, "running": False, "started": None, "duration": 0.5, "due": None}
    process("first", json.dumps([{**row, "started": 1700000000, "error": "OSError: <b>disk</b>"}]))
    process("second", json.dumps([{**row, "running": True, "error": ""}]))
    process("gone", json.dumps([{**row, "error": "long ago"}]), age=presence.LEASE_SECONDS + 5)
    process("older", "")
    sign_in_staff(client, "view_connections")
    html = client.get("/admin/jobs/").content.decode()
    assert html.count("Apply retention") == 2 and "1 min" in html
    assert "Failed: OSError: &lt;b&gt;disk&lt;/b&gt;" in html and "running" in html
    assert "long ago" not in html


@pytest.mark.django_db
def test_failed_jobs_come_first_and_a_single_process_is_named_once(client):
    row = {"every": 60.0, "running": False, "started": 1700000000, "duration": 0.5, "due": None}
    said = [{**row, "name": "Update rollups", "error": ""}, {**row, "name": "Send mail", "error": "refused"}]
    process("first", json.dumps(said))
    sign_in_staff(client, "view_connections")
    html = client.get("/admin/jobs/").content.decode()
    assert html.index(">Send mail<") < html.index(">Update rollups<")
    assert html.count("process 1") == 1


@pytest.mark.django_db
def test_without_any_process_the_page_says_what_it_is_for(client):
    sign_in_staff(client, "view_connections")
    assert "No server process has reported its background jobs yet." in client.get("/admin/jobs/").content.decode()


@pytest.mark.django_db(transaction=True)
async def test_a_process_reports_the_jobs_that_its_hub_runs(hub: Hub) -> None:
    hub.server.bus.publish_soon(presence.REPORT_REQUESTED, {})

    def reported() -> list[presence.JobRow]:
        return [row for process in presence.processes() for row in presence.jobs(process)]

    rows = await wait_until_async(lambda: run_in_database(reported))
    assert [row["name"] for row in rows] == [job.name for job in background_jobs()]
    assert all(row["due"] and row["started"] is None and not row["running"] for row in rows)


def test_every_job_has_a_name_that_is_translated():
    assert {job.name for job in background_jobs()} == TRANSLATED_NAMES


@pytest.mark.django_db
def test_the_page_shows_the_status_of_the_scheduler(client):
    scheduler = Scheduler([Job("Update rollups", 60.0, lambda: None)])
    scheduler.run_now("Update rollups")
    sign_in_staff(client, "view_connections")
    process("first", presence.as_json(scheduler.status()))
    assert "Succeeded in 0.0" in client.get("/admin/jobs/").content.decode()
