"""Tampering by SQL: every kind of it is found and named, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core import serializers
from django.core.management import CommandError, call_command
from django.db import connections

from audit import recorder
from audit.actions import ledger
from audit.format import chain
from audit.format.uuid7 import new_id
from audit.integrity import messages, verification
from audit.models import Action, Call, Checkpoint, Link, Verification, Writer
from tests.audit.attempts import call, ending, intent
from tests.audit.stores import AuditStore, Cluster, open_store, postgres_database

MODELS = (Call, Action, Writer, Link, Checkpoint, Verification)
STRING, NUMBER, TIME = "'tampered'", "987654321", "'2020-01-02 03:04:05.678'"
COLUMNS = {
    **dict.fromkeys(
        (
            *("username", "credential_id", "credential", "client_name", "client_version", "transport", "revision"),
            *("address", "method", "name", "definition", "rule", "rule_reason", "request_id", "arguments", "outcome"),
            *("error_class", "detail", "detail_reason", "result", "result_sha256"),
        ),
        STRING,
    ),
    **dict.fromkeys(("user_id", "target_id", "result_bytes", "duration_us", "writer", "link", "end_link"), NUMBER),
    **dict.fromkeys(("started_at", "ended_at"), TIME),
    "body_state": "'pruned'",
}


@pytest.fixture
def filled_store(audit_store: AuditStore, settings: Any) -> AuditStore:
    """Some calls, a refusal, an action and two checkpoints; on a slow machine one more, with the first heartbeat."""
    settings.CHECKPOINT_FILE = str(audit_store.folder / "heads.jsonl")
    settings.CHECKPOINT_SECONDS = 10**6

    async def calls(count: int) -> None:
        for number in range(count):
            await call(f"tool_{number}", "ok" if number % 2 else "tool_error")
        await recorder.deny(intent("nowhere"), recorder.Ending("unknown_tool"))
        await recorder.stop(60)

    asyncio.run(calls(6))
    ledger.write("root", "changed", "tool", "calculate_sum", {"title": "Sum"}, {"title": "Total"})
    ledger.write("root", "deleted", "grant", "4", {"who": "alice"}, None)
    asyncio.run(calls(4))
    assert verification.run(store=False).problems == []
    return audit_store


def find_first_problem() -> str:
    return verification.run(store=False).first


def get_call_id(store: AuditStore, position: int) -> str:
    """The id of a call, as SQL has it."""
    return str(store.sql("SELECT id FROM audit_call ORDER BY id")[position][0])


def canonical(id: str) -> str:
    return f"{id[:8]}-{id[8:12]}-{id[12:16]}-{id[16:20]}-{id[20:]}" if "-" not in id else id


@contextmanager
def edit_value(store: AuditStore, table: str, key: str, column: str, value: str) -> Iterator[None]:
    """One value in one row is another, and then what it was."""
    mark = "?" if store.vendor == "sqlite" else "%s"
    with store.connection() as connection:
        before = connection.execute(f"SELECT {column} FROM {table} WHERE {key}").fetchone()[0]
        assert connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {key}").rowcount == 1
        try:
            yield
        finally:
            renamed = key if column not in key else f"{column} = {value}"
            connection.execute(f"UPDATE {table} SET {column} = {mark} WHERE {renamed}", (before,))


def test_an_edit_of_any_column_of_a_call_is_found(filled_store: AuditStore) -> None:
    id = get_call_id(filled_store, 2)
    for column, value in COLUMNS.items():
        with edit_value(filled_store, "audit_call", f"id = '{id}'", column, value):
            assert f"call {canonical(id)}" in find_first_problem(), column
    assert find_first_problem() == ""


def test_no_column_of_a_call_is_left_out() -> None:
    assert {field.attname for field in Call._meta.fields} - set(COLUMNS) == {"id"}


def test_a_call_under_another_id_is_found(filled_store: AuditStore) -> None:
    id, new = get_call_id(filled_store, 2), new_id()
    filled_store.sql(f"UPDATE audit_call SET id = '{new.hex}' WHERE id = '{id}'")
    found = "\n".join(map(str, verification.run(store=False).problems))
    assert f"call {canonical(id)}" in found
    assert f"call {new}: Added outside the log" in found


def test_an_edit_of_any_column_of_an_action_a_link_a_writer_or_a_checkpoint_is_found(filled_store: AuditStore) -> None:
    action = filled_store.sql("SELECT id FROM audit_action WHERE target = '4'")[0][0]
    link = filled_store.sql("SELECT id FROM audit_link WHERE kind = 'finish' ORDER BY id")[2][0]
    writer, sequence = chain.split_link_id(link)
    rows = {
        ("audit_action", f"id = '{action}'", f"action {canonical(str(action))}"): {
            **dict.fromkeys(("actor", "verb", "kind", "target", "before", "after"), STRING),
            "at": TIME,
            "link": NUMBER,
        },
        ("audit_link", f"id = {link}", f"{writer}:{sequence}"): {
            **dict.fromkeys(("kind", "subject", "content", "hash"), STRING),
            "writer": NUMBER,
            "sequence": NUMBER,
        },
        ("audit_writer", f"id = {writer}", "its writer was edited"): {
            "host": STRING,
            "pid": NUMBER,
            "born": NUMBER,
            "started": TIME,
        },
        ("audit_writer", "id = 1", "covered or sealed of its writer was edited"): {
            "covered": NUMBER,
            "sealed": "'1'" if filled_store.vendor == "sqlite" else "true",
        },
        ("audit_checkpoint", "number = 1", "checkpoint 1"): {
            **dict.fromkeys(("previous", "hash", "key", "signature"), STRING),
            "at": TIME,
            "heads": "'{}'",
        },
    }
    for (table, key, named), columns in rows.items():
        for column, value in columns.items():
            with edit_value(filled_store, table, key, column, value):
                assert named in find_first_problem(), (table, column)
    assert find_first_problem() == ""


def test_a_call_that_is_deleted_in_the_middle_is_named(filled_store: AuditStore) -> None:
    id = get_call_id(filled_store, 3)
    filled_store.sql(f"DELETE FROM audit_call WHERE id = '{id}'")
    assert f"call {canonical(id)}" in find_first_problem()
    assert "the call was deleted" in find_first_problem()
    report = verification.run()
    kept = Verification.objects.get()
    assert messages.problem_of(kept) == report.problems[0] and kept.problem == report.first
    assert (report.problems[0].subject.name, report.problems[0].finding.code) == (canonical(id), "call_deleted")
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("verifycalls", "--json", stdout=out)
    said = json.loads(out.getvalue())["findings"][0]
    assert said["problem"] == report.first and (said["code"], said["params"]) == ("call_deleted", {})


def test_a_call_that_is_deleted_with_its_links_leaves_a_gap(filled_store: AuditStore) -> None:
    id = get_call_id(filled_store, 3).replace("-", "")
    link = filled_store.sql(f"SELECT min(id) FROM audit_link WHERE subject = '{id}'")[0][0]
    filled_store.sql(f"DELETE FROM audit_call WHERE id = '{id}'")
    filled_store.sql(f"DELETE FROM audit_link WHERE subject = '{id}'")
    assert "link {}:{} to".format(*chain.split_link_id(link)) in find_first_problem()
    assert "missing: deleted" in find_first_problem()


def test_a_call_that_is_inserted_outside_the_hash_chain_is_named(filled_store: AuditStore) -> None:
    names = ", ".join(str(field.column) for field in Call._meta.fields if field.name != "id")
    new = new_id()
    copied = f"SELECT '{new.hex}', {names} FROM audit_call WHERE name = 'nowhere' LIMIT 1"
    filled_store.sql(f"INSERT INTO audit_call (id, {names}) {copied}")
    assert find_first_problem().startswith(f"call {new}: Added outside the log")


def test_an_action_that_is_inserted_is_named(filled_store: AuditStore) -> None:
    new = new_id()
    rest = "at, actor, verb, kind, target, before, after, link"
    filled_store.sql(f"INSERT INTO audit_action (id, {rest}) SELECT '{new.hex}', {rest} FROM audit_action LIMIT 1")
    assert find_first_problem().startswith(f"action {new}: Added outside the log")


def test_a_link_that_is_inserted_is_found(filled_store: AuditStore) -> None:
    writer, sequence = filled_store.sql(
        "SELECT writer, max(sequence) FROM audit_link WHERE writer > 100 GROUP BY writer"
    )[0]
    filled_store.sql(
        "INSERT INTO audit_link (id, writer, sequence, kind, subject, content, hash)"
        f" SELECT {chain.link_id(writer, sequence + 1)}, writer, {sequence + 1}, kind, subject, content, hash"
        f" FROM audit_link WHERE id = {chain.link_id(writer, sequence)}"
    )
    assert f"{writer}:{sequence + 1}" in find_first_problem()


def test_two_calls_that_changed_places_are_found(filled_store: AuditStore) -> None:
    """The links are swapped as well as the calls' references to them."""
    one, two = (row[0] for row in filled_store.sql("SELECT id FROM audit_link WHERE kind = 'refused' ORDER BY id"))
    spare = chain.link_id(999, 1)
    for old, new in ((one, spare), (two, one), (spare, two)):
        writer, sequence = chain.split_link_id(new)
        filled_store.sql(f"UPDATE audit_link SET id = {new}, writer = {writer}, sequence = {sequence} WHERE id = {old}")
        filled_store.sql(f"UPDATE audit_call SET link = {new}, end_link = {new} WHERE link = {old}")
    assert "changed, replaced or moved" in find_first_problem()


