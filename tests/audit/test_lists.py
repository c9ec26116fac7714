"""Finding calls in a big record: filters that combine, pages that meet without gap or overlap, bounded searches."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from audit.queries import search
from audit.queries.search import CallSearch, page
from tests.audit.rows import NOON, build_call, save

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_time_limit(monkeypatch):
    """Only the number of rows bounds a search here: a slow machine must not change what is found."""
    monkeypatch.setattr("audit.queries.search.MAX_SEARCH_SECONDS", 600)


@pytest.fixture
def logged_calls(alice, bob):
    """120 calls: alice and bob in turn, three tools, four outcomes."""
    outcomes = ("ok", "ok", "ok", "refused", "timeout")
    return save(
        *(
            build_call(
                number,
                user=(alice, bob)[number % 2],
                name=("calculate_sum", "read_file", "get_weather")[number % 3],
                outcome=outcomes[number % 5],
                transport=("http", "websocket")[number % 7 == 0],
                client_name=("claude-code", "Cursor")[number % 4 == 0],
                arguments=f'{{"note":"number {number} M\\u00fcller"}}',
            )
            for number in range(120)
        )
    )


def find_keys(**parts):
    return [row.pk for row in CallSearch(**parts).page(size=500).rows]


def newest_first(calls, wanted):
    return [row.pk for row in reversed(calls) if wanted(row)]


CONDITIONS = {
    "user": ("alice", lambda row: row.username == "alice"),
    "outcome": ("timeout", lambda row: row.outcome == "timeout"),
    "tool": ("read_file", lambda row: row.name == "read_file"),
    "transport": ("websocket", lambda row: row.transport == "websocket"),
    "client": ("curs*", lambda row: row.client_name == "Cursor"),
    "method": ("tools/call", lambda row: True),
    "credential": ("LAP*", lambda row: True),
    "since": ("2026-03-01T12:00:30", lambda row: row.started_at >= NOON + timedelta(seconds=30)),
    "until": ("2026-03-01T12:01:40", lambda row: row.started_at < NOON + timedelta(seconds=100)),
    "q": ("NUMBER 1", lambda row: "number 1" in row.arguments),
}


@pytest.mark.parametrize(
    "names",
    [*itertools.combinations(CONDITIONS, 1), *itertools.combinations(CONDITIONS, 2), ("user", "outcome", "tool", "q")],
)
def test_filters_combine(logged_calls, names):
    parts = {name: CONDITIONS[name][0] for name in names}
    assert find_keys(**parts) == newest_first(logged_calls, lambda row: all(CONDITIONS[name][1](row) for name in names))


def test_outcomes_other_than_ok_are_one_choice_and_ok_with_a_tool_another(logged_calls):
    assert find_keys(outcome="not_ok") == newest_first(logged_calls, lambda row: row.outcome != "ok")
    assert find_keys(outcome="ok", tool="read_file") == newest_first(
        logged_calls, lambda row: row.outcome == "ok" and row.name == "read_file"
    )


@pytest.mark.parametrize(
    "since, until", [("2026-03-01", "2026-03-01"), ("2026-03-01T13:00:00+01:00", ""), ("", "2026-03-02")]
)
def test_days_and_time_zones_are_understood(logged_calls, since, until):
    assert len(find_keys(since=since, until=until)) == 120


@pytest.mark.parametrize("text", ["2026-13-45", "yesterday", "2026-02-30T99:00", "0000-00-00"])
def test_an_invalid_date_is_ignored(logged_calls, text):
    assert len(find_keys(since=text)) == 120


def test_a_call_is_found_by_its_id_in_every_spelling(logged_calls):
    wanted = logged_calls[17]
    for text in (str(wanted.pk), wanted.pk.hex, str(wanted.pk).upper()):
        assert find_keys(q=text) == [wanted.pk]
    assert find_keys(q="0198c0de-0000-7000-8000-000000000000") == []


@pytest.mark.parametrize("text", ["Müller", "read_FILE", "bob", "cursor", "lapt"])
def test_text_is_found_in_arguments_tool_user_client_and_credential(logged_calls, text):
    assert find_keys(q=text)


@pytest.mark.parametrize(
    "text", ["%", "number_5", '"" ', "'", "'; DROP TABLE audit_call; --", "read%file", "read?file"]
)
def test_text_is_taken_literally(logged_calls, text):
    assert find_keys(q=text) == []
    assert find_keys(q="read_f") and not find_keys(q="readxf")


def test_impossible_characters_are_removed_from_the_search_text(logged_calls):
    assert find_keys(q="read\x00_file\ud800") == find_keys(q="read_file")


def test_a_deleted_account_still_has_its_calls(logged_calls, alice):
    User.objects.filter(pk=alice.pk).delete()
    assert len(find_keys(user="alice")) == 60


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"user": "alice"},
        {"q": "number"},
        {"outcome": "not_ok", "transport": "http"},
        {"user": "alice", "tool": "read_file"},
        {"user": "bob", "tool": "calculate_sum", "outcome": "ok", "since": "2026-03-01T12:00:20"},
    ],
)
def test_pages_forward_and_back_hold_every_call_once(logged_calls, parts, monkeypatch):
    whole = find_keys(**parts)
    assert whole
    monkeypatch.setattr("audit.queries.walk._FIRST_SLICE_ROWS", 5)
    forward, cursor = [], ""
    while True:
        part = CallSearch(**parts).page(before=cursor, size=7)
        forward += [row.pk for row in part.rows]
        if not part.older:
            break
        cursor = part.older
    assert forward == whole
    back: list[Any] = []
    cursor = part.newer
    last = [row.pk for row in part.rows]
    while cursor:
        part = CallSearch(**parts).page(after=cursor, size=7)
        back = [row.pk for row in part.rows] + back
        cursor = part.newer
    assert back + last == whole


def test_a_new_call_does_not_shift_an_open_page(logged_calls, alice):
    cursor = CallSearch().page(size=10).older
    before = [row.pk for row in CallSearch().page(before=cursor, size=10).rows]
    save(build_call(500, user=alice))
    assert [row.pk for row in CallSearch().page(before=cursor, size=10).rows] == before


def test_a_search_that_uses_up_its_budget_says_so_and_goes_on_from_there(logged_calls, monkeypatch):
    monkeypatch.setattr("audit.queries.walk._FIRST_SLICE_ROWS", 10)
    first = CallSearch(q="number 5 M").page(budget=50)
    assert first.rows == [] and first.older and first.stopped_at is not None
    assert first.stopped_at == logged_calls[70].started_at
    second = CallSearch(q="number 5 m").page(before=first.older, budget=100)
    assert [row.pk for row in second.rows] == [logged_calls[5].pk]
    assert second.stopped_at is None and not second.older


def test_a_search_reads_no_more_rows_than_it_needs(logged_calls, django_assert_num_queries):
    with django_assert_num_queries(3):  # whether there is an index of texts, where the slice ends, the page
        CallSearch(q="number").page(size=5)
    with django_assert_num_queries(1):
        CallSearch(outcome="timeout").page()
    with django_assert_num_queries(2):  # the account, the page
        CallSearch(user="alice", outcome="refused").page()


@pytest.mark.parametrize("cursor", ["x", "1", "'", "before-x", "g" * 32])
def test_an_invalid_cursor_is_rejected(logged_calls, cursor):
    with pytest.raises(ValueError):
        CallSearch().page(before=cursor)
    with pytest.raises(ValueError):
        search.page_for_user(1, {}, cursor)


def test_users_see_only_their_own_calls_whatever_they_ask_for(logged_calls, alice, bob, charlie):
    for filters in ({}, {"user": "bob"}, {"q": "bob"}, {"q": str(logged_calls[1].pk)}, {"user_id": bob.pk}):
        rows = search.page_for_user(alice.pk, filters, size=500).rows
        assert {row.username for row in rows} <= {"alice"}
    assert len(search.page_for_user(alice.pk, {}, size=500).rows) == 60
    assert search.page_for_user(charlie.pk, {}).rows == []
    assert search.one_for_user(bob.pk, logged_calls[0].pk) is None
    assert search.one_for_user(alice.pk, str(logged_calls[0].pk)) == logged_calls[0]
    assert search.one_for_user(alice.pk, "nonsense") is None


def test_a_users_pages_go_both_ways(logged_calls, alice):
    first = search.page_for_user(alice.pk, {"outcome": "ok"}, size=10)
    second = search.page_for_user(alice.pk, {"outcome": "ok"}, first.older, size=10)
    again = search.page_for_user(alice.pk, {"outcome": "ok"}, second.newer, size=10)
    assert [row.pk for row in again.rows] == [row.pk for row in first.rows]
    assert not first.newer and not again.newer and second.newer


def test_a_users_page_is_one_query(logged_calls, alice, django_assert_num_queries):
    for filters in ({}, {"outcome": "ok"}):
        with django_assert_num_queries(1):
            search.page_for_user(alice.pk, filters)


def test_lists_do_not_read_bodies(logged_calls, django_assert_num_queries):
    row = CallSearch().page().rows[0]
    with django_assert_num_queries(2):
        assert row.arguments and row.result


def test_every_row_is_read_in_batches(logged_calls, django_assert_num_queries):
    with django_assert_num_queries(3 * 13 - 1):  # where a batch ends, the keys of its rows, the rows
        batches = list(CallSearch().iterate_batches(10))
    assert [row.pk for batch in batches for row in batch] == [row.pk for row in reversed(logged_calls)]
    assert [row.pk for batch in CallSearch(q="number 11").iterate_batches(7) for row in batch] == find_keys(
        q="number 11"
    )


def test_any_model_can_be_paged_by_its_key(logged_calls):
    rows = page(Call.objects.all(), None, size=3)
    assert len(rows.rows) == 3 and rows.older
