"""The page of a call, of an administrator and of its user: what is kept of its bodies, by their kind, and as files."""

from __future__ import annotations

import base64
import json
import zlib
from hashlib import sha256
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from audit.export import rows as export_rows
from audit.models import Action, Call, WholeBody, WholeBodyUse
from audit.queries.search import CallSearch
from audit.redaction.redactor import canonical
from audit.results import sections
from tests.audit.rows import build_call, save

pytestmark = pytest.mark.django_db

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAVE = b"RIFF\x24\x00\x00\x00WAVEfmt " + b"\0" * 28
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
LONG = {"content": [{"type": "text", "text": "天气晴 " * 20_000}]}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def make(owner: User, value: Any, number: int = 1, **values: Any) -> Call:
    """A call as the pipeline logs it: the beginning of the result, its length and its digest."""
    text = canonical(value)
    digest = sha256(text.encode()).hexdigest()
    values = {"result": text[:65_536], "result_bytes": len(text), "result_sha256": digest} | values
    return save(build_call(number, user=owner, **values))[0]


def keep_whole(call: Call, text: str) -> None:
    WholeBody.objects.create(digest=call.result_sha256, size=len(text), stored=1, data=zlib.compress(text.encode()))
    WholeBodyUse.objects.create(call_id=call.pk, digest=call.result_sha256)


class Reader:
    """Somebody who reads calls, with the addresses of their kind of pages."""

    def __init__(self, user: User, prefix: str) -> None:
        self.user, self.prefix = user, prefix
        self.client = Client()
        self.client.force_login(user)

    def page(self, call: Call) -> str:
        name = "admin:audit_call_change" if self.prefix == "admin" else "access:call"
        return self.client.get(reverse(name, args=[call.pk])).content.decode()

    def file(self, call: Call, what: str) -> Any:
        name = "admin:audit_call_copy" if self.prefix == "admin" else "access:call-file"
        return self.client.get(reverse(name, args=[call.pk, what]))

    def part(self, call: Call, number: int, tag: str = "") -> Any:
        name = "admin:audit_call_part" if self.prefix == "admin" else "access:call-part"
        return self.client.get(reverse(name, args=[call.pk, number]), headers={"if-none-match": tag} if tag else None)


