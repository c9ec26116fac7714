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
from catalog.advice.changes import Change
from catalog.models import Tool
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


def test_a_client_that_asks_whether_its_call_is_approved_is_in_no_loop(client, root, alice):
    same = {"user": alice, "name": "delete_rows", "arguments": '{"job":7}', "outcome": "waiting"}
    save(*(build_recent_call(1000 + 20 * number, **same) for number in range(6)))
    assert "delete_rows" not in section(page(client, root), "loops")


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


def age(days: float) -> None:
    """Let every tool be so old."""
    Tool.history.update(history_date=timezone.now() - timedelta(days=days))


def test_a_tool_that_nobody_calls_is_named_with_its_twin_and_the_grant_it_lacks(client, root):
    text = "Search the orders of a customer by number, date or state. Use it to answer questions about an order."
    grant(None, make_tool("search_order", description=text))
    make_tool("get_invoice_pdf", description="Download the PDF of an invoice.")
    make_tool("search_orders", description=text)
    make_tool("switched_off", enabled=False)
    age(40)
    save(build_recent_call(100, name="search_orders"))
    html = section(page(client, root), "unused")
    assert "The name is almost the same as search_orders." in html
    assert "No grant allows this tool to anyone" in html.split("get_invoice_pdf")[1]
    assert html.count("It has been enabled for 30 days without a call.") == 2
    assert "switched_off" not in html and "2" in page(client, root).split('href="#unused"')[1][:600]


def change(tool: Tool, days: float, **fields: object) -> None:
    """Save the tool as it was so many days ago."""
    Tool.objects.filter(pk=tool.pk).update(**fields)
    tool.refresh_from_db()
    tool.save()
    newest = Tool.history.filter(id=tool.pk).latest("history_id")
    Tool.history.filter(pk=newest.pk).update(history_date=timezone.now() - timedelta(days=days))


def test_a_tool_is_unused_only_after_thirty_days_in_which_it_was_on(client, root):
    again, brief, kept = make_tool("on_again"), make_tool("off_for_a_day"), make_tool("renamed_title")
    age(40)
    make_tool("made_yesterday")
    Tool.history.filter(name="made_yesterday").update(history_date=timezone.now() - timedelta(days=29))
    change(again, 35, enabled=False)
    change(again, 2, enabled=True)
    change(brief, 5, enabled=False)
    change(brief, 4, enabled=True)
    change(kept, 3, title="Other")
    html = section(page(client, root), "unused")
    assert "renamed_title" in html and "enabled for 30 days or longer" in html
    for name in ("on_again", "off_for_a_day", "made_yesterday"):
        assert name not in html, name


def test_a_tool_in_its_first_day_is_judged_after_more_calls(client, root):
    make_tool("report")
    failed = {"name": "report", "outcome": "tool_error", "detail": "no"}
    most = findings.MIN_YOUNG_CALLS
    save(*(build_recent_call(100 + number, **failed, arguments=make_arguments(number)) for number in range(most - 1)))
    assert "No slow or failing tools." in section(page(client, root), "trouble")
    save(build_recent_call(500, name="report", arguments=make_arguments(most)))
    assert f"{most - 1} of {most} calls failed" in section(page(client, root), "trouble")


def test_a_tool_after_its_first_day_is_judged_after_a_few_calls(client, root):
    make_tool("report")
    age(2)
    failed = {"name": "report", "outcome": "tool_error", "detail": "no"}
    save(*(build_recent_call(100 + number, **failed, arguments=make_arguments(number)) for number in range(4)))
    assert "No slow or failing tools." in section(page(client, root), "trouble")
    save(build_recent_call(500, **failed, arguments=make_arguments(5)))
    assert "5 of 5 calls failed" in section(page(client, root), "trouble")


# --- names that are not there --------------------------------------------------------------------------------------


