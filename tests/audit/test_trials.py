"""The calls that rules in trial would have decided otherwise: found along an index of theirs, nothing else believed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from audit.models import Call
from audit.queries import trials
from audit.queries.trials import Note
from audit.types import Reason
from tests.audit.rows import NOON, build_call, save
from tests.audit.stores import AuditStore

DENIED = ["grant", 12, "allow", "deny"]


def noted(*notes: Any, **params: Any) -> str:
    return Reason("rule.grant", {"number": 1, **params, "trials": list(notes)}).text


def plan(since: Any) -> str:
    sql, params = trials.find_noted(since).values_list("pk").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}", params)
        return str(cursor.fetchall())


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        '{"trials":[["grant",1,"allow","deny"]]}',
        '["rule.grant",[["trials",[["grant",1,"allow","deny"]]]]]',
        '["rule.grant",{"inner":{"trials":[["grant",1,"allow","deny"]]}}]',
        '["rule.grant",{"trials":{"grant":1}}]',
        noted("grant"),
        noted(["grant", 12, "allow"]),
        noted(["grant", 12, "allow", "deny", "more"]),
        noted(["grant", "12", "allow", "deny"]),
        noted(["grant", True, "allow", "deny"]),
        noted(["grant", 12, "allow", "allow"]),
        noted(["grant", 12, "allow", "perhaps"]),
        noted(["grant", 12, "allow", None]),
        "[" * 5_000,
    ],
)
def test_a_text_that_the_pipeline_does_not_write_has_no_notes(text):
    assert trials.read_notes(text) == ()


def test_notes_beyond_the_most_of_a_call_are_not_read():
    text = noted(*(["limit", number, "allow", "limit"] for number in range(30)))
    assert [note.rule_id for note in trials.read_notes(text)] == list(range(20))


def test_text_of_a_client_is_never_a_note(audit_store: AuditStore) -> None:
    """Wherever it is in a rule code, its quotes are escaped, and only the place of the notes is read."""
    claim = '"trials":[["grant",12,"allow","deny"]]'
    nested = {"arguments": {"trials": [DENIED]}}
    save(
        build_call(1, rule_reason=Reason("rule.grant", {"name": claim}).text),
        build_call(2, rule_reason=Reason("rule.grant", {claim: "x"}).text),
        build_call(3, rule_reason=Reason("rule.grant", nested).text, arguments=json.dumps(nested)),
        build_call(4, name=claim, arguments=claim, detail=claim, result=claim),
    )
    assert [row.request_id for row in trials.find_noted(NOON)] == ["3"]  # the index suggests; the notes decide
    assert list(trials.iterate_calls(NOON)) == []


# --- what is found -----------------------------------------------------------------------------------------------


def test_the_newest_noted_calls_come_first_with_what_each_rule_would_have_changed(audit_store: AuditStore) -> None:
    save(
        build_call(1, rule_reason=noted(DENIED), user_id=7, username="alice", target_id=3),
        build_call(2, rule_reason=Reason("rule.grant", {"number": 1}).text),
        build_call(3, rule_reason=noted(DENIED, ["limit", 4, "allow", "limit"]), outcome="tool_error"),
    )
    newest, oldest = trials.iterate_calls(NOON)
    assert newest.notes == (Note("grant", 12, "allow", "deny"), Note("limit", 4, "allow", "limit"))
    assert (newest.outcome, newest.user_id) == ("tool_error", None)
    assert (oldest.id, oldest.user_id, oldest.username) == (build_call(1).pk, 7, "alice")
    assert (oldest.method, oldest.name, oldest.target_id) == ("tools/call", "calculate_sum", 3)
    assert trials.newest_id(NOON) == newest.id


def test_only_calls_since_the_time_are_found_and_at_most_the_limit(audit_store: AuditStore) -> None:
    save(*(build_call(number, rule_reason=noted(DENIED)) for number in range(10)))
    assert [call.id for call in trials.iterate_calls(NOON + timedelta(seconds=7))] == [
        build_call(number).pk for number in (9, 8, 7)
    ]
    assert len(list(trials.iterate_calls(NOON, limit=4))) == 4
    assert trials.newest_id(NOON + timedelta(seconds=10)) is None


def test_noted_calls_are_found_without_reading_any_other_call(audit_store: AuditStore) -> None:
    save(
        *(
            build_call(number, rule_reason=noted(DENIED) if number % 500 == 0 else noted_by_nobody())
            for number in range(5_000)
        )
    )
    audit_store.sql("ANALYZE audit_call")
    assert "audit_call_trials" in plan(NOON)
    assert len(list(trials.iterate_calls(NOON))) == 10


def test_the_index_is_used_before_the_database_has_statistics(sqlite_store: AuditStore) -> None:
    assert "audit_call_trials" in plan(NOON)
    assert Call.objects.count() == 0


def noted_by_nobody() -> str:
    return Reason("rule.grant", {"number": 1, "name": "calculate_sum"}).text