@pytest.fixture(params=["admin", "user"])
def reader(request: pytest.FixtureRequest, alice: User) -> Reader:
    if request.param == "user":
        return Reader(alice, "user")
    auditor = User.objects.create_user("audrey", is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    return Reader(auditor, "admin")


# --- refusals --------------------------------------------------------------------------------------------------------


def test_files_and_parts_of_anothers_call_are_absent_for_its_users_neighbour(alice: User, bob: User) -> None:
    call = make(alice, {"content": [{"type": "image", "data": encoded(PNG), "mimeType": "image/png"}]})
    keep_whole(call, call.result)
    other = Reader(bob, "user")
    for answer in (other.file(call, "arguments"), other.file(call, "result"), other.file(call, "whole")):
        assert answer.status_code == 404
    assert other.part(call, 0).status_code == 404
    assert Reader(alice, "user").part(call, 0).status_code == 200


def test_files_that_no_label_names_are_absent(reader: Reader, alice: User) -> None:
    short = make(alice, {"content": []})
    assert reader.file(short, "whole").status_code == 404 and reader.file(short, "nothing").status_code == 404
    cut = make(alice, LONG, 2)
    assert reader.file(cut, "whole").status_code == 404
    pruned = make(alice, LONG, 3, body_state="pruned", result="pruned:sha256:" + "0" * 64)
    keep_whole(pruned, canonical(LONG))
    for what in ("result", "whole"):
        assert reader.file(pruned, what).status_code == 404
    assert "天气" not in reader.page(pruned)


@pytest.mark.parametrize("number", [1, 2, 999])
def test_a_part_that_is_none_is_absent(reader: Reader, alice: User, number: int) -> None:
    call = make(alice, {"content": [{"type": "text", "text": "x"}, {"type": "image", "data": 7}]})
    assert reader.part(call, number).status_code == 404 and reader.part(call, 0).status_code == 404


def test_only_bytes_of_a_picture_or_sound_come_as_one_and_never_a_drawing_with_scripts(
    reader: Reader, alice: User
) -> None:
    kinds = [
        (PNG, "text/html", "image/png"),
        (WAVE, "image/svg+xml", "audio/wav"),
        (SVG, "image/svg+xml", "application/octet-stream"),
        (b"<script>alert(1)</script>", "image/png", "application/octet-stream"),
    ]
    call = make(
        alice, {"content": [{"type": "image", "data": encoded(raw), "mimeType": said} for raw, said, _ in kinds]}
    )
    page = reader.page(call)
    assert "<svg xmlns" not in page and "data:image" not in page and "<script>alert" not in page
    for number, (raw, _said, kind) in enumerate(kinds):
        answer = reader.part(call, number)
        assert answer.content == raw and answer["Content-Type"] == kind
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"
        assert ("Content-Disposition" in answer) == (kind == "application/octet-stream")


def test_a_changed_copy_beside_the_log_is_named_and_not_delivered(reader: Reader, alice: User) -> None:
    call = make(alice, LONG)
    keep_whole(call, canonical(LONG).replace("u5929", "u5930"))
    page = reader.page(call)
    assert "Its SHA-256 is not the logged one." in page and "Download whole result" not in page
    assert reader.file(call, "whole").status_code == 404
    assert reader.file(call, "result").content.decode() == call.result


# --- what was cut says so --------------------------------------------------------------------------------------------


def test_a_cut_result_says_how_much_of_it_is_kept_and_its_file_is_no_json(reader: Reader, alice: User) -> None:
    call = make(alice, LONG)
    page = reader.page(call)
    whole = len(canonical(LONG))
    assert f"First 64.0\xa0KB of 371.1\xa0KB kept (65,536 of {whole:,} bytes)." in page
    assert "Download kept part of the result (64.0\xa0KB of 371.1\xa0KB)" in page
    assert "天气晴 天气晴" in page and "\\u5929" not in page
    answer = reader.file(call, "result")
    assert answer.content.decode() == call.result and answer["Content-Type"].startswith("text/plain")
    assert answer["Content-Disposition"] == f'attachment; filename="call-{call.pk}-result.txt"'


def test_a_whole_result_is_shown_and_delivered_as_json(reader: Reader, alice: User) -> None:
    call = make(alice, LONG)
    keep_whole(call, canonical(LONG))
    page = reader.page(call)
    assert "The whole result is kept: 371.1\xa0KB. Its SHA-256 is the logged one." in page
    answer = reader.file(call, "whole")
    assert json.loads(answer.content) == LONG and answer["Content-Type"] == "application/json"
    assert sha256(answer.content).hexdigest() == call.result_sha256
    assert answer["Content-Disposition"] == f'attachment; filename="call-{call.pk}-whole.json"'


def test_a_result_that_could_not_be_kept_says_so(reader: Reader, alice: User, settings: Any) -> None:
    settings.KEEP_WHOLE_BODIES_BYTES = 5_000_000
    assert "Results up to 4.8\xa0MB are kept whole, but this one is not." in reader.page(make(alice, LONG))
    marked = {"$redacted": "not logged: too many large results at once", "length": 9_000_000}
    busy = make(alice, marked, 2, result_bytes=9_000_000, result_sha256="")
    page = reader.page(busy)
    assert "Too large to keep" in page and "Download result" not in page


def test_replaced_secrets_are_noted(reader: Reader, alice: User) -> None:
    call = make(
        alice, {"content": []}, arguments='{"password":{"$redacted":"hmac-sha256:0123456789abcdef","length":9}}'
    )
    assert reader.page(call).count("Secret values in it were replaced before it was kept.") == 1


def test_exports_say_whether_a_result_is_complete(alice: User) -> None:
    make(alice, LONG, 1)
    make(alice, {"content": []}, 2)
    make(alice, LONG, 3, body_state="pruned", result="pruned:sha256:" + "0" * 64)
    lines = [json.loads(line) for line in b"".join(export_rows.chunks(CallSearch(), "jsonl")).splitlines()]
    assert [(line["result_kept_bytes"], line["result_complete"]) for line in lines] == [
        (0, False),
        (14, True),
        (65_536, False),
    ]


def test_a_comparison_names_what_it_does_not_have(alice: User, root: User) -> None:
    pair = make(alice, LONG, 1), make(alice, {"content": []}, 2)
    query = {"call": [str(call.pk) for call in pair]}
    reader = Reader(root, "admin")
    assert "First 64.0\xa0KB of" in reader.client.get(reverse("admin:audit_call_compare"), query).content.decode()
    keep_whole(pair[0], canonical(LONG))
    assert "First 64.0\xa0KB of" not in reader.client.get(reverse("admin:audit_call_compare"), query).content.decode()


# --- results by their kind -------------------------------------------------------------------------------------------


def test_pictures_and_sound_of_a_whole_result_have_addresses_of_their_own(reader: Reader, alice: User) -> None:
    picture = PNG + b"\0" * 100_000
    result = {
        "content": [
            {"type": "image", "data": encoded(picture), "mimeType": "image/png"},
            {"type": "audio", "data": encoded(WAVE), "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "docs://a\u202e", "blob": encoded(b"zip"), "mimeType": "a/zip"}},
            {"type": "resource_link", "uri": "javascript:alert(1)", "name": "Report"},
        ]
    }
    call = make(alice, result)
    keep_whole(call, canonical(result))
    page = reader.page(call)
    assert page.count('<img src="/') >= 1 and "/part/0/" in page and "<audio controls" in page and "/part/2/" in page
    assert 'href="javascript' not in page and "⟨U+202E" in page
    assert reader.part(call, 0).content == picture


@pytest.mark.parametrize(
    ("method", "result", "said"),
    [
        ("prompts/get", {"messages": [{"role": "user", "content": {"type": "text", "text": "你好"}}]}, "user: Text"),
        ("resources/read", {"contents": [{"uri": "docs://a", "text": "你好"}]}, "docs://a"),
        ("tools/call", {"content": [{"type": "text", "text": '{"greeting":"你好"}'}]}, "JSON"),
    ],
)
def test_results_of_every_method_are_readable(reader: Reader, alice: User, method: str, result: Any, said: str) -> None:
    page = reader.page(make(alice, result, method=method))
    assert said in page and "你好" in page and "\\u4f60" not in page


def test_rows_of_a_structured_result_are_a_table(reader: Reader, alice: User) -> None:
    rows = [{"city": "北京", "degrees": number} for number in range(3)]
    page = reader.page(make(alice, {"content": [], "structuredContent": {"rows": rows, "unit": "C"}}))
    assert '<th scope="col">city</th>' in page and '<td dir="auto">北京</td>' in page


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "\u202e" * 90_000}] * 30},
        {"content": [], "structuredContent": [{f"<{n}>": "<&'\"" * 100 for n in range(30)}] * 300},
        {"content": "text", "structuredContent": {"a": [[[[]]]] * 100}},
        {"messages": [7, {"role": 7, "content": 7}]},
        {"contents": [7, {"uri": 7, "blob": "%%%"}]},
        {"content": [{"type": "resource", "resource": 7}, {"type": "image", "data": "a"}, {"type": 7}]},
    ],
)
def test_any_result_leaves_the_page_small(reader: Reader, alice: User, result: Any) -> None:
    call = make(alice, result)
    if len(canonical(result)) > 65_536:
        keep_whole(call, canonical(result))
    assert 3_000 < len(reader.page(call).encode()) < 300_000


