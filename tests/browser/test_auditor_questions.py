"""Ten questions of an auditor, each answered in at most three clicks and one search.

The auditor begins at the list of calls, which is one click away from every page of the admin. A click is a press of a
link, a button or a box. A search is one form that is filled in and sent: the box of the search, or the filters.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import auditor_seed
from tests.browser.conftest import Window, call_as_client
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
CALLS = "/admin/audit/call/"
MAX_CLICKS, MAX_SEARCHES = 3, 1


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=auditor_seed.seed) as hub:
        for a, client in ((4711, "claude-code"), (5, "Cursor")):
            assert "result" in call_as_client(
                hub, hub.seeded["alice"], "calculate_sum", {"a": a, "b": 1}, client, "1.0"
            )
        call_as_client(hub, hub.seeded["charlie"], "calculate_sum", {"a": 1, "b": 1}, "claude-code", "1.0")
        hub.manage("verifycalls")
        hub.call(auditor_seed.add_older_calls)
        yield hub


class Auditor:
    """The auditor's window, with what every answer cost."""

    def __init__(self, window: Window) -> None:
        self.window, self.clicks, self.searches = window, 0, 0
        window.sign_in("auditor", "/admin/login/")
        self.page = window.open(CALLS)

    def click(self, selector: str) -> None:
        self.clicks += 1
        self.page.click(selector)
        self.page.wait_for_load_state()

    def search(self, text: str) -> None:
        self.searches += 1
        self.page.fill("#searchbar", text)
        self.page.press("#searchbar", "Enter")
        self.page.wait_for_url("**q=**")

    def filter(self, **values: str) -> None:
        """Open the filters with a click, fill them in and apply them: one search."""
        self.click("text=Filters >> visible=true")
        form = self.page.locator("#filter-form")
        for name, value in values.items():
            field = form.locator(f"[name={name}]")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value, force=True)
            else:
                field.fill(value)
        self.searches += 1
        form.locator("button[type=submit]").click()
        self.page.wait_for_url(lambda url: all(f"{name}=" in url for name in values))

    def text_of(self, selector: str) -> str:
        self.page.wait_for_selector(selector)
        return str(self.page.inner_text(selector))

    def rows(self) -> list[str]:
        return list(self.page.locator("#result_list tbody tr").all_inner_texts())


@pytest.fixture
def auditor(window: Windows) -> Iterator[Auditor]:
    asks = Auditor(window(viewport={"width": 1280, "height": 900}))
    yield asks
    assert asks.clicks <= MAX_CLICKS and asks.searches <= MAX_SEARCHES, (asks.clicks, asks.searches)


def test_which_client_called_on_tuesday_afternoon(auditor: Auditor) -> None:
    auditor.filter(since="2026-03-03T12:00", until="2026-03-03T18:00")
    auditor.page.wait_for_selector("#search-state [data-clients]:text-is('Clients: claude-code 2, Cursor 1')")
    assert len(auditor.rows()) == 3


def test_which_calls_of_a_tool_had_this_argument_last_month(auditor: Auditor) -> None:
    auditor.search("Miller")
    auditor.clicks += 1  # the filters keep the search, so applying them is a click
    auditor.searches -= 1
    auditor.filter(tool="find_invoice", period="last_month")
    assert "1 call found" in auditor.text_of("#search-state [data-total]:not(:empty)")
    assert len(auditor.rows()) == 1 and "Miller" in auditor.rows()[0]


def test_where_this_number_appears_anywhere(auditor: Auditor) -> None:
    auditor.search("4711")
    assert len(auditor.rows()) == 1 and "4711" in auditor.rows()[0] and "calculate_sum" in auditor.rows()[0]


def test_which_calls_were_denied_and_why(auditor: Auditor) -> None:
    auditor.filter(outcome="refused")
    (row,) = auditor.rows()
    assert "charlie" in row and "No grant allows it." in row


def test_whether_the_log_is_complete(auditor: Auditor) -> None:
    assert "Audit log verified" in auditor.text_of("#chain-state")


def test_everything_about_a_person(auditor: Auditor) -> None:
    page = auditor.page
    page.keyboard.press("Control+k")
    page.keyboard.type("alice")
    auditor.searches += 1
    auditor.click(".th-search-result:has-text('alice') >> nth=0")
    page.wait_for_url("**/admin/auth/user/**")
    auditor.click("text=Case file of this user")
    page.fill("#id_reason", "OPS-119")
    with page.expect_download() as download:
        auditor.click("text=Make case file")
    with open(download.value.path(), "rb") as file, zipfile.ZipFile(io.BytesIO(file.read())) as archive:
        (calls,) = [archive.read(name) for name in archive.namelist() if name.endswith("calls.jsonl")]
        grants = [archive.read(name) for name in archive.namelist() if "grant" in name]
    assert {json.loads(line)["username"] for line in calls.splitlines()} == {"alice"}
    assert auditor_seed.TICKET.encode() in b"".join(grants)


def open_call(auditor: Auditor, selector: str) -> None:
    auditor.click(f"#result_list tbody tr:has-text('{selector}') >> nth=0 >> a >> nth=0")
    auditor.page.wait_for_selector("#call-id")


def test_who_gave_the_grant_of_a_call_and_why(auditor: Auditor) -> None:
    open_call(auditor, "4711")
    found = auditor.text_of("#call-related")
    assert "by root." in found and auditor_seed.TICKET in found


def test_what_the_tool_was_at_that_time(auditor: Auditor) -> None:
    open_call(auditor, "4711")
    assert "Matches the logged hash" in auditor.text_of("#call-definition-note")
    auditor.click("text=Show the definition sent to clients")
    assert '"calculate_sum"' in auditor.text_of("#call-definition")


def test_how_two_calls_differ(auditor: Auditor) -> None:
    for text in ("4711", "Cursor"):
        auditor.click(f"#result_list tbody tr:has-text('{text}') >> nth=0 >> input.record-pick")
    auditor.click("[data-compare]")
    auditor.page.wait_for_url("**/compare/**")
    words = auditor.page.inner_text("main, #main, body")
    assert "4711" in words and "Cursor" in words and "claude-code" in words


def test_the_same_search_means_the_same_next_week(auditor: Auditor, hub: Hub) -> None:
    page: Any = auditor.page
    page.goto(f"{hub.url}{CALLS}?q=Miller&tool=find_invoice&period=last_month")
    auditor.click("text=Save this filter as a view")
    page.fill("input[name=name]", "Miller, monthly")
    auditor.click("form[action*='views/new'] button")
    page.goto(f"{hub.url}{CALLS}")
    auditor.click("#saved-views a:has-text('Miller, monthly')")
    page.wait_for_url("**period=last_month**")
    assert "since=" not in page.url and "until=" not in page.url
    assert len(auditor.rows()) == 1 and "Miller" in auditor.rows()[0]
