"""Conditions, time windows and flags in the admin of grants: refusals, arguments of an item, words and a preview."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from catalog.models import Flag, Grant, ValueList, ValueListPart
from tests import factories
from tests.catalog.test_admin import errors, tool_form
from tests.catalog.test_editor import sign_in_with

pytestmark = pytest.mark.django_db
ADD = "admin:catalog_grant_add"
ARGUMENTS = "admin:catalog_grant_arguments"
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
HOURS = {"days": ["mon", "fri"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "title": "Sales region", "enum": ["emea", "apac"]},
        "limit": {"type": "integer"},
        "customer": {"type": "string"},
        "api_key": {"type": "string", "writeOnly": True},
    },
    "required": ["region"],
    "additionalProperties": False,
}


def fill(who: User, **changes: Any) -> dict[str, Any]:
    """The form of an allow for a tool with regions; `changes` may be JSON data."""
    tool = changes.pop("tool", None) or factories.make_tool("find_customers", input_schema=SCHEMA)
    texts = {name: value if isinstance(value, str | int) else json.dumps(value) for name, value in changes.items()}
    return {"effect": "allow", "tool": tool.pk, "user": who.pk, **texts}


def read_preview(browser: Client, grant: Grant) -> str:
    page = browser.get(reverse("admin:catalog_grant_change", args=[grant.pk])).content.decode()
    found = re.search(r'<section class="tool-look[^>]*id="grant-preview".*?</section>', page, re.DOTALL)
    return html.unescape(found[0]) if found else ""


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "written", "sentence"),
    [
        ("conditions", '[{"path": "/region",\n oops}]', "line 2"),
        ("conditions", "{}", "list"),
        ("conditions", [{"path": "/region"}], "Condition 1: A condition is an object"),
        ("conditions", [EMEA, {**EMEA, "path": "/place"}], "There is no argument /place."),
        ("conditions", [{**EMEA, "op": "is"}], 'There is no operator "is".'),
        ("conditions", [{**EMEA, "value": "mars"}], "No arguments of the tool satisfy the conditions."),
        ("conditions", [{**EMEA, "path": "/api_key"}], "The argument /api_key is secret"),
        ("conditions", [{"path": "/customer", "op": "belongs_to", "list": "ours"}], "no value list “ours”"),
        ("windows", [{**HOURS, "zone": "Mars/Base"}], 'Time window 1: There is no time zone "Mars/Base".'),
        ("windows", [{**HOURS, "days": []}], "different days"),
        ("flags", "pilot", "There is no flag “pilot”."),
        ("flags", "a/b", "Flag 1: "),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    browser: Client, alice: User, field: str, written: Any, sentence: str
) -> None:
    answer = browser.post(reverse(ADD), fill(alice, **{field: written}))
    assert sentence in " ".join(errors(answer)[field])
    assert not Grant.objects.exists()


def test_a_denial_fixes_no_value(browser: Client, alice: User) -> None:
    fixed = {**EMEA, "op": "fixed"}
    answer = browser.post(reverse(ADD), fill(alice, effect="deny", conditions=[fixed]))
    assert "A grant that denies cannot fix a value." in str(errors(answer)["conditions"])


def test_conditions_on_a_new_tool_that_is_wrong_itself_are_no_error_of_the_server(browser: Client, alice: User) -> None:
    row = {"grants-TOTAL_FORMS": "1", "grants-0-effect": "allow", "grants-0-user": alice.pk}
    row["grants-0-conditions"] = json.dumps([EMEA])
    targets = ("#/$defs/none", "https://example.com/schema", "#")
    refers = [json.dumps({"type": "object", "properties": {"region": {"$ref": target}}}) for target in targets]
    for schema in ('{"type": "array"}', "[", "", json.dumps({"type": "object", "properties": {}}), *refers):
        answer = browser.post(reverse("admin:catalog_tool_add"), tool_form(input_schema=schema, **row))
        assert answer.status_code == 200 and not Grant.objects.exists()
    answer = browser.post(reverse("admin:catalog_tool_add"), tool_form(input_schema=json.dumps(SCHEMA), **row))
    assert answer.status_code == 302
    assert Grant.objects.get().conditions == [EMEA]


def test_a_new_toolset_is_saved_together_with_a_grant_with_conditions(browser: Client, alice: User) -> None:
    form = {"name": "Customers", "grants-TOTAL_FORMS": "1", "grants-INITIAL_FORMS": "0", "limits-TOTAL_FORMS": "0"}
    form |= {"limits-INITIAL_FORMS": "0", "grants-0-effect": "allow", "grants-0-user": str(alice.pk)}
    form["grants-0-conditions"] = json.dumps([EMEA])
    assert browser.post(reverse("admin:catalog_toolset_add"), form).status_code == 302
    assert Grant.objects.get().conditions == [EMEA]


# --- saving --------------------------------------------------------------------------------------------------------


def test_conditions_windows_and_flags_are_saved_without_scripts(browser: Client, alice: User) -> None:
    Flag.objects.create(name="pilot", percentage=100)
    with override_settings(FLAGS={"from-env": 50}):
        form = fill(alice, conditions=[EMEA], windows=[HOURS], flags="pilot, from-env")
        assert browser.post(reverse(ADD), form).status_code == 302
    grant = Grant.objects.get()
    assert (grant.conditions, grant.windows, grant.flags) == ([EMEA], [HOURS], ["pilot", "from-env"])
    page = browser.get(reverse("admin:catalog_grant_change", args=[grant.pk])).content.decode()
    assert 'value="pilot, from-env"' in page


def test_the_list_of_grants_shows_conditions_in_words(browser: Client, alice: User) -> None:
    tool = factories.make_tool("find_customers", input_schema=SCHEMA)
    factories.grant(alice, tool, conditions=[EMEA, {"path": "/limit", "op": "range", "maximum": 5}])
    factories.grant(alice, tool, windows=[HOURS], flags=["pilot"])
    factories.grant(alice, tool, conditions=[{"path": "/customer", "op": "one_of", "values": ["x" * 400] * 2}])
    factories.grant(alice, tool, conditions=[{"path": "oops"}])
    rows = html.unescape(browser.get(reverse("admin:catalog_grant_changelist")).content.decode())
    assert 'region is "emea" and limit is at most 5' in rows
    assert "Mon, Fri from 09:00 to 17:30 (Europe/Berlin); flags: pilot" in rows
    assert "x" * 300 not in rows
    assert "A condition is an object" in rows


def test_grants_among_others_keep_their_conditions_when_the_page_is_saved(browser: Client, alice: User) -> None:
    tool = factories.make_tool("find_customers", input_schema=SCHEMA)
    grant = factories.grant(alice, tool, conditions=[EMEA], windows=[HOURS])
    page = browser.get(reverse("admin:catalog_tool_change", args=[tool.pk]))
    formset = page.context["inline_admin_formsets"][0].formset
    assert formset.forms[0]["conditions"].value() == json.dumps([EMEA], indent=2)
    row = {"grants-TOTAL_FORMS": "1", "grants-INITIAL_FORMS": "1", "grants-0-id": grant.pk, "grants-0-tool": tool.pk}
    row |= {"grants-0-effect": "allow", "grants-0-user": alice.pk, "grants-0-note": "changed"}
    row |= {f"grants-0-{name}": formset.forms[0][name].value() for name in ("conditions", "windows", "flags")}
    saved = browser.post(
        reverse("admin:catalog_tool_change", args=[tool.pk]), tool_form(input_schema=json.dumps(SCHEMA), **row)
    )
    assert saved.status_code == 302
    grant.refresh_from_db()
    assert (grant.note, grant.conditions, grant.windows) == ("changed", [EMEA], [HOURS])


# --- the arguments of an item --------------------------------------------------------------------------------------


def test_arguments_are_for_staff_who_may_view_the_item(alice: User) -> None:
    tool, prompt = factories.make_tool(input_schema=SCHEMA), factories.make_prompt()
    address = reverse(ARGUMENTS)
    assert Client().get(address, {"tool": tool.pk}).status_code == 302
    clerk = sign_in_with(alice, "view_tool")
    assert clerk.get(address, {"tool": tool.pk}).status_code == 200
    absent, other = clerk.get(address, {"prompt": prompt.pk + 99}), clerk.get(address, {"prompt": prompt.pk})
    assert absent.status_code == other.status_code == 403
    assert absent.content == other.content
    granter = sign_in_with(alice, "add_grant", "view_grant")
    assert granter.get(address, {"tool": tool.pk}).status_code == 403
    assert granter.get(address, {"tool": tool.pk + 99}).status_code == 403


def test_arguments_are_only_read_and_only_of_what_is_there(browser: Client) -> None:
    tool = factories.make_tool(input_schema=SCHEMA)
    address = reverse(ARGUMENTS)
    assert browser.post(address, {"tool": tool.pk}).status_code == 405
    for query in ({}, {"tool": ""}, {"tool": "x"}, {"tool": "-1"}, {"tool": "9" * 30}, {"prompt": tool.pk + 5}):
        assert browser.get(address, query).status_code == 404, query


def test_arguments_have_a_place_types_choices_and_a_title_and_are_no_secret(browser: Client) -> None:
    tool, prompt = factories.make_tool(input_schema=SCHEMA), factories.make_prompt()
    found = browser.get(reverse(ARGUMENTS), {"tool": tool.pk}).json()
    assert found["is_complete"] and [one["name"] for one in found["arguments"]] == ["region", "limit", "customer"]
    region = {"path": "/region", "name": "region", "kinds": ["string"], "title": "Sales region"}
    assert found["arguments"][0] == {**region, "choices": ["emea", "apac"]}
    assert [one["path"] for one in browser.get(reverse(ARGUMENTS), {"prompt": prompt.pk}).json()["arguments"]] == [
        "/name"
    ]


# --- the preview ---------------------------------------------------------------------------------------------------


def test_the_page_of_a_grant_shows_what_its_conditions_leave(browser: Client, alice: User) -> None:
    tool = factories.make_tool(input_schema=SCHEMA)
    assert read_preview(browser, factories.grant(alice, tool)) == ""
    allowed = read_preview(browser, factories.grant(alice, tool, conditions=[{**EMEA, "op": "fixed"}], windows=[HOURS]))
    assert 'region is always "emea"' in allowed and "from 09:00 to 17:30" in allowed
    assert '"region"' not in allowed[allowed.index("<pre") :] and '"limit"' in allowed
    denied = read_preview(browser, factories.deny(alice, tool, conditions=[EMEA]))
    assert "Arguments that this grant leaves" in denied and '"apac"' in denied[denied.index("<pre") :]
    gone = read_preview(browser, factories.grant(alice, tool, conditions=[{**EMEA, "path": "/place"}]))
    assert "There is no argument /place." in gone and "<pre" not in gone
    whole = read_preview(browser, factories.grant(alice, factories.make_toolset(), conditions=[EMEA]))
    assert 'region is "emea"' in whole and "<pre" not in whole


def test_the_preview_shows_neither_definitions_nor_values_that_the_viewer_may_not_view(
    browser: Client, alice: User, bob: User
) -> None:
    everyone = ValueListPart(value_list=ValueList.objects.create(name="ours"), everyone=True, entries=["acme"])
    everyone.save()
    listed = [{"path": "/customer", "op": "belongs_to", "list": "ours"}]
    tool = factories.make_tool(input_schema=SCHEMA)
    allow, deny = factories.grant(bob, tool, conditions=listed), factories.deny(bob, tool, conditions=listed)
    assert "acme" in read_preview(browser, allow) and "acme" in read_preview(browser, deny)
    with_tool = sign_in_with(alice, "view_grant", "view_tool", "view_valuelist")
    assert "acme" not in read_preview(with_tool, allow) + read_preview(with_tool, deny)
    assert "<pre" in read_preview(with_tool, allow) and "<pre" not in read_preview(with_tool, deny)
    assert "<pre" not in read_preview(sign_in_with(alice, "view_grant"), allow)


def test_hostile_names_are_text_on_the_page_and_in_its_data(browser: Client, alice: User) -> None:
    nasty = "\"'></script><script>alert(1)</script>"
    schema = {"type": "object", "properties": {nasty: {"type": "string", "title": nasty}}}
    tool = factories.make_tool(input_schema=schema)
    path = "/" + nasty.replace("~", "~0").replace("/", "~1")
    grant = factories.grant(alice, tool, conditions=[{"path": path, "op": "equals", "value": nasty}])
    for address in (
        reverse("admin:catalog_grant_change", args=[grant.pk]),
        reverse("admin:catalog_grant_changelist"),
        reverse("admin:catalog_tool_change", args=[tool.pk]),
    ):
        page = browser.get(address)
        assert page.status_code == 200 and "<script>alert(1)" not in page.content.decode()


@pytest.mark.parametrize("name", ["conditions", "windows", "flags", "environments"])
@pytest.mark.parametrize("text", ["oops", "[", "7", '{"a": {}}', "[[[[", "null"])
def test_an_address_that_fills_the_form_with_nonsense_is_no_error_of_the_server(
    browser: Client, name: str, text: str
) -> None:
    assert browser.get(reverse(ADD), {name: text, "starts": text, "ends": text}).status_code == 200
