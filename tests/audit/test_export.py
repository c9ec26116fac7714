"""The audit log as JSON Lines and CSV: complete, filtered, safe to open, streamed, and itself logged."""

from __future__ import annotations

import csv
import io
import json
import os
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import AsyncClient
from django.urls import reverse

from audit.actions import ledger
from audit.export import activity
from audit.export import rows as export_rows
from audit.integrity import verification, verifier
from audit.models import Action, Call, Verification
from audit.queries import spans
from audit.queries.search import CallSearch
from tests.audit.rows import NOON, build_call, save, save_verification
from tests.audit_log import end_background_work

pytestmark = pytest.mark.django_db
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("http://x")']


@pytest.fixture
def auditor(db):
    user = User.objects.create_user("audrey", is_staff=True)
    user.groups.add(Group.objects.get(name="auditor"))
    return user


def body(response) -> str:
    return b"".join(response.streaming_content).decode()


def test_a_table_of_calls_holds_no_formulas():
    save(
        *(
            build_call(number, name=text, username=text, arguments=text, rule=f"x{text}")
            for number, text in enumerate(FORMULAS)
        )
    )
    rows = list(csv.DictReader(io.StringIO(b"".join(export_rows.chunks(CallSearch(), "csv")).decode(), newline="")))
    assert [row["name"] for row in rows] == [f"'{text}" for text in reversed(FORMULAS)]
    assert [row["rule"] for row in rows] == [f"x{text}" for text in reversed(FORMULAS)]
    for row in rows:
        assert not any(value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for value in row.values())


def test_json_lines_hold_every_column_exactly(alice):
    row = save(
        build_call(1, user=alice, arguments='{"a":"=1+1 \\u2028 M\\u00fcller"}', result="\u2028\u0085 line\nbreaks")
    )[0]
    text = b"".join(export_rows.chunks(CallSearch(), "jsonl")).decode()
    assert text.count("\n") == 1
    line = json.loads(text)
    columns = {field.attname for field in Call._meta.concrete_fields}
    assert line.keys() == columns | {"result_kept_bytes", "result_complete"}
    assert all(line[name] == getattr(row, name) for name in ("user_id", "username", "rule", "duration_us", "end_link"))
    assert line["id"] == str(row.pk) and line["started_at"] == "2026-03-01T12:00:01.000+00:00"
    assert line["arguments"] == row.arguments and line["result"] == row.result


def test_the_download_holds_the_filtered_calls_and_is_logged(client, auditor, alice, bob):
    mine = save(*(build_call(number, user=alice, outcome="refused") for number in range(3)))
    save(build_call(10, user=bob, outcome="refused"), build_call(11, user=alice))
    client.force_login(auditor)
    page = client.get(reverse("admin:audit_call_changelist"), {"user": "alice", "outcome": "refused"})
    for _, address in page.context["exports"]:
        response = client.get(address)
        assert response.status_code == 200 and "attachment" in response["Content-Disposition"]
        text = body(response)
        assert all(str(row.pk) in text for row in mine) and "bob" not in text and len(text.splitlines()) in {3, 4}
    first, second = Action.objects.filter(verb="exported")
    assert first.actor == second.actor == "audrey"
    assert json.loads(second.after) == {"format": "jsonl", "filters": {"user": "alice", "outcome": "refused"}}


def test_an_export_is_logged_before_its_first_line(client, auditor):
    client.force_login(auditor)
    response = client.get(reverse("admin:audit_call_export"))
    assert Action.objects.filter(verb="exported").count() == 1
    response.close()


def test_an_unknown_format_is_rejected(client, auditor):
    client.force_login(auditor)
    assert client.get(reverse("admin:audit_call_export"), {"format": "exe"}).status_code == 400
    assert not Action.objects.filter(verb="exported").exists()


def test_an_export_reads_small_batches_whatever_the_size(alice, monkeypatch, django_assert_num_queries):
    monkeypatch.setattr(export_rows, "BATCH_ROWS", 100)
    save(*(build_call(number, user=alice) for number in range(250)))
    with django_assert_num_queries(11):  # where a batch ends, the keys of its rows, and the rows: few of them at first
        chunks = export_rows.chunks(CallSearch(), "jsonl")
        assert [chunk.count(b"\n") for chunk in chunks] == [20, 40, 40, 100, 50]


def test_an_export_of_large_results_loads_few_at_a_time(alice):
    large, small = "x" * 1_000_000, "y"
    texts = [large if 10 <= number < 30 else small for number in range(130)]
    save(*(build_call(n, user=alice, result=text, result_bytes=len(text)) for n, text in enumerate(texts)))
    sizes = [len(chunk) for chunk in export_rows.chunks(CallSearch(), "jsonl")]
    assert sum(sizes) > 20_000_000
    assert max(sizes) < 3_000_000


