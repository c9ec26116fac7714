from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from audit import recorder
from audit.models import Call
from audit.types import Reason
from audit.writing import queue
from audit.writing.queue import ATTEMPTS
from tests.audit.attempts import call, ending, intent, wait_until_ready
from tests.audit.stores import AuditStore
from tests.polling import wait_until_async
from toolhub.parts import parts


async def test_no_call_is_accepted_when_the_queue_is_full(
    sqlite_store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call()
    monkeypatch.setattr(queue, "MAX_WAITING_ENTRIES", 0)
    with pytest.raises(recorder.AuditLogBusy, match="too many calls are waiting"):
        await recorder.begin(intent())
    await recorder.deny(intent(), ending("refused"))
    monkeypatch.setattr(queue, "MAX_WAITING_DENIALS", 0)
    with pytest.raises(recorder.AuditLogBusy):
        await recorder.deny(intent(), ending("refused"))
    assert recorder.running() == 0


async def test_denials_take_no_places_of_calls(sqlite_store: AuditStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await call()
    monkeypatch.setattr(queue, "MAX_WAITING_DENIALS", 0)
    with pytest.raises(recorder.AuditLogBusy):
        await recorder.deny(intent(), ending("refused"))
    await call()


@contextlib.asynccontextmanager
async def waiting_together(store: AuditStore) -> AsyncIterator[None]:
    """What is logged inside waits until the end: the writer is busy with a denial named "before"."""
    await wait_until_ready()
    with store.held():
        before = asyncio.create_task(recorder.deny(intent("before"), ending("refused")))
        writer = parts.get(recorder.AuditLog).writer
        assert writer is not None
        await wait_until_async(lambda: bool(writer.queue.batch))
        yield
    await before


async def test_identical_attempts_that_wait_together_are_one_entry_with_their_number(audit_store: AuditStore) -> None:
    denied = replace(
        ending("refused"), detail="Busy", detail_reason=Reason("busy.calls", {"most": 2, ATTEMPTS: 1}).text
    )
    async with waiting_together(audit_store):
        attempts = asyncio.gather(
            *(recorder.deny(intent("a"), denied, shared=True) for _ in range(50)),
            recorder.deny(intent("b"), denied, shared=True),
            recorder.deny(intent("a", '{"a":2}'), denied, shared=True),
            recorder.deny(intent("a"), denied),
        )
        await asyncio.sleep(0)
    ids = await attempts
    assert len(set(ids)) == len(ids) - 49
    rows = audit_store.sql("SELECT name, detail, detail_reason FROM audit_call WHERE name <> 'before' ORDER BY id")
    assert [(name, detail) for name, detail, _ in rows] == [
        ("a", "Busy (50 identical attempts)"),
        ("b", "Busy"),
        ("a", "Busy"),
        ("a", "Busy"),
    ]
    reasons = [Reason.read(text) for _, _, text in rows]
    assert [reason and reason.params for reason in reasons] == [
        {"most": 2, ATTEMPTS: 50},
        *[{"most": 2, ATTEMPTS: 1}] * 3,
    ]
    later = await recorder.deny(intent("a"), denied, shared=True)
    assert later not in ids, "what is written counts nothing more"


async def test_an_attempt_whose_client_leaves_does_not_end_the_identical_ones(audit_store: AuditStore) -> None:
    denied = ending("refused")
    async with waiting_together(audit_store):
        first = asyncio.create_task(recorder.deny(intent(), denied, shared=True))
        others = [asyncio.create_task(recorder.deny(intent(), denied, shared=True)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
    found = await asyncio.gather(*others)
    assert first.cancelled() and len(set(found)) == 1
    assert [id for id, _ in audit_store.sql("SELECT id, name FROM audit_call WHERE name <> 'before'")] == [
        found[0].hex if audit_store.vendor == "sqlite" else found[0]
    ]


async def test_a_call_is_refused_when_the_disk_is_full(sqlite_store: AuditStore, settings) -> None:
    settings.MIN_FREE_MB = 10**9
    with pytest.raises(recorder.AuditLogUnavailable, match="calls cannot be logged now: the disk is almost full"):
        await recorder.begin(intent())
    assert "almost full" in (await recorder.ready() or "")
    settings.MIN_FREE_MB = 1

    await wait_until_ready()
    await call()


async def test_a_duplicate_identifier_refuses_only_that_call(audit_store: AuditStore) -> None:
    first = await recorder.begin(intent())
    log = recorder.audit_log()
    again, other = await asyncio.gather(
        log.begin(intent("again"), first.id), log.begin(intent("other")), return_exceptions=True
    )
    assert isinstance(again, recorder.AuditLogUnavailable)
    assert isinstance(other, recorder.BegunCall)
    await asyncio.gather(recorder.finish(first, ending()), recorder.finish(other, ending()))
    assert set(audit_store.outcomes().values()) == {"ok"}


async def test_a_call_is_logged_before_begin_returns(audit_store: AuditStore) -> None:
    begun = await recorder.begin(intent())
    assert audit_store.outcomes() == {begun.id.hex: "running"}
    assert recorder.running() == 1
    await recorder.finish(begun, ending())
    assert audit_store.outcomes() == {begun.id.hex: "ok"}
    assert recorder.running() == 0


def test_everything_about_a_call_is_stored(audit_store: AuditStore) -> None:
    row = Call.objects.get(id=UUID(asyncio.run(call())))
    assert (row.user_id, row.username, row.credential_id, row.credential) == (7, "alice", "token:1", "laptop")
    assert (row.client_name, row.client_version, row.transport, row.revision) == (
        "inspector",
        "1.0",
        "http",
        "2025-11-25",
    )
    assert (row.address, row.method, row.name, row.target_id) == ("192.0.2.7", "tools/call", "calculate_sum", 3)
    assert (row.definition, row.rule, row.request_id) == ("d" * 64, "grant 1", "17")
    assert json.loads(row.arguments) == {"a": 1, "b": 2}
    assert json.loads(row.result)["content"][0]["text"] == "3"
    assert (row.result_bytes, row.result_sha256) == (len(row.result), "e" * 64)
    assert row.ended_at is not None
    assert row.ended_at >= row.started_at
    assert row.started_at.microsecond % 1000 == 0
    assert row.duration_us is not None
    assert row.duration_us >= 0


async def test_a_denied_call_is_one_entry_with_its_reason(audit_store: AuditStore) -> None:
    id = await recorder.deny(intent("no_such_tool"), recorder.Ending("unknown_tool", detail="there is no such tool"))
    assert audit_store.outcomes() == {id.hex: "unknown_tool"}
    assert audit_store.sql("SELECT kind FROM audit_link WHERE kind <> 'opened'") == [("refused",)]
    assert recorder.running() == 0


async def test_values_that_no_database_can_store_are_replaced_and_never_stop_the_audit_log(
    audit_store: AuditStore,
) -> None:
    begun = await recorder.begin(intent("nul \x00 and half a pair \ud800", '{"a":"\ud800"}'))
    await recorder.finish(begun, recorder.Ending("tool_error", detail="\x00", result='{"x":"\udfff"}'))
    assert audit_store.sql("SELECT name, arguments, detail, result FROM audit_call") == [
        ("nul \ufffd and half a pair ?", '{"a":"?"}', "\ufffd", '{"x":"?"}')
    ]


async def test_values_longer_than_their_column_are_truncated(audit_store: AuditStore) -> None:
    await call("n" * 5000)
    assert audit_store.sql("SELECT length(name) FROM audit_call") == [(500,)]


async def test_an_outcome_is_queued_before_anything_is_awaited(sqlite_store: AuditStore) -> None:
    begun = await recorder.begin(intent())
    recorder.finish(begun, ending()).cancel()
    await wait_until_async(lambda: sqlite_store.outcomes() == {begun.id.hex: "ok"})


async def test_a_call_abandoned_while_it_is_logged_does_not_stay_open(audit_store: AuditStore) -> None:
    await call()
    tasks = [asyncio.create_task(recorder.begin(intent())) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    await recorder.stop(60)
    assert set(audit_store.outcomes().values()) <= {"ok", "cancelled"}
    assert recorder.running() == 0


async def test_a_request_that_waited_too_long_for_something_else_is_logged_by_a_database_that_answers(
    audit_store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MIN_ANSWER_SECONDS", 60.0)

    async def late() -> str:
        asyncio.current_task().arrived = time.monotonic() - 3600  # type: ignore[union-attr]
        await recorder.deny(intent(), ending("refused"))
        return await call()

    identifier = await asyncio.create_task(late())
    assert audit_store.outcomes()[UUID(identifier).hex] == "ok"
    assert sorted(audit_store.outcomes().values()) == ["ok", "refused"]


async def test_calls_at_the_same_time_share_commits(audit_store: AuditStore) -> None:
    ids = await asyncio.gather(*(call() for _ in range(200)))
    assert audit_store.outcomes() == dict.fromkeys(ids, "ok")
    assert audit_store.sql("SELECT count(*) FROM audit_link WHERE kind IN ('begin', 'finish')") == [(400,)]


async def test_an_outcome_is_logged_once(audit_store: AuditStore) -> None:
    begun = await recorder.begin(intent())
    await asyncio.gather(recorder.finish(begun, ending("timeout")), recorder.finish(begun, ending("ok")))
    await recorder.finish(begun, ending("cancelled"))
    assert audit_store.outcomes() == {begun.id.hex: "timeout"}
    assert audit_store.sql("SELECT count(*) FROM audit_link WHERE kind = 'finish'") == [(1,)]


async def test_a_stop_ends_what_is_still_open_and_the_next_call_opens_a_new_chain(audit_store: AuditStore) -> None:
    begun = await recorder.begin(intent())
    await recorder.stop(60)
    assert audit_store.outcomes() == {begun.id.hex: "unknown"}
    assert audit_store.sql("SELECT count(*) FROM audit_writer WHERE ended IS NULL") == [(0,)]
    await call()
    assert len(audit_store.sql("SELECT DISTINCT writer FROM audit_link")) == 2


def test_loops_come_and_go(sqlite_store: AuditStore) -> None:
    first = asyncio.run(call())
    second = asyncio.run(call())
    gc.collect()
    assert sqlite_store.outcomes() == {first: "ok", second: "ok"}
    assert len(sqlite_store.sql("SELECT DISTINCT writer FROM audit_link")) == 1


def test_identifiers_are_versioned_ordered_and_different() -> None:
    ids = [recorder.new_call_id() for _ in range(10_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {(id.version, id.variant) for id in ids} == {(7, "specified in RFC 4122")}


async def test_ready_checks_by_writing(audit_store: AuditStore) -> None:
    assert await recorder.ready() is None


async def test_listeners_hear_of_every_end_after_its_commit(sqlite_store: AuditStore) -> None:
    heard: list[tuple[str, str]] = []

    def listen(ended) -> None:
        there = sqlite_store.outcomes()
        heard.extend((entry.id.hex, there[entry.id.hex]) for entry in ended)

    recorder.add_finish_listener(listen)
    try:
        id = await call()
        refused = await recorder.deny(intent(), ending("refused"))
        await wait_until_async(lambda: heard == [(id, "ok"), (refused.hex, "refused")])
    finally:
        recorder.remove_finish_listener(listen)
