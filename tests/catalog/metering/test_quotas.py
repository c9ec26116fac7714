"""Quotas: exactly as many as the amount in each period of the calendar, whoever calls at the same time and where."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connections

from catalog.metering import quotas
from catalog.metering.quotas import Charge, QuotaReached
from catalog.models import Limit, LimitUsage
from catalog.policy import large_changes
from catalog.policy.definitions import LimitRule
from tests import factories
from tests.catalog.metering import apart
from tests.catalog.metering.rules import find_rule, make_rule
from tests.real_servers import POSTGRES, ROOT, postgres
from toolhub import hub

pytestmark = pytest.mark.django_db(transaction=True)
NOON = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def charge(rule: LimitRule, units: int = 1, subject: str = "user 5") -> Charge:
    return Charge(rule, subject, units)


def admitted(charges: Sequence[Charge], tries: int, at: datetime = NOON) -> int:
    count = 0
    for _ in range(tries):
        try:
            quotas.take(charges, at)
        except QuotaReached:
            continue
        count += 1
    return count


def used(*charges: Charge, at: datetime = NOON) -> list[int]:
    return [usage.used for usage in quotas.find(charges, at)]


def run_at_once(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each of these returned, all started together in threads of their own."""
    start, results = threading.Barrier(len(works)), []

    def work(one: Callable[[], Any]) -> None:
        start.wait(60)
        try:
            results.append(one())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(one,)) for one in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(results) == len(works), "none has failed"
    return results


# --- refused ---------------------------------------------------------------------------------------------------------


def test_the_call_beyond_the_quota_is_refused_with_its_reset() -> None:
    rule = make_rule("3/day")
    assert admitted([charge(rule)], 3) == 3
    with pytest.raises(QuotaReached) as caught:
        quotas.take([charge(rule)], NOON)
    assert caught.value.usage == quotas.Usage(rule, 3, datetime(2026, 11, 29, tzinfo=UTC))
    assert caught.value.units == 1
    assert used(charge(rule)) == [3]


def test_a_call_that_takes_more_than_the_quota_has_never_fits() -> None:
    rule = make_rule("100/month", "cost")
    with pytest.raises(QuotaReached) as caught:
        quotas.take([charge(rule, 101)], NOON)
    assert (caught.value.usage.used, caught.value.units) == (0, 101)
    assert quotas.take([charge(rule, 100)], NOON)[0].used == 100


def test_a_call_that_takes_more_than_is_left_is_refused_and_a_cheaper_one_is_not() -> None:
    rule = make_rule("100/month", "cost")
    quotas.take([charge(rule, 70)], NOON)
    with pytest.raises(QuotaReached) as caught:
        quotas.take([charge(rule, 31)], NOON)
    assert (caught.value.usage.used, caught.value.units) == (70, 31)
    assert quotas.take([charge(rule, 30)], NOON)[0].used == 100


def test_a_call_that_takes_nothing_yet_is_refused_when_nothing_is_left() -> None:
    rule = make_rule("5/day", "cost")
    assert admitted([charge(rule, 0)], 3) == 3
    quotas.take([charge(rule, 5)], NOON)
    with pytest.raises(QuotaReached):
        quotas.take([charge(rule, 0)], NOON)


def test_a_quota_of_none_admits_nobody() -> None:
    assert admitted([charge(make_rule("0/day"))], 2) == 0


@pytest.mark.parametrize("reached", [0, 1, 2])
def test_of_three_quotas_one_that_is_reached_leaves_the_others_as_they_were(reached: int) -> None:
    charges = [charge(make_rule(f"{2 if number == reached else 9}/day")) for number in range(3)]
    assert admitted(charges, 5) == 2
    assert used(*charges) == [2, 2, 2]


def test_of_several_quotas_that_are_reached_the_one_that_ends_last_answers() -> None:
    hour, month, day, free = (make_rule(rate) for rate in ("2/hour", "2/month", "2/day", "9/month"))
    charges = [charge(rule) for rule in (hour, month, day, free)]
    assert admitted(charges, 2) == 2
    with pytest.raises(QuotaReached) as caught:
        quotas.take(charges, NOON)
    assert caught.value.usage.rule is month
    assert caught.value.usage.ends == datetime(2026, 12, 1, tzinfo=UTC)


