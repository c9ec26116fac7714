"""The pages on which people request access: what exists there, and whose requests they show."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.models import Action
from catalog.access_requests import decisions, submissions
from catalog.models import AccessRequest, Tool, Toolset
from tests import factories
from tests.catalog.access_requests.conftest import Open

pytestmark = pytest.mark.django_db
REASON = {"reason": "The quarterly report, until March."}


def address(toolset: Toolset) -> str:
    return f"/requests/toolset/{toolset.pk}/"


def ask(client: Client, toolset: Toolset, **fields: str) -> Any:
    return client.post(address(toolset), {**REASON, **fields}, follow=True)


def read(client: Client, path: str = "/requests/") -> str:
    return client.get(path).content.decode()


def test_what_cannot_be_requested_reads_as_what_does_not_exist(
    charlie: User, numbers: Toolset, private: Toolset, sign_in: Open
) -> None:
    empty = factories.make_toolset("Empty", requestable=True)
    client = sign_in(charlie)
    text = read(client)
    assert "Numbers" in text and "Private" not in text and "secret_plan" not in text and "Empty" not in text
    for path in (address(private), address(empty), "/requests/toolset/999999999/"):
        for answer in (client.get(path), client.post(path, REASON)):
            assert answer.status_code == 404
    assert "secret_plan" not in read(client, "/requests/?q=secret_plan").replace('value="secret_plan"', "")
    assert client.post(address(numbers), {**REASON, "tool": "secret_plan"}).status_code == 404
    assert client.post(address(numbers), {**REASON, "tool": "no_such_tool"}).status_code == 404
    assert not AccessRequest.objects.exists()


def test_nobody_who_is_not_signed_in_reads_or_requests_anything(numbers: Toolset) -> None:
    for path in ("/requests/", address(numbers)):
        assert Client().get(path)["Location"].startswith("/sign-in/")
    assert Client().post(address(numbers), REASON)["Location"].startswith("/sign-in/")
    assert not AccessRequest.objects.exists()


def test_tools_that_are_off_or_quarantined_are_neither_shown_nor_requested(
    charlie: User, numbers: Toolset, sign_in: Open
) -> None:
    from django.utils import timezone

    factories.make_tool("switched_off", toolset=numbers, enabled=False)
    factories.make_tool("in_quarantine", toolset=numbers)
    Tool.objects.filter(name="in_quarantine").update(quarantined_since=timezone.now())
    client = sign_in(charlie)
    text = read(client, address(numbers)) + read(client)
    assert "delete_rows" in text and "switched_off" not in text and "in_quarantine" not in text
    assert client.post(address(numbers), {**REASON, "tool": "in_quarantine"}).status_code == 404


def test_only_names_and_descriptions_are_shown(charlie: User, numbers: Toolset, sign_in: Open) -> None:
    numbers.description = "For administrators"
    numbers.save()
    text = read(sign_in(charlie), address(numbers))
    assert "Calculate a sum" in text and "adds two numbers" in text and "For the finance team." in text
    assert "For administrators" not in text and "The first number." not in text


def test_a_request_is_listed_with_its_reason_and_logged(charlie: User, numbers: Toolset, sign_in: Open) -> None:
    client = sign_in(charlie)
    text = ask(client, numbers).content.decode()
    assert "Your request was sent." in text and REASON["reason"] in text and ">open<" in text
    made = AccessRequest.objects.get()
    assert (made.person, made.toolset, made.tool, made.state) == (charlie, numbers, None, "open")
    logged = Action.objects.get(kind="access request")
    assert (logged.verb, logged.actor, logged.target) == ("requested", "charlie", "toolset Numbers for charlie")


def test_a_request_for_one_tool_is_for_that_tool_alone(charlie: User, numbers: Toolset, sign_in: Open) -> None:
    ask(sign_in(charlie), numbers, tool="delete_rows")
    made = AccessRequest.objects.get()
    assert made.kind == "tool" and made.target == Tool.objects.get(name="delete_rows")


def test_without_a_reason_nothing_is_requested(charlie: User, numbers: Toolset, sign_in: Open) -> None:
    client = sign_in(charlie)
    for reason in ("", "   ", "x" * 501):
        assert client.post(address(numbers), {"reason": reason}).status_code == 200
    assert not AccessRequest.objects.exists()


def test_the_same_is_open_once_and_can_be_requested_again_after_the_answer(
    charlie: User, bob: User, numbers: Toolset, sign_in: Open
) -> None:
    client = sign_in(charlie)
    ask(client, numbers)
    assert "Your request for this is open already." in ask(client, numbers).content.decode()
    ask(client, numbers, tool="delete_rows")
    ask(sign_in(bob), numbers)
    assert AccessRequest.objects.count() == 3
    decisions.decline(AccessRequest.objects.order_by("id")[0].pk, "root")
    ask(client, numbers)
    assert AccessRequest.objects.filter(person=charlie, state="open", kind="toolset").count() == 1


def test_what_one_has_already_is_not_requested(alice: User, numbers: Toolset, sign_in: Open) -> None:
    factories.grant(alice, Tool.objects.get(name="calculate_sum"))
    client = sign_in(alice)
    assert "You have this access already." in ask(client, numbers, tool="calculate_sum").content.decode()
    assert address(numbers) in read(client), "one tool is missing"
    factories.grant(alice, numbers)
    assert address(numbers) not in read(client)
    assert "You have this access already." in ask(client, numbers).content.decode()
    assert not AccessRequest.objects.exists()


def test_a_person_has_a_bounded_number_of_open_requests_and_of_requests_a_day(
    charlie: User, bob: User, numbers: Toolset, sign_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MAX_OPEN", 2)
    monkeypatch.setattr(submissions, "MAX_PER_DAY", 3)
    client = sign_in(charlie)
    ask(client, numbers, tool="calculate_sum")
    ask(client, numbers, tool="delete_rows")
    assert "You have 2 open requests, which is the maximum." in ask(client, numbers).content.decode()
    for row in AccessRequest.objects.all():
        client.post(f"/requests/{row.pk}/withdraw/")
    ask(client, numbers)
    assert "Try again tomorrow" in ask(client, numbers, tool="delete_rows").content.decode()
    assert AccessRequest.objects.count() == 3
    ask(sign_in(bob), numbers)
    assert AccessRequest.objects.count() == 4, "the bounds of one person are no bounds of another"


def test_only_ones_own_requests_are_listed_and_withdrawn(
    charlie: User, bob: User, numbers: Toolset, sign_in: Open
) -> None:
    ask(sign_in(charlie), numbers)
    made = AccessRequest.objects.get()
    other = sign_in(bob)
    assert REASON["reason"] not in read(other)
    absent = other.post("/requests/999999999/withdraw/")
    refused = other.post(f"/requests/{made.pk}/withdraw/")
    assert (refused.status_code, refused.content) == (absent.status_code, absent.content) and absent.status_code == 404
    made.refresh_from_db()
    assert made.is_open
    sign_in(charlie).post(f"/requests/{made.pk}/withdraw/")
    made.refresh_from_db()
    assert made.state == "withdrawn"
    assert Action.objects.filter(kind="access request", verb="withdrawn", actor="charlie").exists()


def test_an_answered_request_is_not_withdrawn(charlie: User, numbers: Toolset, sign_in: Open) -> None:
    client = sign_in(charlie)
    ask(client, numbers)
    made = AccessRequest.objects.get()
    decisions.decline(made.pk, "root", "No.")
    assert "answered meanwhile" in client.post(f"/requests/{made.pk}/withdraw/", follow=True).content.decode()
    made.refresh_from_db()
    assert made.state == "declined"


def test_the_answer_is_announced_on_my_tools_until_it_was_seen(charlie: User, numbers: Toolset, sign_in: Open) -> None:
    client = sign_in(charlie)
    ask(client, numbers)
    assert "request-answers" not in read(client, "/tools/")
    decisions.decline(AccessRequest.objects.get().pk, "root", "Ask your team lead\u202e first.")
    assert "There are new answers to your requests." in read(client, "/tools/")
    assert "request-answers" in read(client, "/tools/"), "the notice itself does not count as reading the answer"
    text = read(client)
    assert "Ask your team lead⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩ first." in text and ">new<" in text
    assert "request-answers" not in read(client, "/tools/") and ">new<" not in read(client)


def test_my_tools_offers_requests_only_where_something_can_be_requested(
    charlie: User, private: Toolset, sign_in: Open
) -> None:
    client = sign_in(charlie)
    assert "/requests/" not in read(client, "/tools/") and "Ask your administrator" in read(client, "/tools/")
    assert "nothing that you can request" in read(client)
    private.requestable = True
    private.save()
    text = read(client, "/tools/")
    assert 'href="/requests/"' in text and "Ask your administrator" not in text


def test_a_toolset_that_is_closed_for_requests_keeps_the_open_ones_under_the_old_name(
    charlie: User, numbers: Toolset, sign_in: Open
) -> None:
    client = sign_in(charlie)
    ask(client, numbers)
    numbers.requestable, numbers.name = False, "Renamed"
    numbers.save()
    text = read(client)
    assert "Numbers" in text and "Renamed" not in text and address(numbers) not in text
    assert client.get(address(numbers)).status_code == 404
    assert AccessRequest.objects.get().is_open


@pytest.mark.parametrize("tool", ["", "delete_rows"])
def test_a_deleted_toolset_closes_its_requests_and_the_person_is_told(
    charlie: User, numbers: Toolset, sign_in: Open, tool: str
) -> None:
    client = sign_in(charlie)
    ask(client, numbers, tool=tool)
    numbers.delete()
    made = AccessRequest.objects.get()
    assert made.state == "gone" and made.decided_at is not None and made.toolset is None
    assert "There are new answers" in read(client, "/tools/")
    # Who asked for a tool is not told whether the tool is still there.
    gone = "The tool was deleted, or no toolset offers it" if tool else "What you requested was deleted."
    assert gone in read(client)


def test_a_deleted_tool_closes_the_requests_for_it_and_no_others(
    charlie: User, numbers: Toolset, sign_in: Open
) -> None:
    client = sign_in(charlie)
    ask(client, numbers, tool="delete_rows")
    ask(client, numbers, tool="calculate_sum")
    ask(client, numbers)
    Tool.objects.filter(name="delete_rows").delete()
    assert dict(AccessRequest.objects.values_list("name", "state")) == {
        "delete_rows": "gone",
        "calculate_sum": "open",
        "Numbers": "open",
    }


def test_the_requests_of_a_deleted_person_are_deleted(charlie: User, numbers: Toolset, sign_in: Open) -> None:
    ask(sign_in(charlie), numbers)
    charlie.delete()
    assert not AccessRequest.objects.exists()