@pytest.mark.django_db(transaction=True)
async def test_under_asgi_the_download_streams_from_a_thread(monkeypatch):
    from asgiref.sync import sync_to_async

    def prepare():
        user = User.objects.create_user("audrey", is_staff=True, is_superuser=True)
        save(*(build_call(number) for number in range(210)))
        return user

    monkeypatch.setattr(export_rows, "BATCH_ROWS", 100)
    client = AsyncClient()
    await client.aforce_login(await sync_to_async(prepare)())
    response: Any = await client.get(reverse("admin:audit_call_export"), {"format": "csv"})
    assert response.is_async
    chunks = [chunk async for chunk in response.streaming_content]
    assert len(chunks) == 1 + 5 and sum(chunk.count(b"\r\n") for chunk in chunks) == 211


def test_the_command_writes_a_new_file_that_only_its_owner_reads(tmp_path, alice, capsys):
    save(*(build_call(number, user=alice, outcome=("ok", "timeout")[number % 2]) for number in range(10)))
    path = tmp_path / "calls.jsonl"
    call_command(
        "exportcalls",
        "--output",
        str(path),
        "--user",
        "alice",
        "--outcome",
        "timeout",
        "--until",
        "2026-03-01T12:00:08",
    )
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["request_id"] for row in rows] == ["7", "5", "3", "1"]
    assert os.stat(path).st_mode & 0o077 == 0
    with pytest.raises(CommandError, match="exists"):
        call_command("exportcalls", "--output", str(path))
    call_command("exportcalls", "--format", "csv")
    assert len(capsys.readouterr().out.splitlines()) == 11
    assert Action.objects.filter(verb="exported").count() == 3


# --- checking the chain from the admin ---------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_verify_now_checks_in_the_background_and_the_list_shows_the_result(client):
    client.force_login(User.objects.create_superuser("root"))
    response = client.post(reverse("admin:audit_verification_now"))
    assert response.status_code == 302
    end_background_work()
    found = Verification.objects.get()
    assert found.ok and found.links > 0
    assert (
        "No checkpoint covers the audit log yet" in client.get(reverse("admin:audit_call_changelist")).content.decode()
    )
    assert Action.objects.filter(verb="checked", actor="root").count() == 1
    assert verification.run(store=False).ok


@pytest.mark.django_db(transaction=True)
def test_verification_runs_again_when_the_last_one_is_old(settings):
    from django.core.cache import cache
    from django.utils import timezone

    cache.delete("audit:check")
    settings.VERIFY_SECONDS = 0
    verifier.verify_if_due()
    settings.VERIFY_SECONDS = 3600
    fresh = save_verification(1, at=timezone.now() - timedelta(seconds=60))
    verifier.verify_if_due()
    assert Verification.objects.count() == 1
    fresh.delete()
    save_verification(1, at=NOON - timedelta(days=300))
    verifier.verify_if_due()
    assert Verification.objects.count() == 2
    cache.delete("audit:check")


def test_admin_activity_is_exported_with_its_filters_and_logged(client, auditor):
    ledger.write("root", "created", "tool", "=one", None, {"title": "1"})
    ledger.write("root", "created", "grant", "two", None, {"note": "数"})
    client.force_login(auditor)
    page = client.get(reverse("admin:audit_action_changelist"), {"kind": "tool"})
    (_, json_lines), (_, table) = page.context["exports"]
    line = json.loads(body(client.get(json_lines)))
    row = Action.objects.get(target="=one")
    assert line["id"] == str(row.pk) and line["after"] == row.after and line["link"] == row.link
    cells = list(csv.DictReader(io.StringIO(body(client.get(table)), newline="")))
    assert [one["target"] for one in cells] == ["'=one"]
    logged = Action.objects.filter(verb="exported", kind="admin activity")[0]
    assert logged.actor == "audrey"
    assert json.loads(logged.after) == {"format": "csv", "filters": {"kind": "tool"}}


def test_admin_activity_is_exported_to_auditors_only(client, auditor, alice):
    address = reverse("admin:audit_action_export")
    client.force_login(auditor)
    assert client.get(address, {"format": "exe"}).status_code == 400
    assert client.post(address).status_code == 405
    stranger = User.objects.create_user("sam", is_staff=True)
    client.force_login(stranger)
    assert client.get(address).status_code == 403
    assert not Action.objects.filter(verb="exported").exists()


def test_an_export_of_admin_activity_reads_small_batches(monkeypatch):
    monkeypatch.setattr(export_rows, "BATCH_ROWS", 10)
    for number in range(25):
        ledger.write("root", "created", "tool", f"tool {number}", None, None)
    chunks = list(activity.chunks(Action.objects.all(), spans.ALL, None, "jsonl"))
    assert [chunk.count(b"\n") for chunk in chunks] == [10, 10, 5]
    targets = [json.loads(line)["target"] for line in b"".join(chunks).splitlines()]
    assert targets == [f"tool {number}" for number in reversed(range(25))]
