"""What an auditor reads of results: how much of each is kept, the whole of it, its pictures, sounds and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import axe
from tests.browser.conftest import Window, call_as_client
from tests.browser.seed import PASSWORD, token
from tests.polling import wait_until
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
TOOLS = ("write_report", "list_cities", "draw_chart", "play_tone")
LOOKS = [(1280, "light", "en-GB"), (390, "dark", "zh-CN")]


def seed() -> str:
    """alice with the tools, the auditor; the token of alice."""
    from django.contrib.auth.models import Group, User

    from catalog.functions.registry import lookup
    from tests import factories

    alice = User.objects.create_user("alice", password=PASSWORD)
    auditor = User.objects.create_user("auditor", password=PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    for name in TOOLS:
        found = lookup("tool", name)
        made = factories.make_tool(
            name, function=name, input_schema=found.input_schema, output_schema=found.output_schema
        )
        factories.grant(alice, made)
    return token("alice")


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    env = {
        "TOOLHUB_TOOL_MODULES": "catalog.examples,tests.browser.bodies_functions",
        "TOOLHUB_KEEP_WHOLE_BODIES_MB": "1",
    }
    with Hub(seed=seed, env=env) as hub:
        for name, arguments in (
            ("write_report", {"lines": 9_000}),
            ("list_cities", {}),
            ("draw_chart", {"values": [3, 1, 4]}),
            ("play_tone", {"seconds": 5}),
        ):
            assert '"isError":false' in call_as_client(hub, hub.seeded, name, arguments, "bodies", "1").replace(" ", "")
        yield hub


@pytest.fixture(params=LOOKS, ids=["wide", "narrow"])
def auditor(request: pytest.FixtureRequest, window: Windows) -> Window:
    width, shade, locale = request.param
    found = window(viewport={"width": width, "height": 900}, color_scheme=shade, locale=locale, accept_downloads=True)
    found.sign_in("auditor", "/admin/login/?next=/admin/audit/call/")
    return found


def open_call(auditor: Window, tool: str) -> Any:
    """The page of the newest call of a tool, from the list."""
    page = auditor.open(f"/admin/audit/call/?tool={tool}")
    page.click(f"#result_list tr:has-text('{tool}') a >> nth=0")
    page.wait_for_selector("#call-facts")
    assert auditor.too_wide() == "" and axe.find_violations(page) == []
    return page


def download(page: Any, link: str) -> bytes:
    with page.expect_download() as found:
        page.click(f"a.record-link[href*='{link}']")
    return Path(found.value.path()).read_bytes()


def test_a_result_that_is_too_long_says_how_much_of_it_is_kept_and_its_download_is_named_so(auditor: Window) -> None:
    page = open_call(auditor, "write_report")
    notes = page.inner_text("#call-result-notes")
    assert "64.0\xa0KB" in notes and "\xa0MB" in notes
    label = page.inner_text("a.record-link[href*='/result/']")
    assert "64.0\xa0KB" in label and "\xa0MB" in label, "the link says that it is a part"
    assert len(download(page, "/result/")) == 65_536
    shown = page.inner_text("#content")
    assert "7: 天气晴好" in shown and "\\u5929" not in shown and "<script>" in shown
    assert page.locator("#content script").count() == 0


def test_a_result_that_the_setting_keeps_is_delivered_whole(auditor: Window) -> None:
    page = open_call(auditor, "play_tone")
    assert "SHA-256" in page.inner_text("#call-result-notes")
    whole = json.loads(download(page, "/whole/"))
    assert whole["structuredContent"]["seconds"] == 5
    wait_until(lambda: page.evaluate("document.querySelector('#content audio').readyState") >= 1, what="the sound")


def test_a_picture_is_a_picture_and_rows_are_a_table(auditor: Window) -> None:
    page = open_call(auditor, "draw_chart")
    assert wait_until(lambda: page.evaluate("document.querySelector('#content img').naturalWidth")) > 10
    page = open_call(auditor, "list_cities")
    assert page.locator("table.result-table td:text-is('北京')").is_visible()
