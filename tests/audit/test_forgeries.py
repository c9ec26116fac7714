"""Forty forgeries by SQL alone: each is named, also after the hub has signed its next checkpoint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any, TypeVar

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from audit import recorder
from audit.actions import ledger
from audit.format import chain, timestamps
from audit.format.keys import TrustedKeys
from audit.integrity import checkpoints, proof, verification, verifier
from audit.integrity.checkpoints import SignedCheckpoint
from audit.models import Action, Call, Checkpoint, Link, Verification, Writer
from audit.types import AuditLogUnavailable
from audit.writing.stores.shared import SharedStore
from tests.audit.attempts import call, ending, intent
from tests.audit.forger import Forger
from tests.audit.stores import AuditStore

pytestmark = pytest.mark.usefixtures("late_heartbeat")

T = TypeVar("T")
Forgery = Callable[[Forger], object]
FORGERIES: dict[str, Forgery] = {}
ONLY_WITH_HEAD = {
    "the log is set back to an earlier checkpoint",
    "everything is deleted",
    "everything is deleted and the next calls begin anew",
}
"""Without an external checkpoint these are an older log, or an empty one."""
HARMLESS_AFTER_CHECKPOINT = {
    "a writer is marked as sealed and its newest calls deleted",
    "a writer is marked as covered before it is",
    "the coverage of a sealed writer is given to another",
    "a column of numbers holds text",
}
"""The hub does not believe these columns, and its next checkpoint corrects them. The deleted calls were not covered
yet, and their process was dead: nobody remembers them."""


def forgery(work: Forgery) -> Forgery:
    FORGERIES[work.__name__.strip("_").replace("_", " ")] = work
    return work


# --- calls that a checkpoint covers --------------------------------------------------------------------------------


@forgery
def an_argument_is_edited(forger: Forger) -> None:
    forger.sql("UPDATE audit_call SET arguments = '{}' WHERE link = %s", (forger.covered_call().link,))


@forgery
def a_call_is_edited_and_its_hash_chain_made_to_fit(forger: Forger) -> None:
    target = forger.covered_call()
    forger.sql("UPDATE audit_call SET arguments = '{}', username = 'mallory' WHERE link = %s", (target.link,))
    forger.rehash_call(target)


@forgery
def a_call_is_edited_and_its_hash_chain_and_all_checkpoints_made_to_fit(forger: Forger) -> None:
    a_call_is_edited_and_its_hash_chain_made_to_fit(forger)
    forger.fit_checkpoints()


@forgery
def a_failure_becomes_a_success(forger: Forger) -> None:
    failed = Call.objects.filter(outcome="tool_error").order_by("id")[0]
    forger.sql("UPDATE audit_call SET outcome = 'ok' WHERE link = %s", (failed.link,))
    forger.rehash_call(failed)


@forgery
def a_call_is_deleted(forger: Forger) -> None:
    forger.delete_call(forger.covered_call(), links=False)


@forgery
def a_call_is_deleted_with_its_links(forger: Forger) -> None:
    forger.delete_call(forger.covered_call())


@forgery
def a_call_is_deleted_and_the_gap_is_closed(forger: Forger) -> None:
    forger.delete_call(forger.covered_call())
    forger.close_gap(forger.first)


@forgery
def a_call_is_deleted_and_the_gap_is_closed_up_to_the_checkpoints(forger: Forger) -> None:
    a_call_is_deleted_and_the_gap_is_closed(forger)
    forger.fit_checkpoints()


@forgery
def a_time_is_edited_by_less_than_a_millisecond(forger: Forger) -> None:
    target = forger.covered_call()
    Call.objects.filter(link=target.link).update(started_at=target.started_at + timedelta(microseconds=500))


@forgery
def the_time_of_a_change_is_edited_by_less_than_a_millisecond(forger: Forger) -> None:
    target = Action.objects.order_by("id")[0]
    Action.objects.filter(link=target.link).update(at=target.at + timedelta(microseconds=1))


@forgery
def two_calls_change_places(forger: Forger) -> None:
    one, two = forger.covered_call(1), forger.covered_call(2)
    for old, new in ((one.link, -1), (two.link, one.link), (-1, two.link)):
        forger.sql("UPDATE audit_call SET link = %s WHERE link = %s", (new, old))


@forgery
def the_column_writer_of_a_call_is_changed(forger: Forger) -> None:
    forger.sql("UPDATE audit_call SET writer = %s WHERE link = %s", (forger.last, forger.covered_call().link))


@forgery
def a_call_gets_another_id(forger: Forger) -> None:
    target = forger.covered_call()
    new = "0" * 31 + "7"
    forger.sql("UPDATE audit_call SET id = %s WHERE link = %s", (new, target.link))
    forger.sql("UPDATE audit_link SET subject = %s WHERE subject = %s", (new, target.pk.hex))
    forger.rehash(forger.first, chain.split_link_id(target.link)[1], lambda link: None)


@forgery
def bodies_are_removed_as_if_by_retention(forger: Forger) -> None:
    target = forger.covered_call()
    texts = [chain.PRUNED_PREFIX + chain.body_digest(text) for text in (target.arguments, target.result)]
    forger.sql(
        "UPDATE audit_call SET arguments = %s, result = %s, body_state = 'pruned' WHERE link = %s",
        (*texts, target.link),
    )


@forgery
def a_whole_hash_chain_is_deleted(forger: Forger) -> None:
    forger.delete_after(forger.first, 0)


@forgery
def a_whole_hash_chain_is_deleted_with_its_writer_and_named_in_no_checkpoint(forger: Forger) -> None:
    forger.delete_after(forger.first, 0)
    forger.sql("DELETE FROM audit_writer WHERE id = %s", (forger.first,))
    forger.fit_checkpoints()


# --- calls and changes that never were ------------------------------------------------------------------------------


@forgery
def a_call_is_added_that_no_link_names(forger: Forger) -> None:
    added = forger.add_call(forger.first)
    forger.sql("DELETE FROM audit_link WHERE id = %s", (added.link,))


@forgery
def a_running_call_is_added_that_no_link_names(forger: Forger) -> None:
    added = forger.add_call(forger.first)
    forger.sql("DELETE FROM audit_link WHERE id = %s", (added.link,))
    forger.sql("UPDATE audit_call SET outcome = 'running', end_link = NULL WHERE link = %s", (added.link,))


@forgery
def a_call_is_added_to_the_end_of_a_hash_chain(forger: Forger) -> None:
    forger.add_call(forger.first)


@forgery
def a_call_is_added_with_the_keyed_digest_of_another_link(forger: Forger) -> None:
    mac = Link.objects.filter(writer=forger.first).exclude(mac="").order_by("-id")[0].mac
    forger.add_call(forger.first, mac)


@forgery
def a_call_is_added_with_a_made_up_keyed_digest(forger: Forger) -> None:
    forger.add_call(forger.last, "a" * 32)


@forgery
def a_call_is_added_in_a_hash_chain_of_its_own(forger: Forger) -> None:
    forger.add_writer(555)
    forger.add_call(555)


@forgery
def an_old_call_is_added_in_a_hash_chain_of_its_own_that_is_marked_as_covered(forger: Forger) -> None:
    old = timestamps.from_ms(timestamps.now_ms() - 86_400_000)
    forger.add_writer(555, started=old, heartbeat=old, ended=old)
    forger.add_call(555, started_at=old, ended_at=old)
    forger.sql("UPDATE audit_writer SET covered = 2, sealed = %s WHERE id = 555", (True,))


@forgery
def a_call_is_added_with_a_checkpoint_that_nobody_signed(forger: Forger) -> None:
    a_call_is_added_in_a_hash_chain_of_its_own(forger)
    last = Checkpoint.objects.order_by("number").last()
    assert last is not None
    heads = {555: forger.head(555)}
    forger.write_checkpoint(last.number + 1, last.at, heads, last.hash, last.key, "ab" * 64)


@forgery
def a_call_is_added_with_a_checkpoint_that_has_the_signature_of_another(forger: Forger) -> None:
    a_call_is_added_in_a_hash_chain_of_its_own(forger)
    last = Checkpoint.objects.order_by("number").last()
    assert last is not None
    heads = {555: forger.head(555)}
    forger.write_checkpoint(last.number + 1, last.at, heads, last.hash, last.key, last.signature)


@forgery
def a_link_is_copied_to_the_end_of_its_hash_chain(forger: Forger) -> None:
    sequence, _ = forger.head(forger.last)
    forger.sql(
        "INSERT INTO audit_link (id, writer, sequence, kind, subject, content, hash, mac)"
        " SELECT id + 1, writer, sequence + 1, kind, subject, content, hash, mac FROM audit_link WHERE id = %s",
        (chain.link_id(forger.last, sequence),),
    )


@forgery
def a_change_by_an_administrator_is_added(forger: Forger) -> None:
    forger.add_action(1)


@forgery
def a_change_is_added_in_a_hash_chain_of_its_own(forger: Forger) -> None:
    forger.add_writer(9, host="", pid=0, born=0)
    forger.add_action(9)


@forgery
def a_change_is_edited_and_its_hash_chain_made_to_fit(forger: Forger) -> None:
    target = Action.objects.order_by("id")[0]
    forger.sql("UPDATE audit_action SET actor = 'alice' WHERE link = %s", (target.link,))
    target.actor = "alice"
    fitting = {target.id.hex: forger.action_content(target)}
    forger.rehash(1, 1, lambda link: fitting.get(link.subject))


@forgery
def a_change_is_deleted_and_the_gap_closed(forger: Forger) -> None:
    target = Action.objects.order_by("id")[0]
    forger.sql("DELETE FROM audit_action WHERE link = %s", (target.link,))
    forger.sql("DELETE FROM audit_link WHERE id = %s", (target.link,))
    second = Action.objects.order_by("id")[0]
    forger.close_gap(1)
    forger.sql("UPDATE audit_action SET link = link - 1 WHERE link = %s", (second.link,))


@forgery
def a_call_is_added_with_a_link_before_the_first(forger: Forger) -> None:
    """No hash chain has the sequence 0."""
    added = forger.add_call(forger.first)
    place = chain.link_id(forger.first, 0)
    forger.sql("UPDATE audit_link SET id = %s, sequence = 0 WHERE id = %s", (place, added.link))
    forger.sql("UPDATE audit_call SET link = %s, end_link = %s WHERE link = %s", (place, place, added.link))


@forgery
def a_call_is_added_with_a_link_of_a_negative_number(forger: Forger) -> None:
    added = forger.add_call(forger.first)
    forger.sql("UPDATE audit_link SET id = -5 WHERE id = %s", (added.link,))
    forger.sql("UPDATE audit_call SET link = -5, end_link = -5 WHERE link = %s", (added.link,))


@forgery
def a_call_is_added_with_the_largest_number(forger: Forger) -> None:
    added, largest = forger.add_call(forger.first), 2**63 - 1
    forger.sql("UPDATE audit_link SET id = %s WHERE id = %s", (largest, added.link))
    forger.sql("UPDATE audit_call SET link = %s, end_link = %s WHERE link = %s", (largest, largest, added.link))


@forgery
def a_call_is_added_with_the_smallest_id(forger: Forger) -> None:
    added = forger.add_call(forger.first)
    forger.sql("DELETE FROM audit_link WHERE id = %s", (added.link,))
    forger.sql("UPDATE audit_call SET id = %s WHERE link = %s", ("0" * 32, added.link))


# --- prunes that never were -----------------------------------------------------------------------------------------


@forgery
def calls_are_deleted_behind_a_forged_prune(forger: Forger) -> None:
    forger.add_prune(1, "f" * 32)
    forger.sql("DELETE FROM audit_call")


@forgery
def calls_are_deleted_behind_a_forged_prune_in_a_hash_chain_of_its_own(forger: Forger) -> None:
    forger.add_writer(9, host="", pid=0, born=0)
    forger.add_prune(9, "f" * 32)
    forger.delete_call(forger.covered_call(), links=False)


@forgery
def a_logged_prune_is_made_to_reach_further(forger: Forger) -> None:
    target = Action.objects.get(verb="pruned")
    target.after = target.after.replace(target.after.split('"')[3], "f" * 32)
    forger.sql("UPDATE audit_action SET after = %s WHERE link = %s", (target.after, target.link))
    fitting = {target.id.hex: forger.action_content(target)}
    forger.rehash(1, 1, lambda link: fitting.get(link.subject))
    forger.delete_call(forger.covered_call(), links=False)


# --- coverage and checkpoints ---------------------------------------------------------------------------------------


@forgery
def a_writer_is_marked_as_sealed_and_its_newest_calls_deleted(forger: Forger) -> None:
    forger.sql("UPDATE audit_writer SET sealed = %s WHERE id = %s", (True, forger.last))
    forger.delete_after(forger.last, 1)


@forgery
def a_writer_is_marked_as_covered_before_it_is(forger: Forger) -> None:
    forger.sql("UPDATE audit_writer SET covered = %s WHERE id = %s", (forger.head(forger.last)[0], forger.last))


@forgery
def the_coverage_of_a_sealed_writer_is_given_to_another(forger: Forger) -> None:
    mac = Writer.objects.get(id=forger.first).covered_mac
    forger.sql("UPDATE audit_writer SET sealed = %s, covered_mac = %s WHERE id = %s", (True, mac, forger.last))


@forgery
def the_log_is_set_back_to_an_earlier_checkpoint(forger: Forger) -> None:
    kept = checkpoints.read_heads(Checkpoint.objects.get(number=1).heads)
    forger.sql("DELETE FROM audit_checkpoint WHERE number > 1")
    for writer in Writer.objects.all():
        sequence = kept.get(writer.id, (0, ""))[0]
        first = chain.link_id(writer.id, sequence + 1)
        forger.sql("DELETE FROM audit_action WHERE link >= %s AND link < %s", (first, chain.link_id(writer.id + 1, 0)))
        forger.delete_after(writer.id, sequence)
        forger.sql("UPDATE audit_writer SET covered = 0, sealed = %s, covered_mac = ''", (False,))
        if not sequence:
            forger.sql("DELETE FROM audit_writer WHERE id = %s", (writer.id,))


@forgery
def a_writer_is_deleted_before_its_newest_calls_are_covered(forger: Forger) -> None:
    forger.sql("DELETE FROM audit_writer WHERE id = %s", (forger.last,))


@forgery
def the_newest_checkpoint_is_deleted(forger: Forger) -> None:
    forger.sql("DELETE FROM audit_checkpoint WHERE number = (SELECT max(number) FROM audit_checkpoint)")


@forgery
def all_checkpoints_are_deleted(forger: Forger) -> None:
    forger.sql("DELETE FROM audit_checkpoint")


@forgery
def a_checkpoint_in_the_future_keeps_the_next_one_from_being_due(forger: Forger) -> None:
    forger.sql("UPDATE audit_checkpoint SET at = '2099-01-01 00:00:00' WHERE number = 2")


@forgery
def a_checkpoint_takes_the_largest_number(forger: Forger) -> None:
    forger.sql("UPDATE audit_checkpoint SET number = 9223372036854775807 WHERE number = 2")


@forgery
def everything_is_deleted(forger: Forger) -> None:
    for table in ("call", "action", "link", "writer", "checkpoint", "verification"):
        forger.sql(f"DELETE FROM audit_{table}")


@forgery
def everything_is_deleted_and_the_next_calls_begin_anew(forger: Forger) -> None:
    everything_is_deleted(forger)
    ledger.write("root", "changed", "tool", "1", None, None)


@forgery
def every_table_but_the_calls_is_emptied(forger: Forger) -> None:
    for table in ("action", "link", "writer", "checkpoint"):
        forger.sql(f"DELETE FROM audit_{table}")


IN_SQLITE: dict[str, Forgery] = {}


def in_sqlite(work: Forgery) -> Forgery:
    """SQLite stores any value in any column, and takes two spellings of an id for two ids."""
    IN_SQLITE[work.__name__.replace("_", " ")] = work
    return work


@in_sqlite
def a_call_is_copied_under_another_spelling_of_its_id(forger: Forger) -> None:
    names = ", ".join(str(field.column) for field in Call._meta.fields if field.name not in {"id", "arguments"})
    forger.sql(
        f"INSERT INTO audit_call (id, arguments, {names}) SELECT upper(id), '{{}}', {names} FROM audit_call"
        " WHERE link = %s",
        (forger.covered_call().link,),
    )


@in_sqlite
def a_change_is_copied_under_another_spelling_of_its_id(forger: Forger) -> None:
    names = "at, verb, kind, target, before, after, link"
    forger.sql(
        f"INSERT INTO audit_action (id, actor, {names}) SELECT upper(id), 'x', {names} FROM audit_action LIMIT 1"
    )


@in_sqlite
def a_column_of_numbers_holds_text(forger: Forger) -> None:
    forger.sql("UPDATE audit_writer SET covered = 'x', sealed = 'y' WHERE id = %s", (forger.last,))


@in_sqlite
def a_column_of_times_holds_text(forger: Forger) -> None:
    forger.sql("UPDATE audit_checkpoint SET at = 'x' WHERE number = 2")


@in_sqlite
def a_checkpoint_has_a_name_for_a_number(forger: Forger) -> None:
    forger.sql("UPDATE audit_checkpoint SET number = 'x' WHERE number = 2")


@in_sqlite
def a_call_has_an_id_in_braces(forger: Forger) -> None:
    """The largest text of all: nothing after it would be verified."""
    added = forger.add_call(forger.first)
    forger.sql("DELETE FROM audit_link WHERE id = %s", (added.link,))
    forger.sql("UPDATE audit_call SET id = %s WHERE link = %s", ("{" + "0" * 32 + "}", added.link))


@in_sqlite
def a_call_has_a_urn_for_an_id(forger: Forger) -> None:
    added = forger.add_call(forger.first)
    forger.sql("DELETE FROM audit_link WHERE id = %s", (added.link,))
    forger.sql("UPDATE audit_call SET id = %s WHERE link = %s", ("urn:uuid:" + "0" * 32, added.link))


@in_sqlite
def a_change_has_an_id_that_is_none(forger: Forger) -> None:
    forger.sql("UPDATE audit_action SET id = %s WHERE verb = 'changed'", (b"\xff\x00",))


@in_sqlite
def a_text_is_no_utf_8(forger: Forger) -> None:
    forger.sql("UPDATE audit_call SET detail = CAST(x'ff' AS TEXT) WHERE link = %s", (forger.covered_call().link,))


@in_sqlite
def a_checkpoint_is_no_utf_8(forger: Forger) -> None:
    forger.sql("UPDATE audit_checkpoint SET heads = CAST(x'ff' AS TEXT) WHERE number = 2")


@in_sqlite
def the_id_of_a_link_is_a_text(forger: Forger) -> None:
    forger.sql("UPDATE audit_link SET id = 'x' WHERE id = %s", (forger.covered_call().link,))


IN_POSTGRESQL: dict[str, Forgery] = {}


def in_postgresql(work: Forgery) -> Forgery:
    """PostgreSQL has times that Python cannot read."""
    IN_POSTGRESQL[work.__name__.replace("_", " ")] = work
    return work


@in_postgresql
def a_call_never_started(forger: Forger) -> None:
    forger.sql("UPDATE audit_call SET started_at = 'infinity' WHERE link = %s", (forger.covered_call().link,))


@in_postgresql
def a_checkpoint_is_signed_at_the_end_of_time(forger: Forger) -> None:
    forger.sql("UPDATE audit_checkpoint SET at = 'infinity' WHERE number = 2")


@in_postgresql
def a_change_was_made_before_the_year_one(forger: Forger) -> None:
    forger.sql("UPDATE audit_action SET at = '4000-01-01 BC' WHERE verb = 'changed'")


# --- the tests --------------------------------------------------------------------------------------------------------


async def log_calls(count: int, *, stop: bool = True) -> None:
    for number in range(count):
        await call(f"tool_{number}", "ok" if number % 2 else "tool_error")
    await recorder.deny(intent("nowhere"), recorder.Ending("unknown_tool"))
    if stop:
        await recorder.stop(60)


@pytest.fixture
def forger(audit_store: AuditStore, settings: Any) -> Forger:
    """Calls, changes and a prune that checkpoints cover, and a process that died after more calls."""
    settings.CHECKPOINT_FILE = str(audit_store.folder / "heads.jsonl")
    settings.CHECKPOINT_SECONDS = 10**6
    asyncio.run(log_calls(5))
    ledger.write("root", "changed", "tool", "calculate_sum", {"title": "Sum"}, {"title": "Total"})
    ledger.write("root", "pruned", "calls", "rows", None, {"before": "0" * 32, "what": "rows"})
    asyncio.run(log_calls(2))
    recorder.audit_log().run_once(lambda writer: None)  # a chain that nobody closed with a checkpoint
    asyncio.run(log_calls(3, stop=False))
    writer = recorder.audit_log().writer
    assert writer is not None and writer.chain is not None
    writer._on_close = None  # as if it was killed: no last checkpoint
    last = writer.chain.writer
    recorder.stop_now(60)
    report = verification.run(read_heads(audit_store), store=False)
    assert report.problems == [] and report.uncovered >= 7
    return Forger(101, last)


async def apart(work: Callable[[], T]) -> T:
    """Work in another thread, on a connection of its own."""

    def run() -> T:
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(run)


def list_forgeries(store: AuditStore) -> list[tuple[str, Forgery]]:
    return [*FORGERIES.items(), *(IN_SQLITE if store.vendor == "sqlite" else IN_POSTGRESQL).items()]


def read_heads(store: AuditStore) -> list[SignedCheckpoint]:
    return checkpoints.read_file(store.folder / "heads.jsonl")


def test_every_forgery_by_sql_is_found(forger: Forger, audit_store: AuditStore) -> None:
    assert len(FORGERIES) >= 40
    heads = read_heads(audit_store)
    unseen = []
    for name, work in list_forgeries(audit_store):
        with transaction.atomic():
            work(forger)
            if verification.run(heads, store=False).ok:
                unseen.append(f"{name}, with the external checkpoints")
            if verification.run(store=False).ok != (name in ONLY_WITH_HEAD):
                unseen.append(f"{name}, without external checkpoints")
            transaction.set_rollback(True)
    assert not unseen, "\n".join(unseen)
    assert verification.run(heads, store=False).ok


def test_no_forgery_is_vouched_for_by_the_next_checkpoint(
    forger: Forger, audit_store: AuditStore, settings: Any
) -> None:
    """The hub goes on: it logs the next change and signs. A public key alone then finds the forgery, too."""
    heads = read_heads(audit_store)
    public = TrustedKeys(TrustedKeys.from_settings().keys, False)
    settings.CHECKPOINT_FILE = ""
    unseen = []
    for name, work in list_forgeries(audit_store):
        with transaction.atomic():
            work(forger)
            ledger.write("root", "changed", "tool", "next", None, None)
            assert checkpoints.sign(SharedStore()) is not None, name
            report = verification.run(heads, store=False)
            if report.ok != (name in HARMLESS_AFTER_CHECKPOINT) or (report.ok and report.uncovered):
                unseen.append(name)
            report = verification.run(heads, store=False, trusted=public)
            if report.ok and not report.uncovered and name not in HARMLESS_AFTER_CHECKPOINT:
                unseen.append(f"{name}, with the public key alone")
            transaction.set_rollback(True)
    assert not unseen, "\n".join(unseen)


def test_a_forged_prune_does_not_explain_a_missing_call(forger: Forger) -> None:
    """Both are named: the prune, and the call that it should hide."""
    target = forger.covered_call()
    forger.add_prune(1, "f" * 32)
    forger.delete_call(target, links=False)
    problems = verification.run(store=False).problems
    assert {"call_deleted", "not_authentic"} <= {one.finding.code for one in problems}
    assert str(target.pk) in {one.subject.name for one in problems}


def test_calls_deleted_from_a_process_that_is_alive_are_missed_by_its_next_checkpoint(audit_store: AuditStore) -> None:
    """Nobody signed them yet, but the process knows the head of its own hash chain."""

    async def scenario() -> None:
        await log_calls(3, stop=False)
        await asyncio.to_thread(audit_store.sql, "DELETE FROM audit_call WHERE outcome = 'unknown_tool'")
        await asyncio.to_thread(audit_store.sql, "DELETE FROM audit_link WHERE kind = 'refused'")
        await recorder.stop(60)

    asyncio.run(scenario())
    report = verification.run(store=False)
    assert "missing: the newest entries were deleted, but checkpoint 1 names it" in report.first


def test_a_process_that_is_alive_is_covered_although_it_is_marked_as_sealed(audit_store: AuditStore) -> None:
    async def scenario() -> None:
        await log_calls(1, stop=False)
        sealed = "1" if audit_store.vendor == "sqlite" else "true"
        await asyncio.to_thread(audit_store.sql, f"UPDATE audit_writer SET sealed = {sealed}, ended = started")
        await log_calls(1)

    asyncio.run(scenario())
    assert verification.run(store=False).ok
    newest = Call.objects.latest("id")
    Forger(101, 101).delete_call(newest)
    assert "the newest entries were deleted" in verification.run(store=False).first


def test_an_action_is_not_written_behind_a_forged_one(audit_store: AuditStore) -> None:
    first = ledger.write("root", "changed", "tool", "1", None, None)
    Forger(1, 1).add_action(1)
    second = ledger.write("root", "changed", "tool", "2", None, None)
    assert [chain.split_link_id(one.link) for one in (first, second)] == [(1, 2), (2, 2)]
    assert "not_authentic" in {one.finding.code for one in verification.run(store=False).problems}


def test_an_administrator_can_still_sign_in_when_every_hash_chain_of_changes_was_forged(
    audit_store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change needs an entry. The next chain has a number that nobody can guess, and is used from then on."""
    for number in range(1, chain.LAST_ACTION_CHAIN + 1):
        Forger(1, 1).add_writer(number, host="", pid=0, born=0)
    numbers = [chain.split_link_id(ledger.write("root", "signed in", "user", "1", None, None).link) for _ in range(3)]
    assert numbers[0][0] > chain.LAST_ACTION_CHAIN
    assert numbers == [(numbers[0][0], sequence) for sequence in (2, 3, 4)]
    Forger(1, 1).add_action(numbers[0][0])
    assert chain.split_link_id(ledger.write("root", "signed in", "user", "1", None, None).link)[0] != numbers[0][0]
    asyncio.run(log_calls(1))
    signed = checkpoints.read_heads(Checkpoint.objects.latest("number").heads)
    assert signed[numbers[0][0]][0] == 4, "the genuine ones are covered, the forged one is not"
    monkeypatch.setattr("audit.writing.leases.random_number", lambda: 1)
    Forger(1, 1).add_action(ledger.write("root", "changed", "tool", "1", None, None).link >> chain.SEQUENCE_BITS)
    with pytest.raises(AuditLogUnavailable, match="run verifycalls"):
        ledger.write("root", "changed", "tool", "1", None, None)


