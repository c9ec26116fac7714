"""axe-core finds nothing serious on any page: user's area and admin, light and dark, English and Chinese."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import axe, demo
from tests.browser.conftest import Window
from tests.serving import Hub

pytestmark = [pytest.mark.chromium, pytest.mark.node]
Windows = Callable[..., Window]
ALIKE = ("/add/", "/delete/", "/history/")
"""Pages that the admin makes in the same way for every model, or that are the form of the change page: those of some
models are looked at."""
SOME = ("/admin/catalog/grant/", "/admin/catalog/tool/add/", "/admin/access/accesstoken/add/", "/admin/auth/user/add/")


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=demo.fill) as hub:
        yield hub


def pages(whose: str) -> list[str]:
    return [
        address
        for person, address in demo.addresses()
        if person == whose
        and "no-such" not in address
        and (address.startswith(SOME) or not address.endswith(ALIKE) or not address.startswith("/admin/"))
    ]


def look(mine: Window, hub: Hub, addresses: list[str], *, both: bool = True) -> list[str]:
    """What is wrong on these pages, in the light and then, as far as colours go, in the dark."""
    found: list[str] = []
    for address in addresses:
        if not demo.opened(mine, address.format(**hub.seeded)):
            continue
        demo.still(mine.page)
        demo.shade(mine.page, dark=False)
        found += axe.complaints(mine.page)
        if both:
            demo.shade(mine.page, dark=True)
            found += [f"in the dark: {complaint}" for complaint in axe.complaints(mine.page, ["color-contrast"])]
    return found


def test_whoever_is_not_signed_in_finds_pages_that_everybody_can_use(hub: Hub, window: Windows) -> None:
    found = look(window(reduced_motion="reduce"), hub, [*pages(""), "/mcp"])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_every_page_of_the_users_area_can_be_used_by_everybody(hub: Hub, window: Windows, locale: str) -> None:
    mine = window(locale=locale, reduced_motion="reduce")
    mine.sign_in("alice")
    found = look(mine, hub, pages("alice"), both=locale == "en")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("half", [0, 1], ids=["first-half", "second-half"])
def test_every_page_of_the_admin_can_be_used_by_everybody(hub: Hub, window: Windows, half: int) -> None:
    mine = window(reduced_motion="reduce")
    mine.sign_in("root", "/admin/login/")
    found = look(mine, hub, pages("root")[half::2])
    assert not found, "\n".join(found)


def test_the_admin_in_chinese_can_be_used_by_everybody(hub: Hub, window: Windows) -> None:
    mine = window(locale="zh-CN", reduced_motion="reduce")
    mine.sign_in("root", "/admin/login/")
    chosen = ["/admin/", "/admin/catalog/tool/", "/admin/catalog/grant/add/", "/admin/audit/call/"]
    found = look(mine, hub, chosen, both=False)
    assert mine.page.locator("html").get_attribute("lang") == "zh-hans"
    assert not found, "\n".join(found)


def test_axe_itself_finds_what_is_wrong(hub: Hub, window: Windows) -> None:
    page: Any = window().open("/sign-in/")
    assert axe.complaints(page) == []
    page.evaluate("for (const label of document.querySelectorAll('label')) label.remove()")
    assert any("label" in complaint for complaint in axe.complaints(page))
