"""Long tasks of the audit log: what serves calls goes first."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone

from audit import recorder, retention
from audit.background import BUSY_SHARE, MAX_PAUSE_SECONDS, Pacer, Traffic
from audit.integrity import verification
from audit.models import Call
from tests.audit import attempts
from tests.audit.stores import AuditStore
from toolhub.parts import parts


class Watch:
    """A clock that stands still, and the pauses that somebody made; a pause takes its time on the clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)


class Log:
    """An audit log that grows when a test says so."""

    def __init__(self) -> None:
        self.entries = 0

    def add(self) -> None:
        self.entries += 2


def make_pacer(watch: Watch, log: Log) -> Pacer:
    return Pacer(Traffic(lambda: log.entries), clock=watch, sleep=watch.sleep)


def test_a_task_of_an_idle_process_never_pauses():
    watch = Watch()
    pacer = make_pacer(watch, Log())
    for _ in range(3):
        watch.now += 0.02
        pacer.pause()
    assert watch.pauses == []


def test_a_task_works_for_its_share_of_the_time_while_calls_end():
    watch, log = Watch(), Log()
    pacer = make_pacer(watch, log)
    start = watch.now
    for _ in range(5):
        watch.now += 0.02
        log.add()
        pacer.pause()
    assert 5 * 0.02 / (watch.now - start) == pytest.approx(BUSY_SHARE)


def test_no_pause_is_longer_than_a_second():
    watch, log = Watch(), Log()
    pacer = make_pacer(watch, log)
    watch.now += 60
    log.add()
    pacer.pause()
    assert watch.pauses == [MAX_PAUSE_SECONDS]


def test_calls_that_ended_before_or_in_a_pause_cause_no_other():
    watch, log = Watch(), Log()
    log.add()
    pacer = make_pacer(watch, log)
    pacer.pause()
    assert watch.pauses == []
    watch.now += 0.02
    log.add()
    pacer.pause()
    assert len(watch.pauses) == 1
    watch.now += 0.02
    pacer.pause()
    assert len(watch.pauses) == 1


def test_the_audit_log_of_a_process_counts_its_entries(audit_store: AuditStore):
    async def calls() -> list[int]:
        found = []
        for _ in range(2):
            await attempts.call()
            found.append(parts.get(Traffic).count())
        await recorder.stop(60)
        return found

    first, second = asyncio.run(calls())
    assert second == first + 2 and parts.get(Traffic).count() == 0


def test_a_verification_steps_after_each_page_of_entries_and_of_calls(audit_store: AuditStore):
    async def calls() -> None:
        for _ in range(3):
            await attempts.call()
        await recorder.stop(60)

    asyncio.run(calls())
    steps: list[int] = []
    report = verification.run(step=lambda: steps.append(1))
    assert report.ok and report.links and report.calls
    assert len(steps) >= 2


@pytest.mark.parametrize("task", ["verification", "retention"])
def test_the_tasks_of_a_serving_process_pause_while_it_serves(audit_store: AuditStore, task, settings, monkeypatch):
    async def calls() -> None:
        for _ in range(3):
            await attempts.call()
        await recorder.stop(60)

    asyncio.run(calls())
    pauses: list[float] = []
    pause = Pacer.pause

    def counted(pacer: Pacer) -> None:
        pacer._entries -= 1  # as if something had been logged while the task worked
        pacer._sleep = pauses.append
        pause(pacer)

    monkeypatch.setattr(Pacer, "pause", counted)
    if task == "verification":
        from audit.integrity.verifier import Verifier

        assert Verifier().run()
    else:
        settings.KEEP_CALLS_DAYS, settings.KEEP_BODIES_DAYS = 1, 0
        retention.apply_settings(timezone.now() + timedelta(days=2))
        assert Call.objects.count() == 0
    assert pauses