def test_forged_checkpoints_neither_delay_the_next_one_nor_take_its_number(
    audit_store: AuditStore, settings: Any
) -> None:
    settings.CHECKPOINT_SECONDS = 300
    asyncio.run(log_calls(1))
    store = SharedStore()
    assert not checkpoints.is_due(store)
    genuine = Checkpoint.objects.get()
    for number in (2, 3, 2**63 - 1):
        Checkpoint.objects.create(
            number=number, at=genuine.at, heads="{}", previous="0", hash="0", key=genuine.key, signature="00"
        )
    assert not checkpoints.is_due(store), "the genuine one is new"
    settings.CHECKPOINT_SECONDS = 0
    assert checkpoints.is_due(store), "however new the forged ones are"
    ledger.write("root", "changed", "tool", "1", None, None)
    signed = checkpoints.sign(store)
    assert signed is not None and signed.number == 4 and signed.previous == genuine.hash
    Checkpoint.objects.filter(number=4).delete()
    Checkpoint.objects.filter(number=1).update(at=timestamps.from_ms(timestamps.now_ms() + 10**9))
    settings.CHECKPOINT_SECONDS = 300
    assert checkpoints.is_due(store)


def test_any_number_of_forged_checkpoints_changes_nothing_once_they_are_deleted(
    audit_store: AuditStore, settings: Any
) -> None:
    asyncio.run(log_calls(1))
    genuine = Checkpoint.objects.get()
    row = {"at": genuine.at, "heads": "{}", "previous": "0", "hash": "0", "key": genuine.key, "signature": "00"}
    Checkpoint.objects.bulk_create(Checkpoint(number=number, **row) for number in range(2, 1_202))
    ledger.write("root", "changed", "tool", "1", None, None)
    signed = checkpoints.sign(SharedStore())
    assert signed is not None and (signed.number, signed.previous) == (1_202, genuine.hash)
    assert len(verification.run(store=False).problems) == verification.MAX_PROBLEMS
    Checkpoint.objects.filter(number__in=range(2, 1_202)).delete()
    assert verification.run(store=False).problems == []
    Checkpoint.objects.filter(number=1).delete()
    assert verification.run(store=False).first == "checkpoint 1: missing: deleted"


