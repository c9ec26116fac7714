"""An auditor watches the calls of everybody: they appear and end on the open page, and nothing moves who reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import axe, seed
from tests.browser.conftest import Window, call_as_client
from tests.polling import wait_until
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
LIST = "/admin/audit/call/"
ROWS = "#result_list tbody tr"
SMALL = {"width": 1000, "height": 420}


class SamePort(Hub):
    """A server that has the port of before when it starts again: the open page finds it there."""

    def command(self) -> list[str]:
        plain = super().command()
        plain[plain.index("--port") + 1] = str(self.port)
        return plain


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with SamePort(seed=seed.seed_live_log) as hub:
        yield hub


@pytest.fixture
def auditor(window: Windows) -> Callable[..., Window]:
    """auditor("?live=1") is the list of calls in the auditor's window."""

    def make(query: str = "", live: bool = True, **options: Any) -> Window:
        reads = window(**({"viewport": {"width": 1280, "height": 900}} | options))
        reads.sign_in("auditor", "/admin/login/")
        page = reads.open(LIST + query)
        page.evaluate("window.isSamePage = true")
        if live:
            state(page, "live")
        return reads

    return make


def state(page: Any, name: str) -> None:
    page.wait_for_selector(f'#live-state[data-state="{name}"]')


def add_up(hub: Hub, who: str, a: int = 1) -> None:
    assert "content" in call_as_client(hub, hub.seeded[who], "calculate_sum", {"a": a, "b": 2}, "sums", "1")


def first(page: Any) -> Any:
    return page.locator(ROWS).first


def scroll(page: Any) -> int:
    """Down to the rows, so that the table's top is above the window; where that is."""
    page.evaluate("scrollTo(0, document.getElementById('result_list').getBoundingClientRect().top + scrollY + 60)")
    page.wait_for_function("document.getElementById('result_list').getBoundingClientRect().top < 0")
    return int(page.evaluate("scrollY"))


def address(page: Any) -> str:
    return str(page.evaluate("location.search"))


def test_a_call_appears_and_ends_by_itself_after_the_switch_was_pressed_by_keyboard(
    hub: Hub, auditor: Any, window: Windows, client: Any
) -> None:
    add_up(hub, "alice")
    reads = auditor(live=False)
    page = reads.page
    assert page.get_attribute("#live [role=switch]", "aria-checked") == "false"
    assert (page.inner_text("#live-state"), address(page)) == ("", "")
    page.focus("#live [role=switch]")
    page.keyboard.press("Space")
    state(page, "live")
    assert page.inner_text("#live-state") == "Live" and address(page) == "?live=1"
    assert page.get_attribute("#live [role=switch]", "aria-checked") == "true"
    hers = window()
    hers.sign_in("alice")
    own = hers.open("/calls/")
    running = client(hub.seeded["alice"], "long_task", seconds=60, steps=60)
    slow = page.locator(ROWS, has_text="long_task").first
    slow.wait_for()
    slow.locator("[data-running]").wait_for()
    assert slow.locator('[data-title="Duration"]').inner_text().strip() in {"", "–", "-", "—"}
    own.wait_for_selector("tr.calls-row >> text=Cancel")
    own.locator("tr.calls-row", has_text="long_task").first.locator("text=Cancel").click()
    page.wait_for_selector(f"{ROWS} >> text=Cancelled")
    assert slow.locator("[data-running]").count() == 0
    assert "s" in slow.locator('[data-title="Duration"]').inner_text()
    assert running.exception(60) is not None
    assert page.evaluate("window.isSamePage"), "nobody reloaded it"
    page.focus("#live [role=switch]")
    page.keyboard.press("Enter")
    state(page, "paused")
    assert page.inner_text("#live-state") == "Paused" and address(page) == ""
    rows = page.locator(ROWS).count()
    add_up(hub, "alice")
    page.keyboard.press("Enter")
    page.wait_for_function("rows => document.querySelectorAll('#result_list tbody tr').length > rows", arg=rows)


def test_only_calls_of_the_pages_own_filters_appear_with_its_columns(hub: Hub, auditor: Any) -> None:
    page = auditor("?user=alice&period=1h&column=address&live=1").page
    rows = page.locator(ROWS).count()
    add_up(hub, "bob")
    add_up(hub, "alice")
    page.wait_for_function("rows => document.querySelectorAll('#result_list tbody tr').length > rows", arg=rows)
    assert page.locator(ROWS).count() == rows + 1
    assert page.locator(f'{ROWS} [data-title="User"]:text-is("bob")').count() == 0
    assert "127.0.0.1" in first(page).locator('[data-title="Address"]').inner_text()
    assert f"{rows + 1} on this page" in page.inner_text("#page-count")
    page.wait_for_selector("#search-state [data-total]:has-text('counted when this page opened')")
    page.click("#filters a:has-text('period')")
    page.wait_for_url(lambda url: "period" not in url and "live=1" in url and "column=address" in url)
    state(page, "live")


