"""Replays of limits by what they measure: quotas, cost units, calls at a time, the same call and the same error."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from audit import outcomes
from audit.redaction import redactor
from catalog.policy.changes import Change
from catalog.policy.definitions import LimitRule, Member
from catalog.replay.report import Report, Viewer
from tests.catalog.replay.logged import (
    AUDITOR,
    EVERYTHING,
    ONE,
    THREE,
    TWO,
    build,
    call,
    changes,
    deny,
    limit,
    log,
    run,
)
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, MEMBERS, rule

pytestmark = pytest.mark.django_db

ROWS = replace(ONE, cost=2, cost_argument=("amount",))
"""A tool of which an argument decides what a call costs."""
LARGE = replace(ONE, cost=1, cost_per_kilobyte=10)
"""A tool of which the result decides."""
HIDDEN = {"$redacted": "hmac-sha256:0123456789abcdef", "length": 4}
FAILED = {"outcome": outcomes.TOOL_ERROR}
ID = "0199f1d2-0000-7000-8000-00000000000"
MINUTES = 60
STRANGER = Viewer(BOB, False)
"""Somebody who may read no calls but those of bob."""


def add(rate: str, measure: str, **fields: Any) -> Change:
    """A limit that is added."""
    return Change(limits=(limit(rate, measure=measure, **fields),))


def replay(change: Change, *tools: Any, viewer: Viewer = AUDITOR, **parts: Any) -> Report:
    return run(build(*EVERYTHING, items=tools or (ONE, TWO, THREE), **parts), change, viewer=viewer, days=3)


def limited(report: Report) -> int:
    """Calls that are refused because of the change."""
    assert changes(report).keys() <= {("allow", "limit")}
    return changes(report).get(("allow", "limit"), 0)


def result(text: str) -> dict[str, Any]:
    """A call that answered with this error."""
    return {**FAILED, "result": json.dumps({"content": [{"type": "text", "text": text}], "isError": True})}


# --- what the log does not show --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        '{"amount":{"$redacted":"hmac-sha256:0123456789abcdef","length":4}}',
        '{"amount":"[redacted hmac-sha256:0123456789abcdef 12] and more"}',
        f'{{"amount":"{redactor.MASK}"}}',
        '{"$redacted":"too large to record"}',
        redactor.redactor(None, redactor.DIGESTS).text({"amount": 3}),
        f"pruned:sha256:{'a' * 64}",
        '{"amount":NaN}',
        "not json",
    ],
)
def test_what_hidden_arguments_cost_and_whether_they_repeat_cannot_be_told(arguments: str) -> None:
    log(call(30, arguments=arguments), call(20, arguments=arguments))
    assert (replay(add("1/90d", "repeats")).unclear, replay(add("1/90d", "repeats")).changed) == (2, ())
    if "NaN" not in arguments:
        report = replay(add("0/month", "cost"), ROWS)
        assert (report.unclear, report.changed, report.same) == (2, (), 0)
    assert limited(replay(add("0/month", "calls"))) == 2, "where nothing looks at them, they do not matter"
    assert limited(replay(add("0/month", "cost"), replace(ROWS, cost_argument=()))) == 2


def test_a_hidden_argument_beside_the_one_that_decides_leaves_the_cost_clear() -> None:
    log(call(30, arguments={"amount": 3, "note": HIDDEN}))
    assert limited(replay(add("5/month", "cost"), ROWS)) == 1
    assert limited(replay(add("6/month", "cost"), ROWS)) == 0
    assert replay(add("1/90d", "repeats"), ROWS).unclear == 1


def test_a_call_that_cannot_be_told_counts_in_neither_catalogue() -> None:
    log(call(30, arguments={"amount": HIDDEN}), call(20, arguments={}), call(10, arguments={}))
    found: Any = {"limits": [limit("2/month", id=1)]}
    report = replay(add("100/month", "cost"), ROWS, **found)
    assert (report.unclear, changes(report)) == (1, {}), "the quota of calls in force has room for the other two"


@pytest.mark.parametrize(
    "hidden",
    [
        result(f"wrong password {redactor.MASK}"),
        result("wrong password [redacted hmac-sha256:0123456789abcdef 12]"),
        {**FAILED, "result": '{"content":[{"$redacted":"hmac-sha256:0123456789abcdef","length":4}]}'},
        {**FAILED, "result": redactor.redactor(None, redactor.DIGESTS).text({"content": []})},
        {**FAILED, "result": f"pruned:sha256:{'a' * 64}", "body_state": "pruned"},
        {**FAILED, "result": "", "detail": f"wrong password {redactor.MASK}"},
    ],
)
def test_errors_that_the_log_hides_cannot_be_told_and_count_nowhere(hidden: dict[str, Any]) -> None:
    log(call(30, **hidden), call(20, **result("no")), call(10))
    report = replay(add("1/3d", "errors"))
    assert (report.unclear, limited(report)) == (1, 1), "the error that is shown counts"


# --- who may not read it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "tool"),
    [
        (add("1/90d", "repeats"), ONE),
        (add("1/3d", "errors"), ONE),
        (add("10/month", "cost", scope="everyone_together"), ROWS),
        (add("10/month", "cost", scope="everyone_together"), LARGE),
    ],
)
def test_no_limit_tells_anything_about_arguments_errors_and_results_of_others(change: Change, tool: Any) -> None:
    found = []
    for amount, fields in ((1, {}), (9, result("no")), (1, {**result("no"), "result_bytes": 5_000})):
        logged = log(
            *(call(40 - number, ALICE, tool, {"amount": amount}, **fields) for number in range(3)),
            *(call(30 - number, BOB, tool, {"amount": 2}) for number in range(3)),
        )
        report = replay(change, tool, viewer=STRANGER)
        found.append((changes(report), report.unreadable, report.unclear, report.not_shown))
        for one in logged:
            one.delete()
    assert found == [found[0]] * 3 and found[0][1:] == (3, 0, 0)
    assert set(found[0][0].values()) <= {1, 2}, "their own calls are compared"


def test_limits_that_look_at_no_body_count_the_calls_of_others() -> None:
    log(*(call(40 - number, duration_us=5_000_000) for number in range(3)))
    for change in (add("2/month", "calls"), add("2/month", "cost"), add("2", "running")):
        report = replay(change, viewer=STRANGER)
        assert (limited(report), report.not_shown, report.unreadable) == (1, 1, 0)


def test_a_limit_in_force_that_looks_at_bodies_tells_nothing_when_it_is_removed() -> None:
    log(call(40), call(30), call(20, BOB))
    found: Any = {"limits": [limit("1/90d", measure="repeats", id=1)]}
    report = replay(Change(removed_limits=frozenset({1})), viewer=STRANGER, **found)
    assert (report.unreadable, report.changed, report.same) == (2, (), 1)
    assert changes(replay(Change(removed_limits=frozenset({1})), **found)) == {("limit", "allow"): 1}


# --- quotas ----------------------------------------------------------------------------------------------------------


def test_a_quota_of_a_month_begins_anew_at_midnight_in_its_zone() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first = timezone.now().astimezone(zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    times = [first - timedelta(seconds=2), first - timedelta(seconds=1), first, first + timedelta(seconds=1)]
    log(*(call(_ago(at)) for at in times))
    found = build(*EVERYTHING)
    report = run(found, add("1/month", "calls", zone="Europe/Berlin"), days=60)
    assert limited(report) == 2, "the last second of one month and the first one of the next"
    assert limited(run(found, add("2/month", "calls", zone="Europe/Berlin"), days=60)) == 0
    assert limited(run(found, add("2/month", "calls"), days=60)) == 2, "in UTC the month is the same"


def _ago(at: datetime) -> float:
    return (timezone.now() - at).total_seconds()


def test_the_members_of_a_group_share_one_counter() -> None:
    carol = 7
    members = {**MEMBERS, carol: Member("carol", True, frozenset({ANALYSTS}))}
    log(call(40), call(30, carol), call(20, BOB), call(10, carol))
    shared = add("2/month", "calls", scope="group_together", subject_id=ANALYSTS)
    report = replay(shared, members=members)
    assert [(row.user_id, row.calls) for row in report.rows] == [(carol, 1)]
    assert report.compared == 3, "bob is no member"
    each = add("2/month", "calls", scope="each_member", subject_id=ANALYSTS)
    assert limited(replay(each, members=members)) == 0


def test_what_one_member_is_denied_leaves_room_for_another() -> None:
    carol = 7
    members = {**MEMBERS, carol: Member("carol", True, frozenset({ANALYSTS}))}
    log(call(40), call(30), call(20, carol, TWO))
    found: Any = {
        "limits": [limit("2/month", ("all", None), "group_together", subject_id=ANALYSTS)],
        "members": members,
    }
    report = replay(deny(who=("user", ALICE)), **found)
    assert changes(report) == {("allow", "deny"): 2, ("limit", "allow"): 1}


def test_a_quota_counts_only_calls_with_valid_arguments_and_a_rate_all_of_them() -> None:
    invalid = {"outcome": outcomes.INVALID_ARGUMENTS, "arguments": {"amount": "many"}}
    log(call(40, **invalid), call(30, **invalid), call(20))
    assert limited(replay(add("1/month", "calls"))) == 0
    assert limited(replay(add("1/90d", "calls"))) == 1


# --- cost ------------------------------------------------------------------------------------------------------------


def test_the_cost_is_multiplied_by_the_argument_and_by_its_default() -> None:
    log(call(40, arguments={"amount": 4}), call(30, arguments={}), call(20, arguments={"amount": 1}))
    assert limited(replay(add("12/month", "cost"), ROWS)) == 0
    assert limited(replay(add("11/month", "cost"), ROWS)) == 1
    assert limited(replay(add("9/month", "cost"), ROWS)) == 2, "what does not fit leaves room for what does"


def test_the_size_of_a_result_refuses_the_next_call() -> None:
    log(call(40, result_bytes=2_001), call(30, result_bytes=0), call(20, result_bytes=0))
    assert limited(replay(add("30/month", "cost"), LARGE)) == 2
    assert limited(replay(add("33/month", "cost"), LARGE)) == 0


def test_a_tool_that_costs_nothing_runs_when_the_units_are_used_up() -> None:
    log(call(40, result_bytes=2_000), call(30), call(20, ALICE, TWO))
    change = add("1/month", "cost", target=("all", None))
    assert [(row.name, row.calls) for row in replay(change, LARGE, TWO).rows] == [("tool1", 1), ("tool2", 1)]
    assert [(row.name, row.calls) for row in replay(change, LARGE, replace(TWO, cost=0)).rows] == [("tool1", 1)]


def test_an_import_that_changes_only_the_cost_of_a_tool_reaches_its_calls() -> None:
    log(call(40), call(30))
    limits = [limit("3/month", measure="cost", id=1)]
    before, after = (build(*EVERYTHING, items=(one,), limits=limits) for one in (ONE, replace(ONE, cost=2)))
    assert limited(run(before, after=after)) == 1
    plain = [build(*EVERYTHING, items=(one,)) for one in (ONE, replace(ONE, cost=2))]
    assert run(plain[0], after=plain[1]).compared == 0, "no limit counts what it costs"


# --- calls at a time -------------------------------------------------------------------------------------------------


def test_calls_at_a_time_overlap_as_the_log_has_them() -> None:
    log(*(call(ago, duration_us=15_000_000) for ago in (60, 50, 40, 30)))
    assert limited(replay(add("1", "running"))) == 2, "the first runs for 15 s, and what is refused takes no place"
    assert limited(replay(add("2", "running"))) == 0


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"outcome": outcomes.RUNNING, "duration_us": None}, 1),
        ({"outcome": outcomes.UNKNOWN, "duration_us": None}, 0),
        ({"outcome": outcomes.LIMITED, "duration_us": 60_000_000}, 0),
        ({"outcome": outcomes.WAITING, "duration_us": None}, 0),
        ({"outcome": outcomes.CANCELLED, "duration_us": 60_000_000}, 1),
    ],
)
def test_a_call_takes_a_place_only_for_the_time_that_it_ran(fields: dict[str, Any], refused: int) -> None:
    log(call(60, **fields), call(30))
    assert limited(replay(add("1", "running"))) == refused


# --- loops -----------------------------------------------------------------------------------------------------------


def test_the_same_call_has_the_same_arguments_in_any_order_and_the_same_credential() -> None:
    log(
        call(60, arguments='{"amount":1,"note":"a"}'),
        call(50, arguments='{"note":"a","amount":1}'),
        call(40, arguments={"amount": 1, "note": "b"}),
        call(30, arguments='{"amount":1,"note":"a"}', credential_id="token:2"),
        call(20, ALICE, TWO, '{"amount":1,"note":"a"}'),
    )
    report = replay(add("1/90d", "repeats", target=("all", None)))
    assert [(row.name, row.calls) for row in report.rows] == [("tool1", 1)]


def test_calls_with_invalid_arguments_repeat_themselves_too() -> None:
    invalid = {"outcome": outcomes.INVALID_ARGUMENTS, "arguments": {"amount": "many"}}
    log(call(40, **invalid), call(30, **invalid), call(20, arguments={"amount": "many"}))
    assert limited(replay(add("2/90d", "repeats"))) == 1
    assert limited(replay(add("2/90d", "errors"))) == 1


def test_errors_are_the_same_when_only_ids_differ() -> None:
    texts = [f"failed, see {ID}{number}" for number in range(3)]
    log(*(call(60 - number, **result(text)) for number, text in enumerate(texts)), call(20))
    assert limited(replay(add("3/3d", "errors"))) == 1
    log(call(58.5))
    assert limited(replay(add("3/3d", "errors"))) == 0, "a success in between"


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        (result("no"), 1),
        ({**FAILED, "result": "", "detail": "-32000: no"}, 1),
        ({"outcome": outcomes.TIMEOUT, "result": "", "detail": "stopped after 5 s"}, 1),
        ({"outcome": outcomes.REFUSED, "detail": "No grant allows it"}, 0),
        ({"outcome": outcomes.LIMITED, "detail": "Limit 4"}, 0),
        ({"outcome": outcomes.CANCELLED, "detail": "cancelled"}, 0),
        ({"outcome": outcomes.UNKNOWN, "detail": "its process ended", "duration_us": None}, 0),
        ({"outcome": outcomes.WAITING, "detail": "waits"}, 0),
    ],
)
def test_only_calls_that_ended_with_an_error_count_as_one(fields: dict[str, Any], refused: int) -> None:
    log(call(60, **fields), call(50, **fields), call(40))
    assert limited(replay(add("2/3d", "errors"))) == refused


def test_an_error_counts_only_where_the_call_would_run() -> None:
    log(*(call(60 - number, **result("no")) for number in range(3)), call(20, arguments={"region": "emea"}))
    limits = [limit("3/3d", measure="errors", id=1)]
    shut = rule(7, "deny", who=("user", ALICE))
    opened = replay(Change(removed_grants=frozenset({7})), limits=limits)
    assert opened.changed == ()
    closed = run(build(*EVERYTHING, shut, limits=limits), Change(removed_grants=frozenset({7})), days=3)
    assert changes(closed) == {("deny", "allow"): 3, ("deny", "limit"): 1}
    tight = [limit("3/3d", measure="errors", id=1), limit("2/90d", id=2)]
    assert changes(replay(Change(removed_limits=frozenset({2})), limits=tight)) == {("limit", "allow"): 1}


def test_a_call_that_ends_after_the_next_began_counts_when_it_ends() -> None:
    log(call(60, duration_us=20_000_000, **result("no")), call(50), call(30), call(20))
    assert limited(replay(add("1/3d", "errors"))) == 2


def test_tools_for_polling_may_repeat_themselves() -> None:
    polled = replace(ONE, polling=True)
    log(*(call(60 - number, ALICE, one, {"amount": 1}) for number in range(3) for one in (ONE, TWO)))
    change = add("1/90d", "repeats", target=("all", None))
    assert [(row.name, row.calls) for row in replay(change, polled, TWO).rows] == [("tool2", 2)]
    limits: list[LimitRule] = [limit("1/90d", measure="repeats", id=1)]
    before, after = (build(*EVERYTHING, items=(one,), limits=limits) for one in (ONE, polled))
    assert changes(run(before, after=after)) == {("limit", "allow"): 2}