def test_a_rate_is_no_quota() -> None:
    with pytest.raises(ValueError, match="is no quota"):
        quotas.take([charge(make_rule("30/m"))], NOON)


# --- at the same time ------------------------------------------------------------------------------------------------


def test_four_hundred_tries_in_twenty_threads_admit_exactly_the_amount() -> None:
    rule = make_rule("37/day")
    assert sum(run_at_once([lambda: admitted([charge(rule)], 20)] * 20)) == 37
    assert used(charge(rule)) == [37]


def test_costs_at_the_same_time_fill_the_quota_exactly() -> None:
    rule = make_rule("100/day", "cost")
    assert sum(run_at_once([lambda: admitted([charge(rule, 3)], 10)] * 10)) == 33
    assert used(charge(rule)) == [99]


def test_calls_that_name_their_quotas_in_any_order_do_not_wait_for_each_other() -> None:
    charges = [charge(make_rule(f"{amount}/day")) for amount in (50, 40, 60)]
    orders = [charges, charges[::-1], [charges[1], charges[0], charges[2]]] * 4
    assert sum(run_at_once([partial(admitted, order, 6) for order in orders])) == 40
    assert used(*charges) == [40, 40, 40]


def test_two_processes_admit_exactly_the_amount_together_and_a_restart_forgets_nothing(tmp_path: Path) -> None:
    limit = factories.limit("25/day", scope="everyone_together")
    values = {"limit_id": limit.pk, "tries": 20, "at": NOON.isoformat()}
    with (
        apart.process(tmp_path, apart.take, values) as first,
        apart.process(tmp_path, apart.take, values) as second,
    ):
        assert [apart.read_line(child) for child in (first, second)] == ["ready", "ready"]
        for child in (first, second):
            apart.go_on(child)
        counts = [apart.read_line(child) for child in (first, second)]
    assert sum(counts) == 25
    caches["limits"].clear()  # Redis was restarted as well
    assert admitted([charge(find_rule(limit), subject="everyone")], 5) == 0


def test_the_call_of_a_process_that_was_killed_before_it_ran_stays_counted(tmp_path: Path) -> None:
    limit = factories.limit("1/day", scope="everyone_together")
    values = {"limit_id": limit.pk, "tries": 1, "at": NOON.isoformat()}
    with apart.process(tmp_path, apart.take, values) as child:
        assert apart.read_line(child) == "ready"
        apart.go_on(child)
        assert apart.read_line(child) == 1
        child.kill()
        child.wait(60)
    assert admitted([charge(find_rule(limit), subject="everyone")], 1) == 0


def test_calls_beside_the_deletion_of_a_limit_count_for_the_others() -> None:
    kept, lost = make_rule("9/day"), make_rule("9/day")
    Limit.objects.filter(pk=lost.id).delete()
    taken = quotas.take([charge(kept), charge(lost)], NOON)
    assert [(usage.rule, usage.used) for usage in taken] == [(kept, 1), (lost, 1)]
    quotas.add([charge(lost, 3), charge(kept, 3)], NOON)
    assert used(charge(kept)) == [4]
    assert quotas.remove_past(NOON + timedelta(days=70)) == 2


def test_a_limit_is_deleted_while_calls_count_in_it() -> None:
    kept, stop = make_rule("1000000/day"), threading.Event()

    def call(rule: LimitRule) -> int:
        count = 0
        while not (stop.is_set() and count):
            count += 1
            quotas.take([charge(kept), charge(rule, subject=f"user {count}")], NOON)
        return count

    def delete(rule: LimitRule) -> int:
        try:
            Limit.objects.get(pk=rule.id).delete()
        finally:
            stop.set()
        return 0

    rule = make_rule("9/day")
    counts = run_at_once([partial(call, rule), partial(call, rule), partial(delete, rule)])
    assert used(charge(kept)) == [sum(counts)]


