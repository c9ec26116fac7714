"""`/tools/`: nobody else's, bounded whatever the tools say, and all about each one on its own page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from catalog.conditions import periods
from catalog.models import LimitUsage, Tool
from tests import factories
from tests.access.test_pages import HOSTILE

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

Browser = Callable[..., "Client"]
MAX_PAGE_BYTES = 300_000
DEAD_END = re.compile(r"(any tools yet|would find none)\. Ask your administrator")
"""What people read who can do nothing about having no tools."""


def make_wordy_schema(count: int) -> dict[str, Any]:
    """A schema with parameters that say a lot."""
    one = {"type": "string", "description": HOSTILE * 20, "enum": [HOSTILE + str(n) for n in range(5)]}
    return {"type": "object", "properties": {f"parameter_{number}": one for number in range(count)}}


def test_a_tool_without_a_grant_reads_like_an_unknown_one(alice: User, bob: User, browser: Browser) -> None:
    factories.grant(alice, factories.make_tool("hers"))
    client = browser(bob)
    not_his, nowhere = client.get("/tools/hers/"), client.get("/tools/never_was/")
    assert (not_his.status_code, nowhere.status_code) == (404, 404)
    assert not_his.content == nowhere.content
    assert browser(None).get("/tools/hers/").status_code == 302


@pytest.mark.parametrize("parameters", [1, 90])
def test_a_page_is_bounded_whatever_its_tools_say(alice: User, browser: Browser, parameters: int) -> None:
    toolset = factories.make_toolset("Wordy")
    schema = make_wordy_schema(parameters)
    for number in range(60):
        factories.make_tool(
            f"wordy_{number:02}", toolset=toolset, title=HOSTILE, description=HOSTILE * 200, input_schema=schema
        )
    for number in range(40):
        factories.make_resource(f"docs://{number}", toolset=toolset, description=HOSTILE * 200)
        factories.make_prompt(f"prompt_{number}", toolset=toolset, description=HOSTILE * 200)
    factories.grant(alice, toolset)
    client = browser(alice)
    for path in ("/tools/", "/tools/?page=2", "/tools/?q=wordy", "/tools/wordy_00/"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert len(answer.content) < MAX_PAGE_BYTES, path
        assert "<script>alert" not in answer.content.decode()


def test_parameters_that_do_not_fit_are_on_the_tools_own_page(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog.views.tools.MAX_PARAMETER_BYTES", 10)
    factories.grant(alice, factories.make_tool("add", input_schema=make_wordy_schema(2)))
    client = browser(alice)
    page = client.get("/tools/").content.decode()
    assert "parameter_1" not in page
    assert 'href="/tools/add/"' in page
    assert "parameter_1" in client.get("/tools/add/").content.decode()


def test_a_tools_own_page_shows_its_description_and_remaining_calls(alice: User, browser: Browser) -> None:
    tool = factories.make_tool("add", title="Add", description="Adds.\n\nTwo numbers.", read_only=True)
    factories.grant(alice, tool)
    factories.limit("7/h", tool)
    page = browser(alice).get("/tools/add/").content.decode()
    for text in (
        "Add",
        "Two numbers.",
        "read-only",
        "7 of 7 left",
        "at most 7 calls an hour",
        "The first number.",
        "/calls/?tool=add",
        "Schema",
    ):
        assert text in page


def test_a_tool_tells_what_is_left_of_each_measure_and_what_a_call_costs(alice: User, browser: Browser) -> None:
    tool = factories.make_tool("add", cost=5, cost_argument="/rows", cost_per_kilobyte=1)
    factories.grant(alice, tool)
    limits = [factories.limit("1000/month", tool, measure="cost"), factories.limit("9/day")]
    factories.limit("3", measure="running")
    factories.limit("5/10m", measure="repeats")
    period = periods.find("month", "", timezone.now())
    LimitUsage.objects.create(
        limit=limits[0], counter=f"cost month user {alice.pk}", starts=period.starts, ends=period.ends, used=588
    )
    page = browser(alice).get("/tools/add/").content.decode()
    for text in (
        "412 of 1,000 cost units left",
        "at most 1,000 cost units a month",
        "resets ",
        "9 of 9 left",
        "at most 9 calls a day",
        "3 of 3 may start now",
        "the same call at most 5 times within 10 minutes",
        "Each call costs 5 cost units, times /rows. Every 1,000 bytes of the result cost 1 cost unit more.",
    ):
        assert text in page
    assert "412 of 1,000 cost units left" in browser(alice).get("/tools/").content.decode()


def test_a_cost_that_nothing_limits_is_not_told(alice: User, browser: Browser) -> None:
    tool = factories.make_tool("add", cost=5)
    factories.grant(alice, tool)
    factories.limit("7/h", tool)
    assert "cost unit" not in browser(alice).get("/tools/add/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_the_number_of_queries_does_not_grow_with_the_tools(
    alice: User, browser: Browser, django_assert_max_num_queries: Any
) -> None:
    toolset = factories.make_toolset("Many")
    for number in range(60):
        factories.make_tool(f"tool_{number}", toolset=toolset)
    factories.grant(alice, toolset)
    for number in range(10):
        factories.limit(f"{1_000 + number}/day", Tool.objects.get(name=f"tool_{number}"))
    factories.load()
    client = browser(alice)
    for path in ("/tools/", "/tools/?page=2", "/tools/?q=tool_5&kind=changes", "/tools/tool_1/"):
        with django_assert_max_num_queries(7):  # two of them about requests for access, one about all quotas
            client.get(path)


def sign_in_staff(alice: User, browser: Browser, *permissions: str) -> Client:
    alice.is_staff = True
    alice.save()
    alice.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return browser(alice)


@pytest.mark.parametrize("path", ["/tools/", "/connect/"])
def test_staff_who_can_do_nothing_about_it_are_told_whom_to_ask(alice: User, browser: Browser, path: str) -> None:
    factories.make_tool("somebody_elses")
    page = sign_in_staff(alice, browser, "view_tool", "view_grant").get(path).content.decode()
    assert DEAD_END.search(page) and "Give yourself access" not in page
    # Without the status of staff, the admin's pages answer 403.
    alice.user_permissions.set(Permission.objects.filter(codename="add_grant"))
    alice.is_staff = False
    alice.save()
    page = browser(alice).get(path).content.decode()
    assert DEAD_END.search(page) and "Give yourself access" not in page


@pytest.mark.parametrize("path", ["/tools/", "/connect/"])
def test_an_administrator_without_tools_gets_the_next_action(root: User, browser: Browser, path: str) -> None:
    factories.make_tool("somebody_elses")
    client = browser(root)
    page = client.get(path).content.decode()
    assert not DEAD_END.search(page) and "Add a tool" in page
    address = f"/admin/catalog/grant/add/?user={root.pk}"
    assert f'href="{address}">Give yourself access</a>' in page
    assert f'<option value="{root.pk}" selected>root</option>' in client.get(address).content.decode()
    factories.grant(root, factories.make_tool("theirs"))
    assert "Give yourself access" not in client.get(path).content.decode()


def test_without_any_tool_the_next_action_is_to_add_one(root: User, alice: User, browser: Browser) -> None:
    page = browser(root).get("/tools/").content.decode()
    assert "Give yourself access" not in page and 'class="button primary" href="/admin/catalog/tool/add/"' in page
    page = sign_in_staff(alice, browser, "add_tool").get("/tools/").content.decode()
    assert "Add a tool" in page and "Give yourself access" not in page
