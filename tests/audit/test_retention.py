"""Retention: bodies and rows go, the chain still verifies, and the run itself is logged."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from hashlib import sha256

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from audit import maintenance, recorder, retention
from audit.integrity import verification
from audit.models import Action, Call, Link
from tests.audit import attempts
from tests.audit.rows import build_call, save
from toolhub.jobs import Job

FIVE_MINUTES = timedelta(minutes=5)


async def log_calls(count: int = 6) -> list[str]:
    keys = [await attempts.call() for _ in range(count)]
    await recorder.deny(attempts.intent(), attempts.ending("refused", ""))
    await recorder.stop(60)
    return keys


def find_problem() -> str:
    return verification.run().first


@pytest.mark.django_db(transaction=True)
async def test_bodies_are_replaced_by_their_digests_and_the_chain_verifies():
    await log_calls()
    await _run_sync(_prune_bodies)


def _prune_bodies():
    texts = dict(Call.objects.values_list("pk", "arguments"))
    done = retention.prune(timezone.now() + FIVE_MINUTES, retention.BODIES)
    assert done.bodies == 7 and Call.objects.count() == 7
    for row in Call.objects.all():
        assert row.arguments == f"pruned:sha256:{sha256(texts[row.pk].encode()).hexdigest()}"
        assert row.result.startswith("pruned:sha256:") and row.body_state == "pruned"
        assert (row.username, row.name) == ("alice", "calculate_sum")
    assert find_problem() == ""
    action = Action.objects.get(verb="pruned")
    assert (action.kind, json.loads(action.after)["what"]) == ("calls", "bodies")
    # Again: nothing is left to do, and nothing is written about it.
    assert retention.prune(timezone.now() + FIVE_MINUTES, retention.BODIES).bodies == 0
    assert Action.objects.filter(verb="pruned").count() == 1


@pytest.mark.django_db(transaction=True)
async def test_rows_are_deleted_links_stay_and_the_chain_verifies(monkeypatch):
    monkeypatch.setattr(retention, "BATCH_CALLS", 3)
    await log_calls()
    await _run_sync(_prune_rows)


def _prune_rows():
    links = Link.objects.count()
    assert retention.prune(timezone.now() + FIVE_MINUTES, retention.ROWS).rows == 7
    assert Call.objects.count() == 0 and Link.objects.count() >= links
    assert find_problem() == ""


@pytest.mark.django_db(transaction=True)
async def test_rows_deleted_without_a_logged_run_are_found_missing():
    await log_calls()
    await _run_sync(_check_forged_row)


def _check_forged_row():
    retention.prune(timezone.now() - FIVE_MINUTES, retention.ROWS)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_call WHERE id = (SELECT id FROM audit_call ORDER BY id LIMIT 1)")
    assert find_problem() != ""


@pytest.mark.django_db(transaction=True)
async def test_a_body_that_somebody_replaced_by_a_digest_is_found():
    await log_calls()
    await _run_sync(_check_forged_body)


def _check_forged_body():
    with connection.cursor() as cursor:
        cursor.execute("UPDATE audit_call SET result = %s, body_state = 'pruned'", ["pruned:sha256:" + "0" * 64])
    assert find_problem() != ""


@pytest.mark.django_db(transaction=True)
async def test_a_call_that_runs_and_one_that_is_young_are_left_alone():
    begun = await recorder.begin(attempts.intent())
    await attempts.call()
    await _run_sync(lambda: retention.prune(timezone.now() - FIVE_MINUTES, retention.ROWS))
    assert await Call.objects.acount() == 2
    await _run_sync(lambda: retention.prune(timezone.now() + FIVE_MINUTES, retention.ROWS))
    assert [row.pk async for row in Call.objects.all()] == [begun.id]
    await recorder.finish(begun, attempts.ending())
    await recorder.stop(60)
    assert await _run_sync(find_problem) == ""


async def _run_sync(work):
    from asgiref.sync import sync_to_async

    return await sync_to_async(work)()


def save_old_calls(count, days):
    return save(
        *(
            build_call(number, started_at=timezone.now() - timedelta(days=days, seconds=number))
            for number in range(count)
        )
    )


@pytest.mark.django_db
def test_the_command_needs_an_age_and_an_answer(capsys, monkeypatch):
    save_old_calls(3, days=100)
    for age in ("", "x", "-1d", "10y", "9999999999d"):
        with pytest.raises(CommandError):
            call_command("prunecalls", "--older-than", age, "--yes")
    with pytest.raises(CommandError, match="--yes"):
        call_command("prunecalls", "--older-than", "90d")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "no")
    with pytest.raises(CommandError, match="Nothing was removed"):
        call_command("prunecalls", "--older-than", "90d")
    assert Call.objects.count() == 3


@pytest.mark.django_db
def test_the_command_deletes_older_calls_and_says_how_many(capsys):
    save_old_calls(3, days=100)
    young = save_old_calls(2, days=10)
    call_command("prunecalls", "--older-than", "90d", "--bodies-only", "--yes")
    assert "arguments and results of 3 calls older than 90d" in capsys.readouterr().out
    assert Call.objects.filter(body_state="pruned").count() == 3
    call_command("prunecalls", "--older-than", "12w", "--yes")
    assert "Removed 3 calls older than 12w" in capsys.readouterr().out
    assert set(Call.objects.values_list("pk", flat=True)) == {row.pk for row in young}
    assert Action.objects.filter(verb="pruned").count() == 2


@pytest.mark.django_db
def test_the_settings_keep_bodies_shorter_than_rows(settings):
    from django.core.cache import cache

    settings.KEEP_BODIES_DAYS, settings.KEEP_CALLS_DAYS = 30, 365
    gone, bare, whole = save_old_calls(1, days=400)[0], save_old_calls(1, days=60)[0], save_old_calls(1, days=5)[0]
    done = retention.apply_settings()
    assert (done.bodies, done.rows) == (2, 1)
    assert not Call.objects.filter(pk=gone.pk).exists()
    assert Call.objects.get(pk=bare.pk).body_state == "pruned" and Call.objects.get(pk=whole.pk).body_state == ""
    settings.KEEP_BODIES_DAYS = settings.KEEP_CALLS_DAYS = 0
    cache.delete("audit:retention")
    retention.apply_if_due()
    assert cache.add("audit:retention", 1), "nothing is to be done, so no process takes it on"
    cache.delete("audit:retention")


@pytest.mark.django_db(transaction=True)
def test_retention_by_the_settings_runs_once_a_day_in_one_process(settings):
    from django.core.cache import cache

    settings.KEEP_CALLS_DAYS = 30
    cache.delete("audit:retention")
    save_old_calls(2, days=60)
    retention.apply_if_due()
    assert Call.objects.count() == 0
    assert Action.objects.get(verb="pruned").actor == "retention"
    save_old_calls(1, days=60)
    retention.apply_if_due()
    assert Call.objects.count() == 1
    cache.delete("audit:retention")


def test_each_job_checks_once_a_minute_and_never_twice_at_a_time():
    looks, go_on = [], threading.Event()

    def look() -> None:
        looks.append(threading.current_thread())
        go_on.wait(60)

    periodic = maintenance.PeriodicJobs([Job("Look", 60.0, look)])
    soon = time.monotonic() + 60.0
    assert periodic.tick() == 0
    assert periodic.tick(soon) == 1
    assert periodic.tick(soon) == 0
    assert periodic.tick(soon + 60.0) == 0, "it is still running"
    go_on.set()
    looks[0].join(60)
    assert periodic.tick(soon + 120.0) == 1
    looks[1].join(60)


def test_a_scheduler_takes_the_jobs_over():
    log = recorder.AuditLog()
    assert [job.name for job in log.take_jobs()] == [
        "Verify audit log",
        "Apply retention",
        "Update rollups",
        "Update text index",
    ]
    assert log.take_jobs() == [] and log._periodic.tick(time.monotonic() + 3600.0) == 0


@pytest.mark.django_db
def test_pruning_works_in_small_batches(monkeypatch):
    monkeypatch.setattr(retention, "BATCH_CALLS", 10)
    save_old_calls(25, days=100)
    steps = []
    retention.prune(timezone.now() - timedelta(days=90), retention.ROWS, lambda done: steps.append(done.rows))
    assert steps == [10, 20, 25]