def test_a_picture_is_kept_by_the_browser_of_its_reader_and_asked_for_again_at_no_cost(
    reader: Reader, alice: User, charlie: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = make(alice, {"content": [{"type": "image", "data": encoded(PNG)}]})
    first = reader.part(call, 0)
    assert first["Cache-Control"] == "private, no-cache" and first["ETag"]
    monkeypatch.setattr(sections, "part_of", None)  # unpacks nothing
    again = reader.part(call, 0, first["ETag"])
    assert (again.status_code, again.content, again["Cache-Control"]) == (304, b"", "private, no-cache")
    assert Reader(charlie, "user").part(call, 0, first["ETag"]).status_code == 404
    Call.objects.filter(pk=call.pk).update(body_state="pruned", arguments="pruned:", result="pruned:")
    monkeypatch.undo()
    assert reader.part(call, 0, first["ETag"]).status_code == 404


def test_files_that_an_auditor_reads_are_logged_and_all_parts_of_a_call_once(alice: User, root: User) -> None:
    picture = {"type": "image", "data": encoded(PNG)}
    call = make(alice, {"content": [picture, picture]})
    reader = Reader(root, "admin")
    for number in (0, 1, 0):
        assert reader.part(call, number).status_code == 200
    reader.file(call, "arguments")
    logged = Action.objects.filter(verb="copied", target=str(call.pk)).order_by("pk")
    assert [json.loads(action.after)["what"] for action in logged] == ["parts", "arguments"], (
        "once for the page, not for each picture"
    )


def test_tool_health_says_what_whole_results_take(alice: User, root: User) -> None:
    keep_whole(make(alice, LONG), canonical(LONG))
    WholeBody.objects.update(stored=2_000_000)
    page = Reader(root, "admin").client.get(reverse("pages:health")).content.decode()
    assert "Whole results beside the audit log: 1, compressed to 1.9\xa0MB." in page
    assert "TOOLHUB_KEEP_WHOLE_BODIES_MB" in page
