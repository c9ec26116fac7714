"""Case files: complete for their scope, verified without the database, and every change to them is named."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import connections
from django.urls import reverse
from django.utils import timezone

from audit import hooks, recorder, retention
from audit.actions import ledger
from audit.case_files import archive, collection, examination
from audit.case_files.collection import Case
from audit.format import chain, keys, timestamps, uuid7
from audit.format.keys import TrustedKeys
from audit.models import Action, Call, Link
from audit.queries.search import CallSearch
from catalog.models import Approval, Flag, Grant, Tool
from tests.audit.attempts import call, intent
from tests.audit.stores import AuditStore
from tests.catalog.approval_rules import make_rule
from tests.factories import make_tool, make_value_list
from toolhub.access.models import AccessToken
from toolhub.parts import parts


@pytest.fixture
def without_catalogue() -> Iterator[None]:
    """The databases of these tests have the tables of the audit log only."""
    before = parts.get(hooks.Catalogue)
    parts.put(hooks.Catalogue())
    yield
    parts.put(before)


def log_calls(count: int = 6) -> None:
    async def calls() -> None:
        for number in range(count):
            await call(f"tool_{number}", "ok" if number % 2 else "tool_error")
        await recorder.deny(intent("nowhere"), recorder.Ending("unknown_tool"))
        await recorder.stop(60)

    asyncio.run(calls())
    ledger.write("root", "changed", "tool", "calculate_sum", {"title": "Sum"}, {"title": "Total"})


def make(path: Path, has_bodies: bool = True, **filters: str) -> Path:
    case = Case(CallSearch.from_parameters(filters), "ticket 4711", "root", has_bodies)
    path.write_bytes(b"".join(collection.chunks(case)))
    return path


def examine(path: Path) -> examination.CaseReport:
    return examination.examine(path, TrustedKeys.from_settings())


def lines(path: Path, name: str) -> list[Any]:
    with zipfile.ZipFile(path) as bundle:
        return [json.loads(line) for line in bundle.read(name).splitlines()]


def rewrite(path: Path, change: Callable[[dict[str, bytes]], None], *, sign: bool = False) -> None:
    """Write the case file again with other files; with `sign`, with a manifest that fits and this process's key."""
    with zipfile.ZipFile(path) as bundle:
        files = {name: bundle.read(name) for name in bundle.namelist()}
    change(files)
    if sign:
        manifest = json.loads(files[archive.MANIFEST])
        for one in manifest["files"]:
            data = files[one["name"]]
            one.update(bytes=len(data), sha256=sha256(data).hexdigest())
        files[archive.MANIFEST] = json.dumps(manifest).encode()
        text = archive.manifest_text(sha256(files[archive.MANIFEST]).hexdigest())
        files[archive.SIGNATURE] = archive.sign(text)
    with zipfile.ZipFile(path, "w") as bundle:
        for name, data in files.items():
            bundle.writestr(name, data)


