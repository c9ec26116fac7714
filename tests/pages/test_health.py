"""Tool health: what the record says about the tools, each finding with its evidence and advice."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from audit.models import Call
from tests.audit.rows import call, save
from tests.factories import grant, make_tool
from toolhub.pages.health import findings, queries

pytestmark = pytest.mark.django_db
_numbers = itertools.count(1)
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(queries, "SECONDS", 600)


def ago(seconds: float, **values) -> Call:
    started = timezone.now() - timedelta(seconds=seconds)
    return call(next(_numbers), started_at=started, **{"target_id": 1, **values})


def different(number: int) -> str:
    return f'{{"a":{number}}}'


def page(client, root, **query) -> str:
    client.force_login(root)
    response = client.get("/admin/health/", query)
    assert response.status_code == 200
    return unescape(response.content.decode())


def section(html: str, name: str) -> str:
    return html.split(f'<section class="overview-section" id="{name}">')[1].split("</section>")[0]


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("permission", ["view_call", "view_tool"])
def test_who_may_see_only_the_record_or_only_the_tools_is_refused(client, permission):
    user = User.objects.create_user("sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename=permission))
    client.force_login(user)
    assert client.get("/admin/health/").status_code == 403


def test_it_only_reads(client, root):
    client.force_login(root)
    assert client.post("/admin/health/").status_code == 405


# --- findings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sentence, expected",
    [
        ('argument "to": is required', ("to", findings.MISSING, "")),
        ('argument "too": is not known; expected one of "to"', ("too", findings.UNKNOWN, "")),
        (
            'argument "unit": expected one of "c", "f", got string "k"',
            ("unit", findings.CHOICE, 'one of "c", "f"'),
        ),
        ('argument "n": expected at most 10, got integer 11', ("n", findings.BOUND, "at most 10")),
        (
            'argument "day": expected text that matches ^\\d+$, got string "x"',
            ("day", findings.PATTERN, "text that matches ^\\d+$"),
        ),
        ('argument "ids[3]": expected integer, got string "x"', ("ids[]", findings.TYPE, "integer")),
        ("something else", ("", findings.OTHER, "")),
    ],
    ids=["missing", "unknown", "choice", "bound", "pattern", "type", "other"],
)
def test_the_sentence_of_a_refusal_says_which_parameter_and_how(sentence, expected):
    assert findings.what_was_wrong(sentence) == expected


def test_the_sentences_are_those_of_the_real_check():
    from catalog.schemas.validator import validator

    schema = {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["c", "f"]},
            "n": {"type": "integer", "maximum": 10},
            "day": {"type": "string", "pattern": "^[0-9]+$"},
        },
        "required": ["n"],
        "additionalProperties": False,
    }
    check = validator("health", schema)
    found = [check(wrong) for wrong in ({"unit": "k"}, {"n": 11}, {"day": "x"}, {"n": "1"}, {"m": 1}, {})]
    assert [findings.what_was_wrong(str(one))[:2] for one in found] == [
        ("unit", findings.CHOICE),
        ("n", findings.BOUND),
        ("day", findings.PATTERN),
        ("n", findings.TYPE),
        ("m", findings.UNKNOWN),
        ("n", findings.MISSING),
    ]


def test_an_argument_that_is_refused_again_and_again_is_named_with_its_calls(client, root):
    tool = make_tool("book_room")
    wrong = {"name": "book_room", "outcome": "invalid_arguments", "detail": 'argument "room": is required'}
    save(
        *(ago(100 * number, arguments=different(number), **wrong) for number in range(1, 5)), ago(50, name="book_room")
    )
    html = section(page(client, root), "arguments")
    assert "“room” is missing, in 4 of 5 calls." in html and "default to the schema" in html
    assert f"/admin/catalog/tool/{tool.pk}/change/" in html
    listed = client.get(re.findall(r'href="([^"]*outcome=invalid_arguments[^"]*)"', html)[0])
    assert len(listed.context["cl"].page.rows) == 4


def test_one_client_in_a_loop_is_found_and_two_clients_are_not(client, root, alice):
    same = {"user": alice, "name": "get_status", "arguments": '{"job":7}', "outcome": "ok"}
    save(*(ago(1000 + 20 * number, **same) for number in range(6)))
    save(*(ago(2000 + number, **{**same, "name": "other"}, credential_id=f"token:{number}") for number in range(6)))
    save(*(ago(3000 + number, **{**same, "name": "third", "arguments": different(number)}) for number in range(6)))
    save(*(ago(4000 + 700 * number, **{**same, "name": "fourth"}) for number in range(6)))
    html = section(page(client, root), "loops")
    assert "claude-code of alice sent the same arguments 6 times within ten minutes." in html
    assert not any(name in html for name in ("other", "third", "fourth"))
    listed = client.get(re.findall(r'href="([^"]*audit/call/\?[^"]*)"', html)[0])
    assert len(listed.context["cl"].page.rows) == 6


def test_a_tool_that_is_left_alone_after_an_error_is_found_and_one_that_is_tried_again_is_not(client, root):
    for number in range(4):
        start = 20_000 - 3_000 * number
        failed = {"outcome": "tool_error", "detail": "no such file"}
        save(ago(start, name="read_file", arguments=different(number), **failed))
        save(ago(start, name="query", arguments=different(number), **failed))
        save(ago(start - 60, name="query", arguments=different(number + 100)))
    save(ago(1, name="anything"))
    html = section(page(client, root), "given-up")
    assert "After 4 of 4 errors" in html and "read_file" in html and "no such file" in html and "query" not in html


def test_slow_and_failing_tools_are_found(client, root):
    slow = {"name": "render_video", "duration_us": 42_000_000}
    save(*(ago(100 + number, arguments=different(number), **slow) for number in range(6)))
    failing = {"name": "get_price", "outcome": "tool_error", "detail": "upstream says 503"}
    save(*(ago(200 + number, arguments=different(number), **failing) for number in range(6)))
    dead = {"name": "report", "outcome": "timeout", "duration_us": 30_000_000}
    save(*(ago(300 + number, arguments=different(number), **dead) for number in range(3)))
    save(*(ago(400 + number, arguments=different(number), name="fine") for number in range(9)))
    html = section(page(client, root), "trouble")
    assert "render_video" in html and "42.00 s" in html and "Report progress" in html
    assert "6 of 6 calls failed" in html and "upstream says 503" in html
    assert "(timed out: 3)" in html and "Increase its timeout" in html
    assert "fine" not in html


def test_a_tool_that_nobody_calls_is_named_with_its_twin_and_the_grant_it_lacks(client, root):
    said = "Search the orders of a customer by number, date or state. Use it to answer questions about an order."
    grant(None, make_tool("search_order", description=said))
    make_tool("get_invoice_pdf", description="Download the PDF of an invoice.")
    make_tool("search_orders", description=said)
    make_tool("switched_off", enabled=False)
    save(ago(100, name="search_orders"))
    html = section(page(client, root), "unused")
    assert "The name is almost the same as search_orders." in html
    assert "No grant allows this tool to anyone" in html.split("get_invoice_pdf")[1]
    assert "switched_off" not in html and "2" in page(client, root).split('href="#unused"')[1][:600]


def test_attempts_at_tools_that_are_not_there_are_no_tools_fault(client, root):
    gone = {"name": "made_up", "target_id": None, "outcome": "unknown_tool"}
    save(*(ago(100 + 90 * number, arguments=different(number), **gone) for number in range(9)))
    html = page(client, root)
    assert "made_up" not in html


# --- bounds ------------------------------------------------------------------------------------------------------


def test_it_says_how_far_it_looked(client, root, monkeypatch):
    save(*(ago(number) for number in range(1, 300)), ago(3 * 86_400))
    assert "Based on all 300 tool calls" in page(client, root)
    assert "Based on all 299 tool calls" in page(client, root, days=1)
    monkeypatch.setattr(queries, "CALLS", 250)
    html = page(client, root)
    assert (
        "Based on the newest 250 tool calls, back to" in html and "Older calls in this period are not included." in html
    )


def test_it_stops_looking_when_the_time_is_up(monkeypatch):
    save(*(ago(number) for number in range(1, 600)))
    monkeypatch.setattr(queries, "SECONDS", 0)
    looked = queries.newest(7)
    assert looked.cut and len(looked.attempts) == queries._FIRST


def test_it_shows_a_bounded_part_and_asks_a_bounded_number_of_questions(client, root, django_assert_max_num_queries):
    for number in range(60):
        make_tool(f"find_thing_{number:02d}")
    wrong = {"outcome": "invalid_arguments"}
    save(
        *(
            ago(
                1 + tool * 10 + number, name=f"find_thing_{tool:02d}", detail=f'argument "{name}": is required', **wrong
            )
            for tool in range(30)
            for number, name in enumerate("aaa")
        )
    )
    client.force_login(root)
    with django_assert_max_num_queries(22):
        html = client.get("/admin/health/").content.decode()
    assert "20 of 30 are shown." in html and len(html) < 300_000
    assert queries.SHOWN == 20


def test_what_is_stored_is_text(client, root):
    make_tool("odd")
    wrong = {"outcome": "invalid_arguments", "detail": f'argument "{HOSTILE}": is required {HOSTILE}'}
    save(*(ago(100 + number, name="odd", client_name=HOSTILE, **wrong) for number in range(6)))
    client.force_login(root)
    html = client.get("/admin/health/").content.decode()
    assert "<script>alert" not in html and "&lt;script&gt;alert(1)" in html
