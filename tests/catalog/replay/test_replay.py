"""Logged calls under a change of rules: what would be denied, asked, limited or allowed, and what nobody can tell."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from audit import outcomes
from audit.redaction import redactor
from audit.types import Reason
from catalog.conditions import definitions
from catalog.conditions import windows as recurring
from catalog.policy.changes import Change
from catalog.policy.definitions import ValueListEntries
from catalog.replay import walk
from catalog.replay.report import Progress, Viewer
from tests.catalog.replay.logged import (
    AUDITOR,
    EMEA,
    EVERYTHING,
    ONE,
    THREE,
    TWO,
    ask,
    build,
    call,
    changes,
    deny,
    limit,
    log,
    run,
)
from tests.catalog.test_conditional_policy import PROMPT, TEMPLATE
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES, GONE, rule

pytestmark = pytest.mark.django_db


# --- denied and allowed ----------------------------------------------------------------------------------------------


def test_a_denial_is_counted_by_person_and_tool_with_its_calls() -> None:
    first, second, third, *_others = log(
        call(30), call(20), call(10, BOB), call(5, ALICE, THREE), call(5, GONE), call(5, 1234)
    )
    report = run(build(*EVERYTHING), deny())
    assert (report.looked_at, report.compared) == (6, 5), "the third tool is none that the denial reaches"
    assert changes(report) == {("allow", "deny"): 3}
    assert report.same == 2, "who is not active, or nobody, was denied before"
    assert [(row.user_id, row.username, row.kind, row.name, row.calls) for row in report.rows] == [
        (ALICE, "user1", "tool", "tool1", 2),
        (BOB, "user2", "tool", "tool1", 1),
    ]
    assert [one.id for one in report.rows[0].named] == [second.pk, first.pk], "the newest first"
    assert report.rows[1].named[0].id == third.pk
    assert (report.rows[0].more, report.more_rows, report.more_calls, report.not_shown) == (0, 0, 0, 0)


def test_the_answer_that_the_log_has_does_not_count() -> None:
    log(call(outcome=outcomes.REFUSED), call(outcome=outcomes.TOOL_ERROR), call(outcome=outcomes.INVALID_ARGUMENTS))
    report = run(build(*EVERYTHING), deny())
    assert changes(report) == {("allow", "deny"): 3}
    assert {one.status for one in report.rows[0].named} == {"refused", "tool_error", "invalid_arguments"}


def test_what_was_denied_is_allowed_by_a_new_grant() -> None:
    log(call(outcome=outcomes.REFUSED), call(5, BOB, outcome=outcomes.REFUSED))
    report = run(build(), Change(grants=(rule(7, who=("group", ANALYSTS)),)))
    assert changes(report) == {("deny", "allow"): 1}
    assert report.compared == 1, "bob is in no group that the grant names"


def test_removing_and_replacing_grants_are_changes_too() -> None:
    log(call(), call(5, ALICE, TWO))
    found = build(rule(1, target=("toolset", FILES)))
    assert changes(run(found, Change(removed_grants=frozenset({1})))) == {("allow", "deny"): 2}
    report = run(found, Change.replacing(rule(0, target=("tool", 2)), 1))
    assert [(row.name, row.calls) for row in report.rows] == [("tool1", 1)]


def test_a_change_that_changes_nothing_reaches_no_call() -> None:
    log(call())
    report = run(build(*EVERYTHING))
    assert (report.looked_at, report.compared, report.changed, report.rows) == (1, 0, (), ())


def test_only_calls_of_the_period_are_looked_at() -> None:
    log(call(3_600), call(90_000))
    assert run(build(*EVERYTHING), deny()).looked_at == 1
    assert run(build(*EVERYTHING), deny(), days=2).looked_at == 2


@pytest.mark.parametrize("days", [0, -1, 91])
def test_a_period_of_no_days_or_of_more_than_ninety_is_refused(days: int) -> None:
    with pytest.raises(ValueError, match="1 to 90 days"):
        walk.replay(build(), build(), deny(), days, AUDITOR)


def test_a_call_that_the_restriction_of_its_token_denied_stays_denied() -> None:
    log(call(rule_reason=Reason("rule.other_toolsets").text, outcome=outcomes.REFUSED), call(rule_reason="broken"))
    assert changes(run(build(), Change(grants=(rule(7),)))) == {("deny", "allow"): 1}


def test_grants_start_and_end_as_of_now() -> None:
    log(call(3_000))
    now = timezone.now().timestamp()
    found = build(*EVERYTHING)
    assert run(found, deny(starts=now + 60)).changed == ()
    assert run(found, deny(ends=now - 60)).changed == (), "although it was in force when the call was made"
    assert changes(run(found, deny(starts=now - 60, ends=now + 3_600))) == {("allow", "deny"): 1}


def test_time_windows_are_those_of_each_call() -> None:
    noon = timezone.now().replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
    day = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[noon.weekday()]
    window = recurring.parse([{"days": [day], "from": "12:00", "to": "12:30", "zone": "UTC"}])
    times = [noon - timedelta(seconds=1), noon, noon + timedelta(minutes=29, seconds=59), noon + timedelta(minutes=30)]
    log(*(call(_ago(at)) for at in times))
    report = run(build(*EVERYTHING), deny(windows=window), days=3)
    assert changes(report) == {("allow", "deny"): 2}
    report = run(build(*EVERYTHING), Change(asks=(ask(windows=window, outside_windows=True),)), days=3)
    assert changes(report) == {("allow", "ask"): 2}


def _ago(at: datetime) -> float:
    return (timezone.now() - at).total_seconds()


# --- arguments -------------------------------------------------------------------------------------------------------


def test_a_condition_looks_at_the_arguments_of_each_call() -> None:
    log(call(arguments={"region": "emea"}), call(arguments={"region": "apac"}), call(arguments={}))
    assert changes(run(build(*EVERYTHING), deny(EMEA))) == {("allow", "deny"): 1}
    allowed = rule(1, target=("toolset", FILES), conditions=definitions.parse([EMEA]))
    assert changes(run(build(*EVERYTHING), Change.replacing(allowed, 1))) == {("allow", "deny"): 2}


def test_defaults_are_filled_in_as_for_a_call() -> None:
    log(call(arguments={"region": "emea"}), call(arguments={"amount": 3}))
    assert changes(run(build(*EVERYTHING), deny({"path": "/amount", "op": "range", "maximum": 1}))) == {
        ("allow", "deny"): 1
    }


@pytest.mark.parametrize(
    "arguments",
    [
        '{"region":{"$redacted":"hmac-sha256:0123456789abcdef","length":4}}',
        '{"region":"[redacted hmac-sha256:0123456789abcdef 12] and more"}',
        f'{{"region":"{redactor.MASK}"}}',
        '{"region":"{\\"password\\":{\\"$redacted\\":\\"hmac-sha256:0123456789abcdef\\",\\"length\\":4}}"}',
        '{"$redacted":"too large to record"}',
        '{"$redacted":"one of very many attempts"}',
        redactor.redactor(None, redactor.DIGESTS).text({"region": "emea"}),
        f"pruned:sha256:{'a' * 64}",
        "[]",
        "not json",
    ],
)
def test_arguments_that_the_log_does_not_show_are_counted_as_unclear(arguments: str) -> None:
    log(call(arguments=arguments))
    report = run(build(*EVERYTHING), deny(EMEA))
    assert (report.unclear, report.changed, report.same) == (1, (), 0)
    assert changes(run(build(*EVERYTHING), deny())) == {("allow", "deny"): 1}, (
        "where nothing looks at them, they do not matter"
    )


def test_hidden_arguments_matter_only_where_a_condition_looks_at_them() -> None:
    log(call(arguments={"region": "emea", "note": {"$redacted": "hmac-sha256:0123456789abcdef", "length": 4}}))
    assert changes(run(build(*EVERYTHING), deny(EMEA))) == {("allow", "deny"): 1}


def test_arguments_that_never_fitted_the_tool_are_rejected_whatever_the_rules_say() -> None:
    invalid = {"outcome": outcomes.INVALID_ARGUMENTS}
    hidden = {"note": {"$redacted": "hmac-sha256:0123456789abcdef", "length": 4}}
    log(
        call(arguments={"amount": "many"}, **invalid),
        call(arguments={"amount": 5}, **invalid),
        call(arguments=hidden, **invalid),
        call(5, BOB, arguments={"amount": "many"}, **invalid),
    )
    found = build(*EVERYTHING)
    report = run(found, deny())
    assert [(row.user_id, row.calls) for row in report.rows] == [(ALICE, 2)]
    assert (report.compared, report.same) == (4, 2), "a condition may have rejected the two that could fit"
    assert changes(run(found, Change(asks=(ask(first_time=("amount",)),)))) == {("allow", "ask"): 2}
    limited = run(found, Change(limits=(limit("1/90d"),)))
    assert changes(limited) == {("allow", "limit"): 2}, "what does not fit counts, and is rejected"
    assert changes(run(found, deny(), viewer=Viewer(BOB, False))) == {("allow", "deny"): 3}


def test_prompts_and_addresses_have_arguments_as_well() -> None:
    prompts = [call(5, ALICE, PROMPT, {"region": one}, method="prompts/get") for one in ("emea", "apac")]
    reads = [call(5, ALICE, TEMPLATE, method="resources/read", name=f"regions://{one}") for one in ("emea", "apac", "")]
    log(*prompts, *reads, call(5, ALICE, ONE, {"region": "emea"}))
    found = build(rule(1, target=("toolset", FILES)), items=(ONE, PROMPT, TEMPLATE))
    report = run(found, deny(EMEA, target=("toolset", FILES)))
    assert {(row.kind, row.name): row.calls for row in report.rows} == {
        ("prompt", "letter"): 1,
        ("resource", "regions://{region}"): 1,
        ("tool", "tool1"): 1,
    }
    assert report.unclear == 1, "an address that does not fit the template has no variables"


def test_patterns_beyond_their_budget_are_unclear() -> None:
    log(call(arguments={"note": "x" * 60_000}))
    costly = {"path": "/note", "op": "pattern", "pattern": "(a|b|ab|x?){40}[a-z]{1,200}y"}
    assert run(build(*EVERYTHING), deny(costly)).unclear == 1


# --- approval rules --------------------------------------------------------------------------------------------------


def test_calls_that_an_approval_rule_would_ask_about_are_counted() -> None:
    log(call(arguments={"amount": 5_000}), call(arguments={"amount": 5}), call(5, ALICE, THREE, {"amount": 5_000}))
    large = {"path": "/amount", "op": "range", "minimum": 1_000}
    found = build(*EVERYTHING)
    assert changes(run(found, Change(asks=(ask(("tool", 1), large),)))) == {("allow", "ask"): 1}
    asked = build(*EVERYTHING, asks=[ask(("all", None), large)])
    assert changes(run(asked, Change(removed_asks=frozenset({5})))) == {("ask", "allow"): 2}
    assert changes(run(asked, deny())) == {("allow", "deny"): 1, ("ask", "deny"): 1}


def test_a_rule_about_the_first_time_asks_once_for_each_person_tool_and_value() -> None:
    log(
        call(90, arguments={"region": "emea"}),
        call(80, BOB, arguments={"region": "emea"}),
        call(70, arguments={"region": "apac"}),
        call(60, arguments={"region": "emea"}),
        call(50, ALICE, TWO, {"region": "emea"}),
        call(40, arguments={}),
        call(30, arguments={}),
    )
    report = run(build(*EVERYTHING), Change(asks=(ask(("all", None), first_time=("region",)),)))
    assert changes(report) == {("allow", "ask"): 5}
    assert report.counts_first_times and not report.counts_limits


def test_a_hidden_value_of_a_first_time_is_unclear() -> None:
    hidden = {"region": {"$redacted": "hmac-sha256:0123456789abcdef", "length": 4}}
    log(call(50, arguments=hidden), call(40, arguments=hidden), call(30, arguments="pruned:sha256:"))
    first_time = ask(first_time=("region",))
    assert run(build(*EVERYTHING), Change(asks=(first_time,))).unclear == 3
    both = Change(asks=(first_time, ask(id=6)))
    assert changes(run(build(*EVERYTHING), both)) == {("allow", "ask"): 3}, "another rule asks in any case"


def test_a_call_that_waited_and_its_run_are_one_attempt() -> None:
    approved = Reason("rule.grant", {"approvals": ["0199f1d2-0000-7000-8000-000000000001"], "approved_by": "bob"}).text
    temporary = Reason("rule.grant", {"approvals": ["temporary 3"], "approved_by": "bob"}).text
    both = Reason("rule.grant", {"approvals": ["temporary 3", "0199f1d2-0000-7000-8000-000000000001"]}).text
    log(
        call(90, outcome=outcomes.WAITING, request_id="a"),
        call(80, rule_reason=approved, request_id="a"),
        call(70, outcome=outcomes.WAITING, request_id="b"),
        call(60, outcome=outcomes.APPROVAL_DENIED, request_id="b"),
        call(55, outcome=outcomes.WAITING, request_id="c"),
        call(54, outcome=outcomes.LIMITED, request_id="c"),
        call(53, outcome=outcomes.REFUSED, request_id="c"),
        call(50, outcome=outcomes.APPROVAL_DENIED, request_id="d"),
        call(40, rule_reason=temporary),
        call(30, rule_reason=both),
    )
    report = run(build(*EVERYTHING, asks=[ask()]), Change(removed_asks=frozenset({5})))
    assert (report.looked_at, report.compared) == (10, 6)
    assert changes(report) == {("ask", "allow"): 6}, (
        "three that waited, two denied at once, one with a temporary approval"
    )


# --- rate limits -----------------------------------------------------------------------------------------------------


def test_a_limit_counts_the_calls_of_each_window() -> None:
    log(*(call(ago) for ago in (30, 29, 28, 27)), *(call(ago, BOB) for ago in (30, 29)))
    report = run(build(*EVERYTHING), Change(limits=(limit("2/d"),)), days=2)
    assert sum(changes(report).values()) in {1, 2}, "the day of the counter may end between two of them"
    assert changes(report).keys() == {("allow", "limit")}
    assert report.counts_limits


def test_a_limit_for_everyone_together_counts_all_and_one_for_a_person_only_theirs() -> None:
    found = build(*EVERYTHING)
    log(call(30), call(29, BOB), call(28), call(27, BOB))
    together = run(found, Change(limits=(limit("1/90d", scope="everyone_together"),)), days=1)
    assert [(row.user_id, row.calls) for row in together.rows] == [(BOB, 2), (ALICE, 1)]
    members = run(found, Change(limits=(limit("1/90d", scope="each_member", subject_id=ANALYSTS),)), days=1)
    assert [(row.user_id, row.calls) for row in members.rows] == [(ALICE, 1)]
    one = run(found, Change(limits=(limit("1/90d", scope="user", subject_id=BOB),)), days=1)
    assert ([(row.user_id, row.calls) for row in one.rows], one.compared) == ([(BOB, 1)], 2)


def test_what_is_denied_leaves_room_for_others() -> None:
    log(call(30), call(29), call(28, ALICE, THREE), call(27, ALICE, THREE), call(26, BOB, THREE))
    found = build(*EVERYTHING, limits=[limit("2/90d", ("all", None))])
    report = run(found, deny(who=("user", ALICE)))
    assert changes(report) == {("allow", "deny"): 2, ("limit", "allow"): 2}
    assert report.compared == 4, "nothing of bob's can change"


def test_what_one_person_is_denied_leaves_room_for_others_where_they_share_a_limit() -> None:
    log(call(30), call(29), call(28, BOB, THREE))
    found = build(*EVERYTHING, limits=[limit("2/90d", ("all", None), "everyone_together")])
    assert changes(run(found, deny(who=("user", ALICE)))) == {("allow", "deny"): 2, ("limit", "allow"): 1}


def test_calls_that_ask_count_as_run_and_those_that_are_denied_do_not() -> None:
    log(call(30), call(29), call(28))
    asked = build(*EVERYTHING, asks=[ask()])
    assert changes(run(asked, Change(limits=(limit("1/90d"),)))) == {("ask", "limit"): 2}
    assert run(build(), Change(limits=(limit("1/90d"),))).changed == ()


def test_several_limits_count_only_what_all_of_them_allow() -> None:
    log(call(50), call(40), call(30, ALICE, TWO), call(20, ALICE, TWO))
    found = build(*EVERYTHING, limits=[limit("1/90d")])
    report = run(found, Change(limits=(limit("2/90d", ("toolset", FILES), id=8),)))
    assert changes(report) == {("allow", "limit"): 1}, "a call that the first limit stops does not use up the second"


# --- two catalogues --------------------------------------------------------------------------------------------------


def test_two_catalogues_are_compared_by_all_that_differs() -> None:
    log(call(50, arguments={"region": "emea"}), call(40, arguments={"region": "apac"}), call(30, BOB, TWO))
    listed = {"path": "/region", "op": "belongs_to", "list": "regions"}
    grants = [
        rule(1, conditions=definitions.parse([listed])),
        rule(2, target=("tool", 2), flags=frozenset({"new"})),
    ]

    def make(*regions: str, percentage: int = 0, **parts: Any) -> Any:
        lists = {"regions": (ValueListEntries("everyone", None, regions),)}
        return build(*map(replace, grants), value_lists=lists, flags={"new": percentage}, **parts)

    before = make("emea")
    assert run(before, after=make("emea")).compared == 0, "rules of two loads are equal without being the same"
    assert changes(run(before, after=make("emea", "apac"))) == {("deny", "allow"): 1}
    assert changes(run(before, after=make("emea", percentage=100))) == {("deny", "allow"): 1}
    quarantined = make("emea", items=(replace(ONE, quarantined=True), TWO, THREE))
    assert changes(run(before, after=quarantined)) == {("allow", "deny"): 1}
    moved = make("emea", items=(ONE, TWO))
    assert run(before, after=moved).changed == ()


def test_a_tool_that_an_import_would_bring_is_found_by_the_name_that_clients_asked_for() -> None:
    log(
        call(50, outcome=outcomes.UNKNOWN_TOOL, target_id=None, name="tool1"),
        call(40, outcome=outcomes.UNKNOWN_TOOL, target_id=None, name="tool9"),
        call(30, ALICE, TWO),
    )
    before = build(*EVERYTHING, items=(TWO, THREE))
    report = run(before, after=build(*EVERYTHING, items=(TWO, THREE, ONE)))
    assert [(row.name, row.item_id) for row in report.rows] == [("tool1", 1)]
    assert changes(report) == {("deny", "allow"): 1}
    gone = run(build(*EVERYTHING), after=before)
    assert gone.changed == () and gone.compared == 0, "the log has no call of the tool while it was there"


# --- who may read it -------------------------------------------------------------------------------------------------


def test_who_may_not_read_calls_gets_counts_and_their_own() -> None:
    _other, own = log(call(50), call(40, BOB))
    report = run(build(*EVERYTHING), deny(), viewer=Viewer(BOB, False))
    assert changes(report) == {("allow", "deny"): 2}
    assert [(row.user_id, [one.id for one in row.named]) for row in report.rows] == [(BOB, [own.pk])]
    assert (report.not_shown, report.more_calls) == (1, 0)


@pytest.mark.parametrize("region", ["emea", "apac", None])
def test_no_condition_tells_anything_about_arguments_of_others(region: str | None) -> None:
    log(call(50, arguments={"region": region}), call(40, BOB, arguments={"region": "emea"}))
    stranger = Viewer(BOB, False)
    found = build(*EVERYTHING)
    for change in (deny(EMEA), Change(asks=(ask(("tool", 1), EMEA),)), Change(asks=(ask(first_time=("region",)),))):
        report = run(found, change, viewer=stranger)
        assert (report.unreadable, report.unclear, report.not_shown) == (1, 0, 0)
        assert [(row.user_id, row.calls) for row in report.rows] == [(BOB, 1)]
    both = Change(grants=(*deny().grants, replace(deny(EMEA).grants[0], id=8)))
    assert changes(run(found, both, viewer=stranger)) == {("allow", "deny"): 2}, (
        "where no argument decides, it is counted"
    )


def test_limits_tell_nothing_about_arguments_of_others_either() -> None:
    counted = {}
    for region in ("emea", "apac"):
        logged = log(call(50, arguments={"region": region}), call(40, BOB), call(30, BOB))
        change = replace(deny(EMEA), limits=(limit("2/90d", scope="everyone_together"),))
        report = run(build(*EVERYTHING), change, viewer=Viewer(BOB, False))
        counted[region] = (changes(report), report.unreadable)
        for one in logged:
            one.delete()
    assert counted["emea"] == counted["apac"]


def test_conditions_of_rules_that_stay_are_none_of_the_viewers_business_either() -> None:
    log(call(arguments={"region": "emea"}))
    found = build(rule(1, conditions=definitions.parse([EMEA])))
    report = run(found, Change(removed_grants=frozenset({1})), viewer=Viewer(BOB, False))
    assert (report.unreadable, report.changed) == (1, ())


# --- the walk --------------------------------------------------------------------------------------------------------


def test_calls_are_read_in_batches_with_progress_and_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.replay.attempts.BATCH_ROWS", 7)
    log(*(call(ago) for ago in range(1, 31)))
    pauses: list[None] = []
    found = build(*EVERYTHING)
    *steps, report = walk.replay(found, found, deny(), 1, AUDITOR, pause=lambda: pauses.append(None))
    assert [step.done for step in steps if isinstance(step, Progress)] == [0, 7, 14, 21, 28, 30]
    assert {step.total for step in steps if isinstance(step, Progress)} == {30}
    assert report == replace(run(found, deny()), since=report.since, until=report.until)  # type: ignore[union-attr]
    assert pauses


def test_a_cancelled_replay_ends_without_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.replay.attempts.BATCH_ROWS", 5)
    log(*(call(ago) for ago in range(1, 12)))
    found = build(*EVERYTHING)
    steps = walk.replay(found, found, deny(), 1, AUDITOR, is_cancelled=lambda: True)
    assert [type(step) for step in steps] == [Progress]
    asked: list[None] = []

    def is_cancelled() -> bool:
        asked.append(None)
        return len(asked) > 4

    steps = walk.replay(found, found, deny(), 1, AUDITOR, is_cancelled=is_cancelled)
    assert [step.done for step in steps if isinstance(step, Progress)] == [0], "it ends within a batch"


def test_lists_are_bounded_and_say_how_much_they_omit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.replay.tally.MAX_ROWS", 2)
    monkeypatch.setattr("catalog.replay.tally.MAX_CALLS", 4)
    found = build(*EVERYTHING)
    change = Change(grants=(rule(7, "deny", ("toolset", FILES)), rule(8, "deny", ("tool", 3))))
    log(
        *(call(ago) for ago in range(1, 6)),
        *(call(ago, BOB) for ago in range(1, 4)),
        call(1, BOB, THREE),
        call(1, ALICE, THREE),
    )
    report = run(found, change)
    assert [(row.user_id, row.calls, len(row.named), row.more) for row in report.rows] == [
        (ALICE, 5, 2, 3),
        (BOB, 3, 2, 1),
    ]
    assert (report.changed_calls, report.more_rows, report.more_calls, report.rows_are_cut) == (10, 2, 2, False)
    monkeypatch.setattr("catalog.replay.tally.MAX_GROUPS", 1)
    cut = run(found, change)
    assert (cut.rows_are_cut, cut.changed_calls, len(cut.rows), cut.more_rows) == (True, 10, 1, 1)
    assert cut.more_calls == 10 - cut.rows[0].calls


def test_answers_are_the_same_when_few_of_them_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.replay.simulation.MAX_PAIRS", 1)
    monkeypatch.setattr("catalog.replay.simulation.MAX_STATES", 1)
    log(*(call(ago, user, tool) for ago in range(1, 6) for user in (ALICE, BOB) for tool in (ONE, TWO)))
    change = replace(deny(who=("user", BOB)), limits=(limit("3/90d", ("all", None)),))
    assert changes(run(build(*EVERYTHING), change)) == {("allow", "deny"): 5, ("allow", "limit"): 9}


def test_values_of_first_times_beyond_the_bound_are_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.replay.simulation.MAX_KNOWN_VALUES", 2)
    log(*(call(60 - number, arguments={"region": str(number % 4)}) for number in range(8)))
    report = run(build(*EVERYTHING), Change(asks=(ask(first_time=("region",)),)))
    assert (changes(report), report.unclear) == ({("allow", "ask"): 2}, 4)


def test_many_tools_and_people_are_chosen_here_instead_of_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    log(call(), call(5, BOB), call(5, BOB, THREE))
    change = deny(who=("group", ANALYSTS))
    expected = run(build(*EVERYTHING), change)
    monkeypatch.setattr("catalog.replay.attempts.MAX_FILTERED", 0)
    found = run(build(*EVERYTHING), change)
    assert changes(found) == changes(expected) == {("allow", "deny"): 1}
    assert found.compared == expected.compared == 1


def test_a_text_that_only_looks_like_approvals_is_read_as_what_it_is() -> None:
    log(call(rule_reason=json.dumps(["rule.grant", {"name": '"approvals" rule.other_toolsets'}])))
    assert changes(run(build(*EVERYTHING), deny())) == {("allow", "deny"): 1}
