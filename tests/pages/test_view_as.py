"""View as: the list that a client gets, and the rule that hides everything else."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from catalog.models import Flag, Grant, Tool
from tests import factories
from toolhub.access.models import AccessToken
from toolhub.pages import view_as

pytestmark = pytest.mark.django_db
LOADING_QUERIES = 18
"""Queries of reading the catalogue, which a test's open transaction makes every page do again."""
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def open_view_as(browser: Client, **query: Any) -> str:
    page = browser.get("/admin/view-as/?" + urlencode(query))
    assert page.status_code == 200
    return page.content.decode()


def read_rows(browser: Client, **query: Any) -> dict[str, tuple[bool, str]]:
    """Name -> (sees it, because), of the page."""
    page = browser.get("/admin/view-as/?" + urlencode(query))
    return {row.entry.name: (row.entry.seen, str(row.rule)) for row in page.context["rows"]}


def list_exact_tools(browser: Client, **query: Any) -> list[str]:
    answer = browser.get("/admin/view-as/?" + urlencode({**query, "format": "json"}))
    return [tool["name"] for tool in json.loads(answer.content)["tools"]]


def test_no_user_and_an_unknown_user_are_explained(browser: Client) -> None:
    assert "Choose a user" in open_view_as(browser)
    assert "There is no user with this name" in open_view_as(browser, user="nobody-of-this-name")


def test_every_hidden_tool_names_the_rule_that_hides_it(browser: Client, alice: User) -> None:
    for name in ("seen", "denied", "ungranted", "quarantined", "off"):
        factories.make_tool(name)
    tools = {tool.name: tool for tool in Tool.objects.all()}
    allowed = factories.grant(alice, tools["seen"], tools["denied"], tools["quarantined"], tools["off"])
    denied = factories.deny(None, tools["denied"])
    Tool.objects.filter(name="quarantined").update(quarantined_since=timezone.now())
    Tool.objects.filter(name="off").update(enabled=False)
    found = read_rows(browser, user="alice")
    first = Grant.objects.get(tool=tools["seen"])
    assert allowed.pk > first.pk
    assert found == {
        "seen": (True, f"Grant {first.pk}: allow tool seen to user alice"),
        "denied": (False, f"Grant {denied.pk}: deny tool denied to everyone"),
        "ungranted": (False, "No grant allows it."),
        "quarantined": (False, "Quarantined: its definition changed at its source."),
        "off": (False, "It is switched off."),
    }
    assert list_exact_tools(browser, user="alice") == ["seen"]
    assert read_rows(browser, user="alice", sees="yes").keys() == {"seen"}
    assert "seen" not in read_rows(browser, user="alice", sees="no")
    assert read_rows(browser, user="alice", q="quaran").keys() == {"quarantined"}
    assert f"/admin/catalog/grant/{denied.pk}/change/" in open_view_as(browser, user="alice")


