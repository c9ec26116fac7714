"""A search of many large calls goes on by itself, says how far it came, and counts what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser import search_seed
from tests.browser.conftest import Window, call_as_client
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=search_seed.seed) as hub:
        yield hub


def test_an_auditor_finds_the_oldest_call_by_two_characters_and_without_a_click(hub: Hub, window: Windows) -> None:
    reads = window(viewport={"width": 1280, "height": 900})
    reads.sign_in("auditor", "/admin/login/")
    page = reads.open("/admin/audit/call/")
    page.fill("#searchbar", "#7")
    page.press("#searchbar", "Enter")
    page.wait_for_selector("#search-state [data-total]:text-is('2 calls found: Success 1, Timed out 1')")
    assert page.locator("#result_list tbody tr").count() == 2
    assert page.locator("#search-state [data-stop]").is_hidden()
    assert page.locator("#searched-back").count() == 0 and "2 on this page" in page.inner_text("#page-count")
    for box in page.locator("input.record-pick").all():
        box.check()
    assert page.locator("[data-compare]").is_enabled(), "rows that came later are compared like others"
    page.click("text=Columns")
    page.check("text=Address")
    page.click("text=Show columns")
    page.wait_for_selector("th:text-is('Address')")
    page.click("#filters a:has-text('Search: #7')")
    page.wait_for_url(lambda url: "q=" not in url and "column=address" in url)
    page.set_viewport_size({"width": 390, "height": 844})
    assert reads.too_wide() == ""
    first = page.locator("#result_list tbody tr").first.bounding_box()
    assert first["y"] + first["height"] < 844, "the first call is on the first screen"


def test_a_user_finds_an_old_call_without_a_click(hub: Hub, window: Windows) -> None:
    mine = window(viewport={"width": 390, "height": 844})
    mine.sign_in("alice")
    page = mine.open("/calls/")
    page.fill("#q", "查")
    page.click("form.search button")
    page.wait_for_selector("tr[data-call] >> nth=1")
    page.wait_for_selector("[data-looked]", state="detached")
    assert page.locator("tr[data-call]").count() == 2 and page.locator(".empty").count() == 0 and mine.too_wide() == ""


def test_a_live_search_that_reads_for_long_keeps_the_old_calls_that_it_found(hub: Hub, window: Windows) -> None:
    reads = window(viewport={"width": 1280, "height": 900})
    reads.sign_in("auditor", "/admin/login/")
    page = reads.open("/admin/audit/call/?q=q8&live=1")
    page.wait_for_selector("#search-state [data-total]:text-is('1 call found')")
    found = page.locator("input.record-pick").get_attribute("value")
    page.wait_for_selector('#live-state[data-state="live"]')
    call_as_client(hub, hub.seeded["alice"], "calculate_sum", {"a": 1, "b": 2}, "q8", "1.0")
    page.wait_for_function("found => document.querySelector('input.record-pick').value !== found", arg=found)
    keys = [box.get_attribute("value") for box in page.locator("input.record-pick").all()]
    assert len(keys) == 2 and keys[1] == found
    assert page.locator("a[rel=next]").count() == 0, "there are no older ones"
