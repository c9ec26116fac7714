"""Tool health: what the audit log says about the tools, each finding with its evidence and advice."""

from __future__ import annotations

import itertools
import json
import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone
from django.utils.translation import override

from audit.models import Call
from catalog.schemas import errors, validator
from catalog.schemas.errors import SchemaProblem
from tests.audit.rows import build_call, save
from tests.factories import grant, make_tool
from toolhub.pages.health import finding_texts, findings, queries

pytestmark = pytest.mark.django_db
_numbers = itertools.count(1)
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(autouse=True)
def _no_time_limit(monkeypatch):
    monkeypatch.setattr(queries, "MAX_SECONDS", 600)


def build_recent_call(seconds: float, **values) -> Call:
    started = timezone.now() - timedelta(seconds=seconds)
    return build_call(next(_numbers), started_at=started, **{"target_id": 1, **values})


def make_arguments(number: int) -> str:
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
def test_users_who_may_see_only_the_audit_log_or_only_the_tools_are_denied(client, permission):
    user = User.objects.create_user("sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename=permission))
    client.force_login(user)
    assert client.get("/admin/health/").status_code == 403


def test_it_only_reads(client, root):
    client.force_login(root)
    assert client.post("/admin/health/").status_code == 405


# --- findings ----------------------------------------------------------------------------------------------------


ODD = 'x": is required'


def schema_check(**properties):
    schema = {"type": "object", "properties": properties, "required": ["n"], "additionalProperties": False}
    return validator.validator(json.dumps(schema), schema)


def test_the_code_of_a_problem_says_which_parameter_and_how():
    check = schema_check(
        unit={"type": "string", "enum": ["c", "f"]},
        n={"type": "integer", "maximum": 10},
        day={"type": "string", "pattern": "^[0-9]+$"},
        ids={"type": "array", "items": {"type": "integer"}},
        **{ODD: {"type": "integer"}},
    )
    wrong: tuple[object, ...] = (
        {"unit": "k"},
        {"n": 11},
        {"day": "x"},
        {"n": "1"},
        {"m": 1},
        {},
        {"ids": [1, 2, 3, "x"]},
        {ODD: "x"},
        [],
    )
    assert [findings.classify_problem(check(one)) for one in wrong] == [
        ("unit", findings.CHOICE),
        ("n", findings.BOUND),
        ("day", findings.PATTERN),
        ("n", findings.TYPE),
        ("m", findings.UNKNOWN),
        ("n", findings.MISSING),
        ("ids[]", findings.TYPE),
        (ODD, findings.TYPE),
        ("", findings.OTHER),
    ]
    assert findings.classify_problem(None) == ("", findings.OTHER)


@pytest.mark.parametrize("code", sorted(errors.CODES))
def test_every_kind_of_argument_problem_has_a_description(code):
    problem = SchemaProblem(("a",), code, {"limit": 1})
    assert findings.classify_problem(problem)[1] in finding_texts.PROBLEM_TEXTS


def test_a_parameter_whose_name_reads_like_a_problem_is_named_with_what_was_expected(client, root):
    make_tool("book_room")
    problem = schema_check(n={"type": "integer"}, **{ODD: {"type": "integer", "maximum": 3}})({ODD: 4})
    save(
        *(build_recent_call(100 * number, name="book_room", **make_rejected_columns(problem)) for number in range(1, 5))
    )
    html = section(page(client, root), "arguments")
    assert f"“{ODD}” is out of range: expected at most 3, in 4 of 4 calls." in html
    chinese = unescape(client.get("/admin/health/", headers={"accept-language": "zh-hans"}).content.decode())
    with override("zh-hans"):
        assert errors.translate(problem) in chinese and errors.translate_expected(problem.code, problem.params)
    assert "is missing" not in html


def make_rejected_columns(problem):
    """The columns of a call whose arguments had this problem."""
    return {"outcome": "invalid_arguments", "detail": str(problem), "detail_reason": problem.reason.text}


def test_a_repeatedly_invalid_argument_is_named_with_its_calls(client, root):
    tool = make_tool("book_room")
    wrong = {"name": "book_room", **make_rejected_columns(SchemaProblem(("room",), errors.MISSING))}
    save(
        *(build_recent_call(100 * number, arguments=make_arguments(number), **wrong) for number in range(1, 5)),
        build_recent_call(50, name="book_room"),
    )
    html = section(page(client, root), "arguments")
    assert "“room” is missing, in 4 of 5 calls." in html and "default to the schema" in html
    assert f"/admin/catalog/tool/{tool.pk}/change/" in html
    listed = client.get(re.findall(r'href="([^"]*outcome=invalid_arguments[^"]*)"', html)[0])
    assert len(listed.context["cl"].page.rows) == 4


def test_one_client_in_a_loop_is_found_and_two_clients_are_not(client, root, alice):
    same = {"user": alice, "name": "get_status", "arguments": '{"job":7}', "outcome": "ok"}
    save(*(build_recent_call(1000 + 20 * number, **same) for number in range(6)))
    save(
        *(
            build_recent_call(2000 + number, **{**same, "name": "other"}, credential_id=f"token:{number}")
            for number in range(6)
        )
    )
    save(
        *(
            build_recent_call(3000 + number, **{**same, "name": "third", "arguments": make_arguments(number)})
            for number in range(6)
        )
    )
    save(*(build_recent_call(4000 + 700 * number, **{**same, "name": "fourth"}) for number in range(6)))
    html = section(page(client, root), "loops")
    assert "claude-code of alice sent the same arguments 6 times within ten minutes." in html
    assert not any(name in html for name in ("other", "third", "fourth"))
    listed = client.get(re.findall(r'href="([^"]*audit/call/\?[^"]*)"', html)[0])
    assert len(listed.context["cl"].page.rows) == 6


def test_a_tool_that_is_left_alone_after_an_error_is_found_and_one_that_is_tried_again_is_not(client, root):
    for number in range(4):
        start = 20_000 - 3_000 * number
        failed = {"outcome": "tool_error", "detail": "no such file"}
        save(build_recent_call(start, name="read_file", arguments=make_arguments(number), **failed))
        save(build_recent_call(start, name="query", arguments=make_arguments(number), **failed))
        save(build_recent_call(start - 60, name="query", arguments=make_arguments(number + 100)))
    save(build_recent_call(1, name="anything"))
    html = section(page(client, root), "given-up")
    assert "After 4 of 4 errors" in html and "read_file" in html and "no such file" in html and "query" not in html


def test_slow_and_failing_tools_are_found(client, root):
    slow = {"name": "render_video", "duration_us": 42_000_000}
    save(*(build_recent_call(100 + number, arguments=make_arguments(number), **slow) for number in range(6)))
    failing = {"name": "get_price", "outcome": "tool_error", "detail": "upstream says 503"}
    save(*(build_recent_call(200 + number, arguments=make_arguments(number), **failing) for number in range(6)))
    dead = {"name": "report", "outcome": "timeout", "duration_us": 30_000_000}
    save(*(build_recent_call(300 + number, arguments=make_arguments(number), **dead) for number in range(3)))
    save(*(build_recent_call(400 + number, arguments=make_arguments(number), name="fine") for number in range(9)))
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
    save(build_recent_call(100, name="search_orders"))
    html = section(page(client, root), "unused")
    assert "The name is almost the same as search_orders." in html
    assert "No grant allows this tool to anyone" in html.split("get_invoice_pdf")[1]
    assert "switched_off" not in html and "2" in page(client, root).split('href="#unused"')[1][:600]


def test_calls_of_unknown_tools_are_no_tools_fault(client, root):
    gone = {"name": "made_up", "target_id": None, "outcome": "unknown_tool"}
    save(*(build_recent_call(100 + 90 * number, arguments=make_arguments(number), **gone) for number in range(9)))
    html = page(client, root)
    assert "made_up" not in html


# --- bounds ------------------------------------------------------------------------------------------------------


def test_the_page_says_how_far_it_searched(client, root, monkeypatch):
    save(*(build_recent_call(number) for number in range(1, 300)), build_recent_call(3 * 86_400))
    assert "Based on all 300 tool calls" in page(client, root)
    assert "Based on all 299 tool calls" in page(client, root, days=1)
    monkeypatch.setattr(queries, "MAX_CALLS", 250)
    html = page(client, root)
    assert (
        "Based on the newest 250 tool calls, back to" in html and "Older calls in this period are not included." in html
    )


def test_the_search_stops_when_the_time_is_up(monkeypatch):
    save(*(build_recent_call(number) for number in range(1, 600)))
    monkeypatch.setattr(queries, "MAX_SECONDS", 0)
    looked = queries.read_newest(7)
    assert looked.cut and len(looked.attempts) == queries._FIRST_ROWS


def test_the_page_shows_a_bounded_part_with_a_bounded_number_of_queries(client, root, django_assert_max_num_queries):
    for number in range(60):
        make_tool(f"find_thing_{number:02d}")
    save(
        *(
            build_recent_call(
                1 + tool * 10 + number,
                name=f"find_thing_{tool:02d}",
                **make_rejected_columns(SchemaProblem((name,), errors.MISSING)),
            )
            for tool in range(30)
            for number, name in enumerate("aaa")
        )
    )
    client.force_login(root)
    with django_assert_max_num_queries(22):
        html = client.get("/admin/health/").content.decode()
    assert "20 of 30 are shown." in html and len(html) < 300_000
    assert queries.MAX_LISTED_TOOLS == 20


def test_stored_values_are_text(client, root):
    make_tool("odd")
    wrong = make_rejected_columns(
        SchemaProblem((HOSTILE,), errors.ENUM, {"values": HOSTILE, "got": "string", "value": HOSTILE})
    )
    save(*(build_recent_call(100 + number, name="odd", client_name=HOSTILE, **wrong) for number in range(6)))
    client.force_login(root)
    html = client.get("/admin/health/").content.decode()
    assert "<script>alert" not in html and "&lt;script&gt;alert(1)" in html