def test_a_writer_whose_row_is_deleted_for_a_while_is_covered_all_the_same(
    forger: Forger, audit_store: AuditStore
) -> None:
    columns = Writer.objects.filter(id=forger.last).values().get()
    forger.sql("DELETE FROM audit_writer WHERE id = %s", (forger.last,))
    signed = checkpoints.sign(SharedStore())
    assert signed is not None and forger.last in checkpoints.read_heads(signed.heads)
    forger.delete_after(forger.last, 1)
    Writer.objects.create(**columns)
    report = verification.run(store=False)
    assert f"missing: the newest entries were deleted, but checkpoint {signed.number} names it" in report.first


def test_what_is_lost_with_the_end_of_a_hash_chain_is_named_although_the_process_began_a_new_one(
    audit_store: AuditStore,
) -> None:
    async def scenario() -> None:
        await log_calls(2, stop=False)
        await asyncio.to_thread(audit_store.sql, "DELETE FROM audit_call WHERE outcome = 'unknown_tool'")
        await asyncio.to_thread(audit_store.sql, "DELETE FROM audit_link WHERE kind = 'refused'")
        writer = recorder.audit_log().writer
        assert writer is not None
        writer.store.close()  # type: ignore[union-attr]
        await log_calls(1)

    asyncio.run(scenario())
    assert Writer.objects.filter(id__gt=chain.LAST_ACTION_CHAIN).count() == 2
    assert "missing: the newest entries were deleted, but checkpoint 1 names it" in verification.run(store=False).first


