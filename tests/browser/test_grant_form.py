"""The form of a grant in a real browser: conditions, time windows and flags as rows, by keyboard, on a telephone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import demo, grant_form_seed
from tests.browser.conftest import Window
from tests.browser.test_phone import BROKEN
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
ADD = "/admin/catalog/grant/add/"
READY = "form[data-conditions=ready]"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=grant_form_seed.seed_grants) as hub:
        yield hub


@pytest.fixture
def opened(window: Windows) -> Callable[..., Any]:
    """A window of root at the form of a grant, with its scripts at work."""

    def open_form(path: str = ADD, **options: Any) -> Any:
        mine = window(**options)
        mine.sign_in("root", f"/admin/login/?next={path}")
        mine.page.wait_for_selector(READY)
        # The admin's script that moves the focus to the first field comes when it comes, but before this.
        mine.page.wait_for_load_state("load")
        return mine.page

    return open_form


def choose(page: Any, field: str, name: str) -> None:
    """Choose in a search field of the theme, by keyboard, and wait for the arguments."""
    page.focus(f".field-{field} .select2-selection")
    page.keyboard.press("Enter")
    page.wait_for_selector(".select2-container--open .select2-search__field:focus")
    page.keyboard.type(name)
    page.wait_for_selector(f".select2-results__option--highlighted >> text={name}")
    page.keyboard.press("Enter")


def choose_tool(page: Any) -> None:
    with page.expect_response("**/grant/arguments/**"):
        choose(page, "tool", "find_customers")
    page.wait_for_selector("[data-for=conditions][aria-busy=false]")


def conditions(page: Any) -> Any:
    return json.loads(page.input_value("#id_conditions"))


def row(page: Any, number: int, field: str = "conditions") -> Any:
    return page.locator(f"[data-for={field}] .rule-row").nth(number)


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tell_focus(page: Any) -> str:
    """The name of the group with the focus, and of the element."""
    return str(
        page.evaluate(
            """() => {
              const one = document.activeElement;
              const name = one.labels?.[0]?.textContent || one.ariaLabel || one.textContent;
              return `${one.closest(".rule-row")?.ariaLabel || ""}: ${name.trim()}`;
            }"""
        )
    )


def test_a_grant_with_two_conditions_and_a_window_is_made_by_keyboard_on_a_telephone(hub: Hub, opened: Any) -> None:
    page = opened(viewport=PHONE, timezone_id="Europe/Berlin", reduced_motion="reduce")
    choose_tool(page)
    choose(page, "user", "alice")
    page.focus("[data-for=conditions] [data-add]")
    press(page, "Enter")
    assert tell_focus(page) == "Condition 1: Argument"
    page.keyboard.type("region")
    press(page, "Tab")
    assert tell_focus(page) == "Condition 1: Operator"
    page.keyboard.type("is one of")
    assert tell_focus(page) == "Condition 1: Operator"
    press(page, "Tab")
    assert tell_focus(page) == "Condition 1: emea"
    press(page, "Space", "Tab", "Space")
    page.focus("[data-for=conditions] [data-add]")
    press(page, "Enter")
    page.keyboard.type("limit")
    assert tell_focus(page) == "Condition 2: Argument"
    press(page, "Tab")
    page.keyboard.type("is in the r")
    row(page, 1).get_by_label("Upper bound: number").focus()
    page.keyboard.type("20")
    row(page, 1).get_by_label("or is left out").focus()
    press(page, "Space")
    page.focus("[data-for=windows] [data-add]")
    press(page, "Enter")
    assert tell_focus(page) == "Time window 1: Monday"
    press(page, "Space")
    row(page, 0, "windows").get_by_label("From").fill("8:30")
    page.fill("#id_note", "by keyboard")
    assert page.evaluate(BROKEN) == []
    page.focus("button[name=_save]")
    press(page, "Enter")
    page.wait_for_url("**/admin/catalog/grant/")
    found = hub.call(grant_form_seed.find_grant, note="by keyboard")
    assert found["conditions"] == [
        {"path": "/region", "op": "one_of", "values": ["emea", "apac"]},
        {"path": "/limit", "op": "range", "maximum": 20, "optional": True},
    ]
    days = ["tue", "wed", "thu", "fri"]
    assert found["windows"] == [{"days": days, "from": "08:30", "to": "17:00", "zone": "Europe/Berlin"}]
    page.goto(f"{hub.url}/admin/catalog/grant/{found['pk']}/change/")
    page.wait_for_selector(READY)
    assert row(page, 0).get_by_label("apac").is_checked()
    assert row(page, 1).get_by_label("Upper bound: number").input_value() == "20"
    preview = page.inner_text("#grant-preview")
    assert 'region is one of "emea", "apac"' in preview and '"maximum": 20' in preview
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_rows_offer_what_fits_the_argument_and_never_a_secret(opened: Any) -> None:
    page = opened()
    choose_tool(page)
    page.click("text=Add a condition")
    argument, operator = row(page, 0).get_by_label("Argument"), row(page, 0).get_by_label("Operator")
    assert argument.locator("option").all_inner_texts() == [
        *("region (Sales region)", "limit", "customer", "lines", "lines[]", "lines[].amount", "All arguments")
    ]
    row(page, 0).get_by_label("Value", exact=True).select_option("apac")
    assert conditions(page) == [{"path": "/region", "op": "equals", "value": "apac"}]
    argument.select_option("/lines/*/amount")
    assert operator.locator("option").all_inner_texts() == [
        *("is", "is one of", "is none of", "is in the range", "is in the list", "is always")
    ]
    operator.select_option("range")
    row(page, 0).get_by_label("Lower bound", exact=True).select_option("more than")
    row(page, 0).get_by_label("Lower bound: number").fill("0.5")
    assert conditions(page) == [{"path": "/lines/*/amount", "op": "range", "exclusiveMinimum": 0.5}]
    argument.select_option("/customer")
    operator.select_option("one_of")
    row(page, 0).get_by_label("Values, one on each line").fill("ann\n\n42\n")
    assert conditions(page) == [{"path": "/customer", "op": "one_of", "values": ["ann", "42"]}]
    operator.select_option("belongs_to")
    row(page, 0).get_by_label("Value list").select_option("customers")
    row(page, 0).get_by_label("or is left out").check()
    assert conditions(page) == [{"path": "/customer", "op": "belongs_to", "list": "customers", "optional": True}]
    operator.select_option("fixed")
    row(page, 0).get_by_label("Value", exact=True).fill("ann")
    assert conditions(page) == [{"path": "/customer", "op": "fixed", "value": "ann"}]
    page.select_option("#id_effect", "deny")
    page.click("text=Add a condition")
    row(page, 1).get_by_label("Argument").select_option("/customer")
    assert "is always" not in row(page, 1).get_by_label("Operator").inner_text()
    row(page, 0).get_by_role("button", name="Remove Condition 1").click()
    assert tell_focus(page) == "Condition 1: Argument"


def test_another_effect_changes_what_rows_offer_at_once_and_asks_nobody(opened: Any) -> None:
    page = opened()
    choose_tool(page)
    page.click("text=Add a condition")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    operator = row(page, 0).get_by_label("Operator")
    for effect, has_fixed in (("deny", False), ("allow", True)):
        page.select_option("#id_effect", effect)
        assert ("is always" in operator.inner_text()) is has_fixed
        assert row(page, 0).get_by_label("Argument").input_value() == "/region"
    assert not [url for url in asked if "/grant/arguments/" in url]


def test_the_only_arguments_and_a_whole_list_are_entered_in_rows_and_come_back(hub: Hub, opened: Any) -> None:
    page = opened()
    choose_tool(page)
    choose(page, "user", "alice")
    page.click("text=Add a condition")
    row(page, 0).get_by_label("Argument").select_option("")
    assert row(page, 0).get_by_label("Operator").locator("option").all_inner_texts() == ["are only"]
    names = row(page, 0).get_by_label("Names, one on each line")
    assert names.input_value() == "region\nlimit\ncustomer\nlines"
    names.fill("region\n\nlines\n")
    assert not row(page, 0).get_by_label("or is left out").count()
    page.click("text=Add a condition")
    row(page, 1).get_by_label("Argument").select_option("/lines")
    assert row(page, 1).get_by_label("Operator").locator("option").all_inner_texts() == [
        "is",
        "has the length",
        "is always",
    ]
    row(page, 1).get_by_label("Value", exact=True).fill('[{"amount": 1.50}]')
    written = page.input_value("#id_conditions")
    assert '"amount": 1.50' in written or '"amount":1.50' in written
    page.fill("#id_note", "only these")
    page.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/grant/")
    found = hub.call(grant_form_seed.find_grant, note="only these")
    assert found["conditions"] == [
        {"path": "", "op": "only", "names": ["region", "lines"]},
        {"path": "/lines", "op": "equals", "value": [{"amount": 1.5}]},
    ]
    page.goto(f"{hub.url}/admin/catalog/grant/{found['pk']}/change/")
    page.wait_for_selector(READY)
    assert row(page, 0).get_by_label("Argument").input_value() == ""
    assert row(page, 0).get_by_label("Names, one on each line").input_value() == "region\nlines"
    assert row(page, 1).get_by_label("Value", exact=True).evaluate("one => one.tagName") == "TEXTAREA"
    preview = page.inner_text("#grant-preview")
    assert "no other arguments than region, lines" in preview and '"additionalProperties": false' in preview
    assert '"customer"' not in preview
    page.select_option("#id_effect", "deny")
    page.click("button[name=_save]")
    page.wait_for_selector(".errornote")
    assert "A grant that denies cannot name the only arguments." in page.inner_text(".field-conditions")


def test_the_only_arguments_of_a_toolset_are_chosen_by_the_operator(opened: Any) -> None:
    page = opened()
    page.click("text=Add a condition")
    row(page, 0).get_by_label("Argument").fill("lines")
    row(page, 0).get_by_label("Operator").select_option("only")
    assert row(page, 0).get_by_label("Argument").input_value() == ""
    row(page, 0).get_by_label("Names, one on each line").fill("a/b")
    assert conditions(page) == [{"path": "", "op": "only", "names": ["a/b"]}]
    row(page, 0).get_by_label("Argument").fill("region")
    assert row(page, 0).get_by_label("Operator").input_value() == "equals"
    assert conditions(page) == [{"path": "/region", "op": "equals"}]


def test_a_toolset_takes_paths_and_values_of_any_type(opened: Any) -> None:
    page = opened()
    page.click("text=Add a condition")
    row(page, 0).get_by_label("Argument").fill("lines[].amount")
    value = row(page, 0).get_by_label("Value", exact=True)
    for text, meant in (("7", 7), ('"7"', "7"), ("true", True), ("emea", "emea"), ("", None)):
        value.fill(text)
        assert conditions(page)[0].get("value") == meant
    assert conditions(page)[0]["path"] == "/lines/*/amount"


def test_json_that_no_row_can_show_stays_as_it_was_written(opened: Any) -> None:
    page = opened()
    text = page.locator("#id_conditions")
    page.click("[data-for=conditions] >> text=As JSON")
    for written in ('[{"path": "/a", "op": "equals", "value": 1, "more": 2}]', '{"a": 1}', "[{"):
        text.fill(written)
        page.click("[data-for=conditions] >> text=Form")
        assert text.is_visible() and text.input_value() == written
        assert page.locator("[data-for=conditions] [role=alert]").inner_text()
    written = '[{"path": "/a", "op": "range", "maximum": 1.50}]'
    text.fill(written)
    choose_tool(page)
    assert text.is_visible()
    page.click("[data-for=conditions] >> text=Form")
    assert row(page, 0).get_by_label("Upper bound: number").input_value() == "1.50"
    assert page.input_value("#id_conditions") == written


def test_flags_are_chosen_and_a_wrong_condition_comes_back_with_its_row(hub: Hub, opened: Any) -> None:
    page = opened()
    choose_tool(page)
    choose(page, "user", "alice")
    page.get_by_label("early-access").check()
    page.click("text=Add a condition")
    page.fill("#id_note", "with a flag")
    page.click("button[name=_save]")
    page.wait_for_selector(".errornote")
    page.wait_for_selector(READY)
    assert 'Condition 1: "value" is missing.' in page.inner_text(".field-conditions")
    row(page, 0).get_by_label("Value", exact=True).select_option("emea")
    page.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/grant/")
    assert hub.call(grant_form_seed.find_grant, note="with a flag")["flags"] == ["early-access"]


@pytest.mark.node
def test_the_rows_are_accessible_in_light_and_dark(opened: Any) -> None:
    from tests.browser import axe

    page = opened(reduced_motion="reduce")
    choose_tool(page)
    for argument in ("/region", "/limit", "/customer"):
        page.click("text=Add a condition")
        row(page, page.locator("[data-for=conditions] .rule-row").count() - 1).get_by_label("Argument").select_option(
            argument
        )
    row(page, 0).get_by_label("Operator").select_option("one_of")
    row(page, 1).get_by_label("Operator").select_option("range")
    page.click("text=Add a time window")
    demo.stop_motion(page)
    for dark in (False, True):
        demo.set_theme(page, dark=dark)
        assert axe.find_violations(page) == []