def test_an_empty_list_fills_and_a_filter_by_status_loses_what_ended(
    hub: Hub, auditor: Any, window: Windows, client: Any
) -> None:
    page = auditor("?outcome=running&live=1").page
    assert page.locator("#nothing").is_visible()
    hers = window()
    hers.sign_in("alice")
    own = hers.open("/calls/")
    running = client(hub.seeded["alice"], "long_task", seconds=60, steps=60)
    page.wait_for_selector(f"{ROWS} >> text=long_task")
    assert page.locator("#nothing").count() == 0
    own.locator("tr.calls-row", has_text="long_task").first.locator("text=Cancel").click()
    page.wait_for_selector("#nothing")
    assert page.locator(ROWS).count() == 0 and page.locator("#result_list").is_hidden()
    assert running.exception(60) is not None


@pytest.mark.parametrize("busy", ["scrolled", "selected", "ticked", "focused"])
def test_who_reads_is_told_how_many_are_new_and_is_not_moved(hub: Hub, auditor: Any, busy: str) -> None:
    for number in range(12):
        add_up(hub, "alice", number)
    page = auditor("?live=1", viewport=SMALL, reduced_motion="reduce").page
    place = 0
    if busy == "scrolled":
        place = scroll(page)
    elif busy == "selected":
        page.evaluate("getSelection().selectAllChildren(document.querySelector('#result_list tbody td'))")
    elif busy == "ticked":
        page.locator("input.record-pick").first.check()
    else:
        page.focus("#result_list tbody a")
    newest = page.locator("input.record-pick").first.get_attribute("value")
    for number in (1, 2):
        add_up(hub, "bob", number)
        page.wait_for_selector(f"[data-fresh] >> text={number} new call{'s' if number > 1 else ''}")
    assert page.locator("input.record-pick").first.get_attribute("value") == newest
    if busy == "scrolled":
        assert page.evaluate("scrollY") == place
    page.locator("[data-fresh] button").press("Enter")
    page.wait_for_function("newest => document.querySelectorAll('input.record-pick')[2].value === newest", arg=newest)
    assert page.locator("[data-fresh]").is_hidden()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "switch"
    if busy == "scrolled":
        page.wait_for_function("scrollY === 0")
    if busy == "ticked":
        assert page.locator("input.record-pick:checked").get_attribute("value") == newest
        page.locator("input.record-pick").first.check()
        assert page.locator("[data-compare]").is_enabled(), "rows that came by themselves are compared like others"


def test_many_calls_are_few_reads_and_a_running_call_that_they_push_off_still_ends(
    hub: Hub, auditor: Any, window: Windows, client: Any
) -> None:
    for number in range(12):
        add_up(hub, "alice", number)
    reads = auditor("?live=1", viewport=SMALL)
    page = reads.page
    hers = window()
    hers.sign_in("alice")
    own = hers.open("/calls/?outcome=running")
    running = client(hub.seeded["alice"], "long_task", seconds=110, steps=60)
    slow = page.locator(ROWS, has_text="long_task").first
    slow.locator("[data-running]").wait_for()
    scroll(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "before=" not in request.url else None)
    began = time.monotonic()
    for number in range(60):
        add_up(hub, "bob", number)
    page.wait_for_selector("[data-fresh] >> text=At least 50 new calls")
    took = time.monotonic() - began
    assert 1 <= len([url for url in asked if "/search/" in url]) <= took + 2, "at most one a second"
    own.locator("tr.calls-row", has_text="long_task").first.locator("text=Cancel").click()
    slow.locator("text=Cancelled").wait_for()
    assert running.exception(60) is not None
    page.click("[data-fresh] button")
    page.wait_for_function("document.querySelectorAll('#result_list tbody tr').length === 50")
    values = [box.get_attribute("value") for box in page.locator("input.record-pick").all()]
    assert values == sorted(values, reverse=True) and len(set(values)) == 50
    page.click("a[rel=next]")
    page.wait_for_url(lambda url: "before=" in url)
    older = [box.get_attribute("value") for box in page.locator("input.record-pick").all()]
    assert older[0] < values[-1] and len(older) == len(set(older)), "no call is skipped or shown twice"
    assert hub.call(find_between, low=older[0], high=values[-1]) == 0
    assert "this is an older page" in page.inner_text("#live-state")
    page.focus("#live [role=switch]")
    page.keyboard.press("Enter")
    assert page.get_attribute("#live [role=switch]", "aria-checked") == "false"
    page.click("text=Show the newest calls")
    state(page, "live")


