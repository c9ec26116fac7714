"""The scheduler: each job runs when it is due, and one that fails, hangs or takes long holds up no other."""

from __future__ import annotations

import threading

import pytest

from tests.polling import wait_until
from toolhub.jobs import Job, Scheduler


def test_a_job_runs_again_and_again_and_never_twice_at_a_time():
    running, worst, count = 0, 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, worst, count
        with lock:
            running += 1
            worst = max(worst, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1
            count += 1

    scheduler = Scheduler([Job("a", 0.001, work)])
    scheduler.start()
    scheduler.start()
    scheduler.run_now("a")
    wait_until(lambda: count >= 5, what="five runs")
    assert scheduler.stop(60)
    assert worst == 1
    after = count
    assert [status.next_due for status in scheduler.status()] == [None]
    threading.Event().wait(0.02)
    assert count == after


def test_a_long_job_holds_up_no_other():
    go, counts = threading.Event(), [0]

    def long() -> None:
        go.wait(60)

    def often() -> None:
        counts[0] += 1

    scheduler = Scheduler([Job("long", 0.001, long), Job("often", 0.001, often)])
    scheduler.start()
    wait_until(lambda: scheduler.status()[0].running, what="the long job to run")
    before = counts[0]
    wait_until(lambda: counts[0] >= before + 3, what="the other job to go on")
    go.set()
    assert scheduler.stop(60)


def test_a_repeated_failure_is_logged_once(caplog: pytest.LogCaptureFixture):
    def fail() -> None:
        raise ValueError("no disk")

    scheduler = Scheduler([Job("bad", 3600.0, fail)])
    for _ in range(3):
        scheduler.run_now("bad")
    assert caplog.text.count("The background job bad failed") == 1


def test_a_job_that_fails_is_reported_and_keeps_nothing_else_from_running(caplog: pytest.LogCaptureFixture):
    done = threading.Event()

    def fail() -> None:
        raise ValueError("no disk")

    scheduler = Scheduler([Job("bad", 0.001, fail), Job("good", 0.001, done.set)])
    scheduler.start()
    assert done.wait(10)
    wait_until(lambda: scheduler.status()[0].last_error, 10, "the error")
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