def test_a_call_that_is_replaced_with_its_digests_made_to_fit_is_found(filled_store: AuditStore) -> None:
    """The hash chain can be computed without a key. The checkpoint's signature cannot."""
    row = Call.objects.filter(outcome="unknown_tool").order_by("id")[0]
    Call.objects.filter(pk=row.pk).update(name="another")
    writer, sequence = chain.split_link_id(row.link)
    previous = Link.objects.get(id=chain.link_id(writer, sequence - 1)).hash
    for link in Link.objects.filter(id__gte=row.link, id__lt=chain.link_id(writer + 1, 0)).order_by("id"):
        if link.id == row.link:
            link.content = _content(row.pk)
        link.hash = previous = chain.link_hash(writer, link.sequence, previous, link.kind, link.subject, link.content)
        link.save()
    report = verification.run(store=False)
    assert f"link {writer}:" in report.first
    assert "does not match the hash in checkpoint" in report.first


def _content(pk: Any) -> str:
    from audit.format import timestamps

    row = Call.objects.values_list(*chain.BEGIN_COLUMNS, *chain.END_COLUMNS).get(pk=pk)
    values = list(row)
    started, arguments, ended, result = (
        (*chain.BEGIN_COLUMNS, *chain.END_COLUMNS).index(name)
        for name in ("started_at", "arguments", "ended_at", "result")
    )
    values[0] = values[0].hex
    values[started], values[ended] = timestamps.to_ms(values[started]), timestamps.to_ms(values[ended])
    values[arguments], values[result] = chain.body_digest(values[arguments]), chain.body_digest(values[result])
    return chain.content(values)


