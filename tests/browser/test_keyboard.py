"""The administration by keyboard: the search, menus, filters and tabs, at the width of a telephone too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser import seed
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]


def end_sessions() -> None:
    from django.contrib.sessions.models import Session

    Session.objects.all().delete()


def find_tools() -> list[int]:
    from catalog.models import Tool

    return list(Tool.objects.order_by("pk").values_list("pk", flat=True))


def selected(page: Any) -> str:
    return str(page.locator("#th-search [role=option][aria-selected=true] .th-search-title").text_content())


@pytest.mark.parametrize("width", [390, 1280])
def test_the_search_opens_leads_and_closes_by_keyboard(hub: Hub, window: Windows, width: int) -> None:
    root = window(viewport={"width": width, "height": 844})
    root.sign_in("root", "/admin/login/?next=/admin/catalog/tool/")
    page = root.page
    page.focus("input[name=q]")
    page.keyboard.press("Control+k")
    page.wait_for_selector("#th-search[open]")
    field = page.locator("#th-search input")
    page.keyboard.type("cal")
    page.wait_for_selector("#th-search [aria-busy=false] [role=option] >> text=calculate_sum")
    assert field.get_attribute("aria-expanded") == "true"
    first = selected(page)
    page.keyboard.press("ArrowDown")
    assert selected(page) != first
    assert field.get_attribute("aria-activedescendant") == page.locator("[aria-selected=true]").get_attribute("id")
    page.keyboard.press("ArrowUp")
    assert selected(page) == first
    assert root.too_wide() == ""
    page.keyboard.press("Escape")
    assert page.locator("#th-search[open]").count() == 0
    assert page.evaluate("document.activeElement.name") == "q"
    page.locator("a[data-search] >> visible=true").first.press("Enter")
    field.fill("calculate_sum")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/catalog/tool/*/change/")


def test_enter_waits_for_the_results_of_what_was_typed(hub: Hub, window: Windows) -> None:
    root = window(viewport={"width": 1280, "height": 844})
    root.sign_in("root", "/admin/login/?next=/admin/catalog/tool/")
    page = root.page
    page.keyboard.press("Control+k")
    page.keyboard.type("alice")
    page.wait_for_selector("#th-search [aria-busy=false] [role=option] >> text=alice")
    held: list[Any] = []
    page.route("**/search/*q=calculate_sum", lambda route: held.append(route))
    with page.expect_request("**/search/*q=calculate_sum"):
        page.fill("#th-search input", "calculate_sum")
    page.keyboard.press("Enter")
    assert page.get_attribute("#th-search [role=listbox]", "aria-busy") == "true"
    held[0].continue_()
    page.wait_for_url("**/admin/catalog/tool/*/change/")


def test_whoever_signed_out_elsewhere_is_told_where_they_type(hub: Hub, window: Windows) -> None:
    root = window(viewport={"width": 390, "height": 844})
    root.sign_in("root", "/admin/login/?next=/admin/catalog/tool/")
    page = root.page
    hub.call(end_sessions)
    page.keyboard.press("Control+k")
    page.keyboard.type("cal")
    page.wait_for_selector("[role=alert] >> text=Your session ended. Sign in again.")
    page.click("[role=alert] a")
    page.fill("#id_username", "root")
    page.fill("#id_password", seed.PASSWORD)
    page.click("form button.primary")
    page.wait_for_url("**/admin/catalog/tool/")


def test_menus_and_filters_open_and_close_by_keyboard(hub: Hub, window: Windows) -> None:
    root = window(viewport={"width": 1280, "height": 844})
    root.sign_in("root", "/admin/login/?next=/admin/catalog/tool/")
    page = root.page
    menu = page.locator("button[aria-controls=account-menu]")
    menu.press("Enter")
    page.wait_for_selector("#account-menu >> visible=true")
    assert menu.get_attribute("aria-expanded") == "true"
    menu.press("Escape")
    page.wait_for_selector("#account-menu", state="hidden")
    assert page.evaluate("document.activeElement.getAttribute('aria-controls')") == "account-menu"
    filters = page.locator("button[data-filters]")
    filters.press("Enter")
    page.wait_for_function("document.getElementById('changelist-filter').contains(document.activeElement)")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.hasAttribute('data-filters')")
    toggle = page.get_by_role("button", name="Show or hide the sidebar").locator("visible=true")
    toggle.press("Enter")
    page.wait_for_selector("#nav-sidebar-apps", state="hidden")
    toggle.press(" ")
    page.wait_for_selector("#nav-sidebar-apps", state="visible")


def test_a_tab_stays_after_saving_and_reloading_and_another_tool_begins_with_its_first(
    hub: Hub, window: Windows
) -> None:
    one, other = hub.call(find_tools)[:2]
    root = window(viewport={"width": 1280, "height": 900})
    root.sign_in("root", f"/admin/login/?next=/admin/catalog/tool/{one}/change/")
    page = root.page
    chosen = ".tool-tabs [aria-selected=true]"
    tabs = page.locator(".tool-tabs [role=tab]")
    first = tabs.nth(0).text_content()
    tabs.nth(2).click()
    third = page.text_content(chosen)
    page.reload()
    page.wait_for_selector(chosen)
    assert page.text_content(chosen) == third != first
    page.click("button[name=_continue]")
    page.wait_for_selector("[data-messages]")
    page.wait_for_function("document.activeElement.hasAttribute('data-messages')")
    assert page.text_content(chosen) == third
    page.goto(f"{hub.url}/admin/catalog/tool/{other}/change/")
    page.wait_for_selector(chosen)
    assert page.text_content(chosen) == first
    tabs.nth(2).click()
    page.click("button[name=_save]")
    page.wait_for_url(f"{hub.url}/admin/catalog/tool/")
    page.goto(f"{hub.url}/admin/catalog/tool/{one}/change/")
    page.wait_for_selector(chosen)
    assert page.text_content(chosen) == first


def test_a_copy_is_heard(hub: Hub, window: Windows) -> None:
    alice = window(permissions=["clipboard-read", "clipboard-write"])
    alice.sign_in("alice", "/sign-in/?next=/connect/curl/")
    alice.page.locator("[data-copy]").first.press("Enter")
    alice.page.wait_for_selector(".heard >> text=Copied", state="attached")


@pytest.mark.parametrize("width", [390, 1280])
def test_a_form_that_comes_back_has_the_focus_at_its_first_error(hub: Hub, window: Windows, width: int) -> None:
    alice = window(viewport={"width": width, "height": 844})
    alice.sign_in("alice", "/sign-in/?next=/tokens/")
    page = alice.page
    page.fill("#id_name", "\u200b")
    page.press("#id_name", "Enter")
    page.wait_for_function("document.activeElement.getAttribute('aria-invalid') === 'true'")
    described = page.evaluate(
        "document.activeElement.getAttribute('aria-describedby').split(' ')"
        ".map(id => document.getElementById(id)?.textContent || '').join(' ')"
    )
    assert "Use visible characters" in described


def test_a_form_of_the_admin_that_comes_back_has_the_focus_at_its_first_error(hub: Hub, window: Windows) -> None:
    root = window(viewport={"width": 1280, "height": 844})
    root.sign_in("root", "/admin/login/?next=/admin/auth/group/add/")
    page = root.page
    page.click("button[name=_save]")
    page.wait_for_selector(".errornote")
    page.wait_for_function("document.activeElement.name === 'name'")
    error = page.evaluate("document.getElementById('id_name_error')?.textContent")
    assert error and "id_name_error" in page.get_attribute("#id_name", "aria-describedby")


@pytest.mark.parametrize("path", ["catalog/limit", "catalog/tooltest", "access/accesstoken"])
def test_a_select_box_of_the_theme_with_an_error_has_the_focus(hub: Hub, window: Windows, path: str) -> None:
    root = window(viewport={"width": 1280, "height": 844})
    root.sign_in("root", f"/admin/login/?next=/admin/{path}/add/")
    page = root.page
    for name in ("name", "rate"):
        if page.locator(f"#id_{name}").count():
            page.fill(f"#id_{name}", "6/m")
    page.eval_on_selector("button[name=_save]", "button => { button.form.noValidate = true }")
    page.click("button[name=_save]")
    page.wait_for_selector(".errornote, ul.errorlist")
    page.wait_for_function("document.activeElement.closest('.select2-selection')")
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert page.evaluate(
        "document.activeElement.getAttribute('aria-describedby').split(' ')"
        ".some(id => /_error$/.test(id) && document.getElementById(id).textContent.trim())"
    )


def test_the_skip_link_is_first_and_leads_past_the_menu(hub: Hub, window: Windows) -> None:
    for name, path in (("alice", "/sign-in/?next=/tools/"), ("root", "/admin/login/?next=/admin/catalog/tool/")):
        mine = window(viewport={"width": 1280, "height": 844})
        mine.sign_in(name, path)
        mine.page.evaluate("document.activeElement.blur()")
        mine.page.keyboard.press("Tab")
        assert "Skip" in mine.page.evaluate("document.activeElement.textContent")
        mine.page.keyboard.press("Enter")
        mine.page.keyboard.press("Tab")
        assert mine.page.evaluate("!document.activeElement.closest('nav, #nav-sidebar, header')")


@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_the_page_of_a_tool_shows_its_name_beside_its_actions(hub: Hub, window: Windows, width: int) -> None:
    tool = hub.call(find_tools)[0]
    root = window(viewport={"width": width, "height": 844})
    root.sign_in("root", f"/admin/login/?next=/admin/catalog/tool/{tool}/change/")
    box = root.page.locator("#header-inner h1").bounding_box()
    assert box["width"] >= 80
    assert root.too_wide() == ""


def test_the_tabs_of_a_form_are_all_there_at_once(hub: Hub, window: Windows) -> None:
    for width in (390, 1280):
        root = window(viewport={"width": width, "height": 844})
        root.sign_in("root", "/admin/login/?next=/admin/catalog/prompt/add/")
        assert root.page.locator("#tabs-items a >> visible=true").count() == 2
        assert root.too_wide() == ""
