"""The index over texts of calls: it suggests, the calls decide; and what is removed from a call leaves it at once."""

from __future__ import annotations

import json
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.utils import timezone

from audit import outcomes, retention
from audit.models import Call, CallText, TextProgress
from audit.queries import search, text_index, walk
from audit.queries.search import CallSearch
from tests.audit.rows import build_call, save
from tests.audit.stores import AuditStore

pytestmark = pytest.mark.django_db

MAX_ID = UUID(int=2**128 - 1)


@pytest.fixture(autouse=True)
def _no_time_limit(monkeypatch):
    monkeypatch.setattr(search, "MAX_SEARCH_SECONDS", 600)


def content(text: str) -> str:
    return json.dumps({"content": [{"type": "text", "text": text}]})


def save_texts(*texts: str, first: int = 0, **values: Any) -> list[Call]:
    return save(
        *(
            build_call(first + number, arguments=json.dumps({"note": text}), **values)
            for number, text in enumerate(texts)
        )
    )


def found(q: str, **filters: Any) -> list[int]:
    return sorted(
        int(row.request_id) for row in CallSearch(q=q, **filters).page(size=500, columns=("request_id",)).rows
    )


def suggested(term: str) -> list[UUID] | None:
    return text_index.find(term, None, MAX_ID, 1_000)


# --- refusals ----------------------------------------------------------------------------------------------------


def test_a_forged_entry_finds_nothing_that_the_call_does_not_say():
    first, second = save_texts("invoice 4711", "something else")
    text_index.catch_up(60)
    CallText.objects.filter(call_id=second.pk).update(text="invoice 4711")
    assert set(suggested("4711") or ()) == {first.pk, second.pk}
    assert found("4711") == [0]


def test_a_call_that_was_edited_is_found_by_what_it_says_now_or_not_at_all():
    (call,) = save_texts("invoice 4711")
    text_index.catch_up(60)
    Call.objects.filter(pk=call.pk).update(arguments="{}")
    assert found("4711") == []


@pytest.mark.parametrize("what", [retention.BODIES, retention.ROWS])
def test_what_retention_removes_leaves_the_index(what):
    save_texts("invoice 4711")
    text_index.catch_up(60)
    assert suggested("4711")
    retention.prune(timezone.now(), what)
    assert suggested("4711") == [] and found("4711") == []
    assert not CallText.objects.filter(text__contains="4711").exists()


RUNES = "\u16a0\u16a2\u16a6\u16a8\u16b1\u16b2"
"""A text whose pieces begin as no other text's, so that the pages of the index hold them in full."""


