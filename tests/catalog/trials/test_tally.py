"""What rules in trial would have changed: by rule, answer, person and item, and never beyond what was logged."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from catalog.models import Grant
from catalog.trials import tally
from tests import factories
from tests.trial_notes import begin, log

pytestmark = pytest.mark.django_db


@pytest.fixture
def denial(db: None) -> Grant:
    return begin(factories.deny(None, factories.make_tool(), trial=True))


def count(*rows: Any, **options: Any) -> tally.Tally:
    return tally.count({("grant", row.pk): row.trial_since for row in rows}, **options)


def test_without_rules_nothing_is_read(denial: Grant, alice: User) -> None:
    log(alice, (denial, "allow", "deny"))
    assert tally.count({}) == tally.Tally({}, None)


def test_notes_of_rules_that_are_gone_are_ignored(denial: Grant, alice: User) -> None:
    other = begin(factories.deny(None, factories.make_tool("other"), trial=True))
    log(alice, (other, "allow", "deny"))
    found = count(denial)
    assert list(found.rules) == [("grant", denial.pk)]
    assert found.rules["grant", denial.pk].calls == 0


def test_a_note_of_another_kind_with_the_same_number_is_not_counted(denial: Grant, alice: User) -> None:
    log(alice, (denial, "allow", "deny"))
    limit = ("limit", denial.pk)
    assert tally.count({limit: timezone.now() - timedelta(days=1)}).rules[limit].calls == 0


def test_calls_before_the_trial_of_a_rule_are_not_counted_for_it(denial: Grant, alice: User) -> None:
    older = begin(factories.deny(alice, factories.make_tool("other"), trial=True), days=3)
    both = ((denial, "allow", "deny"), (older, "allow", "deny"))
    for days in (2, 4):
        log(alice, *both, started_at=timezone.now() - timedelta(days=days))
    log(alice, *both, number=1)
    found = count(denial, older).rules
    assert found["grant", denial.pk].calls == 1 and found["grant", older.pk].calls == 2


def test_each_rule_has_the_calls_that_it_would_have_changed_by_answer_person_and_item(
    denial: Grant, alice: User, bob: User
) -> None:
    allow = begin(factories.grant(bob, factories.make_tool("other"), trial=True))
    first = log(alice, (denial, "allow", "deny"))
    log(bob, (denial, "ask", "deny"), (allow, "deny", "allow"), number=1)
    newest = log(alice, (denial, "allow", "deny"), number=2)
    found = count(denial, allow)
    assert found.counted_since is None
    one = found.rules["grant", denial.pk]
    assert one.changes == {("allow", "deny"): 2, ("ask", "deny"): 1}
    assert [(row.username, row.name, row.calls) for row in one.rows] == [
        ("alice", "calculate_sum", 2),
        ("bob", "calculate_sum", 1),
    ]
    assert one.rows[0].newest == [newest.pk, first.pk]
    assert found.rules["grant", allow.pk].changes == {("deny", "allow"): 1}


def test_lists_are_bounded_and_say_how_much_they_omit(denial: Grant, alice: User) -> None:
    for number in range(40):
        log(alice, (denial, "allow", "deny"), number=number, name=f"tool_{number % 20:02d}")
    log(alice, (denial, "allow", "deny"), number=50, name="busy")
    log(alice, (denial, "allow", "deny"), number=51, name="busy")
    for number in range(60, 65):
        log(alice, (denial, "allow", "deny"), number=number, name="busy")
    one = count(denial).rules["grant", denial.pk]
    assert one.calls == 47 and len(one.rows) == tally.MAX_ROWS
    assert one.more_rows == 11 and one.more_calls == 22
    assert one.rows[0].name == "busy" and len(one.rows[0].newest) == tally.MAX_ROW_CALLS and one.rows[0].more == 4


def test_more_calls_than_can_be_counted_are_said_with_the_time(
    denial: Grant, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "MAX_READ_CALLS", 3)
    calls = [log(alice, (denial, "allow", "deny"), number=number) for number in range(5)]
    found = count(denial)
    assert found.rules["grant", denial.pk].calls == 3
    assert found.counted_since == calls[2].started_at.replace(
        microsecond=calls[2].started_at.microsecond // 1000 * 1000
    )


def test_who_reads_only_their_own_calls_gets_the_number_of_the_others(denial: Grant, alice: User, bob: User) -> None:
    log(alice, (denial, "allow", "deny"))
    log(bob, (denial, "allow", "deny"), number=1)
    one = count(denial, reader_id=bob.pk).rules["grant", denial.pk]
    assert one.calls == 2 and one.not_shown == 1
    assert [row.username for row in one.rows] == ["bob"]