def test_a_large_change_deletes_a_limit_whose_calls_go_on() -> None:
    rule = make_rule("9/day")
    quotas.take([charge(rule)], NOON)

    def work() -> None:
        run_at_once([partial(quotas.take, [charge(rule)], NOON)])
        Limit.objects.get(pk=rule.id).delete()

    large_changes.run(work)
    assert not Limit.everything.exists()


# --- who, what and when ----------------------------------------------------------------------------------------------


def test_each_user_and_each_group_has_a_counter_and_everyone_shares_one() -> None:
    rule = make_rule("2/day")
    for subject in ("user 5", "user 6", "group 5", "everyone"):
        assert admitted([charge(rule, subject=subject)], 5) == 2, subject


def test_another_measure_and_another_period_count_from_nothing() -> None:
    limit = factories.limit("5/day", measure="cost")
    monday = datetime(2026, 11, 30, 12, tzinfo=UTC)  # its start is that of the week as well
    assert admitted([charge(find_rule(limit), 5)], 1, monday) == 1
    Limit.objects.filter(pk=limit.pk).update(rate="5/week")
    assert used(charge(find_rule(limit)), at=monday) == [0]
    Limit.objects.filter(pk=limit.pk).update(measure="calls", rate="5/day")
    assert used(charge(find_rule(limit)), at=monday) == [0]
    Limit.objects.filter(pk=limit.pk).update(measure="cost")
    assert used(charge(find_rule(limit)), at=monday) == [5]


def test_another_amount_keeps_what_is_used() -> None:
    limit = factories.limit("2/day")
    assert admitted([charge(find_rule(limit))], 5) == 2
    Limit.objects.filter(pk=limit.pk).update(rate="3/day")
    assert admitted([charge(find_rule(limit))], 5) == 1
    Limit.objects.filter(pk=limit.pk).update(rate="1/day")
    assert admitted([charge(find_rule(limit))], 1) == 0
    assert used(charge(find_rule(limit))) == [3]


@pytest.mark.parametrize(
    ("rate", "last", "first"),
    [
        ("1/hour", "2026-11-28T12:59:59.999999Z", "2026-11-28T13:00:00Z"),
        ("1/day", "2026-11-28T22:59:59.999999Z", "2026-11-28T23:00:00Z"),
        ("1/week", "2026-11-29T22:59:59.999999Z", "2026-11-29T23:00:00Z"),
        ("1/month", "2026-11-30T22:59:59.999999Z", "2026-11-30T23:00:00Z"),
        # The day on which the clocks go forward has 23 hours, and the one on which they go back has 25.
        ("1/day", "2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z"),
        ("1/day", "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z"),
        ("1/day", "2026-10-25T22:59:59Z", "2026-10-25T23:00:00Z"),
        ("1/month", "2026-03-31T21:59:59Z", "2026-03-31T22:00:00Z"),
    ],
)
def test_a_quota_begins_anew_with_the_calendar_of_its_time_zone(rate: str, last: str, first: str) -> None:
    charges = [charge(make_rule(rate, zone="Europe/Berlin"))]
    before, after = datetime.fromisoformat(last), datetime.fromisoformat(first)
    assert admitted(charges, 2, before) == 1
    assert quotas.find(charges, before)[0].ends == after
    assert admitted(charges, 2, after) == 1
    assert admitted(charges, 1, before) == 0, "the period that is over keeps its own count"


def test_the_hour_that_the_clock_shows_twice_is_two_hours() -> None:
    charges = [charge(make_rule("1/hour", zone="Europe/Berlin"))]
    for text in ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"):
        assert admitted(charges, 2, datetime.fromisoformat(text)) == 1


# --- afterwards ------------------------------------------------------------------------------------------------------


def test_the_cost_of_a_result_counts_beyond_the_quota_and_the_next_call_is_refused() -> None:
    rule = make_rule("100/day", "cost")
    quotas.take([charge(rule, 90)], NOON)
    quotas.add([charge(rule, 40)], NOON)
    assert used(charge(rule)) == [130]
    assert admitted([charge(rule, 1)], 1) == 0