def cut_newest(store: AuditStore, count: int) -> str:
    """The newest calls go, with their links and every checkpoint that knows them. The newest link that went."""
    newest = store.sql(f"SELECT id, link, end_link FROM audit_call ORDER BY id DESC LIMIT {count}")
    oldest = min(row[1] for row in newest)
    writer, sequence = chain.split_link_id(max(row[2] for row in newest))
    store.sql(f"DELETE FROM audit_call WHERE link >= {oldest}")
    store.sql(f"DELETE FROM audit_link WHERE id >= {oldest}")
    store.sql("DELETE FROM audit_checkpoint WHERE number > 1")
    store.sql("UPDATE audit_writer SET covered = 0, covered_mac = ''")
    store.sql(f"UPDATE audit_writer SET sealed = {'0' if store.vendor == 'sqlite' else 'false'}")
    return f"link {writer}:{sequence}"


def test_deleting_the_newest_entries_and_checkpoints_is_noticed_by_an_external_checkpoint(
    filled_store: AuditStore,
) -> None:
    head = filled_store.folder / "heads.jsonl"
    missing = cut_newest(filled_store, 3)
    out = StringIO()
    with pytest.raises(SystemExit) as exit:
        call_command("verifycalls", head=head, stdout=out)
    assert exit.value.code == 1
    assert out.getvalue().startswith(f"BROKEN {missing}: missing: the newest entries were deleted")


def test_without_an_external_checkpoint_the_command_names_its_limits(filled_store: AuditStore) -> None:
    cut_newest(filled_store, 3)
    out = StringIO()
    call_command("verifycalls", stdout=out)
    assert "OK" not in out.getvalue()
    assert "No external checkpoint was given (--head FILE)" in out.getvalue()


def test_a_checkpoint_that_is_deleted_is_found(filled_store: AuditStore) -> None:
    filled_store.sql("DELETE FROM audit_checkpoint WHERE number = 1")
    assert find_first_problem() == "checkpoint 1: missing: deleted"


def test_another_key_does_not_sign_for_this_one(filled_store: AuditStore, settings: Any) -> None:
    settings.RECORD_KEY = "another-key-" * 5
    assert "is signed with key" in find_first_problem()


def test_a_hash_chain_that_is_removed_completely_is_found(filled_store: AuditStore) -> None:
    filled_store.sql("DELETE FROM audit_checkpoint")
    filled_store.sql("DELETE FROM audit_link WHERE writer = 101")
    filled_store.sql("DELETE FROM audit_call WHERE writer = 101")
    assert find_first_problem().startswith("link 101:1: missing")


