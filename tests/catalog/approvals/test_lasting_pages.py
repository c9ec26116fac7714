"""Lasting grants on the pages of approvals: made of a request, listed, and ended."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from catalog.models import Approval, Grant
from tests import factories
from tests.catalog.approval_rows import ask, make_rule

pytestmark = pytest.mark.django_db(transaction=True)
OFFER = "Let exactly this call run without approval"


@pytest.fixture
def row(alice: User, bob: User) -> Approval:
    """Alice's call waits for bob, who may give access."""
    bob.user_permissions.add(Permission.objects.get(codename="add_grant"))
    make_rule(factories.make_group("finance", [bob]))
    return ask(alice)


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def make(client: Client, row: Approval, **sent: Any) -> Any:
    return client.post(f"/approvals/{row.pk}/lasting/", sent, follow=True)


@pytest.mark.parametrize("sent", [{"end": "31"}, {"end": "-1"}, {"note": "x" * 501}])
def test_what_the_form_does_not_offer_gives_nothing(bob: User, row: Approval, sent: dict[str, str]) -> None:
    answer = make(sign_in(bob), row, **sent)
    assert answer.status_code == 200 and 'class="wrong"' in answer.content.decode()
    row.refresh_from_db()
    assert row.state == "waiting" and not Grant.objects.filter(skips_approval=True).exists()


def test_an_approver_makes_one_reads_it_and_ends_it(alice: User, bob: User, row: Approval) -> None:
    client = sign_in(bob)
    assert OFFER in read(client, f"/approvals/{row.pk}/")
    answer = html.unescape(make(client, row, end="7", note="Every Monday").content.decode())
    grant = Grant.objects.get(skips_approval=True)
    assert f"From now on, exactly this call of alice runs without approval: grant {grant.pk}." in answer
    assert (grant.user, grant.note) == (alice, "Every Monday") and grant.ends is not None
    assert OFFER not in answer and 'table is "invoices"' in answer and "no other arguments" in answer
    for person in (alice, bob):
        listed = read(sign_in(person), "/approvals/")
        assert f"Calls of alice, by grant {grant.pk}" in listed
        assert ("End this grant" in listed) == (person == bob)
    ended = client.post(f"/approvals/{row.pk}/lasting/end/", follow=True)
    assert "The lasting grant has ended" in ended.content.decode()
    assert "Calls that run without approval" not in read(client, "/approvals/")
    assert "has ended" in read(client, f"/approvals/{row.pk}/")


def test_without_a_reason_the_note_names_the_call(bob: User, row: Approval) -> None:
    make(sign_in(bob), row)
    assert str(row.call_id) in Grant.objects.get(skips_approval=True).note


def test_who_may_not_finds_no_such_thing(alice: User, bob: User, charlie: User, root: User, row: Approval) -> None:
    bob.user_permissions.clear()
    for person in (alice, bob, charlie, root):
        client = sign_in(person)
        unknown = client.post("/approvals/00000000-0000-4000-8000-000000000000/lasting/")
        theirs = client.post(f"/approvals/{row.pk}/lasting/")
        strip = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')
        assert theirs.status_code == unknown.status_code == 404, person
        assert strip.sub("", theirs.content.decode()) == strip.sub("", unknown.content.decode())
        assert client.post(f"/approvals/{row.pk}/lasting/end/").status_code == 404
    assert OFFER not in read(sign_in(bob), f"/approvals/{row.pk}/")
    assert not Grant.objects.filter(skips_approval=True).exists()


def test_a_stranger_does_not_end_it(alice: User, bob: User, charlie: User, root: User, row: Approval) -> None:
    make(sign_in(bob), row)
    for person in (alice, charlie, root):
        assert sign_in(person).post(f"/approvals/{row.pk}/lasting/end/").status_code == 404
    assert Grant.objects.get(skips_approval=True).ends is None


def test_it_takes_a_post_of_our_own_page(bob: User, row: Approval) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(bob)
    assert client.post(f"/approvals/{row.pk}/lasting/").status_code == 403
    assert sign_in(bob).get(f"/approvals/{row.pk}/lasting/").status_code == 405
    assert Client().post(f"/approvals/{row.pk}/lasting/").status_code == 302
    assert not Grant.objects.filter(skips_approval=True).exists()


def test_secret_values_keep_it_from_being_made(alice: User, bob: User, row: Approval) -> None:
    hidden = ask(alice, {"table": "invoices", "password": "hunter2"})
    client = sign_in(bob)
    assert "no grant can be for exactly these" in read(client, f"/approvals/{hidden.pk}/")
    answer = make(client, hidden)
    assert "no grant can be for exactly these" in html.unescape(answer.content.decode())
    hidden.refresh_from_db()
    assert hidden.state == "waiting" and not Grant.objects.filter(skips_approval=True).exists()


def test_structured_values_are_part_of_it(alice: User, bob: User, row: Approval) -> None:
    nested = ask(alice, {"table": "invoices", "where": {"year": 2019, "tags": ["old", "paid"]}})
    answer = html.unescape(make(sign_in(bob), nested).content.decode())
    assert 'where is {"tags": ["old", "paid"], "year": 2019}' in answer
    assert Grant.objects.filter(skips_approval=True).count() == 1


def test_the_person_reads_on_the_page_of_the_request_what_was_given(alice: User, bob: User, row: Approval) -> None:
    make(sign_in(bob), row)
    page = read(sign_in(alice), f"/approvals/{row.pk}/")
    assert "calls like this one run without approval" in page and "End this grant" not in page