def test_what_a_call_gives_back_another_one_may_take() -> None:
    rule, other = make_rule("1/day"), make_rule("10/day", "cost")
    charges = [charge(rule), charge(other, 10)]
    assert admitted(charges, 2) == 1
    quotas.add([replace(one, units=-one.units) for one in charges], NOON)
    assert used(*charges) == [0, 0]
    assert admitted(charges, 2) == 1


def test_no_more_is_given_back_than_was_used() -> None:
    rule = make_rule("5/day")
    quotas.add([charge(rule, -3)], NOON)
    assert not LimitUsage.objects.exists()
    quotas.take([charge(rule)], NOON)
    quotas.add([charge(rule, -3)], NOON)
    assert used(charge(rule)) == [0]


def test_the_cost_of_a_result_that_comes_after_midnight_counts_for_the_day_of_the_call() -> None:
    rule = make_rule("100/day", "cost")
    evening = datetime(2026, 11, 28, 23, 59, 59, tzinfo=UTC)
    quotas.take([charge(rule, 1)], evening)
    quotas.add([charge(rule, 5)], evening)
    assert used(charge(rule), at=evening) == [6]
    assert used(charge(rule), at=evening + timedelta(seconds=1)) == [0]


def test_reading_takes_one_query_and_counts_nothing(django_assert_num_queries: Any) -> None:
    rules = [make_rule(rate) for rate in ("3/day", "4/month", "5/hour")]
    charges = [charge(rule, subject=subject) for rule in rules for subject in ("user 5", "everyone")]
    quotas.take(charges[:3], NOON)
    with django_assert_num_queries(1):
        assert used(*charges) == [1, 1, 1, 0, 0, 0]
    assert used(*charges) == [1, 1, 1, 0, 0, 0]


def test_taking_again_in_a_period_takes_two_statements_whatever_the_number_of_quotas_and_calls(
    django_assert_num_queries: Any,
) -> None:
    charges = [charge(make_rule("9/day")), charge(make_rule("9/month"))]
    quotas.take(charges, NOON)
    with django_assert_num_queries(2 + 2):  # with the begin and the end of the transaction
        quotas.take(charges, NOON)
    with django_assert_num_queries(2 + 2):
        answers = quotas.settle([quotas.Order(tuple(charges), NOON) for _ in range(9)])
    assert [isinstance(one, QuotaReached) for one in answers] == [False] * 7 + [True] * 2
    assert used(*charges) == [9, 9]


def test_periods_that_ended_more_than_62_days_ago_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MAX_REMOVED", 2)
    rule = make_rule("9/day")
    for days in (0, 61, 62, 63, 64, 65, 400):
        quotas.take([charge(rule)], NOON - timedelta(days=days))
    assert quotas.remove_past(NOON) == 4
    assert quotas.remove_past(NOON) == 0
    kept = sorted((NOON - row.ends).days for row in LimitUsage.objects.all())
    assert kept == [-1, 60, 61]


def test_a_job_removes_past_quotas() -> None:
    rule = make_rule("9/day")
    quotas.take([charge(rule)], NOON - timedelta(days=4_000))
    (job,) = [job for job in hub.background_jobs() if job.name == "Remove past quotas"]
    job.run()
    assert not LimitUsage.objects.exists()


def test_the_usage_of_a_limit_goes_with_it() -> None:
    rule = make_rule("9/day")
    quotas.take([charge(rule)], NOON)
    Limit.objects.get(pk=rule.id).delete()
    assert not LimitUsage.objects.exists()


# --- on PostgreSQL ---------------------------------------------------------------------------------------------------


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_on_postgresql_all_of_this_holds_too() -> None:
    """The tests above, in a process of its own whose database is on PostgreSQL."""
    postgres("SELECT 1")  # skips without a server
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "-n", "0", "-k", "not postgresql", "-p", "no:cacheprovider"],
        env={**plain, "TOOLHUB_TEST_DATABASE_URL": f"{POSTGRES}/quotas_{secrets.token_hex(4)}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
