"""The tool editor in a real browser: from signing in to a granted tool, parameters as a table, settings as a form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import editor_seed, seed
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
ADD = "/admin/catalog/tool/add/"
READY = "#tool-look strong.tool-good"

NASTY: dict[str, str] = {
    "numbers as they were written": '{"type": "object", "properties": {"a": {"type": "number", "maximum": 1.0, '
    '"minimum": 1e-7, "default": 12345678901234567890, "exclusiveMaximum": 1E5}}}',
    "names like indexes keep their order": '{"type": "object", "properties": {"b": {}, "10": {"type": "string"}, '
    '"2": true, "__proto__": {"type": "integer"}, "constructor": {"type": "string"}}, "required": ["__proto__"]}',
    "what no row can say": '{"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, '
    '"b": {"$ref": "#/$defs/b"}, "c": {"type": ["string", "null"]}, "d": {"type": "array", "items": {"type": "object", '
    '"properties": {"e": {}}}}, "f": false}, "$defs": {"b": {"enum": [1, "1", null, {}]}}, "minProperties": 1, '
    '"allOf": [{"if": {"required": ["a"]}, "then": {"required": ["b"]}}]}',
    "odd texts": '{"type": "object", "title": "\\u2028\\ud83d\\ude00 \\"quoted\\" \\\\ \\n \\t", "properties": {"": '
    '{"type": "string", "default": "", "enum": ["", " a", "line\\nbreak"], "description": "<b>\\u0007</b>"}, "a b/~c": '
    '{"type": "string", "default": "\\"\\"", "x-own": []}}, "required": [], '
    '"additionalProperties": {"type": "string"}}',
}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=editor_seed.seed_editor) as hub:
        yield hub


@pytest.fixture
def editor(window: Windows) -> Callable[..., Any]:
    """A window of root at an address of the editor, with its scripts at work."""

    def opened(path: str, **options: Any) -> Any:
        mine = window(**options)
        mine.sign_in("root", f"/admin/login/?next={path}")
        page = mine.page
        page.wait_for_selector("#tool-look:not([hidden]) h3")
        return page

    return opened


def tab(page: Any, name: str) -> None:
    page.click(f'role=tab[name="{name}"]')


def row(page: Any, number: int) -> Any:
    return page.locator("#tool-section-2 tbody[data-row]").nth(number)


def schema_of(page: Any) -> Any:
    return json.loads(page.input_value("#id_input_schema"))


def test_from_signing_in_to_a_tool_for_a_group_in_at_most_twelve_clicks(hub: Hub, window: Windows) -> None:
    mine = window()
    clicks = 0

    def click(what: str) -> None:
        nonlocal clicks
        clicks += 1
        mine.page.click(what)

    page = mine.open("/admin/")
    page.fill("#id_username", "root")
    page.fill("#id_password", seed.PASSWORD)
    click("form button[type=submit]")
    click('a[href="/admin/catalog/tool/"] >> visible=true >> nth=0')
    click('a[href*="/tool/add/"] >> visible=true >> nth=0')
    page.wait_for_selector("#tool-look:not([hidden]) h3")
    clicks += 2  # the function is chosen from a list
    page.select_option(".tool-settings select", "analyze_csv")
    page.wait_for_function("document.querySelector('#id_name').value === 'analyze_csv'")
    click('role=tab[name="Access"]')
    click("#grants-group .field-group .select2-selection")
    click(".select2-results__option >> text=analysts")
    click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/tool/")
    found = hub.call(editor_seed.tool, name="analyze_csv")
    assert found["seen_by"] == ["alice"]
    assert found["description"]
    assert found["input_schema"]["properties"]
    assert clicks <= 12, clicks


def test_a_tool_is_made_with_the_table_of_parameters_then_changed_and_reverted(hub: Hub, editor: Any) -> None:
    page = editor(ADD)
    page.select_option("#id_runner", "http_api")
    page.fill("label:has-text('URL') >> xpath=.. >> input", "https://api.example.com/units")
    page.fill("#id_name", "convert_units")
    page.fill("#id_description", "Convert a value between units. Use it for exact numbers. Changes nothing.")
    tab(page, "Parameters")
    page.click("text=Add a parameter")
    page.keyboard.type("value")
    row(page, 0).locator("[data-column=type]").select_option("number")
    row(page, 0).locator("[data-column=required]").check()
    row(page, 0).locator("[data-column=description]").fill("What is converted.")
    page.click("text=Add a parameter")
    page.keyboard.type("unit")
    row(page, 1).locator("[data-column=more]").click()
    row(page, 1).locator("[data-detail=choices]").fill("metre\nfoot")
    row(page, 1).locator("[data-detail=default]").fill("metre")
    row(page, 1).locator("[data-detail=maxLength]").fill("some")
    assert "must be a number" in row(page, 1).inner_text()
    row(page, 1).locator("[data-detail=maxLength]").fill("10")
    page.click("text=Add a parameter")
    page.keyboard.type("unit")
    assert "Another parameter has this name" in row(page, 2).inner_text()
    row(page, 2).locator("[data-column=remove]").click()
    wanted = {
        "type": "object",
        "properties": {
            "value": {"type": "number", "description": "What is converted."},
            "unit": {"type": "string", "enum": ["metre", "foot"], "default": "metre", "maxLength": 10},
        },
        "additionalProperties": False,
        "required": ["value"],
    }
    assert schema_of(page) == wanted
    page.wait_for_selector("#tool-look pre:has-text('\"metre\"')")
    page.wait_for_selector(READY)
    page.click("text=Save and continue editing")
    page.wait_for_url("**/change/#tab-2")
    page.wait_for_selector("#tool-look:not([hidden]) h3")
    assert hub.call(editor_seed.tool, name="convert_units")["input_schema"] == wanted
    tab(page, "Parameters")
    assert row(page, 1).locator("[data-summary]").inner_text() == "metre | foot · Default: metre · … 10"
    row(page, 1).locator("[data-column=remove]").click()
    page.click("text=Save and continue editing")
    page.wait_for_selector("text=was changed successfully")
    assert list(hub.call(editor_seed.tool, name="convert_units")["input_schema"]["properties"]) == ["value"]
    page.click("text=Compare versions")
    page.wait_for_selector("#tool-compare .gone:has-text('\"metre\"')")
    page.click("text=Revert to the version")
    page.wait_for_selector("#tool-look pre:has-text('\"metre\"')")
    page.click("button:has-text('Revert')")
    page.wait_for_selector("text=was changed successfully")
    found = hub.call(editor_seed.tool, name="convert_units")
    assert found["input_schema"] == wanted
    assert found["versions"] == 3


def test_the_table_keeps_unchanged_parts_of_the_schema(editor: Any) -> None:
    page = editor(ADD)
    tab(page, "Parameters")
    for name, schema in NASTY.items():
        page.click("#tool-section-2 >> text=As JSON")
        text = json.dumps(json.loads(schema), indent=2, ensure_ascii=False)
        text = text.replace("1e-07", "1e-7").replace("100000.0", "1E5")  # as it was written
        page.fill("#id_input_schema", text)
        page.click("#tool-section-2 >> text=Table")
        count = page.locator("#tool-section-2 tbody[data-row]").count()
        assert count == len(json.loads(text)["properties"]), name
        page.click("text=Add a parameter")
        page.keyboard.type("added")
        for _ in range(count):
            page.keyboard.press("Alt+ArrowUp")
        assert next(iter(schema_of(page)["properties"])) == "added", name
        row(page, 0).locator("[data-column=required]").check()
        row(page, 0).locator("[data-column=required]").uncheck()
        row(page, 0).locator("[data-column=remove]").click()
        assert page.input_value("#id_input_schema") == text, name


def test_json_only_parameters_are_marked_and_edited_as_json(editor: Any) -> None:
    page = editor(ADD)
    tab(page, "Parameters")
    page.click("#tool-section-2 >> text=As JSON")
    page.fill("#id_input_schema", NASTY["what no row can say"])
    page.click("#tool-section-2 >> text=Table")
    assert "Edit it as JSON" in row(page, 0).inner_text()
    assert "minProperties" in page.inner_text(".tool-table-foot >> nth=0")
    row(page, 0).locator("[data-column=more]").click()
    row(page, 0).locator("[data-detail=json]").fill("{")
    assert "not valid JSON" in row(page, 0).inner_text()
    row(page, 0).locator("[data-detail=json]").fill('{"type": "integer", "multipleOf": 5}')
    row(page, 0).locator("[data-column=name]").fill("fives")
    assert row(page, 0).locator("[data-column=type]").input_value() == "integer"
    assert "multipleOf" in row(page, 0).locator("[data-summary]").inner_text()
    assert next(iter(schema_of(page)["properties"].items())) == ("fives", {"type": "integer", "multipleOf": 5})
    row(page, 0).locator("[data-detail=json]").fill('{"type": "integer", "multipleOf": 0}')
    page.wait_for_selector("#tool-section-2 [data-row-problem]:has-text('less than or equal')")


def test_each_runner_has_its_form_and_errors_appear_at_their_field(hub: Hub, editor: Any) -> None:
    page = editor(ADD)
    page.select_option("#id_runner", "http_api")
    page.fill("#id_name", "call_api")
    page.fill("#id_description", "Call the API. Use it to look something up. Changes nothing.")
    page.fill("[data-step=url] input", "ftp://api.example.com/")
    page.wait_for_selector("[data-step=url] [data-problem]:not(:empty)")
    page.fill("[data-step=url] input", "https://api.example.com/")
    headers = page.locator("[data-step=static_headers]")
    headers.locator("button:has-text('Add')").click()
    page.keyboard.type("Authorization")
    headers.locator(".tool-either > select").select_option(label="a secret")
    page.wait_for_selector("[data-step=secret] > [data-problem]:not(:empty)")
    headers.locator("[data-step=secret] select").select_option("weather_token")
    headers.locator("[data-step=prefix] input").fill("Bearer ")
    page.click(".tool-more summary")
    page.fill("[data-step=retries] input", "many")
    page.wait_for_selector("[data-step=retries] [data-problem]:has-text('whole number')")
    page.fill("[data-step=retries] input", "1")
    wanted = {
        "url": "https://api.example.com/",
        "static_headers": {"Authorization": {"secret": "weather_token", "prefix": "Bearer "}},
        "retries": 1,
    }
    assert json.loads(page.input_value("#id_settings")) == wanted
    page.select_option("#id_runner", "sql_query")
    assert page.locator("[data-step=statement] textarea").count() == 1
    assert page.input_value("#id_settings") == "{}"
    page.select_option("#id_runner", "http_api")
    assert json.loads(page.input_value("#id_settings")) == wanted
    page.wait_for_selector(READY)
    page.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/tool/")
    assert hub.call(editor_seed.tool, name="call_api")["settings"] == wanted


def test_a_secret_is_added_beside_its_setting_and_chosen_there(hub: Hub, editor: Any) -> None:
    page = editor(ADD)
    page.select_option("#id_runner", "http_api")
    page.fill("#id_name", "ask_shop")
    page.fill("#id_description", "Ask the shop. Use it to look something up. Changes nothing.")
    page.fill("[data-step=url] input", "https://shop.example/")
    headers = page.locator("[data-step=static_headers]")
    for name in ("Authorization", "X-Other"):
        headers.locator("button:has-text('Add')").last.click()
        page.keyboard.type(name)
        headers.locator(".tool-either > select").last.select_option(label="a secret")
    first, second = headers.locator("[data-step=secret] select").all()
    headers.get_by_role("button", name="New secret").first.focus()
    with page.expect_popup() as opened:
        page.keyboard.press("Enter")
    popup = opened.value
    popup.fill("#id_name", "shop_key")
    popup.fill("#id_new_value", "a long secret value")
    with popup.expect_event("close"):
        popup.click("button[name=_save]")
    page.wait_for_function("document.activeElement.value === 'shop_key'")
    assert first.input_value() == "shop_key" and second.input_value() == ""
    second.select_option("shop_key")
    assert page.input_value("#id_name") == "ask_shop"
    wanted = {name: {"secret": "shop_key"} for name in ("Authorization", "X-Other")}
    assert json.loads(page.input_value("#id_settings"))["static_headers"] == wanted
    page.wait_for_selector(READY)
    page.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/tool/")
    assert hub.call(editor_seed.tool, name="ask_shop")["settings"]["static_headers"] == wanted


def test_hostile_texts_do_nothing_in_the_editor(hub: Hub, editor: Any) -> None:
    page = editor(f"/admin/catalog/tool/{hub.seeded['hostile']}/change/")
    tab(page, "Parameters")
    row(page, 0).locator("[data-column=more]").click()
    assert row(page, 0).locator("[data-column=name]").input_value() == seed.HOSTILE
    assert seed.HOSTILE in page.inner_text("#tool-look pre >> nth=0").replace("\\", "")
    assert page.locator("#tool-editor script, #tool-look script, #tool-editor img, #tool-look img").count() == 0
    page.click("text=Compare versions")
    page.click("text=All versions")
    assert page.locator("#change-history script, #change-history img").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_no_section_is_wider_than_the_window(hub: Hub, window: Windows, width: int) -> None:
    mine = window(viewport={"width": width, "height": 844}, color_scheme="dark" if width == 390 else "light")
    mine.sign_in("root", f"/admin/login/?next={ADD}")
    wide: list[tuple[Any, str]] = []
    address = f"/admin/catalog/tool/{hub.seeded['hostile']}"
    for path in (ADD, f"{address}/change/"):
        page = mine.open(path)
        page.wait_for_selector("#tool-look:not([hidden]) h3")
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        for number in range(page.locator(".tool-tabs [role=tab]").count()):
            page.locator(".tool-tabs [role=tab]").nth(number).click()
            wide.append((number, mine.too_wide()))
    for path in ("compare", "history", "duplicate"):
        mine.open(f"{address}/{path}/")
        wide.append((path, mine.too_wide()))
    assert [problem for problem in wide if problem[1]] == []


def test_in_chinese_the_scripts_speak_chinese(editor: Any) -> None:
    page = editor(ADD, locale="zh-CN")
    tab(page, "参数")
    table = page.locator("[data-for=input_schema]")
    table.locator("[data-add]").click()
    table.locator("[data-column=more]").click()
    said = table.locator("th, label, option, button:not(.tool-icon)").all_text_contents()
    said += [button.get_attribute("title") for button in table.locator(".tool-icon").all()]
    english = [text for text in said if not re.search("[一-鿿]", text)]
    assert len(said) > 25 and set(english) <= {
        "date",
        "date-time",
        "time",
        "email",
        "uri",
        "hostname",
        "uuid",
        "ipv4",
        "ipv6",
    }
    page.click('role=tab[name="常规"]')
    assert page.locator(".tool-more summary").text_content() == "更多设置（7）"


def test_without_the_editors_script_the_page_is_one_form_with_json(hub: Hub, window: Windows) -> None:
    mine = window()
    mine.page.route("**/tool_editor.js", lambda route: route.fulfill(content_type="text/javascript", body=""))
    mine.sign_in("root", f"/admin/login/?next={ADD}")
    page = mine.page
    page.fill("#id_name", "without_scripts")
    page.fill("#id_description", "Made without scripts.")
    page.fill("#id_settings", '{"function": "calculate_sum"}')
    page.fill("#id_input_schema", '{"type": "object", "properties": {"a": {"type": "string"}}}')
    page.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/tool/")
    assert hub.call(editor_seed.tool, name="without_scripts")["enabled"]
