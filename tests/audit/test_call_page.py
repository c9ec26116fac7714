"""The page of one call, and from it to what came before, what it is compared with, and the copies of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.urls import reverse
from django.utils import translation

from audit.format import chain
from audit.models import Action, Call, Link
from audit.queries import comparison
from catalog.policy import messages
from catalog.policy.definitions import Rule
from catalog.schemas import errors
from catalog.schemas.errors import SchemaProblem
from tests.audit.rows import build_call, save
from tests.database_work import count_instructions

pytestmark = pytest.mark.django_db

LIST, COMPARE = "/admin/audit/call/", "/admin/audit/call/compare/"
QUOTES = 'it\'s "$(touch /tmp/no)" `id` \\ \n é \u202e'


def open_call(reader, row):
    return reader.get(reverse("admin:audit_call_change", args=(row.pk,)))


def copy_call(reader, row, what):
    return reader.get(reverse("admin:audit_call_copy", args=(row.pk, what)))


# --- refusals ----------------------------------------------------------------------------------------------------


def test_staff_without_the_permission_neither_compare_nor_copy(client):
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    row = save(build_call(1))[0]
    assert client.get(COMPARE, {"call": str(row.pk), "with": "previous"}).status_code == 403
    assert copy_call(client, row, "json").status_code == 403
    assert client.get(LIST, {"q": str(row.pk)}).status_code == 403


@pytest.mark.parametrize("what", ["passwords", "user", "xml"])
def test_unknown_copy_formats_and_calls_are_not_found(reader, what):
    assert copy_call(reader, save(build_call(1))[0], what).status_code == 404
    assert copy_call(reader, build_call(2), "json").status_code == 404


@pytest.mark.parametrize(
    "query",
    ["", "call=x&call=y", "call=x&with=previous", "with=previous", "call=0198c0de-0000-7000-8000-000000000000"],
)
def test_comparing_anything_but_two_calls_leads_back_with_a_message(reader, query):
    response = reader.get(f"{COMPARE}?{query}", follow=True)
    assert response.redirect_chain[-1][0] == LIST
    assert "Select two calls in the list" in response.content.decode()


# --- finding -----------------------------------------------------------------------------------------------------


def test_any_id_from_the_audit_log_leads_to_its_page(reader):
    row = save(build_call(7))[0]
    writer, sequence = 101, 16
    Link.objects.create(
        id=row.link, writer=writer, sequence=sequence, kind="begin", subject=row.pk.hex, content="", hash=""
    )
    spellings = [str(row.pk), row.pk.hex.upper(), f" {row.pk} ", f"call {row.pk} (link 101:16, begin): edited"]
    for text in (*spellings, "101:16", "link 101:16"):
        for where in (LIST, "/admin/audit/action/"):
            response = reader.get(where, {"q": text})
            assert response.status_code == 302, text
            assert response["Location"] == reverse("admin:audit_call_change", args=(row.pk,))
    action = Action.objects.filter(actor="toolhub").first() or Action.objects.first()
    assert action is not None
    response = reader.get(LIST, {"q": str(action.pk)})
    assert response["Location"] == reverse("admin:audit_action_change", args=(action.pk,))
    assert chain.split_link_id(row.link) == (writer, sequence)


@pytest.mark.parametrize("text", ["0198c0de-0000-7000-8000-000000000000", "9:9", "9999999:999999999999", "a:b"])
def test_an_id_of_nothing_is_an_empty_list(reader, text):
    response = reader.get(LIST, {"q": text})
    assert response.status_code == 200 and response.context["cl"].result_list == []
    assert "No entries match this search and these filters." in response.content.decode()


def test_hashes_and_credentials_are_found_too(reader):
    first, second = save(
        build_call(1, definition="1" * 64, credential_id="token:7"),
        build_call(2, result_sha256="2" * 64, credential_id="token:71"),
    )
    for text, wanted in (("1" * 64, first), ("2" * 64, second), ("token:7", first), ("token:71", second)):
        rows = reader.get(LIST, {"q": text}).context["cl"].result_list
        assert [row.pk for row in rows] == [wanted.pk], text


# --- the page ----------------------------------------------------------------------------------------------------


def test_the_decision_names_the_rule_and_the_limit(reader, alice):
    limited, refused, fine = save(
        build_call(1, user=alice, outcome="limited", rule="grant 1", detail="Limit 3: 6/m on tool x: wait 12 s"),
        build_call(2, user=alice, outcome="refused", rule="deny: interns"),
        build_call(3, user=alice),
    )
    page = open_call(reader, limited)
    assert ("Limit", "Limit 3: 6/m on tool x: wait 12 s") in page.context["decision"]
    assert ("Rule", "deny: interns") in open_call(reader, refused).context["decision"]
    assert open_call(reader, fine).context["decision"][0] == ("Decision", "Allowed to run.")


@pytest.mark.parametrize(
    ("outcome", "start"),
    [("waiting", "Waited for approval."), ("approval_denied", "Rejected:"), ("approval_expired", "Rejected:")],
)
def test_a_call_that_asked_a_person_is_not_said_to_have_been_allowed_to_run(reader, alice, outcome, start):
    (row,) = save(build_call(1, user=alice, outcome=outcome))
    title, text = open_call(reader, row).context["decision"][0]
    assert title == "Decision" and text.startswith(start)


def test_the_rule_and_the_error_of_a_call_are_in_the_language_of_the_page(reader, alice):
    odd = 'x": is required'
    rule = Rule("rule.grant", {
        "number": 4, "effect": "allow", "kind": "toolset", "name": "A to user B", "by": "group",
        "whom": "Welcome to group B",
    })  # fmt: skip
    problem = SchemaProblem((odd,), "maximum", {"bound": "3", "got": "integer", "value": "4"})
    row, _ = save(
        build_call(1, user=alice, outcome="invalid_arguments", rule=rule.english, rule_reason=rule.text,
             detail=str(problem), detail_reason=problem.reason.text),
        build_call(2, user=alice),
    )  # fmt: skip
    assert ("Rule", rule.english) in open_call(reader, row).context["decision"]
    assert str(problem) in dict(open_call(reader, row).context["decision"]).values()
    where = reverse("admin:audit_call_change", args=(row.pk,))
    with translation.override("zh-hans"):
        wanted = (messages.translate(rule), errors.translate(problem))
    shown = dict(reader.get(where, headers={"accept-language": "zh-hans"}).context["decision"]).values()
    assert wanted[0] == "授权 4：允许用户组 Welcome to group B 使用工具集 A to user B"
    assert set(wanted) <= set(shown) and odd in wanted[1]


def test_a_call_tried_from_the_admin_names_its_administrator(reader, root, alice):
    tried, sent = save(
        build_call(1, user=alice, transport="admin", credential_id=f"admin:{root.pk}", credential="trial"),
        build_call(2, user=alice),
    )
    assert "Tried in the admin by root" in open_call(reader, tried).content.decode()
    assert "Tried in the admin" not in open_call(reader, sent).content.decode()


def test_the_gap_to_the_call_before_is_named(reader, alice):
    rows = save(*(build_call(seconds, user=alice) for seconds in (0, 3, 200, 90_000)))
    gaps = [moment.gap for moment, _, _ in open_call(reader, rows[2]).context["neighbours"]]
    assert gaps == ["", "3.0 s later", "3 min later", "25 h later"]
    assert [moment.is_current for moment, _, _ in open_call(reader, rows[2]).context["neighbours"]] == [
        False,
        False,
        True,
        False,
    ]


def test_repeated_arguments_are_counted_with_their_outcomes(reader, alice, bob):
    rows = save(
        *(build_call(number, user=alice, outcome="tool_error" if number else "ok") for number in range(4)),
        build_call(10, user=alice, arguments='{"a":9}'),
        build_call(11, user=bob),
        build_call(12, user=alice, name="other"),
    )
    found = open_call(reader, rows[2]).context["repeats"]
    assert found.count == 4 and not found.more and found.outcomes == [("Tool error", 3), ("Success", 1)]
    assert "with the same arguments 4 times" in open_call(reader, rows[2]).content.decode()
    assert open_call(reader, rows[4]).context["repeated"] == []


def test_a_long_loop_is_shown_in_part_and_says_so(reader, alice):
    rows = save(*(build_call(number, user=alice) for number in range(40)))
    found = open_call(reader, rows[20]).context["repeats"]
    assert found.more and found.count == 21


def test_a_call_without_links_is_not_called_verified(reader):
    unlinked, linked = save(build_call(1, link=0, end_link=None), build_call(2))
    assert "The hash chain has no entry for this call." in open_call(reader, unlinked).content.decode()
    page = open_call(reader, linked).content.decode()
    assert (
        "This call or its hash chain entry was changed after it was logged." in page
        and "the hash chain entry is missing" in page
    )


def test_who_may_read_the_audit_log_alone_finds_no_way_into_the_catalogue(reader, alice):
    auditors = Group.objects.get(name="auditor")
    auditors.permissions.set(auditors.permissions.filter(content_type__app_label="audit"))
    row = save(build_call(1, user=alice, target_id=1))[0]
    for address in (reverse("admin:audit_call_change", args=(row.pk,)), LIST, "/admin/audit/action/", COMPARE):
        assert "/admin/catalog/" not in reader.get(address, follow=True).content.decode()


def test_bodies_of_any_kind_leave_the_page_small(reader):
    deep = "[" * 900 + "1" + "]" * 900
    rows = save(
        build_call(1, arguments=json.dumps(["\"'&<>" * 40_000]), result="\u202e" * 200_000, detail="<" * 100_000),
        build_call(2, arguments=f"[{','.join([deep] * 500)}]", result=json.dumps({"x" * 99_000: None})),
    )
    for row in rows:
        page = open_call(reader, row)
        assert len(page.content) < 300_000 and "This page shows the beginning." in page.content.decode()
        found = reader.get(COMPARE, {"call": [str(row.pk), str(rows[0].pk), str(rows[1].pk)]}, follow=True)
        assert len(found.content) < 300_000


# --- copies ------------------------------------------------------------------------------------------------------


def test_a_copy_is_a_file_and_is_logged(reader):
    row = save(build_call(1, result="<script>alert(1)</script>"))[0]
    for what, kind in (("result", "text/plain"), ("arguments", "json"), ("curl", "text/plain"), ("json", "json")):
        response = copy_call(reader, row, what)
        assert kind in response["Content-Type"] and response["Content-Disposition"].startswith("attachment;")
        assert response["X-Content-Type-Options"] == "nosniff"
    assert copy_call(reader, row, "result").content.decode() == row.result
    assert Action.objects.filter(verb="copied", kind="call", target=str(row.pk)).count() == 5


def test_the_json_holds_every_column_and_values_where_there_are_some(reader, alice):
    row = save(build_call(1, user=alice, result="not json 天气 \u202e"))[0]
    copy = copy_call(reader, row, "json")
    values = json.loads(copy.content)
    columns = {field.attname for field in Call._meta.concrete_fields}
    assert values.keys() == columns | {"result_kept_bytes", "result_complete"}
    assert values["arguments"] == {"a": 1, "b": 2} and values["result"] == "not json 天气 \u202e"
    assert "天气 \\u202e" in copy.content.decode()


def test_the_curl_command_repeats_the_exact_request_and_a_shell_runs_nothing_in_it(reader, tmp_path: Path, settings):
    settings.PUBLIC_URL = "https://hub.example.com"
    hostile = {QUOTES: [QUOTES, {"$redacted": "hmac-sha256:0123456789abcdef", "length": 9}]}
    row = save(build_call(1, name=f"read{QUOTES}", arguments=json.dumps(hostile)))[0]
    command = copy_call(reader, row, "curl").content.decode()
    assert command.startswith("# Secret and removed values") and "Bearer $TOKEN" in command
    fake = tmp_path / "curl"
    fake.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\0" "$one"; done\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TOKEN": "thp_mine"}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, check=True, timeout=60)
    said = done.stdout.decode().split("\0")[:-1]
    assert done.stderr == b"" and said[:2] == ["-sS", "https://hub.example.com/mcp"]
    assert "Authorization: Bearer thp_mine" in said
    request = json.loads(said[-1])
    assert request["method"] == "tools/call" and request["params"]["name"] == row.name
    assert request["params"]["arguments"] == hostile
    assert all(header.isprintable() and header.isascii() for header in said[:-1])


def test_requests_that_no_client_can_make_have_no_curl_command(reader):
    row = save(build_call(1, method="tasks/get"))[0]
    assert copy_call(reader, row, "curl").status_code == 404
    assert "Copy as curl" not in open_call(reader, row).content.decode()


# --- differences -------------------------------------------------------------------------------------------------


def test_the_difference_of_two_calls_puts_the_earlier_first(reader, alice, django_assert_num_queries):
    first, second = save(
        build_call(1, user=alice, arguments='{"a":1,"b":2}', duration_us=10_000),
        build_call(
            2, user=alice, arguments='{"a":1,"b":3}', outcome="tool_error", detail="no such file", duration_us=90_000
        ),
    )
    page = reader.get(COMPARE, {"call": [str(second.pk), str(first.pk)]})
    found = page.context["found"]
    assert (found.first, found.second) == (first, second) and found.same_tool
    assert [(line.kind, line.text) for line in found.arguments if line.kind != "same"] == [
        ("gone", '  "b": 2'),
        ("new", '  "b": 3'),
    ]
    assert [fact.name for fact in found.facts if fact.differs] == ["Status", "Duration", "Error"]
    assert found.result == [] and "The same in both." in page.content.decode()
    assert Action.objects.filter(verb="viewed").count() == 2
    # session, user, permissions (2), the calls, and two actions in a savepoint (5 each, and on PostgreSQL a lock each)
    with django_assert_num_queries(15 + 2 * (connection.vendor == "postgresql")):
        reader.get(COMPARE, {"call": [str(first.pk), str(second.pk)]})


@pytest.mark.parametrize("most", [1, comparison.MAX_CALLS_OF_TOOL])
def test_a_call_is_compared_with_the_users_call_of_it_before(reader, alice, bob, monkeypatch, most):
    """Also where others called the tool more often since than is looked through."""
    monkeypatch.setattr(comparison, "MAX_CALLS_OF_TOOL", most)
    rows = save(
        build_call(1, user=alice),
        build_call(2, user=alice, name="other"),
        build_call(3, user=bob),
        build_call(4, user=alice),
        build_call(5, user=bob),
    )
    page = reader.get(COMPARE, {"call": str(rows[3].pk), "with": "previous"})
    assert (page.context["found"].first, page.context["found"].second) == (rows[0], rows[3])
    page = reader.get(COMPARE, {"call": str(rows[0].pk), "with": "previous"}, follow=True)
    assert "No earlier call with this name by this user was found." in page.content.decode()


def test_the_previous_call_of_a_rare_tool_is_found_without_reading_the_users_others(reader, alice):
    rare = save(build_call(0, user=alice, name="rare"), build_call(900, user=alice, name="rare"))
    save(*(build_call(number, user=alice, name="frequent") for number in range(1, 100)))
    few = count_instructions(lambda: comparison.find_previous(rare[1]))
    save(*(build_call(number, user=alice, name="frequent") for number in range(100, 900)))
    found = []
    many = count_instructions(lambda: found.append(comparison.find_previous(rare[1])))
    assert found == [rare[0]]
    assert many < 2 * few + 1_000


def test_different_definitions_without_a_history_are_reported(reader, alice):
    rows = save(build_call(1, user=alice, definition="1" * 64), build_call(2, user=alice, definition="2" * 64))
    page = reader.get(COMPARE, {"call": [str(row.pk) for row in rows]}).content.decode()
    assert "The two calls used different definitions. The history no longer has both." in page


# --- actions -----------------------------------------------------------------------------------------------------


def action(before, after, **values):
    return Action.objects.create(
        id=build_call(90).pk, at=build_call(90).started_at,
        actor="root", verb="changed", kind="tool", target="x", link=1 << 40,
        before=json.dumps(before) if before is not None else "", after=json.dumps(after) if after is not None else "",
        **values,
    )  # fmt: skip


def test_an_action_shows_its_difference(reader):
    text = "The first line.\n" + "Something long about it. " * 20
    row = action(
        {"enabled": True, "title": "Old", "description": text, "position": 1},
        {"enabled": False, "title": "New", "description": text + "\nMore.", "position": 1},
    )
    page = reader.get(reverse("admin:audit_action_change", args=(row.pk,)))
    found = {change.name: change for change in page.context["changes"]}
    assert (found["enabled"].before, found["enabled"].after) == ("yes", "no")
    assert [line.text for line in found["description"].lines if line.kind == "new"] == ["More."]
    assert found["position"].kind == "same" and page.context["changes"][-1].name == "position"
    listed = reader.get("/admin/audit/action/", {"actor": "root", "kind": "tool"}).content.decode()
    assert "enabled: yes \N{RIGHTWARDS ARROW} no" in listed and "description: long text" in listed


def test_a_huge_action_leaves_both_pages_small(reader):
    row = action({}, {f"field {number}": "<&\"'" * 3_000 for number in range(500)})
    assert len(reader.get(reverse("admin:audit_action_change", args=(row.pk,))).content) < 300_000
    assert "long text (open to view)" in reader.get("/admin/audit/action/").content.decode()


def test_the_list_of_actions_is_one_query_whatever_they_hold(reader, django_assert_num_queries):
    action({"a": "b" * 50_000}, {"a": "c"})
    with django_assert_num_queries(5):  # session, user, permissions (2), the rows
        reader.get("/admin/audit/action/")
