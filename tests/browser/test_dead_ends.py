"""Where something cannot go on: each page says what happened and the next step, and its first link leads there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import meeting, seed
from tests.browser.axe import find_violations
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=meeting.seed, env={"TOOLHUB_TOOL_MODULES": "catalog.examples,tests.browser.meeting"}) as hub:
        yield hub


@pytest.fixture
def person(window: Windows) -> Callable[..., Window]:
    """person("alice") is her window after she signed in."""

    def make(name: str, **options: Any) -> Window:
        mine = window(**options)
        mine.sign_in(name)
        return mine

    return make


def read_page(mine: Window, status: int) -> str:
    """The text of a page about this status, and that its heading, its look and its console are in order."""
    page = mine.page
    page.wait_for_selector(f"p.code:text-is('{status}')")
    assert find_violations(page) == [] and mine.too_wide() == ""
    # The browser's own line about the status is no complaint of the page.
    mine.complaints = [line for line in mine.complaints if f"status of {status}" not in line]
    assert page.locator("h1").count() == 1
    return str(page.inner_text("main"))


def spoil_forms(page: Any) -> None:
    """Make the forms those of a page that stayed open over a new sign-in."""
    page.evaluate("for (const field of document.getElementsByName('csrfmiddlewaretoken')) field.value = 'old'")


def test_who_lacks_a_permission_reads_as_whom_they_are_signed_in_and_whom_to_ask(person: Any) -> None:
    mine = person("auditor")
    page = mine.open("/admin/access/give/")
    text = read_page(mine, 403)
    assert "You don't have permission to do this" in text
    assert "You are signed in as auditor." in text and "to grant it" in text
    page.click("main a >> nth=0")
    page.wait_for_selector("nav >> text=Tools")


@pytest.mark.parametrize(
    ("who", "links"),
    [
        ("alice", ["Go to the start page"]),
        ("root", ["Go to the start page", "Search the administration"]),
        ("", ["Go to the start page", "Sign in"]),
    ],
)
def test_an_address_that_leads_nowhere_offers_what_this_person_can_open(
    window: Windows, who: str, links: list[str]
) -> None:
    mine = window()
    if who:
        mine.sign_in(who)
    page = mine.open("/no/such/page/")
    text = read_page(mine, 404)
    assert "This page does not exist, or you don't have access." in text and "Check the address." in text
    assert page.locator("main p.actions a").all_inner_texts() == links
    page.click("main p.actions a >> nth=-1")
    page.wait_for_url(lambda url: "no/such" not in url)
    assert page.locator("p.code").count() == 0


@pytest.mark.parametrize("path", ["/tokens/", "/admin/auth/group/add/"])
def test_a_page_that_expired_says_that_nothing_was_saved_and_is_opened_again(person: Any, path: str) -> None:
    mine = person("root")
    page = mine.open(path)
    page.fill("#id_name", "kept nowhere")
    spoil_forms(page)
    page.press("#id_name", "Enter")
    text = read_page(mine, 403)
    assert "This page expired." in text and "Your changes were not saved." in text
    page.click("main a:text-is('Open the page again')")
    page.wait_for_selector("#id_name")
    assert page.input_value("#id_name") == "" and page.url.endswith(path)


def test_a_form_that_met_another_change_says_so_and_its_page_shows_the_current_state(hub: Hub, person: Any) -> None:
    mine = person("root")
    path = f"/admin/catalog/tool/{hub.seeded[meeting.MET]}/change/"
    page = mine.open("/admin/catalog/tool/?q=met")
    page.check("input.action-select")
    page.select_option("select[name=action]", "switch_off")
    page.click("button[name=index]")
    text = read_page(mine, 409)
    assert "Somebody changed this at the same time" in text and "Nothing of your change was saved." in text
    page.click("main a:text-is('Open the page again')")
    page.wait_for_selector("#result_list")
    assert page.url.endswith("/admin/catalog/tool/?q=met")
    page = mine.open(path)
    assert page.is_checked("#id_enabled") and page.input_value("#id_name") == meeting.MET


def test_a_form_after_the_session_ended_leads_over_the_sign_in_back_to_its_page(hub: Hub, person: Any) -> None:
    mine = person("alice")
    page = mine.open("/tokens/")
    hub.call(seed.end_sessions, username="alice")
    page.fill("#id_name", "kept nowhere")
    page.press("#id_name", "Enter")
    page.wait_for_url("**/sign-in/**")
    assert "Your session ended before this form arrived. Nothing was saved." in page.inner_text("main")
    assert find_violations(page) == []
    page.fill("#id_username", "alice")
    page.fill("#id_password", seed.PASSWORD)
    page.click("main form button[type=submit]:visible >> nth=0")
    page.wait_for_url("**/tokens/")
    assert "kept nowhere" not in page.inner_text("main")