def count_pages_with_runes() -> int:
    """Return how many pages of the index hold a piece of RUNES, whatever a question finds."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT block FROM {text_index.INDEX}_data")
        return sum(RUNES[1:3].encode() in bytes(block) for (block,) in cursor.fetchall())


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL's autovacuum does this by itself")
@pytest.mark.parametrize("what", [retention.BODIES, retention.ROWS])
def test_what_retention_removes_leaves_the_pages_of_the_index_too(what):
    save_texts(*(f"invoice {number}" for number in range(20)), f"runes {RUNES}")
    text_index.catch_up(60)
    assert count_pages_with_runes() and suggested(RUNES)
    retention.prune(timezone.now(), what)
    assert count_pages_with_runes() == 0 and TextProgress.objects.get().removal == ""


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL's autovacuum does this by itself")
def test_a_removal_that_was_interrupted_is_ended_by_the_job(monkeypatch):
    save_texts(f"runes {RUNES}")
    text_index.catch_up(60)
    monkeypatch.setattr(retention, "MAX_PURGE_SECONDS", -1)
    retention.prune(timezone.now(), retention.ROWS)
    assert count_pages_with_runes(), "no time was left"
    text_index.update()
    assert count_pages_with_runes() == 0
    steps: list[str] = []
    monkeypatch.setattr(text_index, "_merge", lambda: steps.append("merge"))
    text_index.update()
    assert steps == [], "nothing was removed since"


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL's autovacuum does this by itself")
def test_the_index_is_rewritten_in_small_transactions_and_answers_meanwhile(monkeypatch):
    save_texts(*(f"invoice {number} " + "".join(map(chr, range(200 + number, 900 + number))) for number in range(60)))
    text_index.catch_up(60)
    monkeypatch.setattr(text_index, "_MERGE_PAGES", 1)
    CallText.objects.filter(pk__lte=5).delete()
    TextProgress.objects.update(removal=text_index.DUE)
    steps: list[int] = []

    def look() -> None:
        steps.append(len(suggested("invoice") or ()))

    assert text_index.purge(60, look)
    assert len(steps) > 2 and set(steps) == {CallText.objects.count()}


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL's autovacuum does this by itself")
def test_calls_that_are_added_meanwhile_neither_end_the_rewriting_early_nor_make_it_endless(monkeypatch):
    last = CallText.objects.create(call_id=UUID(int=99), text="\ua4d0\ua4d2\ua4d6\ua4d8")
    for number in range(4):
        text = "".join(chr(0x4E00 + (number * 3_001 + at * 37) % 0x4000) for at in range(3_000))
        CallText.objects.create(call_id=UUID(int=number), text=text)
    with connection.cursor() as cursor:  # one large part, on a level of its own
        cursor.execute(f"INSERT INTO {text_index.INDEX} ({text_index.INDEX}, rank) VALUES ('merge', 1000)")
    pieces = "\ua4d2\ua4d6".encode()

    def count() -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT block FROM {text_index.INDEX}_data")
            return sum(pieces in bytes(block) for (block,) in cursor.fetchall())

    assert count()
    last.delete()
    TextProgress.objects.create(pk=1, through=UUID(int=0), open="[]", removal=text_index.DUE)
    monkeypatch.setattr(text_index, "_MERGE_PAGES", 1)
    numbers, steps = iter(range(1_000, 9_000)), list[int]()

    def add() -> None:
        steps.append(len(steps))
        for _ in range(3 if len(steps) % 5 == 1 else 0):
            number = next(numbers)
            CallText.objects.create(call_id=UUID(int=number), text=f"later {number}")

    assert text_index.purge(60, add), "it ends although calls are added all the time"
    assert count() == 0 and len(steps) > 10
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {text_index.INDEX} ({text_index.INDEX}, rank) VALUES ('integrity-check', 1)")


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL's autovacuum does this by itself")
def test_an_upgrade_removes_what_earlier_versions_left_in_the_index(monkeypatch):
    save_texts(f"runes {RUNES}")
    text_index.catch_up(60)
    CallText.objects.all().delete()
    assert count_pages_with_runes() and TextProgress.objects.get().removal == ""
    migration = import_module("audit.migrations.0006_text_removal")
    migration.mark_earlier_removals(apps, SimpleNamespace(connection=connection))
    text_index.update()
    assert count_pages_with_runes() == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM audit_call",
        "UPDATE audit_call SET arguments = 'pruned:', result = '', body_state = 'pruned'",
    ],
)
def test_what_sql_from_outside_removes_leaves_the_index_in_the_same_transaction(statement):
    save_texts("invoice 4711")
    text_index.catch_up(60)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        assert suggested("4711") == []
        transaction.set_rollback(True)
    assert suggested("4711"), "the removal was rolled back"


def remove_by_sql() -> None:
    Call.objects.update(arguments="pruned:", result="", body_state="pruned")


@pytest.mark.parametrize("remove", [lambda: retention.prune(timezone.now(), retention.BODIES), remove_by_sql])
def test_a_body_that_is_removed_while_it_is_being_indexed_does_not_come_back(monkeypatch, remove):
    (call,) = save_texts("invoice 4711")
    make_text = text_index.make_text

    def prune_meanwhile(values: Any) -> str:
        remove()
        return make_text(values)

    monkeypatch.setattr(text_index, "make_text", prune_meanwhile)
    text_index.catch_up(60)
    assert suggested("4711") == [] and TextProgress.objects.get().through > call.pk


def test_users_find_no_calls_of_others_and_no_rule_that_denied_them(alice, bob):
    save_texts("invoice 4711", user=alice, rule="deny: interns", detail="interns", outcome="refused")
    save_texts("invoice 4711", first=1, user=bob)
    for _ in range(2):
        assert [row.username for row in search.page_for_user(alice.pk, {"q": "4711"}).rows] == ["alice"]
        assert search.page_for_user(alice.pk, {"q": "interns"}).rows == []
        assert found("interns") == [0], "an auditor finds it"
        text_index.catch_up(60)


def test_a_user_cannot_tell_denied_from_unknown(alice):
    save_texts("a", user=alice, outcome="refused")
    save_texts("b", first=1, user=alice, outcome="unknown_tool")
    for outcome in ("refused", "unknown_tool"):
        assert len(search.page_for_user(alice.pk, {"outcome": outcome}).rows) == 2


# --- what is found -----------------------------------------------------------------------------------------------

TEXTS = {
    "4711": "order 4711",
    "结果": "查询结果",
    "查询": '{"nested": "' + json.dumps("查询")[1:-1] + '"}',
    "MÜLLER 3": "Müller 3 \U0001f600",
    "\U0001f600": "smile \U0001f600",
    '"id": 17': '{"id": 17}',
    "100%_x": "is 100%_x",
    "it's": "it's",
    "line\nbreak": "line\nbreak",
    "a-b": "a-b",
    "42": "= 42",
    "元": "5 元",
}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("place", ["arguments", "result"])
def test_a_text_is_found_as_it_is_typed_with_and_without_the_index(place, indexed):
    for number, text in enumerate(TEXTS.values()):
        save(build_call(number, **{place: content(text)}))
    save(build_call(900, arguments=content("other")))
    if indexed:
        assert text_index.catch_up(60)
    for number, term in enumerate(TEXTS):
        assert number in found(term), term
        assert 900 not in found(term), term
    assert found("absent text") == []


def test_digits_of_an_encoded_character_are_no_text():
    save_texts("价格 5143", "价格 元", "price 5143")  # 元 is \u5143
    for _ in range(2):
        assert found("5143") == [0, 2]
        text_index.catch_up(60)


@pytest.mark.parametrize("field", ["name", "username", "client_name", "credential", "rule", "detail"])
def test_the_other_columns_are_searched_too(field):
    save(build_call(1, **{field: "a Needle here"}), build_call(2))
    for _ in range(2):
        assert found("needle") == [1]
        text_index.catch_up(60)


def test_calls_that_are_new_or_still_run_are_found_before_they_are_indexed():
    running, _ended = save(
        build_call(1, arguments='{"a":"needle"}', outcome=outcomes.RUNNING), build_call(2, arguments='{"a":"needle"}')
    )
    text_index.catch_up(60)
    assert CallText.objects.count() == 1
    save(build_call(3, started_at=timezone.now(), arguments='{"a":"needle"}'))
    assert found("needle") == [1, 2, 3]
    Call.objects.filter(pk=running.pk).update(outcome="ok", result=content("thread"))
    assert found("thread") == [1]
    TextProgress.objects.update(through=UUID(int=TextProgress.objects.get().through.int - (1 << 80)))
    text_index.catch_up(60)
    assert CallText.objects.count() == 2 and suggested("thread") == [running.pk]


def test_filters_apply_to_what_the_index_suggests(alice):
    save_texts("needle", user=alice)
    save_texts("needle", first=1, outcome="timeout")
    text_index.catch_up(60)
    assert found("needle", user="alice") == [0]
    assert found("needle", outcome="not_ok") == [1]
    assert found("needle", since="2026-03-01T12:00:01") == [1]
    assert found("needle", until="2026-03-01T12:00:01") == [0]


@pytest.mark.parametrize("candidates", [3, 10_000])
def test_pages_of_an_indexed_text_hold_every_call_once_in_both_directions(monkeypatch, candidates):
    monkeypatch.setattr(walk, "MAX_CANDIDATES", candidates)
    monkeypatch.setattr(walk, "CHUNK_CANDIDATES", 4)
    save_texts(*(f"needle {number}" if number % 2 else "hay" for number in range(40)))
    text_index.catch_up(60)
    save(*(build_call(number, started_at=timezone.now(), arguments='"needle"') for number in range(41, 46)))
    wanted = [*range(45, 40, -1), *range(39, 0, -2)]
    forward: list[int] = []
    part = CallSearch(q="needle").page(size=7)
    while True:
        forward += [int(row.request_id) for row in part.rows]
        if not part.older:
            break
        part = CallSearch(q="needle").page(before=part.older, size=7)
    assert forward == wanted
    back = [int(row.request_id) for row in part.rows]
    while part.newer:
        part = CallSearch(q="needle").page(after=part.newer, size=7)
        back = [int(row.request_id) for row in part.rows] + back
    assert back == wanted


def test_a_search_of_suggested_calls_stops_in_time_and_goes_on(monkeypatch):
    monkeypatch.setattr(search, "MAX_SEARCH_SECONDS", -1)
    monkeypatch.setattr(walk, "CHUNK_CANDIDATES", 3)
    calls = save_texts(*["needle"] * 8)
    text_index.catch_up(60)
    part = CallSearch(q="needle").page()
    assert len(part.rows) == 3 and part.stopped_at == calls[5].started_at
    assert len(CallSearch(q="needle").page(before=part.older).rows) == 3


def test_an_export_of_a_text_does_not_believe_the_index():
    save_texts(*(f"invoice {number}" for number in range(30)))
    text_index.catch_up(60)
    CallText.objects.all().delete()
    batches = list(CallSearch(q="invoice 12").iterate_batches(10))
    assert [row.request_id for batch in batches for row in batch] == ["12"]


def check_that_pruned_calls_are_found():
    calls = save_texts("invoice 4711", name="weather_lookup", detail="exploded", client_name="agent-7")
    text_index.catch_up(60)
    assert retention.prune(timezone.now(), retention.BODIES).bodies == 1
    for text in ("weather_lookup", "exploded", "agent-7"):
        assert suggested(text) == [calls[0].pk] and found(text) == [0]
    assert suggested("4711") == [] and found("4711") == []
    TextProgress.objects.all().delete()
    CallText.objects.all().delete()
    text_index.catch_up(60)  # an index that is built after the removal
    assert suggested("exploded") == [calls[0].pk]


def test_what_retention_leaves_of_a_call_is_still_found():
    check_that_pruned_calls_are_found()


@pytest.mark.postgres
def test_what_retention_leaves_of_a_call_is_still_found_on_postgresql(postgres_store: AuditStore) -> None:
    check_that_pruned_calls_are_found()


def test_backslashes_outside_of_json_are_text():
    save_texts("a", detail=r"cannot open C:\temp\report.txt", client_name=r"C:\new\nice-client")
    for _ in range(2):
        for text in ("report.txt", "temp", "nice-client"):
            assert found(text) == [0], text
        text_index.catch_up(60)


def test_a_search_of_ones_own_calls_stops_at_no_call_of_another_user(alice, bob, monkeypatch):
    monkeypatch.setattr(search, "MAX_SEARCH_SECONDS", -1)
    monkeypatch.setattr(walk, "CHUNK_CANDIDATES", 3)
    save_texts(*["nightfall"] * 8, user=bob)
    save_texts("day", first=20, user=alice)
    text_index.catch_up(60)
    for q in ("nightfall", "absent"):
        part = search.page_for_user(alice.pk, {"q": q})
        assert (part.rows, part.older, part.newer, part.stopped_at) == ([], "", "", None)


def test_a_search_by_tool_of_ones_own_calls_stops_at_no_call_of_another_user(alice, bob, monkeypatch):
    monkeypatch.setattr(search, "MAX_SEARCH_SECONDS", -1)
    monkeypatch.setattr(walk, "_FIRST_SLICE_ROWS", 3)
    save_texts(*["x"] * 8, user=bob, name="rare_tool")
    save_texts(*["x"] * 8, first=20, user=alice, name="common_tool")
    filters = {"tool": "rare_tool", "client": "claude-code"}
    part = search.page_for_user(alice.pk, filters)
    while part.older:
        owner = Call.objects.get(pk=part.older.removeprefix("before-")).username
        assert owner == "alice"
        part = search.page_for_user(alice.pk, filters, part.older)
    assert part.rows == []


def test_a_question_that_takes_sqlite_too_long_is_answered_by_the_calls(monkeypatch):
    save_texts(*["needle"] * 300)
    text_index.catch_up(60)
    monkeypatch.setattr(text_index, "MAX_QUERY_SECONDS", -1)
    monkeypatch.setattr(text_index, "_STEPS_BETWEEN_CHECKS", 10)
    assert suggested("needle") is None
    assert len(found("needle")) == 300
    monkeypatch.undo()
    assert len(suggested("needle") or ()) == 300, "the connection works as before"


def test_calls_that_another_clock_logged_late_are_indexed():
    text_index.catch_up(60)
    late = timezone.now() - timedelta(minutes=9)
    save(build_call(1, started_at=late, arguments='"needle"'))
    assert found("needle") == [1]


def test_a_letter_that_databases_fold_in_another_way_is_searched_in_the_calls():
    assert text_index.normalize("kapısı") == ""


def test_large_texts_are_indexed_in_small_transactions(monkeypatch):
    monkeypatch.setattr(text_index, "MAX_BATCH_CHARACTERS", 1_000)
    sizes: list[int] = []
    add = text_index._add

    def add_and_note(batch: list[Any]) -> None:
        sizes.append(len(batch))
        add(batch)

    monkeypatch.setattr(text_index, "_add", add_and_note)
    save_texts(*(f"{number} " + "x" * 600 for number in range(7)))
    text_index.catch_up(60)
    assert sizes == [2, 2, 2, 1] and CallText.objects.count() == 7


def test_a_process_overtaken_by_another_changes_no_progress():
    save_texts("needle")
    state = text_index._create_progress()
    text_index.catch_up(60)
    assert text_index._index_slice(state, MAX_ID, recheck=True) is None
    assert CallText.objects.count() == 1


@pytest.mark.postgres
def test_postgresql_answers_the_same(postgres_store: AuditStore) -> None:
    test_a_text_is_found_as_it_is_typed_with_and_without_the_index("result", True)
    assert len(suggested("4711") or ()) == 1
    with postgres_store.connection() as outside:
        outside.execute("UPDATE audit_call SET result = '', body_state = 'pruned'")
    assert suggested("4711") == []


@pytest.mark.postgres
def test_a_question_that_takes_postgresql_too_long_is_answered_by_the_calls(
    postgres_store: AuditStore, monkeypatch: Any
) -> None:
    save_texts("needle")
    text_index.catch_up(60)
    monkeypatch.setattr(text_index, "TABLE", "audit_calltext, pg_sleep(5)")
    monkeypatch.setattr(text_index, "MAX_QUERY_SECONDS", 0.05)
    assert suggested("needle") is None
    assert found("needle") == [0]


def test_a_database_without_the_index_is_searched_all_the_same(caplog):
    with transaction.atomic(), connection.cursor() as cursor:
        for name in ("gone", "pruned") if connection.vendor == "sqlite" else ("gone",):
            on = "" if connection.vendor == "sqlite" else " ON audit_call"
            cursor.execute(f"DROP TRIGGER audit_call_text_{name}{on}")
        save_texts("needle")
        text_index.update()
        assert not text_index.exists() and not CallText.objects.exists()
        assert found("needle") == [0]
        transaction.set_rollback(True)


def test_bodies_with_half_characters_are_indexed():
    save(build_call(1, arguments=r'{"a":"\ud83d needle \u0000"}'))
    text_index.catch_up(60)
    assert found("needle") == [1]


def test_old_calls_are_indexed_in_the_order_of_time_and_newer_ones_wait(monkeypatch):
    monkeypatch.setattr(text_index, "SLICE_CALLS", 2)
    save_texts(*["needle"] * 5)
    assert not text_index.catch_up(-1)
    assert CallText.objects.count() == 2 and found("needle") == [0, 1, 2, 3, 4]
    assert text_index.catch_up(60) and found("needle") == [0, 1, 2, 3, 4]
    assert timedelta() < timezone.now() - search.time_of(TextProgress.objects.get().through) < timedelta(minutes=12)


def test_statistics_of_an_index_that_was_small_do_not_slow_down_a_large_one(sqlite_store: AuditStore) -> None:
    save_texts("needle")
    text_index.catch_up(60)
    for _ in range(2):
        sqlite_store.sql("ANALYZE")
        assert sqlite_store.sql(f"SELECT 1 FROM sqlite_stat1 WHERE tbl LIKE '{text_index.INDEX}%'")
        text_index.catch_up(60)
        assert not sqlite_store.sql(f"SELECT 1 FROM sqlite_stat1 WHERE tbl LIKE '{text_index.INDEX}%'")
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN DELETE FROM {text_index.INDEX}_data WHERE id >= 1 AND id <= 2")
        assert "SEARCH" in str(cursor.fetchall())


def test_calls_are_indexed_while_other_processes_write(audit_store: AuditStore, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_index, "MAX_BATCH_CHARACTERS", 100)
    save_texts(*["needle"] * 8)
    make_text = text_index.make_text

    def write_meanwhile(values: Any) -> str:
        audit_store.sql("UPDATE audit_call SET error_class = 'x'")
        return make_text(values)

    monkeypatch.setattr(text_index, "make_text", write_meanwhile)
    assert text_index.catch_up(60) and CallText.objects.count() == 8