def test_calls_go_on_when_a_link_is_added_at_the_next_number_of_a_process_that_is_alive(
    audit_store: AuditStore,
) -> None:
    async def scenario() -> None:
        await call("before")
        begun = await recorder.begin(intent("during"))
        await apart(lambda: Forger(101, 101).add_link(101, chain.REFUSED, "0" * 32, "0" * 64))
        await call("after")
        writer = recorder.audit_log().writer
        assert writer is not None
        writer._next_heartbeat = 0.0
        await call("after a heartbeat")
        await recorder.finish(begun, ending())
        await recorder.stop(60)

    asyncio.run(scenario())
    assert {(row.name, row.outcome) for row in Call.objects.all()} == {
        (name, "ok") for name in ("before", "during", "after", "after a heartbeat")
    }
    problems = verification.run(store=False).problems
    assert [one.finding.code for one in problems] == ["call_deleted", "not_authentic"]
    assert {str(one.subject) for one in problems} == {"call 00000000-0000-0000-0000-000000000000 (link 101:5, refused)"}


def test_a_process_can_register_beside_the_largest_numbers(audit_store: AuditStore) -> None:
    forger = Forger(101, 101)
    forger.add_writer(chain.MAX_WRITER)
    for number in (2**62, 2**63 - 1):
        row = {"host": "", "pid": 0, "born": 0, "covered": 0, "sealed": False}
        now = timestamps.from_ms(timestamps.now_ms())
        Writer.objects.create(id=number, started=now, heartbeat=now, **row)
    forger.sql(
        "INSERT INTO audit_link (id, writer, sequence, kind, subject, content, hash, mac)"
        " VALUES (%s, 1, 1, 'x', '', '', '', '')",
        (2**63 - 1,),
    )
    asyncio.run(log_calls(2))
    assert Call.objects.count() == 3
    assert Writer.objects.filter(id__gt=100, id__lt=chain.MAX_WRITER).count() == 1
    assert checkpoints.read_heads(Checkpoint.objects.latest("number").heads).keys() == {Call.objects.first().writer}  # type: ignore[union-attr]