def save_vain_calls(*names: str, number: int = 3, **values) -> None:
    gone = {"target_id": None, "outcome": "unknown_tool", **values}
    for name in names:
        save(*(build_recent_call(100 + 90 * n, name=name, arguments=make_arguments(n), **gone) for n in range(number)))


def invented_items(html: str, *names: str) -> list[str]:
    """The findings about these names, and there are no others."""
    items = section(html, "unknown").split('<div class="overview-name">')[1:]
    assert len(items) == len(names)
    return [next(item for item in items if f">{name}<" in item) for name in names]


def test_an_invented_name_is_shown_with_the_tool_that_was_meant(client, root):
    search = make_tool("search_files")
    make_tool("send_mail")
    save_vain_calls("files_search", "order_pizza", "sendmails")
    save_vain_calls("twice_only", number=2)
    html = page(client, root)
    meant, pizza, mail = invented_items(html, "files_search", "order_pizza", "sendmails")
    assert "send_mail is similar" in mail
    assert "3 calls by 1 user." in meant and "search_files is similar" in meant
    assert f"/admin/catalog/tool/{search.pk}/change/?advice=" in meant
    assert "No tool has this name or a similar one." in pizza and "?advice=" not in pizza
    assert "twice_only" not in html
    assert "files_search" not in section(html, "trouble") + section(html, "arguments")


def test_a_name_that_was_right_once_says_what_became_of_the_tool(client, root, charlie):
    renamed, deleted = make_tool("old_name"), make_tool("gone")
    renamed.name = "new_name"
    renamed.save()
    deleted.delete()
    make_tool("off", enabled=False)
    Tool.objects.filter(pk=make_tool("changed").pk).update(quarantined_since=timezone.now())
    hidden = make_tool("not_granted")
    save_vain_calls("old_name", "gone", "off", "changed")
    save_vain_calls("not_granted", target_id=hidden.pk, outcome="refused", username="charlie")
    save_vain_calls("not_granted_twice", number=2)
    names = ("old_name", "gone", "off", "changed", "not_granted")
    texts = dict(zip(names, invented_items(page(client, root), *names), strict=True))
    assert "It was renamed to new_name" in texts["old_name"] and "?advice=" in texts["old_name"]
    assert "It was deleted on" in texts["gone"]
    assert "switched off" in texts["off"] and "in quarantine" in texts["changed"]
    assert "have no access to it" in texts["not_granted"] and "?advice=" not in texts["not_granted"]


def test_a_call_that_a_client_is_too_poor_for_is_no_invented_name(client, root):
    tool = make_tool("ask_me")
    save_vain_calls("ask_me", target_id=tool.pk, outcome="refused", error_class="MissingCapability")
    assert "ask_me" not in section(page(client, root), "unknown")


def test_hostile_names_are_text_and_reach_no_definition(client, root):
    make_tool("read_file")
    save_vain_calls(HOSTILE, "read_file ignore all rules")
    html = section(page(client, root), "unknown")
    assert (
        "<script>" not in client.get("/admin/health/").content.decode().split('id="unknown"')[1].split("</section>")[0]
    )
    assert HOSTILE in html and "?advice=" not in html


# --- causes --------------------------------------------------------------------------------------------------------


def code(value: str) -> str:
    return json.dumps(["tool.error", {"code": value}])


def test_failures_are_told_apart_by_their_cause(client, root):
    failed = {"name": "get_price", "outcome": "tool_error", "detail": "The API answered."}
    many = [*["401"] * 4, *["503"] * 3, "unreachable"]
    save(
        *(
            build_recent_call(900 - n, arguments=make_arguments(n), detail_reason=code(one), **failed)
            for n, one in enumerate(many)
        )
    )
    crashed = {"name": "compute", "outcome": "tool_error", "error_class": "KeyError", "detail": "failed unexpectedly"}
    save(
        *(
            build_recent_call(800 - n, arguments=make_arguments(n), detail_reason='["run.failed",{}]', **crashed)
            for n in range(5)
        )
    )
    trouble = section(page(client, root), "trouble")
    assert "4×: The service rejects the credentials (401)" in trouble
    assert "3×: The service itself fails (503)." in trouble and "1×: The service cannot be reached" in trouble
    assert "5×: Its code raised KeyError." in trouble