def test_rules_and_limits_are_in_the_language_of_the_page(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    allowed, limit = factories.grant(alice, tool), factories.limit("5/m", tool)
    chinese = Client(headers={"accept-language": "zh-hans"})
    chinese.force_login(User.objects.get(username="root"))
    said = f"授权 {allowed.pk}：允许用户 alice 使用工具 calculate_sum"
    assert read_rows(chinese, user="alice") == {"calculate_sum": (True, said)}
    assert read_rows(browser, user="alice") == {"calculate_sum": (True, str(allowed))}
    assert "<div>工具 calculate_sum" in open_view_as(chinese, user="alice", show="grants")
    assert f"限制 {limit.pk}：工具 calculate_sum，每位用户，5/m" in open_view_as(chinese, user="alice", show="limits")
    page = chinese.get(f"/admin/access/tool/{tool.pk}/").content.decode()
    assert said in page and f"限制 {limit.pk}：" in page
    assert f'2 位用户里有 1 位可以访问 <a href="/admin/catalog/tool/{tool.pk}/change/">calculate_sum</a>。' in page


def test_a_restricted_token_hides_other_toolsets(browser: Client, alice: User) -> None:
    inside, outside = factories.make_toolset("Inside"), factories.make_toolset("Outside")
    factories.make_tool("inside", toolset=inside)
    factories.make_tool("outside", toolset=outside)
    factories.grant(alice, inside, outside)
    token, _ = AccessToken.objects.issue(alice, "laptop", toolsets=[inside])
    found = read_rows(browser, user="alice", token=token.pk)
    assert found["inside"][0]
    assert found["outside"] == (False, "The token is restricted to Inside.")
    assert list_exact_tools(browser, user="alice", token=token.pk) == ["inside"]
    assert list_exact_tools(browser, user="alice") == ["inside", "outside"]
    late = (timezone.now() + timedelta(days=200)).strftime("%Y-%m-%dT%H:%M")
    assert "This token is expired at that time." in open_view_as(browser, user="alice", token=token.pk, at=late)


def test_somebody_elses_token_is_not_taken(browser: Client, alice: User, bob: User) -> None:
    factories.grant(alice, factories.make_tool())
    token, _ = AccessToken.objects.issue(bob, "laptop", toolsets=[])
    assert list_exact_tools(browser, user="alice", token=token.pk) == ["calculate_sum"]


def test_another_time_and_another_environment_are_decided_as_they_will_be(browser: Client, alice: User) -> None:
    now = timezone.now()
    factories.grant(alice, factories.make_tool("later"), starts=now + timedelta(days=1))
    factories.grant(alice, factories.make_tool("elsewhere"), environments=["production"])
    assert list_exact_tools(browser, user="alice") == []
    moment = (now + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
    assert list_exact_tools(browser, user="alice", at=moment) == ["later"]
    assert list_exact_tools(browser, user="alice", environment="production") == ["elsewhere"]
    assert '<option value="production">' in open_view_as(browser, user="alice")
    assert "No automatic changes before" in open_view_as(browser, user="alice")
    assert "This date and time is not valid." in open_view_as(browser, user="alice", at="yesterday")


SMALL = [{"path": "/a", "op": "range", "maximum": 10}]
"""For the tools of `factories`, which take the numbers a and b."""


def read_narrowing(browser: Client, name: str = "calculate_sum", **query: Any) -> list[int]:
    """The numbers of the grants that narrow a tool, which the page links."""
    page = browser.get("/admin/view-as/?" + urlencode(query))
    (row,) = [row for row in page.context["rows"] if row.entry.name == name]
    numbers = [number for number, _address in row.narrowed_by]
    text = page.content.decode()
    assert all(f'<a href="/admin/catalog/grant/{number}/change/">Grant {number}</a>' in text for number in numbers)
    assert ("Narrowed by conditions:" in text) is bool(numbers)
    return numbers


def test_a_definition_that_conditions_narrow_is_shown_as_the_client_gets_it_with_their_grants(
    browser: Client, alice: User, bob: User
) -> None:
    tool = factories.make_tool()
    small = factories.grant(alice, tool, conditions=SMALL)
    factories.grant(bob, tool)
    assert read_narrowing(browser, user="alice") == [small.pk]
    assert read_narrowing(browser, user="bob") == []
    answer = browser.get("/admin/view-as/?user=alice&format=json")
    (shown,) = json.loads(answer.content)["tools"]
    assert shown["inputSchema"]["properties"]["a"]["maximum"] == 10
    denied = factories.deny(None, tool, conditions=[{"path": "/b", "op": "equals", "value": 7}])
    factories.deny(None, factories.make_tool("other"))
    assert read_narrowing(browser, user="alice") == [small.pk, denied.pk]
    assert read_narrowing(browser, user="bob") == [denied.pk]
    free = factories.grant(alice, tool)
    assert read_narrowing(browser, user="alice") == [denied.pk], f"grant {free.pk} allows what grant {small.pk} does"


def test_an_item_that_conditions_hide_says_so(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    granted = factories.grant(alice, tool, conditions=[{"path": "/a", "op": "equals", "value": "a text"}])
    assert read_rows(browser, user="alice") == {
        "calculate_sum": (
            False,
            f"{granted}, with conditions. Its conditions do not fit: No arguments of the tool satisfy the conditions.",
        )
    }
    assert read_narrowing(browser, user="alice") == []


def test_time_windows_and_flags_decide_at_the_time_that_was_asked_about(browser: Client, alice: User) -> None:
    Flag.objects.create(name="beta", percentage=100)
    windows = [{"days": ["mon"], "from": "09:00", "to": "17:00", "zone": "UTC"}]
    factories.grant(alice, factories.make_tool(), windows=windows, flags=["beta"])
    browser.cookies["zone"] = "UTC"
    for at, expected in (("08:59", []), ("09:00", ["calculate_sum"]), ("16:59", ["calculate_sum"]), ("17:00", [])):
        assert list_exact_tools(browser, user="alice", at=f"2030-01-07T{at}") == expected, at
    page = browser.get("/admin/view-as/?user=alice&at=2030-01-07T08:59&show=grants").content.decode()
    assert "outside its time windows" in page
    (row,) = browser.get("/admin/view-as/?user=alice&at=2030-01-07T08:59").context["rows"]
    assert row.changes_at == datetime(2030, 1, 7, 9, tzinfo=UTC)
    Flag.objects.update(percentage=0)
    assert list_exact_tools(browser, user="alice", at="2030-01-07T09:00") == []


def test_the_limits_show_the_remaining_calls_and_count_nothing(browser: Client, alice: User, bob: User) -> None:
    tool = factories.make_tool()
    factories.grant(alice, tool)
    factories.limit("5/m", tool)
    factories.limit("7/m", user=bob)
    for _ in range(3):
        page = open_view_as(browser, user="alice", show="limits")
    assert "5 of 5 left" in page and "at most 5 calls a minute" in page
    assert "7/m" not in page


def test_the_limits_tell_what_is_left_by_measure(browser: Client, alice: User) -> None:
    factories.grant(alice, factories.make_tool())
    factories.make_group("analysts", [alice])
    factories.limit("1000/month", measure="cost", zone="Europe/Berlin")
    factories.limit("3", measure="running")
    factories.limit("5/10m", measure="repeats")
    page = open_view_as(browser, user="alice", show="limits")
    assert "1,000 of 1,000 cost units left" in page and "3 of 3 may start now" in page
    assert "the same call at most 5 times within 10 minutes" in page
    assert page.count("Counted for each client and tool") == 1
    assert "counters of limits are unavailable" not in page


def test_cost_units_that_are_left_are_hidden_from_who_may_not_read_calls(alice: User) -> None:
    factories.limit("1000/month", measure="cost")
    factories.limit("5/m")
    names = [name.rpartition(".")[2] for name in view_as.REQUIRED_PERMISSIONS]
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(reader)
    page = open_view_as(client, user="alice", show="limits")
    assert "1,000 of 1,000" not in page and "you may not read calls" in page and "5 of 5 left" in page


def test_the_grants_show_their_subject_and_whether_they_are_in_force(browser: Client, alice: User) -> None:
    group = factories.make_group("analysts", [alice])
    factories.make_group("others", [alice])
    factories.grant(group, factories.make_toolset("Files"))
    factories.grant(None, factories.make_tool(), ends=timezone.now() - timedelta(days=1))
    factories.grant(factories.make_group("strangers"), factories.make_toolset("Secret things"))
    page = open_view_as(browser, user="alice", show="grants")
    assert "group analysts" in page and "toolset Files" in page
    assert page.count("/admin/catalog/grant/") - page.count('href="/admin/catalog/grant/"') >= 2
    assert "everyone" in page and "over" in page
    assert "Secret things" not in page


def test_resources_and_prompts_are_there_as_well(browser: Client, alice: User) -> None:
    factories.grant(alice, factories.make_resource())
    factories.make_prompt()
    assert read_rows(browser, user="alice", show="resource")["docs://handbook"][0]
    assert read_rows(browser, user="alice", show="prompt")["greeting"] == (False, "No grant allows it.")
    answer = browser.get("/admin/view-as/?user=alice&show=resource&format=json").json()
    assert [each["uri"] for each in answer["resources"]] == ["docs://handbook"]


def test_the_page_of_a_user_leads_here(browser: Client, alice: User) -> None:
    assert browser.get(f"/admin/access/user/{alice.pk}/")["Location"] == "/admin/view-as/?user=alice"


def test_stored_texts_are_text(browser: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(username=HOSTILE)
    factories.grant(alice, factories.make_tool(title=HOSTILE), note=HOSTILE)
    for show in ("tool", "grants", "limits"):
        assert "<script>alert" not in open_view_as(browser, user=HOSTILE, show=show)


def test_ten_thousand_tools_make_a_small_page_with_few_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
) -> None:
    toolset = factories.make_toolset()
    made = Tool.objects.bulk_create(
        [
            Tool(name=f"tool{number:05}", title="A title", description="Does one thing.", enabled=number % 3 != 0)
            for number in range(3000)
        ]
    )
    Tool.toolsets.through.objects.bulk_create(
        [Tool.toolsets.through(tool=tool, toolset=toolset) for tool in made if tool.pk % 2]
    )
    factories.grant(alice, toolset)
    open_view_as(browser, user="alice")
    with django_assert_max_num_queries(LOADING_QUERIES + 8):
        page = open_view_as(browser, user="alice", page=3)
    assert len(page) < 120_000
    assert "Next page" in page and "Previous page" in page
    assert browser.get(f"/admin/access/tool/{made[1].pk}/").status_code == 200


# --- who sees a tool -----------------------------------------------------------------------------------------------


def test_the_page_of_a_tool_lists_users_with_and_without_access_and_the_rules(
    browser: Client, alice: User, bob: User, charlie: User
) -> None:
    tool = factories.make_tool()
    allowed = factories.grant(alice, tool)
    factories.grant(bob, tool)
    denied = factories.deny(bob, tool)
    seeing = browser.get(f"/admin/access/tool/{tool.pk}/")
    assert [(name, str(rule)) for name, _link, _sees, rule, *_ in seeing.context["rows"]] == [("alice", str(allowed))]
    assert "1 of 4 users" in seeing.content.decode()
    hidden = browser.get(f"/admin/access/tool/{tool.pk}/?sees=no").context["rows"]
    reasons = {name: advice.text for name, *_, advice in hidden}
    assert reasons == {
        "bob": str(denied),
        "charlie": "Only other people have access.",
        "root": "Only other people have access.",
    }
    assert len(browser.get(f"/admin/access/tool/{tool.pk}/?sees=all&q=ali").context["rows"]) == 1
    Tool.objects.filter(pk=tool.pk).update(enabled=False)
    off = browser.get(f"/admin/access/tool/{tool.pk}/")
    assert "No one has access to this tool now." in off.content.decode()


def test_a_thousand_users_come_in_pages(browser: Client, django_assert_max_num_queries: Any) -> None:
    tool = factories.make_tool()
    User.objects.bulk_create([User(username=f"user{number:04}") for number in range(1000)])
    factories.grant(None, tool)
    browser.get(f"/admin/access/tool/{tool.pk}/")
    with django_assert_max_num_queries(LOADING_QUERIES + 8):
        page = browser.get(f"/admin/access/tool/{tool.pk}/?page=2")
    assert len(page.content) < 120_000
    assert len(page.context["rows"]) == 50
    assert "1001 of 1001 users" in page.content.decode()


def test_names_to_choose_from_are_few_and_active(browser: Client, alice: User, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    User.objects.filter(pk=alice.pk).update(first_name="Alice", last_name="Liddell")
    assert browser.get("/admin/access/people/?q=lidd").json() == {
        "results": [{"value": "alice", "label": "Alice Liddell"}]
    }
    assert browser.get("/admin/access/people/?q=bob").json() == {"results": []}
