"""The form of a limit in a real browser: only what fits the measure is shown, and comes back with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import grant_form_seed
from tests.browser.conftest import Window
from tests.browser.test_grant_form import PHONE
from tests.browser.test_phone import BROKEN
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
ADD = "/admin/catalog/limit/add/"
FIELDS = ("zone", "method", "user", "group")
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=grant_form_seed.seed_grants) as hub:
        yield hub


def shown(page: Any, prefix: str = "") -> set[str]:
    return {name for name in FIELDS if page.locator(f".field-line:has([name={prefix}{name}])").first.is_visible()}


def test_the_form_shows_what_fits_the_measure(hub: Hub, window: Callable[..., Window]) -> None:
    mine = window(viewport=PHONE, reduced_motion="reduce")
    mine.sign_in("root", f"/admin/login/?next={ADD}")
    page = mine.page
    page.wait_for_selector("#id_rate[list]")
    assert shown(page) == {"method"}
    assert page.get_attribute("#id_rate", "placeholder") == "30/m"
    page.fill("#id_rate", "1000/day")
    assert shown(page) == {"zone"}
    page.fill("#id_zone", "Europe/Berlin")
    page.select_option("#id_measure", "repeats")
    assert shown(page) == set()
    assert page.get_attribute("#id_rate", "placeholder") == "5/10m"
    assert "This stops loops." in page.inner_text(".field-line:has(#id_rate)")
    assert page.locator("#id_scope option[value=everyone_together]").is_disabled()
    assert page.input_value("#id_zone") == ""
    page.select_option("#id_measure", "cost")
    assert shown(page) == {"zone"} and page.input_value("#id_zone") == "Europe/Berlin"
    page.select_option("#id_scope", "group_together")
    assert shown(page) == {"zone", "group"}
    page.select_option("#id_measure", "errors")
    assert page.input_value("#id_scope") == "each_member"
    page.select_option("#id_measure", "running")
    assert page.input_value("#id_scope") == "group_together"
    page.select_option("#id_scope", "everyone_together")
    page.fill("#id_rate", "3")
    page.check("#id_all_tools")
    assert page.evaluate(BROKEN) == []
    assert page.evaluate(WIDER) <= 0
    page.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/limit/")
    assert "3 at a time" in page.inner_text("#result_list")


def test_a_refused_field_stays_visible(hub: Hub, window: Callable[..., Window]) -> None:
    mine = window()
    mine.sign_in("root", f"/admin/login/?next={ADD}")
    page = mine.page
    page.wait_for_selector("#id_rate[list]")
    page.select_option("#id_scope", "user")
    page.check("#id_all_tools")
    page.fill("#id_rate", "30/m")
    page.click("button[name=_save]")
    page.wait_for_selector("text=Choose the user whose calls are counted.")
    page.select_option("#id_scope", "each_user")
    assert shown(page) == {"method", "user"}


def test_a_limit_on_the_page_of_a_tool_needs_its_amount_alone(hub: Hub, window: Callable[..., Window]) -> None:
    mine = window()
    address = f"/admin/catalog/tool/{hub.seeded['customers_tool']}/change/"
    mine.sign_in("root", f"/admin/login/?next={address}")
    page = mine.page
    page.get_by_role("tab", name="Access").click()
    page.click("#limits-group .add-row a, #limits-group a.add-row, #limits-group .add-row")
    page.wait_for_selector("#id_limits-0-rate[list]")
    assert shown(page, "limits-0-") == set()
    page.fill("#id_limits-0-rate", "7/m")
    page.click("button[name=_continue]")
    page.wait_for_selector("text=was changed successfully")
    page.get_by_role("tab", name="Access").click()
    assert page.input_value("#id_limits-0-rate") == "7/m"


def test_the_cost_argument_is_chosen_from_the_numbers_and_lists_of_the_schema(
    hub: Hub, window: Callable[..., Window]
) -> None:
    mine = window()
    address = f"/admin/catalog/tool/{hub.seeded['customers_tool']}/change/"
    mine.sign_in("root", f"/admin/login/?next={address}")
    page = mine.page
    page.get_by_role("tab", name="Cost").click()
    page.focus("#id_cost_argument")
    options = page.locator("#cost-arguments option")
    assert [options.nth(number).get_attribute("value") for number in range(options.count())] == ["/limit", "/lines"]