def test_a_case_file_verifies_with_the_public_key_alone(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls()
    path = make(tmp_path / "case.zip")
    pinned = tmp_path / "KEYS"
    pinned.write_text(f"{keys.public_key()} toolhub\n")
    report = examination.examine(path, TrustedKeys.from_file(pinned))
    assert report.problems == []
    assert (report.calls, report.key, report.is_earlier_key) == (7, keys.key_name(), False)
    assert report.changes == Action.objects.count() > 0
    assert report.manifest["reason"] == "ticket 4711" and report.manifest["made_by"] == "root"
    assert {line["name"] for line in lines(path, archive.CALLS)} == {*(f"tool_{n}" for n in range(6)), "nowhere"}


def test_the_entries_of_a_large_case_are_sorted_in_parts_and_verify(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sort of millions of entries would keep every other request of the process waiting."""
    log_calls()
    whole = lines(make(tmp_path / "whole.zip"), archive.LINKS)
    monkeypatch.setattr(collection, "SORTED_AT_ONCE", 3)
    path = make(tmp_path / "case.zip")
    assert examine(path).problems == []
    assert lines(path, archive.LINKS)[: len(whole)] == whole
    assert len(whole) > 3


def test_a_case_file_is_compressed(audit_store: AuditStore, without_catalogue: None, tmp_path: Path) -> None:
    log_calls(30)
    with zipfile.ZipFile(make(tmp_path / "case.zip")) as bundle:
        calls = bundle.getinfo(archive.CALLS)
    assert calls.compress_size < calls.file_size / 2


def test_one_changed_byte_anywhere_is_named(audit_store: AuditStore, without_catalogue: None, tmp_path: Path) -> None:
    log_calls(2)
    path = make(tmp_path / "case.zip")
    data = path.read_bytes()
    for position in (*range(0, len(data) - 600, 61), *range(len(data) - 600, len(data), 7)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x20]) + data[position + 1 :])
        report = examine(path)
        assert report.problems, position
        assert report.problems[0].subject.kind in {"file", "call", "action", "checkpoint", "link"}
    path.write_bytes(data)
    assert examine(path).ok


@pytest.mark.parametrize("name", [archive.CALLS, archive.ACTIVITY, archive.LINKS, archive.CHECKPOINTS, "README.txt"])
def test_a_changed_file_is_named(name: str, audit_store: AuditStore, without_catalogue: None, tmp_path: Path) -> None:
    log_calls(2)
    path = make(tmp_path / "case.zip")
    rewrite(path, lambda files: files.update({name: files[name].replace(b"e", b"f", 1)}))
    assert str(examine(path).problems[0]) == f"file {name}: was changed after the case file was made"
    rewrite(path, lambda files: files.__delitem__(name))
    assert str(examine(path).problems[0]) == f"file {name}: missing from the archive"


def test_a_file_that_was_added_and_a_name_that_occurs_twice_are_named(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(1)
    path = make(tmp_path / "case.zip")
    rewrite(path, lambda files: files.update({"more.jsonl": b"{}"}))
    assert [str(one) for one in examine(path).problems] == ["file more.jsonl: was added: the manifest does not name it"]
    path = make(tmp_path / "twice.zip")
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr(archive.CALLS, b"")
    assert examine(path).problems[0].finding.code == "file_names"


def test_an_archive_that_was_packed_again_is_named(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(1)
    path = make(tmp_path / "case.zip")
    rewrite(path, lambda files: None)
    assert [one.finding.code for one in examine(path).problems] == ["archive_changed"]


def test_a_case_file_of_another_key_is_not_believed(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path, settings: Any
) -> None:
    log_calls(1)
    trusted = TrustedKeys.from_settings()
    path = make(tmp_path / "case.zip")
    settings.RECORD_KEY = "another installation's key, of at least 32 characters"
    rewrite(path, lambda files: None, sign=True)
    report = examination.examine(path, trusted)
    assert [one.finding.code for one in report.problems] == ["checkpoint_key"]
    assert report.manifest == {} and report.calls == 0


def test_whoever_makes_another_manifest_cannot_change_a_call_unseen(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    """Even a stolen signing process cannot make the hash chain lead from an edited call to a checkpoint."""
    log_calls(2)
    edits: tuple[tuple[str, str, bytes, bytes, str], ...] = (
        ("call", archive.CALLS, b'"username":"alice"', b'"username":"bob"', "start_edited"),
        ("call", archive.CALLS, b'\\"a\\":1', b'\\"a\\":7', "start_edited"),
        ("call", archive.CALLS, b'"outcome":"ok"', b'"outcome":"refused"', "end_edited"),
        ("call", archive.CALLS, b'"outcome":"unknown_tool"', b'"outcome":"limited"', "edited"),
        ("action", archive.ACTIVITY, b'"actor":"root"', b'"actor":"bob"', "edited"),
    )
    for number, (kind, name, old, new, code) in enumerate(edits):
        path = make(tmp_path / f"{number}.zip")
        rewrite(path, lambda files, n=name, o=old, w=new: files.update({n: files[n].replace(o, w)}), sign=True)  # type: ignore[misc]
        problems = examine(path).problems
        assert problems and {(one.subject.kind, one.finding.code) for one in problems} <= {
            (kind, code), (kind, "edited"), (kind, "start_edited"), (kind, "end_edited"),
        }, edits[number]  # fmt: skip
        assert code in {one.finding.code for one in problems}


def test_a_link_that_was_changed_leads_to_no_checkpoint(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(2)
    path = make(tmp_path / "case.zip")

    def change(files: dict[str, bytes]) -> None:
        files[archive.LINKS] = files[archive.LINKS].replace(b'"finish"', b'"closed"', 1)

    rewrite(path, change, sign=True)
    assert "part_differs" in {one.finding.code for one in examine(path).problems}


def test_a_call_that_was_edited_before_the_case_file_was_made_is_named(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls()
    row = Call.objects.get(name="tool_3")
    audit_store.sql("UPDATE audit_call SET arguments = '{}' WHERE name = 'tool_3'")
    problems = examine(make(tmp_path / "case.zip")).problems
    assert [str(one) for one in problems] == [f"call {row.pk}: its start was edited after it was logged"]


def test_a_call_whose_link_was_deleted_is_named(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls()
    row = Call.objects.get(name="tool_3")
    audit_store.sql(f"DELETE FROM audit_link WHERE id = {row.link}")
    report = examine(make(tmp_path / "case.zip"))
    assert any(one.subject.name == str(row.pk) or one.finding.code == "part_differs" for one in report.problems)


def test_bodies_that_were_left_out_are_not_in_the_file_and_still_verify(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(2)
    path = make(tmp_path / "case.zip", has_bodies=False)
    assert examine(path).ok
    for line in lines(path, archive.CALLS):
        assert line["arguments"].startswith(archive.OMITTED_PREFIX) and line["result"].startswith("omitted:sha256:")


def test_bodies_that_retention_removed_verify(audit_store: AuditStore, without_catalogue: None, tmp_path: Path) -> None:
    log_calls(2)
    assert retention.prune(timezone.now() + timedelta(seconds=1), retention.BODIES).bodies == 3
    path = make(tmp_path / "case.zip")
    assert examine(path).ok
    assert all(line["result"].startswith(chain.PRUNED_PREFIX) for line in lines(path, archive.CALLS))


def test_bodies_that_no_logged_removal_explains_are_named(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(2)
    row = Call.objects.get(name="tool_0")
    digests = [f"{chain.PRUNED_PREFIX}{chain.body_digest(body)}" for body in (row.arguments, row.result)]
    audit_store.sql(
        "UPDATE audit_call SET body_state = 'pruned', arguments = '{}', result = '{}' WHERE link = {}".format(
            *digests, row.link
        )
    )
    problems = examine(make(tmp_path / "forged.zip")).problems
    assert [(one.subject.name, one.finding.code) for one in problems] == [(str(row.pk), "bodies_removed")]


def test_a_running_call_is_in_the_case_file_with_its_start(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    def make_and_close() -> None:
        make(tmp_path / "case.zip")
        connections.close_all()

    async def run() -> None:
        await recorder.begin(intent("slow"))
        await asyncio.to_thread(make_and_close)

    asyncio.run(run())
    report = examine(tmp_path / "case.zip")
    assert report.ok and report.calls == 1
    assert lines(tmp_path / "case.zip", archive.CALLS)[0]["outcome"] == "running"


def test_it_is_no_escape_that_the_database_has_no_checkpoint_of_a_forged_call(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    """Whoever can write SQL edits a call with its hash chain entries, and deletes the checkpoints."""
    log_calls(2)
    make(tmp_path / "signs-a-checkpoint.zip")
    row = Call.objects.get(name="tool_1")
    writer, sequence = chain.split_link_id(row.link)
    row.arguments = '{"forged":true}'
    values: list[Any] = [getattr(row, name) for name in (*chain.BEGIN_COLUMNS, *chain.END_COLUMNS)]
    values[0], values[chain.STARTED_INDEX] = row.pk.hex, timestamps.to_ms(row.started_at)
    values[chain.ARGUMENTS_INDEX] = chain.body_digest(row.arguments)
    previous = Link.objects.get(pk=row.link - 1).hash
    for link in Link.objects.filter(writer=writer, sequence__gte=sequence).order_by("pk"):
        if link.pk == row.link:
            link.content = chain.call_content(chain.BEGIN, values)
        link.hash = previous = chain.link_hash(writer, link.sequence, previous, link.kind, link.subject, link.content)
        audit_store.sql(f"UPDATE audit_link SET content = '{link.content}', hash = '{link.hash}' WHERE id = {link.pk}")
    audit_store.sql(f"UPDATE audit_call SET arguments = '{row.arguments}' WHERE link = {row.link}")
    audit_store.sql("DELETE FROM audit_checkpoint")
    problems = examine(make(tmp_path / "case.zip")).problems
    assert (str(row.pk), "not_covered") in {(one.subject.name, one.finding.code) for one in problems}


def test_a_call_that_was_added_with_links_of_its_own_is_named(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(1)
    last = Link.objects.order_by("pk").filter(kind=chain.REFUSED).get()
    row = Call.objects.get(name="nowhere")
    row.pk, row.username, row.link = uuid7.new_id(), "mallory", last.pk + 1
    row.end_link = row.link
    values: list[Any] = [getattr(row, name) for name in (*chain.BEGIN_COLUMNS, *chain.END_COLUMNS)]
    values[0] = row.pk.hex
    for at in (chain.STARTED_INDEX, chain.END_OFFSET + chain.ENDED_INDEX):
        values[at] = timestamps.to_ms(values[at])
    for at in (chain.ARGUMENTS_INDEX, chain.END_OFFSET + chain.RESULT_INDEX):
        values[at] = chain.body_digest(values[at])
    content = chain.call_content(chain.REFUSED, values)
    forged = Link(
        id=row.link, writer=last.writer, sequence=last.sequence + 1, kind=chain.REFUSED, subject=row.pk.hex,
        content=content, mac="",
        hash=chain.link_hash(last.writer, last.sequence + 1, last.hash, chain.REFUSED, row.pk.hex, content),
    )  # fmt: skip
    Link.objects.bulk_create([forged])
    Call.objects.bulk_create([row])
    problems = examine(make(tmp_path / "case.zip")).problems
    assert [(one.subject.name, one.finding.code) for one in problems] == [(str(row.pk), "not_covered")]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (archive.ACTIVITY, {"link": None}), (archive.ACTIVITY, {"link": "1"}), (archive.ACTIVITY, {"at": "x"}),
        (archive.CALLS, {"end_link": "x"}), (archive.CALLS, {"link": None}), (archive.CALLS, {"id": []}),
        (archive.LINKS, {"writer": float("inf")}), (archive.LINKS, {"checkpoint": []}),
        (archive.LINKS, {"previous": None}), (archive.CHECKPOINTS, {"heads": 7}), (archive.CHECKPOINTS, {"at": None}),
    ],
)  # fmt: skip
def test_odd_values_are_problems_and_no_errors(
    name: str, line: dict[str, Any], audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(1)
    path = make(tmp_path / "case.zip")

    def change(files: dict[str, bytes]) -> None:
        first, *others = files[name].splitlines()
        files[name] = b"\n".join([json.dumps(json.loads(first) | line).encode(), *others])

    rewrite(path, change, sign=True)
    assert examine(path).problems


def test_of_a_file_that_was_replaced_no_more_is_read_than_the_manifest_lists(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_calls(1)
    path = make(tmp_path / "case.zip")
    rewrite(path, lambda files: files.update({archive.LINKS: b"[1,2,3]\n" * 1_000_000}))
    read = []
    loads = json.loads

    def load(text: Any) -> Any:
        read.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", load)
    assert examine(path).problems[0].finding.code == "file_changed"
    assert len(read) < 10_000


def test_an_unusual_method_of_compression_is_not_read(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as bundle:
        bundle.writestr(archive.MANIFEST, b"{}" * 100)
    assert [one.finding.code for one in examine(path).problems] == ["file_names"]


def test_an_archive_with_a_long_list_of_files_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        for number in range(2_000):
            bundle.writestr(f"{number}", b"")
    assert str(examine(path).problems[0]).endswith("the archive has too many files")


def test_names_in_a_case_file_cannot_change_what_the_terminal_shows(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(1)
    path, text = make(tmp_path / "case.zip"), StringIO()
    rewrite(path, lambda files: files.update({"\x1b[1A\x1b[2KOK": b""}))
    with pytest.raises(SystemExit):
        call_command("verifycalls", "--bundle", str(path), stdout=text)
    assert "\x1b" not in text.getvalue() and "OK" in text.getvalue()


def test_an_earlier_key_is_said_to_be_one(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path, settings: Any
) -> None:
    log_calls(1)
    path, text = make(tmp_path / "case.zip"), StringIO()
    earlier = keys.key_name()
    settings.RECORD_OLD_KEYS = [keys.public_key()]
    settings.RECORD_KEY = "the next key of this installation, of at least 32 characters"
    assert examine(path).ok and examine(path).is_earlier_key
    call_command("verifycalls", "--bundle", str(path), stdout=text)
    assert f"signed with key {earlier}." in text.getvalue() and f"EARLIER KEY {earlier}" in text.getvalue()


def test_a_checkpoint_that_nobody_signed_may_hold_anything(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(1)
    audit_store.sql(
        "INSERT INTO audit_checkpoint (number, at, heads, previous, hash, key, signature)"
        " SELECT number + 100, at, 'garbage', previous, hash, key, signature FROM audit_checkpoint"
    )
    assert examine(make(tmp_path / "case.zip")).ok


def test_a_case_about_one_call_has_no_changes_that_concern_others(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    ledger.write("root", "changed", "user", "carol", None, {"email": "carol@example.com"})
    log_calls(1)
    row = Call.objects.get(name="tool_0")
    path = make(tmp_path / "case.zip", q=str(row.pk))
    assert examine(path).ok and len(lines(path, archive.CALLS)) == 1
    assert "carol" not in {line["target"] for line in lines(path, archive.ACTIVITY)}
    everything = lines(make(tmp_path / "all.zip"), archive.ACTIVITY)
    assert "carol" in {line["target"] for line in everything}


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all", b"PK\x05\x06" + b"\0" * 18])
def test_a_file_that_is_no_case_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    report = examine(path)
    assert [one.finding.code in {"file_unreadable", "file_missing"} for one in report.problems] == [True]


def test_a_manifest_of_any_size_is_read_within_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(archive.MANIFEST, b" " * 50_000_000)
        bundle.writestr(archive.SIGNATURE, b"{}")
    assert [one.finding.code for one in examine(path).problems] == ["file_changed"]


def test_the_command_verifies_a_case_file_without_a_database(
    audit_store: AuditStore, without_catalogue: None, tmp_path: Path
) -> None:
    log_calls(3)
    path = make(tmp_path / "case.zip")
    pinned, elsewhere = tmp_path / "KEYS", tmp_path / "elsewhere"
    pinned.write_text(keys.public_key())
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLHUB_", "DJANGO"))}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", "verifycalls", "--bundle", *map(str, arguments)]
        return subprocess.run(
            command, cwd=project.BASE_DIR, capture_output=True, text=True, check=False,
            env=environment | {"TOOLHUB_DATA_DIR": str(elsewhere)},
        )  # fmt: skip

    found = run(path, "--keys", pinned)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("OK 4 calls and ")
    assert not (elsewhere / "toolhub.sqlite3").exists()
    untrusted = run(path)
    assert untrusted.returncode == 1 and "is not among the trusted keys" in untrusted.stdout
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    broken = run(path, "--keys", pinned, "--json")
    assert broken.returncode == 1 and json.loads(broken.stdout)["findings"][0]["code"]


def test_the_command_refuses_options_of_the_whole_log_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be combined"):
        call_command("verifycalls", "--bundle", str(tmp_path / "x"), "--recent", stdout=StringIO())
    with pytest.raises(CommandError, match="--bundle: "):
        call_command("verifycalls", "--bundle", str(tmp_path / "x"), stdout=StringIO())


# --- the page --------------------------------------------------------------------------------------------------------


def permit(user: User) -> User:
    user.user_permissions.add(Permission.objects.get(codename="make_casefile"))
    return User.objects.get(pk=user.pk)


ADDRESS = "admin:audit_call_case_file"
REASON = {"reason": "ticket 4711", "has_bodies": "on"}


def test_reading_the_audit_log_is_not_enough_to_make_one(client: Any, auditor: User) -> None:
    client.force_login(auditor)
    assert client.get(reverse(ADDRESS)).status_code == client.post(reverse(ADDRESS), REASON).status_code == 403
    assert "case-file" not in client.get(reverse("admin:audit_call_changelist")).content.decode()
    reader = permit(User.objects.create_user("rita", is_staff=True))
    client.force_login(reader)
    assert client.post(reverse(ADDRESS), REASON).status_code == 403
    assert not Action.objects.filter(kind="case file").exists()


def test_a_case_file_needs_a_reason(client: Any, auditor: User) -> None:
    client.force_login(permit(auditor))
    response = client.post(reverse(ADDRESS), {"reason": "  "})
    assert response.status_code == 200 and "This field is required." in response.content.decode()
    assert not Action.objects.filter(kind="case file").exists()


@pytest.mark.django_db(transaction=True)
def test_a_person_s_case_file_has_their_calls_grants_and_credentials_and_no_secret(
    client: Any, tmp_path: Path, alice: User, bob: User, auditor: User
) -> None:
    tool = make_tool("calculate_sum")
    grant = Grant.objects.create(tool=tool, user=alice, note="asked by Carol")
    grant.note = "until Friday"
    grant.save()
    Grant.objects.create(tool=tool, user=bob, note="not about her")
    kept, text = AccessToken.objects.issue(alice, "laptop")
    AccessToken.objects.issue(bob, "desktop")
    log_of(alice, tool)
    log_of(bob, tool)
    client.force_login(permit(auditor))
    page = client.get(reverse("admin:audit_call_changelist"), {"user": "alice"}).content.decode()
    assert f"{reverse(ADDRESS)}?user=alice" in page
    response = client.post(f"{reverse(ADDRESS)}?user=alice", REASON)
    logged = Action.objects.get(kind="case file")
    assert logged.actor == "audrey" and json.loads(logged.after)["reason"] == "ticket 4711"
    assert json.loads(logged.after)["filters"] == {"user": "alice"}
    path = tmp_path / "case.zip"
    path.write_bytes(b"".join(response.streaming_content))
    assert examine(path).problems == []
    assert {line["username"] for line in lines(path, archive.CALLS)} == {"alice"}
    assert [line["username"] for line in lines(path, "people.jsonl")] == ["alice"]
    notes = [(line["change"], line["note"]) for line in lines(path, "grants.jsonl")]
    assert notes == [("created", "asked by Carol"), ("changed", "until Friday")]
    tokens = lines(path, "access-tokens.jsonl")
    assert [line["id"] for line in tokens] == [kept.pk]
    with zipfile.ZipFile(path) as bundle:
        everything = b"".join(bundle.read(name) for name in bundle.namelist()).decode()
    for hidden in (text, kept.digest, alice.password):
        assert hidden not in everything


def log_of(user: User, tool: Tool) -> None:
    from audit.types import Caller, Credential

    caller = Caller(Credential(user.pk, user.username, "token:1", "laptop", None, None), "http", "2025-11-25", "")
    wanted = recorder.Intent(caller, "tools/call", tool.name, tool.pk, "d" * 64, "grant 1", "{}", "17")

    async def run() -> None:
        begun = await recorder.begin(wanted)
        await recorder.finish(begun, recorder.Ending("ok", result="{}", result_bytes=2, result_sha256="e" * 64))
        await recorder.stop(60)

    asyncio.run(run())


@pytest.mark.django_db(transaction=True)
def test_a_tool_s_case_file_has_the_grants_of_everybody_and_the_definition(
    client: Any, tmp_path: Path, alice: User, bob: User, auditor: User
) -> None:
    tool = make_tool("calculate_sum")
    other = make_tool("other")
    Grant.objects.create(tool=tool, user=alice, note="hers")
    Grant.objects.create(tool=tool, user=bob, note="his")
    Grant.objects.create(tool=other, user=bob, note="another tool's")
    log_of(alice, tool)
    client.force_login(permit(auditor))
    response = client.post(f"{reverse(ADDRESS)}?tool=calculate_sum", REASON)
    path = tmp_path / "case.zip"
    path.write_bytes(b"".join(response.streaming_content))
    assert examine(path).ok
    assert {line["note"] for line in lines(path, "grants.jsonl")} == {"hers", "his"}
    (definition,) = lines(path, archive.DEFINITIONS)
    assert definition["name"] == "calculate_sum" and definition["definition"]


@pytest.mark.django_db(transaction=True)
def test_a_case_file_has_the_person_s_approvals_and_their_rules_without_digests(
    client: Any, tmp_path: Path, alice: User, bob: User, auditor: User
) -> None:
    tool, other = make_tool("calculate_sum"), make_tool("other")
    rule = make_rule(name="Second person", grant=Grant.objects.create(tool=tool, user=alice))
    make_rule(name="Of others", grant=Grant.objects.create(tool=other, user=bob))
    for user in (alice, bob):
        Approval.objects.create(
            call_id=uuid.uuid4(), user=user, tool=tool, tool_name=tool.name, rule=rule, rule_name=rule.name,
            asks="person", arguments='{"of": "' + user.username + '"}', expires=timezone.now(),
            binding=f"binding-of-{user.username}", context="hidden-context", seal="hidden-seal",
        )  # fmt: skip
    log_of(alice, tool)
    client.force_login(permit(auditor))
    response = client.post(f"{reverse(ADDRESS)}?user=alice", REASON)
    path = tmp_path / "case.zip"
    path.write_bytes(b"".join(response.streaming_content))
    assert examine(path).ok
    assert [line["arguments"] for line in lines(path, "approvals.jsonl")] == ['{"of": "alice"}']
    assert [line["name"] for line in lines(path, "approval-rules.jsonl")] == ["Second person"]
    with zipfile.ZipFile(path) as bundle:
        everything = b"".join(bundle.read(name) for name in bundle.namelist()).decode()
    for hidden in ("binding-of-", "hidden-context", "hidden-seal"):
        assert hidden not in everything


CONDITION = {"path": "/a", "op": "belongs_to", "list": "ours"}
WINDOW = {"days": ["mon"], "from": "09:00", "to": "17:30", "zone": "UTC"}


def make_rules(alice: User, bob: User) -> Tool:
    """A tool whose grants use the list "ours" and the flag "beta", both of them changed, and deleted at the end."""
    tool = make_tool("calculate_sum")
    make_value_list("theirs", {None: ["no grant names it"]})
    ours = make_value_list("ours", {None: ["x"], alice: ["hers"], bob: ["his"]})
    beta = Flag.objects.create(name="beta", percentage=5)
    beta.percentage = 100
    beta.save()
    rules = {"conditions": [CONDITION], "windows": [WINDOW], "flags": ["beta"]}
    grants = [Grant.objects.create(tool=tool, user=user, trial=user == bob, **rules) for user in (alice, bob)]
    for row in (*grants, beta, ours):
        row.delete()
    return tool


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("query", "people"), [("user=alice", {"alice"}), ("tool=calculate_sum", {"alice", "bob"}), ("user=bob", {"bob"})]
)
def test_a_case_file_has_the_value_lists_and_flags_that_its_grants_name(
    query: str, people: set[str], client: Any, tmp_path: Path, alice: User, bob: User, auditor: User
) -> None:
    tool = make_rules(alice, bob)
    log_of(alice, tool)
    log_of(bob, tool)
    client.force_login(permit(auditor))
    path = tmp_path / "case.zip"
    path.write_bytes(b"".join(client.post(f"{reverse(ADDRESS)}?{query}", REASON).streaming_content))
    assert examine(path).ok
    for line in lines(path, "grants.jsonl"):
        assert (line["conditions"], line["windows"], line["flags"]) == ([CONDITION], [WINDOW], ["beta"])
        assert (line["trial"], line["replaces_id"]) == (line["user_id"] == bob.pk, None)
    versions = [(line["change"], line["name"]) for line in lines(path, "value-lists.jsonl")]
    assert versions == [("created", "ours"), ("deleted", "ours")]
    flags = [(line["change"], line["percentage"]) for line in lines(path, "flags.jsonl")]
    assert flags == [("created", 5), ("changed", 100), ("deleted", 100)]
    values = {tuple(line["entries"]) for line in lines(path, "value-list-values.jsonl")}
    assert values == {("x",)} | ({("hers",)} if "alice" in people else set()) | (
        {("his",)} if "bob" in people else set()
    )


def test_an_empty_scope_is_a_case_file_that_says_so(tmp_path: Path, db: None) -> None:
    path = make(tmp_path / "case.zip", user="nobody-here")
    assert examine(path).ok and examine(path).calls == 0
