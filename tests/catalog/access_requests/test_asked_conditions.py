"""Requests for some calls of a tool: the form of its arguments, what it refuses, and what an approval gives."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.models import Action
from catalog.access_requests import decisions
from catalog.access_requests.submissions import Refused
from catalog.models import AccessRequest, Grant, Tool, Toolset
from tests import factories
from tests.catalog.access_requests.conftest import Open

pytestmark = pytest.mark.django_db
REASON = {"reason": "The quarterly report."}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "enum": ["emea", "apac", "amer"], "title": "Sales region"},
        "amount": {"type": "number"},
        "count": {"type": "integer"},
        "dry_run": {"type": "boolean"},
        "note": {"type": "string"},
        "key": {"type": "string", "format": "password"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "anything": {},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]},
        },
    },
    "required": ["region", "amount"],
    "additionalProperties": False,
}
EMEA = {"path": "/region", "op": "equals", "value": "emea"}


@pytest.fixture
def sales(db: None) -> Toolset:
    toolset = factories.make_toolset("Sales", requestable=True)
    factories.make_tool("report_sales", toolset=toolset, input_schema=SCHEMA, read_only=True)
    return toolset


def address(toolset: Toolset) -> str:
    return f"/requests/toolset/{toolset.pk}/"


def form(client: Client, toolset: Toolset, tool: str = "report_sales") -> str:
    return unescape(client.get(f"{address(toolset)}?tool={tool}").content.decode())


def ask(client: Client, toolset: Toolset, **fields: Any) -> str:
    sent = {**REASON, "tool": "report_sales", **fields}
    return unescape(client.post(address(toolset), sent, follow=True).content.decode())


def only() -> AccessRequest:
    return AccessRequest.objects.get()


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"is:/region": ['"emea"']}, [EMEA]),
        (
            {"is:/region": ['"emea"', '"apac"']},
            [{"path": "/region", "op": "one_of", "values": ["emea", "apac"]}],
        ),
        ({"least:/amount": "0.5", "most:/amount": " 1500 "},
         [{"path": "/amount", "op": "range", "minimum": 0.5, "maximum": 1500}]),
        ({"is:/dry_run": "true", "absent:/dry_run": "on"},
         [{"path": "/dry_run", "op": "equals", "value": True, "optional": True}]),
        ({"is:/note": " a \r\n\r\nb\r\na"}, [{"path": "/note", "op": "one_of", "values": ["a", "b"]}]),
        ({"most:/lines/%2A/price": "3"}, []),
        ({"most:/lines/*/price": "3"}, []),
        ({"absent:/note": "on", "is:/dry_run": ""}, []),
    ],
)  # fmt: skip
def test_what_is_filled_in_becomes_conditions_of_the_request(
    charlie: User, sales: Toolset, sign_in: Open, fields: dict[str, Any], wanted: list[Any]
) -> None:
    client = sign_in(charlie)
    if any("lines" in name for name in fields):
        name = re.search(r'name="(most:/lines/[^"]+)"', form(client, sales))
        assert name is not None
        fields, wanted = {name[1]: "3"}, [{"path": "/lines/*/price", "op": "range", "maximum": 3}]
    ask(client, sales, **fields)
    assert only().conditions == wanted


def test_arguments_have_controls_by_their_kind_and_secret_ones_none(
    charlie: User, sales: Toolset, sign_in: Open
) -> None:
    text = form(sign_in(charlie), sales)
    assert "Only for certain values (optional)" in text and "<details" in text and "Sales region" in text
    assert "lines[].price" in text and text.count('type="checkbox"') == 3 + 5, (
        "three regions, five that may be left out"
    )
    for hidden in ("/key", ':/tags"', "/anything", 'absent:/region"', 'absent:/amount"'):
        assert hidden not in text
    assert "which cannot be named here" not in text
    whole = unescape(sign_in(charlie).get(address(sales)).content.decode())
    assert "Only for certain values" not in whole and "Sales region" not in whole


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"most:/amount": "1.500,00"}, "is no number"),
        ({"most:/amount": "1,500"}, "is no number"),
        ({"most:/amount": "1.500"}, "can be read as two numbers. Write 1500 or 1.5000."),
        ({"most:/count": "1.500"}, "Write 1500."),
        ({"most:/count": "1.5"}, "Enter a whole number."),
        ({"most:/amount": "0.1234567890123456789012"}, "too many digits"),
        ({"most:/amount": "1e999"}, "too many digits"),
        ({"most:/amount": "1e30"}, "A bound must be a number of at most"),
        ({"most:/amount": "NaN"}, "is no number"),
        ({"most:/amount": "\u0661\u0662"}, "is no number"),
        ({"least:/amount": "5", "most:/amount": "1"}, "No number is between these bounds."),
        ({"is:/region": ['"moon"']}, "Choose from the values that are offered."),
        ({"is:/dry_run": "perhaps"}, "Choose from the values that are offered."),
        ({"is:/note": "x" * 501}, "A value can have at most 500 characters."),
        ({"is:/note": "\n".join(map(str, range(501)))}, "Enter at most 500 values."),
        ({"is:/note": "a\0b"}, "Null characters are not allowed."),
        ({"is:/gone": "x"}, "The arguments of the tool changed since you opened the page."),
        ({"is:/key": "x"}, "The arguments of the tool changed since you opened the page."),
        ({"reason": "", "is:/note": "kept as it was"}, "Enter a reason."),
    ],
)
def test_a_mistake_is_named_at_its_field_and_nothing_is_lost(
    charlie: User, sales: Toolset, sign_in: Open, fields: dict[str, Any], sentence: str
) -> None:
    text = ask(sign_in(charlie), sales, **{"is:/region": ['"apac"'], **fields})
    assert sentence in text and not AccessRequest.objects.exists()
    assert re.search(r"<details[^>]* open>", text) and ("reason" in fields or REASON["reason"] in text)
    kept = next(value for value in fields.values())
    if "is:/region" not in fields:
        assert re.search(r'value=""apac""[^>]* checked', text)
    if isinstance(kept, str) and "/gone" not in str(fields) and "\0" not in kept and "perhaps" not in kept:
        assert (fields.get("is:/note") or kept) in text


def test_values_that_no_call_can_have_are_refused_in_words(charlie: User, sales: Toolset, sign_in: Open) -> None:
    tool = Tool.objects.get(name="report_sales")
    tool.input_schema = {"type": "object", "properties": {"note": {"type": "string", "maxLength": 3}}}
    tool.save()
    text = ask(sign_in(charlie), sales, **{"is:/note": "four"})
    assert "No arguments of the tool satisfy the conditions." in text and not AccessRequest.objects.exists()


def test_a_toolset_is_requested_without_values(charlie: User, sales: Toolset, sign_in: Open) -> None:
    text = ask(sign_in(charlie), sales, tool="", **{"is:/region": ['"emea"']})
    assert "possible for one tool only" in text and not AccessRequest.objects.exists()


def test_more_arguments_than_fit_are_told(charlie: User, sign_in: Open) -> None:
    toolset = factories.make_toolset("Wide", requestable=True)
    properties = {f"argument_{number}": {"type": "string"} for number in range(31)}
    factories.make_tool("wide", toolset=toolset, input_schema={"type": "object", "properties": properties})
    client = sign_in(charlie)
    text = form(client, toolset, "wide")
    assert "argument_29" in text and "argument_30" not in text and "which cannot be named here" in text
    many = {f"is:/argument_{number}": "x" for number in range(21)}
    assert "At most 20 arguments can have values." in ask(client, toolset, tool="wide", **many)
    assert not AccessRequest.objects.exists()


def test_hostile_names_titles_and_choices_are_shown_as_text(charlie: User, sign_in: Open) -> None:
    toolset = factories.make_toolset("Hostile", requestable=True)
    bad = "<img src=x onerror=p()>\u202e\n"
    properties = {
        bad: {"type": "string", "enum": [bad, "", "\ud800"], "title": bad},
        'a"b c%2F/~': {"type": "string"},
        "\ud800": {"type": "string"},
    }
    factories.make_tool("hostile", toolset=toolset, input_schema={"type": "object", "properties": properties})
    client = sign_in(charlie)
    raw = client.get(f"{address(toolset)}?tool=hostile").content.decode()
    assert "<img src=x" not in raw and "\u202e" not in raw
    boxes = re.findall(r'name="([^"]+)" value="([^"]+)"', raw)
    box = next((unescape(name), unescape(value)) for name, value in boxes if name.startswith("is:") and "img" in value)
    area = [unescape(name) for name in re.findall(r'<textarea name="(is:[^"]+)"', raw)]
    assert len(area) == 2
    ask(client, toolset, tool="hostile", **{box[0]: [box[1]], **dict.fromkeys(area, "x")})
    made = only()
    assert [one["path"] for one in made.conditions] == ["/" + bad.replace("/", "~1"), '/a"b c%2F~1~0', "/\ud800"]
    assert made.conditions[0]["value"] == bad
    text = client.get("/requests/").content.decode()
    assert "<img src=x" not in text and "\u202e" not in text and "&lt;img" in text


def test_the_person_reads_the_values_and_later_what_was_approved_instead(
    charlie: User, sales: Toolset, sign_in: Open
) -> None:
    client = sign_in(charlie)
    ask(client, sales, **{"is:/region": ['"emea"']})
    logged = Action.objects.get(kind="access request")
    assert '"path":"/region"' in logged.after

    def read() -> str:
        return unescape(client.get("/requests/").content.decode())

    assert 'region is "emea"' in read() and "Approved for:" not in read()
    decisions.approve(only().pk, "root")
    assert Grant.objects.get().conditions == [EMEA] and "Approved for:" not in read()
    assert '"conditions"' not in Action.objects.get(verb="approved").after
    decisions.undo(only().pk)
    assert only().is_open and not Grant.objects.exists()
    apac = {**EMEA, "value": "apac"}
    decisions.approve(only().pk, "root", conditions=[apac, {"path": "/note", "op": "fixed", "value": "kept secret"}])
    text = read()
    assert "Approved for:" in text and 'region is "apac"' in text and "kept secret" not in text
    changed = Action.objects.filter(verb="approved").order_by("-pk")[0]
    assert '"emea"' in changed.before and '"apac"' in changed.after
    decisions.undo(only().pk)
    decisions.approve(only().pk, "root", conditions=[])
    assert Grant.objects.get().conditions == [] and "all calls" in read()


def test_a_grant_whose_conditions_changed_since_is_kept(charlie: User, sales: Toolset, sign_in: Open) -> None:
    ask(sign_in(charlie), sales, **{"is:/region": ['"emea"'], "most:/amount": "2.5"})
    decisions.approve(only().pk, "root")
    grant = Grant.objects.get()
    grant.conditions = [EMEA]
    grant.save()
    with pytest.raises(Refused, match="changed since"):
        decisions.undo(only().pk)


def test_access_to_some_calls_is_told_and_the_rest_can_be_requested(
    charlie: User, sales: Toolset, sign_in: Open
) -> None:
    tool = Tool.objects.get(name="report_sales")
    factories.grant(charlie, tool, conditions=[EMEA])
    client = sign_in(charlie)
    text = unescape(client.get(address(sales)).content.decode())
    assert "you have access to some calls" in text and ">you have access<" not in text and "?tool=report_sales" in text
    assert 'value=""apac""' in form(client, sales), "the whole definition is offered, not what the person has"
    ask(client, sales, **{"is:/region": ['"apac"']})
    ask(client, sales, tool="")
    assert sorted(AccessRequest.objects.values_list("kind", flat=True)) == ["tool", "toolset"]
    factories.grant(charlie, tool)
    text = unescape(client.get(address(sales)).content.decode())
    assert "You can use everything in this toolset already." in text and ">you have access<" in text
    AccessRequest.objects.all().delete()
    assert "You have this access already." in ask(client, sales)


def test_free_access_that_a_denial_narrows_is_no_reason_to_request(
    charlie: User, sales: Toolset, sign_in: Open
) -> None:
    tool = Tool.objects.get(name="report_sales")
    factories.grant(charlie, tool)
    factories.grant(charlie, tool, effect="deny", conditions=[EMEA])
    client = sign_in(charlie)
    assert "You have this access already." in ask(client, sales)
    assert not AccessRequest.objects.exists()
