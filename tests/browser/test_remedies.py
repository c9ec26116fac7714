"""From "why not?" to access with one click: in a real browser, by mouse and keyboard, in English and in Chinese."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.utils import translation
from django.utils.translation import gettext

from tests.browser import remedy_seed
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
SHOTS = os.environ.get("TOOLHUB_TEST_SHOTS", "")


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub of its own for each test: both change the same grants."""
    with Hub(seed=remedy_seed.seed) as hub:
        yield hub


def keep_picture(mine: Window, name: str) -> None:
    """Keep a picture where TOOLHUB_TEST_SHOTS names a folder, for whoever wants to look at the page."""
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        mine.page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


@pytest.mark.parametrize(("language", "locale", "width"), [("en", "en-GB", 1280), ("zh-hans", "zh-CN", 390)])
def test_the_reason_leads_to_the_change_and_the_change_to_access(
    hub: Hub, window: Windows, language: str, locale: str, width: int
) -> None:
    dark = "dark" if width == 390 else "light"
    mine = window(viewport={"width": width, "height": 900}, locale=locale, color_scheme=dark)
    mine.sign_in("root", "/admin/login/")
    with translation.override(language):
        details = {"number": hub.seeded["ended"], "time": "|"}
        ended = (gettext("Grant %(number)s now ends on %(time)s.") % details).partition("|")[0].strip()
        joined = gettext("%(user)s is now in the group %(group)s.") % {"user": "alice", "group": "Sales"}
        ungranted = gettext("You don't have access to this tool: no grant matches.")
        given = gettext("Access given. %(grant)s.").partition("%")[0].strip()
    page = mine.open("/admin/view-as/?user=alice&sees=no")
    keep_picture(mine, f"view-as-{language}-{width}")
    assert mine.too_wide() == ""
    assert page.locator("tr:has-text('delete_orders') button").count() == 0, "a denial is no matter of one click"
    page.focus("tr:has-text('get_report') button[value^='extend:']")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"text={ended}")
    assert page.locator("tr:has-text('get_report')").count() == 0, "it is visible, and the page shows the hidden ones"
    assert page.url.endswith("?user=alice&sees=no")
    page.click("tr:has-text('list_orders') button[value^='join:']")
    page.wait_for_selector(f"text={joined}")
    page = mine.open(f"/admin/access/tool/{hub.seeded['report']}/?sees=all")
    keep_picture(mine, f"access-{language}-{width}")
    assert mine.too_wide() == ""

    page = mine.open(f"/admin/catalog/tool/{hub.seeded['sum']}/try/")
    page.wait_for_selector(f"#try-access >> text={ungranted}")
    page.fill("#argument-0", "40")
    page.fill("#argument-1", "2")
    page.press("#argument-1", "Enter")
    page.wait_for_selector("#try-message .th-note")
    keep_picture(mine, f"try-{language}-{width}")
    assert mine.too_wide() == ""
    assert [row for row in hub.call(remedy_seed.list_grants) if row["user"] == "root"] == [], "Enter runs, and no more"
    page.click("#try-access button[value=give]")
    page.wait_for_selector(f"text={given}")
    assert page.locator("#try-access button").count() == 0
    assert (page.input_value("#argument-0"), page.input_value("#argument-1")) == ("40", "2"), "what was typed stays"
    page.click("#try-run")
    page.wait_for_selector("#try-outcome >> text=42")
    found = hub.call(remedy_seed.list_grants)
    assert {"user": "root", "tool": "calculate_sum", "ended": False} in found
