"""The form of an approval rule in a real browser: rows for conditions, and the sentence that follows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.browser import grant_form_seed
from tests.browser.conftest import Window
from tests.browser.test_grant_form import PHONE, READY, choose, row
from tests.browser.test_phone import BROKEN
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
ADD = "/admin/catalog/approvalrule/add/"
SENTENCE = "#rule-meaning [data-sentence]"


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=grant_form_seed.seed_grants) as hub:
        yield hub


def test_a_rule_is_made_in_rows_on_a_telephone_and_says_what_it_means(hub: Hub, window: Callable[..., Window]) -> None:
    mine = window(viewport=PHONE, timezone_id="Europe/Berlin", reduced_motion="reduce")
    mine.sign_in("root", f"/admin/login/?next={ADD}")
    page = mine.page
    page.wait_for_selector(READY)
    page.fill("#id_name", "Large limits")
    page.select_option("#id_asks", "person")
    choose(page, "tool", "find_customers")
    page.wait_for_selector(f"{SENTENCE} >> text=Calls of tool find_customers ask the person who calls.")
    page.wait_for_selector("[data-for=conditions][aria-busy=false]")
    page.click("text=Add a condition")
    row(page, 0).get_by_label("Argument").select_option("/limit")
    operator = row(page, 0).get_by_label("Operator")
    assert "is always" not in operator.locator("option").all_inner_texts()
    operator.select_option("range")
    row(page, 0).get_by_label("Upper bound: number").fill("20")
    page.wait_for_selector(f"{SENTENCE} >> text=where limit is at most 20 ask the person who calls.")
    assert json.loads(page.input_value("#id_conditions")) == [{"path": "/limit", "op": "range", "maximum": 20}]
    assert page.inner_text("[data-for=windows] .rule-rows .tool-note") == (
        "No time windows. The rule asks at any time."
    )
    assert page.evaluate(BROKEN) == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/approvalrule/")
    assert "Large limits" in page.inner_text("#result_list")
