"""Asking for access, and reporting a call: both sides of it in two browsers, and the person's client beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import translation
from django.utils.translation import gettext

from tests.browser import axe, requests_seed
from tests.browser.conftest import Window
from tests.browser.hands import Program
from tests.client import HttpClient
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
REVISION = "2025-11-25"
LIST_CHANGED = "notifications/tools/list_changed"
REASON = "I close the quarter <b>alone</b> this time."


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=requests_seed.seed) as hub:
        yield hub


@pytest.fixture
def client(hub: Hub, program: Program) -> Iterator[Callable[[str], HttpClient]]:
    """The client of a person, connected and listening."""
    made: list[HttpClient] = []

    def connect(token: str) -> HttpClient:
        client = HttpClient(hub.mcp_url, token, REVISION)
        made.append(client)
        program.does(client.initialize())
        program.does(client.listen())
        return client

    yield connect
    for one in made:
        program.does(one.__aexit__(None))


def has_no_problem(mine: Window) -> None:
    assert mine.too_wide() == ""
    assert axe.find_violations(mine.page) == []


def open_inbox(root: Window, page: str, number: int) -> Any:
    """From Overview by the sidebar, which says how many wait."""
    root.open("/admin/")
    link = root.page.locator(f'nav a[href="/admin/{page}"], aside a[href="/admin/{page}"]').first
    assert str(number) in link.inner_text()
    link.click()
    root.page.wait_for_url(f"**/admin/{page}")
    return root.page


def ask(mine: Window, reason: str) -> None:
    """From the first page after signing in to the toolset, with a reason."""
    page = mine.open("/tools/")
    page.click("main a[href='/requests/']")
    assert "Numbers" in page.inner_text("main") and "Closed" not in page.inner_text("main")
    page.click("article:has-text('Numbers') .links a")
    has_no_problem(mine)
    page.fill("#id_reason", reason)
    page.click("form[action^='/requests/toolset/'] button.primary")
    page.wait_for_selector("form[action$='/withdraw/']")
    assert reason in page.inner_text("main")


@pytest.mark.parametrize(("name", "language", "locale"), [("alice", "en", "en-GB"), ("bob", "zh-hans", "zh-CN")])
def test_a_request_is_approved_and_the_open_client_of_the_person_has_the_tool(
    hub: Hub, window: Windows, program: Program, client: Any, name: str, language: str, locale: str
) -> None:
    theirs = client(hub.seeded[name])
    assert program.does(theirs.tools()) == []
    mine = window(viewport={"width": 390, "height": 844}, locale=locale, color_scheme="dark")
    mine.sign_in(name)
    ask(mine, REASON)
    has_no_problem(mine)

    root = window(locale=locale)
    root.sign_in("root", "/admin/login/")
    page = open_inbox(root, "requests/", 1)
    page.click(f"a:has-text('{name}: Numbers')")
    assert REASON in page.inner_text("#reason") and page.locator("#reason b").count() == 0
    assert page.input_value("#note") == REASON, "the reason is the note of the grant unless it is changed"
    has_no_problem(root)
    page.select_option("#end", "7")
    page.fill("#note", "Ticket 7")
    page.fill("#answer", "Until the quarter is closed.")
    page.click("#decide button[value=approve]")
    with translation.override(language):
        given = gettext("Access to %(name)s given to %(person)s.") % {"name": "Numbers", "person": name}
        without_restart = gettext("Your clients see the new tools without a restart.")
    page.wait_for_selector(f"text={given}")
    assert [name, "Numbers", True, "Ticket 7"] in hub.call(requests_seed.list_grants)
    assert hub.call(requests_seed.count_open) == 0

    async def sees_the_tool() -> bool:
        return "calculate_sum" in await theirs.tools()

    program.does(theirs.wait_for_message_when(LIST_CHANGED, sees_the_tool, 0))
    assert program.does(theirs.text("calculate_sum", {"a": 20, "b": 22})) == "42"
    page = mine.open("/tools/")
    page.click("#request-answers a")
    page.wait_for_selector("article .badge.good")
    assert without_restart in page.inner_text("main")
    assert "Until the quarter is closed." in page.inner_text("main")
    has_no_problem(mine)
    assert mine.open("/tools/").locator("#request-answers").count() == 0, "the answer was read"


def test_a_request_for_some_calls_is_changed_and_approved_and_other_calls_are_refused(
    hub: Hub, window: Windows, program: Program, client: Any
) -> None:
    theirs = client(hub.seeded["dora"])
    mine = window(viewport={"width": 390, "height": 844})
    mine.sign_in("dora")
    page = mine.open("/requests/")
    page.click("article:has-text('Small sums') .links a")
    page.click("a:has-text('Request only this tool')")
    page.fill("#id_reason", "Small sums only.")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.localName") == "summary"
    page.keyboard.press("Enter")
    page.fill("#condition-1-most", "1.500,00")
    page.fill("#condition-2-most", "200")
    page.click("form[action^='/requests/toolset/'] button.primary")
    page.wait_for_selector("#condition-1-most[aria-invalid=true]")
    assert page.input_value("#condition-2-most") == "200" and page.input_value("#id_reason") == "Small sums only."
    assert page.input_value("#condition-1-most") == "1.500,00"
    has_no_problem(mine)
    page.fill("#condition-1-most", "1500")
    page.click("form[action^='/requests/toolset/'] button.primary")
    page.wait_for_selector("form[action$='/withdraw/']")
    assert "a is at most 1500" in page.inner_text("main")
    has_no_problem(mine)

    root = window()
    root.sign_in("root", "/admin/login/")
    page = open_inbox(root, "requests/", 1)
    assert "a is at most 1500; b is at most 200" in page.inner_text("#review-queue")
    page.click("a:has-text('dora: add_small')")
    page.wait_for_selector("[data-for=conditions][aria-busy=false]")
    rows = page.locator("[data-for=conditions] .rule-row")
    assert rows.count() == 2 and not page.locator("#conditions").is_visible()
    rows.nth(0).locator("input[inputmode=decimal]").nth(1).fill("100")
    has_no_problem(root)
    page.click("#decide button[value=approve]")
    page.wait_for_selector("text=a is at most 100")
    maximum = {"op": "range", "maximum": 100}
    assert hub.call(requests_seed.list_conditions) == {
        "dora": [{"path": "/a", **maximum}, {"path": "/b", **maximum, "maximum": 200}]
    }

    async def find_maximum() -> Any:
        found = await theirs.every("tools/list", "tools")
        return [tool["inputSchema"]["properties"]["a"].get("maximum") for tool in found]

    async def sees_the_tool() -> bool:
        return await find_maximum() == [100]

    program.does(theirs.wait_for_message_when(LIST_CHANGED, sees_the_tool, 0))
    assert program.does(theirs.text("add_small", {"a": 20, "b": 22})) == "42"
    assert "expected at most 100, got integer 101" in str(program.does(theirs.call("add_small", {"a": 101, "b": 22})))
    page = mine.open("/requests/")
    assert "Approved for:" in page.inner_text("main") and "a is at most 100" in page.inner_text("main")
    has_no_problem(mine)


def test_a_request_is_declined_with_a_reason_and_another_one_withdrawn(hub: Hub, window: Windows) -> None:
    mine = window(viewport={"width": 390, "height": 844})
    mine.sign_in("charlie")
    ask(mine, "I am curious.")
    root = window()
    root.sign_in("root", "/admin/login/")
    page = open_inbox(root, "requests/", 1)
    page.click("a:has-text('charlie: Numbers')")
    page.fill("#answer", "Ask your team first.")
    page.click("#decide button[value=decline]")
    page.wait_for_selector("text=The request of charlie for Numbers was declined.")

    page = mine.open("/tools/")
    page.click("#request-answers a")
    page.wait_for_selector("article .badge.bad:has-text('declined')")
    assert "Ask your team first." in page.inner_text("main")

    ask(mine, "My team agrees.")
    page.click("form[action$='/withdraw/'] button")
    page.wait_for_selector("article .badge:has-text('withdrawn')")
    assert hub.call(requests_seed.count_open) == 0
    assert "charlie" not in [grant[0] for grant in hub.call(requests_seed.list_grants)]
    page = root.open("/admin/requests/")
    page.wait_for_selector("text=No requests are open.")
    assert "My team agrees." not in page.inner_text("#review-queue")


def test_a_failed_call_is_reported_and_its_person_reads_the_answer(
    hub: Hub, window: Windows, program: Program, client: Any
) -> None:
    theirs = client(hub.seeded["charlie"])
    with pytest.raises(Exception, match="wipe_disk"):
        program.does(theirs.call("wipe_disk", {"a": 1, "b": 2}))
    mine = window(viewport={"width": 390, "height": 844})
    mine.sign_in("charlie")
    page = mine.open("/calls/")
    page.click("tr:has-text('wipe_disk') a:has-text('Report')")
    page.wait_for_url("**#report")
    has_no_problem(mine)
    page.fill("#report-comment", "It worked last week.")
    page.click("#report button")
    page.wait_for_selector("text=The call was reported.")

    root = window()
    root.sign_in("root", "/admin/login/")
    page = open_inbox(root, "requests/calls/", 1)
    page.click("a:has-text('wipe_disk')")
    assert "It worked last week." in page.inner_text("#comment")
    has_no_problem(root)
    page.click("text=View call")
    page.wait_for_selector("text=No grant allows it")
    page.go_back()
    page.fill("#answer", "It is not for you.")
    page.click("button:has-text('Close report')")
    page.wait_for_selector("text=The report was closed.")

    page = mine.open("/tools/")
    page.click("#request-answers a")
    page.click("#reports-title ~ .card a:has-text('wipe_disk')")
    page.wait_for_selector("#report >> text=It is not for you.")
    assert "No grant" not in page.inner_text("main"), "the reason stays with the administrators"
