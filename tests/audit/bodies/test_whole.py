"""Whole results beside the log: kept once, believed by their digest, gone with their calls; on both databases."""

from __future__ import annotations

import asyncio
import threading
import zlib
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connections, transaction
from django.utils import timezone

from audit import recorder, retention
from audit.bodies import keeper, whole
from audit.models import Call, WholeBody, WholeBodyUse
from audit.results import kept
from tests.audit import attempts
from tests.audit.stores import AuditStore
from tests.polling import wait_until

LONG = '{"content":[{"text":"' + "weather " * 20_000 + '","type":"text"}]}'
OTHER = LONG.replace("weather", "climate")


def log(*texts: str) -> list[Call]:
    """Calls with these results, of which the log has the beginning and the rest is kept beside it."""

    async def make() -> list[UUID]:
        made = []
        for text in texts:
            begun = await recorder.begin(attempts.intent())
            digest = sha256(text.encode()).hexdigest()
            ending = recorder.Ending("ok", "", "", text[:65_536], len(text), digest)
            ending.whole = text if len(text) > 65_536 else ""
            await recorder.finish(begun, ending)
            made.append(begun.id)
        await recorder.stop(60)
        return made

    made = asyncio.run(make())
    return [Call.objects.get(pk=one) for one in made]


@pytest.fixture(autouse=True)
def fresh_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has not warned yet."""
    monkeypatch.setattr(recorder.audit_log(), "bodies", keeper.BodyKeeper())


def prune(what: str) -> None:
    retention.prune(timezone.now() + timedelta(minutes=5), what)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        zlib.compress(OTHER.encode()),
        zlib.compress(LONG.encode()[:-1]),
        zlib.compress(LONG.encode() + b" "),
        zlib.compress(LONG.encode())[:-200],
        LONG.encode()[:1000],
        zlib.compress(b"0" * 100_000_000),
        b"",
    ],
    ids=["another text", "shorter", "longer", "cut off", "not compressed", "a bomb", "nothing"],
)
def test_a_text_that_was_changed_beside_the_log_is_named_and_not_shown(audit_store: AuditStore, forged: bytes) -> None:
    (call,) = log(LONG)
    WholeBody.objects.update(data=forged, size=len(LONG), stored=len(forged))
    assert whole.find(call) == whole.Found(whole.ALTERED)
    found = kept.read_result(call)
    assert (found.state, found.text) == (kept.ALTERED, LONG[:65_536]) and not found.is_complete
    assert "Its SHA-256 is not the logged one." in " ".join(kept.notes(found))
    assert [one.what for one in kept.downloads(found)] == [kept.RESULT]


def test_a_text_that_was_deleted_beside_the_log_is_named(audit_store: AuditStore) -> None:
    (call,) = log(LONG)
    WholeBody.objects.all().delete()
    assert kept.read_result(call).state == kept.ALTERED


def test_a_text_is_not_shown_for_a_call_of_which_it_was_never_kept(audit_store: AuditStore) -> None:
    first, second = log(LONG, LONG)
    WholeBodyUse.objects.filter(pk=second.pk).delete()
    assert kept.read_result(first).state == kept.WHOLE and kept.read_result(second).state == kept.CUT


def test_nothing_is_kept_for_a_call_that_runs_or_lost_its_bodies(audit_store: AuditStore) -> None:
    digest = sha256(LONG.encode()).hexdigest()
    (call,) = log('{"content":[]}')
    Call.objects.update(body_state="pruned")
    assert not whole.keep(call.pk, digest, LONG)
    Call.objects.update(body_state="", outcome="running")
    assert not whole.keep(call.pk, digest, LONG)
    assert not WholeBody.objects.exists() and not WholeBodyUse.objects.exists()


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_a_long_result_is_kept_whole_and_equal_ones_once(audit_store: AuditStore) -> None:
    calls = log(LONG, LONG, OTHER)
    assert [call.result for call in calls] == [LONG[:65_536], LONG[:65_536], OTHER[:65_536]]
    assert [kept.read_result(call).text for call in calls] == [LONG, LONG, OTHER]
    assert WholeBody.objects.count() == 2 and WholeBodyUse.objects.count() == 3
    total = whole.measure()
    assert total.bodies == 2 and 0 < total.stored < len(LONG) // 10


@pytest.mark.parametrize("what", [retention.BODIES, retention.ROWS])
def test_retention_removes_a_text_with_the_last_of_its_calls(audit_store: AuditStore, what: str) -> None:
    old, young, alone = log(LONG, LONG, OTHER)
    with transaction.atomic():
        whole.remove([old.pk, alone.pk])
    assert [row.digest for row in WholeBody.objects.all()] == [young.result_sha256]
    assert kept.read_result(young).text == LONG
    prune(what)
    assert not WholeBody.objects.exists() and not WholeBodyUse.objects.exists()
    if what == retention.BODIES:
        young.refresh_from_db()
        assert kept.read_result(young).state == kept.PRUNED


def test_a_removal_that_fails_leaves_the_text_and_the_call(audit_store: AuditStore, monkeypatch: Any) -> None:
    (call,) = log(LONG)

    def fail(ids: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(whole, "remove", fail)
    with pytest.raises(RuntimeError):
        prune(retention.BODIES)
    call.refresh_from_db()
    assert kept.read_result(call).text == LONG


def test_a_text_that_another_call_needs_at_the_same_time_is_not_removed(postgres_store: AuditStore) -> None:
    first, second = log(LONG, '{"content":[]}')
    kept_by_now = threading.Event()

    def need() -> None:
        try:
            whole.keep(second.pk, first.result_sha256, LONG)
        finally:
            kept_by_now.set()
            connections.close_all()

    def is_waiting() -> bool:
        return bool(postgres_store.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))

    with transaction.atomic():
        whole.remove([first.pk])
        thread = threading.Thread(target=need)
        thread.start()
        wait_until(lambda: is_waiting() or kept_by_now.is_set(), what="the other transaction")
    thread.join()
    assert WholeBody.objects.get().digest == first.result_sha256
    assert WholeBodyUse.objects.get().call_id == second.pk


# --- the thread ------------------------------------------------------------------------------------------------------


def test_a_result_that_cannot_be_kept_delays_nothing_and_its_page_says_so(
    sqlite_store: AuditStore, monkeypatch: Any, settings: Any, caplog: Any
) -> None:
    settings.KEEP_WHOLE_BODIES_BYTES = 1_000_000
    monkeypatch.setattr(keeper, "RETRY_SECONDS", 0)

    def fail(*args: Any) -> bool:
        raise DatabaseError("away")

    monkeypatch.setattr(whole, "keep", fail)
    (call,) = log(LONG)
    assert call.outcome == "ok" and kept.read_result(call).state == kept.CUT
    assert "are kept whole, but this one is not" in " ".join(kept.notes(kept.read_result(call)))
    assert "1 whole results were not kept (DatabaseError)" in caplog.text


def test_all_whole_results_together_take_no_more_than_the_setting(
    sqlite_store: AuditStore, settings: Any, caplog: Any
) -> None:
    settings.KEEP_WHOLE_BODIES_BYTES = 1_000_000
    (first,) = log(LONG)
    settings.MAX_WHOLE_BODIES_BYTES = whole.measure().stored
    (other,) = log(LONG.replace("a", "b") + "c")
    assert kept.read_result(first).text == LONG and kept.read_result(other).state == kept.CUT
    notes = " ".join(kept.notes(kept.read_result(other), advise=True))
    assert "The store of whole results is full now" in notes and "TOOLHUB_MAX_WHOLE_BODIES_MB sets its size." in notes
    assert "TOOLHUB_MAX_WHOLE_BODIES_MB is used up" in caplog.text
    (again,) = log(LONG)
    assert kept.read_result(again).text == LONG, "the same text needs no more room"
    settings.MAX_WHOLE_BODIES_BYTES *= 10
    assert "full" not in " ".join(kept.notes(kept.read_result(other)))


def test_a_database_that_is_away_for_a_moment_loses_no_result(sqlite_store: AuditStore, monkeypatch: Any) -> None:
    monkeypatch.setattr(keeper, "RETRY_SECONDS", 0)
    real, failures = whole.keep, [DatabaseError("away"), DatabaseError("away")]

    def fail_twice(*args: Any) -> bool:
        if failures:
            raise failures.pop()
        return real(*args)

    monkeypatch.setattr(whole, "keep", fail_twice)
    (call,) = log(LONG)
    assert not failures and kept.read_result(call).text == LONG


def test_results_that_wait_are_bounded(sqlite_store: AuditStore, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(keeper, "MAX_WAITING_CHARACTERS", len(LONG) + 10)
    go_on = threading.Event()
    real = whole.keep

    def wait(*args: Any) -> bool:
        go_on.wait(60)
        return real(*args)

    monkeypatch.setattr(whole, "keep", wait)
    put = keeper.BodyKeeper.put

    def count(self: keeper.BodyKeeper, entries: Any) -> None:
        put(self, entries)
        if self._dropped:
            go_on.set()

    monkeypatch.setattr(keeper.BodyKeeper, "put", count)
    calls = log(*(LONG for _ in range(4)))
    states = [kept.read_result(call).state for call in calls]
    assert states.count(kept.CUT) >= 1 and states[0] == kept.WHOLE
    assert "whole results were not kept (more results end than can be written)" in caplog.text
