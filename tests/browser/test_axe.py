"""axe-core finds nothing serious on any page: user's area and admin, light and dark, English and Chinese, on a
telephone, and where a form has errors, a menu is open or a list is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import axe, demo, states
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = [pytest.mark.chromium, pytest.mark.node]
Windows = Callable[..., Window]
ALIKE = ("/add/", "/delete/", "/history/")
"""Pages that the admin makes in the same way for every model, or that are the form of the change page: those of some
models are looked at."""
SAMPLE_PAGES = (
    "/admin/catalog/grant/",
    "/admin/catalog/tool/add/",
    "/admin/access/accesstoken/add/",
    "/admin/auth/user/add/",
)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=states.fill) as hub:
        yield hub


def list_pages(whose: str) -> list[str]:
    return [
        address
        for person, address in demo.addresses()
        if person == whose
        and "no-such" not in address
        and (address.startswith(SAMPLE_PAGES) or not address.endswith(ALIKE) or not address.startswith("/admin/"))
    ]


def find_problems(mine: Window, hub: Hub, addresses: list[str], *, both: bool = True) -> list[str]:
    """What is wrong on these pages, in the light and then, as far as colours go, in the dark."""
    found: list[str] = []
    for address in addresses:
        if not demo.is_page(mine, address.format(**hub.seeded)):
            continue
        demo.stop_motion(mine.page)
        demo.set_theme(mine.page, dark=False)
        found += axe.find_violations(mine.page)
        if both:
            demo.set_theme(mine.page, dark=True)
            found += [f"in the dark: {complaint}" for complaint in axe.find_violations(mine.page, ["color-contrast"])]
    return found


def test_every_page_for_signed_out_visitors_is_accessible(hub: Hub, window: Windows) -> None:
    found = find_problems(window(reduced_motion="reduce"), hub, [*list_pages(""), "/mcp"])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_every_page_of_the_user_area_is_accessible(hub: Hub, window: Windows, locale: str) -> None:
    mine = window(locale=locale, reduced_motion="reduce")
    mine.sign_in("alice")
    found = find_problems(mine, hub, list_pages("alice"), both=locale == "en")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("half", [0, 1], ids=["first-half", "second-half"])
def test_every_page_of_the_admin_is_accessible(hub: Hub, window: Windows, half: int) -> None:
    mine = window(reduced_motion="reduce")
    mine.sign_in("root", "/admin/login/")
    found = find_problems(mine, hub, list_pages("root")[half::2])
    assert not found, "\n".join(found)


def test_the_admin_in_chinese_is_accessible(hub: Hub, window: Windows) -> None:
    mine = window(locale="zh-CN", reduced_motion="reduce")
    mine.sign_in("root", "/admin/login/")
    chosen = ["/admin/", "/admin/catalog/tool/", "/admin/catalog/grant/add/", "/admin/audit/call/"]
    found = find_problems(mine, hub, chosen, both=False)
    assert mine.page.locator("html").get_attribute("lang") == "zh-hans"
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["wide-light", "telephone-dark"])
def test_every_state_of_a_page_is_accessible(hub: Hub, window: Windows, width: int, dark: bool) -> None:
    found: list[str] = []
    for whose in states.people():
        mine = window(viewport={"width": width, "height": 844}, reduced_motion="reduce")
        if whose:
            mine.sign_in(whose, "/admin/login/" if whose in {"root", "clerk"} else "/sign-in/")
        for state in states.STATES:
            if state.whose != whose:
                continue
            states.open_state(mine, state, hub.seeded)
            demo.set_theme(mine.page, dark=dark)
            found += [f"{state.name}: {complaint}" for complaint in axe.find_violations(mine.page)]
            found += [f"{state.name}: {complaint}" for complaint in [mine.too_wide()] if complaint]
        # What the browser says of an answer 403 or 404 that was asked for.
        mine.complaints[:] = [line for line in mine.complaints if "Failed to load resource" not in line]
    assert not found, "\n".join(found)


def test_every_page_of_the_user_area_is_accessible_on_a_telephone_in_the_dark(hub: Hub, window: Windows) -> None:
    mine = window(viewport={"width": 390, "height": 844}, reduced_motion="reduce", color_scheme="dark")
    mine.sign_in("alice")
    found = []
    for address in list_pages("alice"):
        if demo.is_page(mine, address.format(**hub.seeded)):
            demo.stop_motion(mine.page)
            found += axe.find_violations(mine.page)
    assert not found, "\n".join(found)


def test_axe_itself_finds_violations(hub: Hub, window: Windows) -> None:
    page: Any = window().open("/sign-in/")
    assert axe.find_violations(page) == []
    page.evaluate("for (const label of document.querySelectorAll('label')) label.remove()")
    assert any("label" in complaint for complaint in axe.find_violations(page))