def test_a_list_that_was_empty_leads_on_from_a_full_page_of_new_calls(hub: Hub, auditor: Any) -> None:
    page = auditor("?client=burst&live=1").page
    page.wait_for_selector("#nothing")
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    for number in range(51):
        call_as_client(hub, hub.seeded["alice"], "calculate_sum", {"a": number, "b": 2}, "burst", "1")
    page.evaluate("delete document.hidden")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function("document.querySelectorAll('#result_list tbody tr').length === 50")
    page.click("a[rel=next]")
    page.wait_for_url(lambda url: "before=" in url)
    assert page.locator(ROWS).count() == 1


def test_rows_that_come_later_are_cut_like_those_that_were_there(hub: Hub, auditor: Any) -> None:
    client = "a client whose name is longer than sixty characters, as some are"
    call_as_client(hub, hub.seeded["alice"], "calculate_sum", {"a": 1, "b": 2}, client, "1")
    page = auditor("?client=a client whose*&live=1").page
    assert page.locator(f"{ROWS} .th-cut").count() == 1
    call_as_client(hub, hub.seeded["alice"], "calculate_sum", {"a": 2, "b": 2}, client, "1")
    page.wait_for_function("document.querySelectorAll('#result_list tbody tr').length === 2")
    assert page.locator(f"{ROWS} .th-cut").count() == 2


def find_between(low: str, high: str) -> int:
    from audit.models import Call

    return Call.objects.filter(pk__gt=low, pk__lt=high).count()


def test_a_server_that_starts_again_is_found_again(hub: Hub, auditor: Any) -> None:
    reads = auditor("?live=1")
    page = reads.page
    rows = page.locator("input.record-pick").first.get_attribute("value")
    hub.stop()
    state(page, "waiting")
    assert page.inner_text("#live-state") == "Reconnecting…"
    hub.start()
    add_up(hub, "alice")
    page.wait_for_function("rows => document.querySelector('input.record-pick').value !== rows", arg=rows)
    state(page, "live")
    assert page.evaluate("window.isSamePage")
    reads.complaints = [line for line in reads.complaints if "/ws/live" not in line]


def test_who_was_signed_out_is_told_so(hub: Hub, auditor: Any) -> None:
    page = auditor("?live=1").page
    hub.call(seed.end_sessions, username="auditor")
    state(page, "ended")
    assert page.inner_text("#live-state") == "You were signed out"
    page.wait_for_selector("[data-session-ended]")
    assert page.get_attribute("#live [role=switch]", "aria-checked") == "false"


def test_who_lost_the_permission_is_told_so_and_reads_no_more(hub: Hub, auditor: Any) -> None:
    reads = auditor("?live=1")
    page = reads.page
    rows = page.locator(ROWS).count()
    hub.call(seed.set_auditor, username="auditor", is_member=False)
    try:
        add_up(hub, "alice")
        state(page, "refused")
        assert page.inner_text("#live-state") == "You can no longer view the audit log"
        assert page.locator(ROWS).count() == rows
    finally:
        hub.call(seed.set_auditor, username="auditor", is_member=True)
    # An answer with status 403 is also a line of the console.
    reads.complaints = [line for line in reads.complaints if "403" not in line]


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_a_live_list_is_accessible_wide_and_narrow(hub: Hub, auditor: Any, locale: str) -> None:
    add_up(hub, "alice")
    reads = auditor("?live=1&user=alice", locale=locale, reduced_motion="reduce")
    page = reads.page
    page.focus("#result_list tbody a")
    add_up(hub, "alice")
    page.wait_for_selector("[data-fresh]:visible")
    assert axe.find_violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert reads.too_wide() == "" and axe.find_violations(page) == []
    assert wait_until(lambda: page.locator("[data-fresh] button").is_visible(), what="the new calls")


def test_a_view_opens_live_when_it_was_saved_so(hub: Hub, auditor: Any) -> None:
    page = auditor("?user=alice", live=False).page
    page.click("#live [role=switch]")
    state(page, "live")
    page.click("text=Save this filter as a view")
    assert page.is_checked("input[type=checkbox][name=live]")
    page.fill("input[name=name]", "alice now")
    page.click(".record-panel >> text=Save")
    page.wait_for_selector("#saved-views >> text=alice now")
    page.goto(hub.url + LIST)
    assert page.get_attribute("#live [role=switch]", "aria-checked") == "false"
    page.click("#saved-views >> text=alice now")
    page.wait_for_url("**live=1**")
    state(page, "live")