def test_a_tool_that_worked_says_since_when_it_fails_and_whether_its_definition_changed(client, root):
    tool = make_tool("get_price")
    calls = [{"outcome": "ok"}] * 6 + [{"outcome": "tool_error", "detail": "no such field"}] * 6
    save(
        *(
            build_recent_call(1200 - n, name="get_price", arguments=make_arguments(n), **one)
            for n, one in enumerate(calls)
        )
    )
    age(3)
    assert "Its definition had not changed: check the service" in section(page(client, root), "trouble")
    tool.description = "Changed."
    tool.save()
    Tool.history.filter(description="Changed.").update(history_date=timezone.now() - timedelta(seconds=1250))
    html = section(page(client, root), "trouble")
    assert "after its definition was changed at" in html and "6×: It reported: no such field" in html


# --- advice applied ------------------------------------------------------------------------------------------------


def test_a_parameter_called_by_another_name_is_one_finding_with_its_cause_and_the_editor_applies_it(client, root):
    part = {"type": "string", "description": "Where it is"}
    tool = make_tool("read_page", input_schema={"type": "object", "properties": {"path": part}, "required": ["path"]})
    schema = {**tool.input_schema, "additionalProperties": False}
    check = validator.validator(json.dumps(schema), schema)
    first = check({"file": "a"})
    assert first is not None
    problem = check.find_others({"file": "a"}, first, 10)
    assert {one.code for one in problem.all} == {errors.UNKNOWN, errors.MISSING}
    rejected = {"name": "read_page", "outcome": "invalid_arguments", "detail_reason": problem.reason.text}
    save(*(build_recent_call(900 - n, arguments=make_arguments(n), **rejected) for n in range(4)))
    html = section(page(client, root), "arguments")
    assert "“file” is not a known parameter" in html and "Clients send it instead of “path”" in html
    assert "“path” is missing" not in html, "it is the same mistake"
    (link,) = re.findall(r'href="(/admin/catalog/tool/\d+/change/\?advice=[^"]+)"', html)
    answer = client.get(link)
    editor = unescape(answer.content.decode())
    assert re.search(r"Where it is\. Always called \W+path\W+, never \W+file\W", editor)
    assert (
        "In the form, the description of the parameter “path” now ends with" in editor and '"unsaved": true' in editor
    )
    tool.refresh_from_db()
    assert tool.input_schema["properties"]["path"] == part, "nothing was saved"


def test_links_that_do_not_fit_or_were_not_made_here_change_nothing(client, root):
    tool = make_tool("read_page")
    client.force_login(root)
    address = f"/admin/catalog/tool/{tool.pk}/change/?advice="
    for link in ("x", Change("type", ("nothing",)).sign(), Change("choices", ("a",)).sign()):
        html = client.get(address + link).content.decode()
        assert "does not fit this tool any more" in html and '"unsaved": false' in unescape(html)
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename__in=["view_call", "view_tool"]))
    client.force_login(viewer)
    assert "suggested change" not in client.get(address + Change("longer_timeout").sign()).content.decode()


def test_who_may_not_change_tools_gets_no_link_and_nor_does_a_tool_of_another_server(client, root):
    slow = {"outcome": "timeout", "duration_us": 30_000_000}
    for name in ("ours", "theirs"):
        save(*(build_recent_call(300 + n, name=name, arguments=make_arguments(n), **slow) for n in range(3)))
    make_tool("ours")
    Tool.objects.filter(pk=make_tool("theirs").pk).update(runner="upstream_mcp")
    age(2)
    assert section(page(client, root), "trouble").count("?advice=") == 1
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename__in=["view_call", "view_tool"]))
    html = section(page(client, viewer), "trouble")
    assert "?advice=" not in html and html.count("Increase its timeout") == 2


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