def test_rows_that_cannot_be_read_stop_neither_checkpoints_nor_pages(
    forger: Forger, audit_store: AuditStore, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if audit_store.vendor == "sqlite":
        forger.sql("INSERT INTO audit_checkpoint VALUES (9, 'x', x'ff', 'x', 'x', 'x', CAST(x'ff' AS TEXT))")
        forger.sql("INSERT INTO audit_checkpoint VALUES ('x', '2026-01-01', x'ff', 'x', 'x', 'x', 'x')")
        forger.sql("INSERT INTO audit_checkpoint VALUES (8, '2026-01-01', x'ff', 'x', 'x', 'x', CAST(x'ff' AS TEXT))")
    else:
        forger.sql("INSERT INTO audit_checkpoint VALUES (9, 'infinity', 'x', 'x', 'x', 'x', 'x')")
        forger.sql("UPDATE audit_writer SET heartbeat = 'infinity' WHERE id = %s", (forger.first,))
    call_of_first = forger.covered_call()
    asyncio.run(log_calls(1))
    signed = checkpoints._find_last(SharedStore())
    assert signed is not None and signed.number >= 3
    assert proof.compute(call_of_first).tone == "success"
    report = verification.run()
    assert "unreadable" in {one.finding.code for one in report.problems}
    assert "the audit log was changed" in caplog.text
    assert verifier.state().tone == "danger"
    if audit_store.vendor == "postgresql":
        forger.sql("UPDATE audit_verification SET at = 'infinity'")
    else:
        forger.sql("UPDATE audit_verification SET at = 'x'")
    assert verifier.state().tone == "warning"


def test_an_outage_is_no_problem_of_the_log(forger: Forger, audit_store: AuditStore) -> None:
    forger.sql("ALTER TABLE audit_verification RENAME TO away")
    with pytest.raises(DatabaseError):
        verification.run()
    forger.sql("ALTER TABLE away RENAME TO audit_verification")
    assert not Verification.objects.exists()


def test_the_end_of_a_call_cannot_be_written_before_it_ended(audit_store: AuditStore) -> None:
    async def scenario() -> None:
        begun = await recorder.begin(intent("running"))
        assert await apart(lambda: verification.run(store=False).problems) == []
        for column, value in {
            "detail": "'done'",
            "result": "'4'",
            "duration_us": "5",
            "ended_at": "started_at",
        }.items():
            sql = f"UPDATE audit_call SET {column} = {value}"
            kept = await asyncio.to_thread(audit_store.sql, f"SELECT {column} FROM audit_call")
            await asyncio.to_thread(audit_store.sql, sql)
            found = await apart(lambda: verification.run(store=False).first)
            assert found.endswith("its end was edited before the call ended"), (column, found)
            back = "NULL" if kept[0][0] is None else f"'{kept[0][0]}'"
            await asyncio.to_thread(audit_store.sql, f"UPDATE audit_call SET {column} = {back}")
        await recorder.finish(begun, ending())
        await recorder.stop(60)

    asyncio.run(scenario())
    assert verification.run(store=False).problems == []


def test_an_empty_log_is_not_intact_when_the_external_checkpoint_names_entries(
    forger: Forger, audit_store: AuditStore
) -> None:
    everything_is_deleted(forger)
    out = StringIO()
    with pytest.raises(SystemExit) as exit:
        call_command("verifycalls", head=audit_store.folder / "heads.jsonl", stdout=out)
    assert exit.value.code == 1
    assert out.getvalue().startswith("BROKEN link 101:")


def test_entries_after_the_last_checkpoint_are_reported_as_not_yet_covered(
    forger: Forger, audit_store: AuditStore
) -> None:
    head = audit_store.folder / "heads.jsonl"
    out = StringIO()
    call_command("verifycalls", head=head, stdout=out)
    first, second = out.getvalue().splitlines()
    assert first.startswith("OK ") and second.startswith("NOT YET COVERED ")
    assert "the last checkpoint is 2, signed at 20" in second
    forger.sql("DELETE FROM audit_checkpoint")
    forger.sql("UPDATE audit_writer SET covered = 0, sealed = %s, covered_mac = ''", (False,))
    out = StringIO()
    call_command("verifycalls", stdout=out)
    assert out.getvalue().startswith("NOT YET COVERED ") and "OK" not in out.getvalue()


def test_a_verification_that_was_added_or_edited_is_not_believed(forger: Forger, settings: Any) -> None:
    settings.VERIFY_SECONDS = 3_600
    verification.run()
    assert verifier.state().tone == "success"
    kept = Verification.objects.get()
    forger.sql("UPDATE audit_verification SET through = 'ffff'")
    assert verifier.state().text == "The audit log has not been verified yet." and verifier.is_due()
    forger.sql("UPDATE audit_verification SET through = %s", (kept.through,))
    assert not verifier.is_due()
    forger.delete_call(forger.covered_call())
    verification.run()
    assert verifier.state().tone == "danger"
    Verification.objects.create(id="f" * 32, at=kept.at, ok=True, through=kept.through, links=5, outside_head=True)
    assert verifier.state().tone == "danger"


def test_old_entries_without_a_checkpoint_are_named_with_the_public_key_alone(forger: Forger, settings: Any) -> None:
    an_old_call_is_added_in_a_hash_chain_of_its_own_that_is_marked_as_covered(forger)
    public = TrustedKeys(TrustedKeys.from_settings().keys, False)
    settings.RECORD_KEY = settings.SECRET_KEY = "of another machine " * 3
    found = verification.run(store=False, trusted=public).first
    # On a slow machine there is one more, made with the first heartbeat.
    assert re.search(r"added outside the log: it is older than checkpoint [23], which does not cover it", found)
