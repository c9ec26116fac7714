"""The scheduler: due jobs run one after the other, a failing or hanging one is told apart from the others."""

from __future__ import annotations

import threading

import pytest

from tests.waiting import until
from toolhub.jobs import Job, Scheduler


def test_jobs_run_again_and_again_and_never_side_by_side():
    running, worst, counts = 0, 0, {"a": 0, "b": 0}
    lock = threading.Lock()

    def work(name: str) -> None:
        nonlocal running, worst
        with lock:
            running += 1
            worst = max(worst, running)
        counts[name] += 1
        threading.Event().wait(0.002)
        with lock:
            running -= 1

    scheduler = Scheduler([Job("a", 0.001, lambda: work("a")), Job("b", 0.001, lambda: work("b"))])
    scheduler.start()
    scheduler.start()
    scheduler.run_now("a")
    until(lambda: min(counts.values()) >= 3, 10, "three runs of both")
    assert scheduler.stop(10)
    assert worst == 1
    after = dict(counts)
    assert [status.next_due for status in scheduler.status()] == [None, None]
    threading.Event().wait(0.02)
    assert counts == after


def test_a_job_that_fails_is_reported_and_keeps_nothing_else_from_running(caplog: pytest.LogCaptureFixture):
    done = threading.Event()

    def fail() -> None:
        raise ValueError("no disk")

    scheduler = Scheduler([Job("bad", 0.001, fail), Job("good", 0.001, done.set)])
    scheduler.start()
    assert done.wait(10)
    until(lambda: scheduler.status()[0].last_error, 10, "the error")
    assert scheduler.stop(10)
    bad, good = scheduler.status()
    assert (bad.name, bad.last_error, good.last_error) == ("bad", "ValueError: no disk", "")
    assert bad.last_start is not None and bad.last_end is not None and bad.duration_seconds is not None
    assert "The background job bad failed" in caplog.text


def test_a_stop_does_not_wait_longer_than_it_may():
    started, go = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        go.wait(10)

    scheduler = Scheduler([Job("slow", 0.001, hang)])
    scheduler.start()
    assert started.wait(10)
    assert scheduler.status()[0].running
    assert not scheduler.stop(0.01)
    go.set()
    assert scheduler.stop(10)


def test_a_job_can_be_run_at_once_without_a_start():
    done = threading.Event()
    scheduler = Scheduler([Job("now", 3600.0, done.set)])
    scheduler.run_now("now")
    assert done.is_set() and scheduler.status()[0].last_end is not None
    with pytest.raises(KeyError):
        scheduler.run_now("unknown")