def test_a_file_without_a_checkpoint_is_no_external_checkpoint(filled_store: AuditStore, tmp_path: Path) -> None:
    file = tmp_path / "nothing"
    file.write_text("no head\n")
    with pytest.raises(CommandError, match="contains no checkpoint"):
        call_command("verifycalls", head=file)
    with pytest.raises(CommandError, match="No such file"):
        call_command("verifycalls", head=tmp_path / "nowhere")


def test_an_intact_log_matches_its_external_checkpoint_and_the_result_is_stored(filled_store: AuditStore) -> None:
    out = StringIO()
    call_command("verifycalls", head=filled_store.folder / "heads.jsonl", json=True, stdout=out)
    result = json.loads(out.getvalue())
    assert result | {"links": 0} == {
        "ok": True,
        "first": None,
        "problems": [],
        "findings": [],
        "outside_head": True,
        "through": str(Call.objects.latest("id").pk),
        "links": 0,
        "covered": result["links"],
        "uncovered": 0,
        "checkpoint": Checkpoint.objects.latest("number").number,
        "calls": 12,
        "chains": 3,
        "checkpoints": Checkpoint.objects.count(),
    }
    kept = Verification.objects.get()
    assert (kept.ok, kept.problem, kept.through, kept.outside_head) == (True, "", result["through"], True)
    out = StringIO()
    call_command("verifycalls", head=filled_store.folder / "heads.jsonl", recent=True, stdout=out)
    assert out.getvalue().startswith("OK ")


def test_entries_after_the_last_checkpoint_are_checked_alone(filled_store: AuditStore) -> None:
    async def more() -> None:
        await call("newest")

    asyncio.run(more())
    assert verification.run(recent=True, store=False).problems == []
    filled_store.sql("UPDATE audit_call SET outcome = 'timeout' WHERE name = 'newest'")
    assert "its end was edited" in verification.run(recent=True, store=False).first


def test_rows_deleted_by_retention_are_not_reported_and_others_are(filled_store: AuditStore) -> None:
    ids = [row.hex for row in Call.objects.order_by("id").values_list("id", flat=True)]
    ledger.write("retention", "pruned", "calls", "bodies", None, {"what": "bodies", "before": ids[4]})
    ledger.write("retention", "pruned", "calls", "rows", None, {"what": "rows", "before": ids[2]})
    Call.objects.filter(id__lt=ids[2]).delete()
    for row in Call.objects.filter(id__lt=ids[4]):
        row.arguments = chain.PRUNED_PREFIX + chain.body_digest(row.arguments)
        row.result = chain.PRUNED_PREFIX + chain.body_digest(row.result)
        row.body_state = "pruned"
        row.save()
    assert verification.run(store=False).problems == []
    Call.objects.filter(id=ids[4]).update(body_state="pruned", arguments=chain.PRUNED_PREFIX + "0" * 64)
    assert "not by a logged prune" in find_first_problem()
    Call.objects.filter(id__in=ids[4:6]).delete()
    assert "the call was deleted" in find_first_problem()


def test_an_audit_log_in_use_is_intact(filled_store: AuditStore) -> None:
    async def scenario() -> None:
        begun = [await recorder.begin(intent()) for _ in range(3)]
        report = await asyncio.to_thread(_verify_in_thread)
        assert report.problems == []
        await asyncio.gather(*(recorder.finish(one, ending()) for one in begun))

    asyncio.run(scenario())


def _verify_in_thread() -> verification.Report:
    try:
        return verification.run(store=False)
    finally:
        connections["default"].close()


@pytest.mark.postgres
def test_a_dump_of_sqlite_verifies_in_postgresql(
    sqlite_store: AuditStore, cluster: Cluster, settings: Any, tmp_path: Path
) -> None:
    settings.CHECKPOINT_FILE = str(tmp_path / "heads.jsonl")

    async def calls() -> None:
        for number in range(5):
            await call(f"Zahl {number} – ‚ü‘ \\ \t \n \u0001")
        await recorder.deny(intent("nowhere"), recorder.Ending("unknown_tool"))
        await recorder.stop(60)

    ledger.write("root", "changed", "tool", "calculate_sum", {"title": "Sum"}, {"title": "Total"})
    asyncio.run(calls())
    dump = serializers.serialize("json", [row for model in MODELS for row in model.objects.all()])
    with postgres_database(cluster) as url, open_store(url, tmp_path):
        for row in serializers.deserialize("json", dump):
            row.save()
        out = StringIO()
        call_command("verifycalls", head=tmp_path / "heads.jsonl", stdout=out)
        assert out.getvalue().startswith("OK ")
        asyncio.run(calls())
        assert verification.run(store=False).problems == []
