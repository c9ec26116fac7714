"""Temporary approvals on the pages of approvals: given with an approval, listed, and revoked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalog.models import Approval, TemporaryApproval
from tests import factories
from tests.catalog.approval_rows import ask, make_rule

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def row(alice: User, bob: User) -> Approval:
    """Alice's call waits for bob."""
    make_rule(factories.make_group("finance", [bob]))
    return ask(alice)


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def give(client: Client, row: Approval, **sent: Any) -> Any:
    return client.post(f"/approvals/{row.pk}/approve/", sent, follow=True)


@pytest.mark.parametrize(
    "sent", [{"minutes": "61"}, {"minutes": "-15"}, {"minutes": "x"}, {"minutes": "15", "same": ["nothing"]}]
)
def test_what_the_form_does_not_offer_approves_nothing(bob: User, row: Approval, sent: dict[str, Any]) -> None:
    answer = give(sign_in(bob), row, **sent)
    assert answer.status_code == 200 and "is not one of the available choices" in answer.content.decode()
    row.refresh_from_db()
    assert row.state == "waiting" and not TemporaryApproval.objects.exists()


def test_an_approver_chooses_how_long_and_what_stays_the_same(alice: User, bob: User, row: Approval) -> None:
    names = sorted(row.argument_digests)
    client = sign_in(bob)
    page = client.get(f"/approvals/{row.pk}/").content.decode()
    assert sorted(re.findall(r'name="same" value="(\w+)" id="\w+" checked', page)) == names
    answer = give(client, row, minutes="15", same=names[:1])
    assert "You approved this call, and calls like it for 15 minutes." in answer.content.decode()
    given = TemporaryApproval.objects.get()
    assert (sorted(given.argument_digests), given.free_arguments) == (names[:1], names[1:])
    for person in (alice, bob):
        listed = sign_in(person).get("/approvals/").content.decode()
        assert "Temporary approvals" in listed and "Calls of alice, approved by bob" in listed
        assert all(f"any value: {', '.join(names[1:])}" in listed for _ in names[1:2])


def test_approving_once_gives_nothing_more(bob: User, row: Approval) -> None:
    give(sign_in(bob), row, minutes="0", same=sorted(row.argument_digests))
    row.refresh_from_db()
    assert row.state == "approved" and not TemporaryApproval.objects.exists()


def test_a_temporary_approval_is_revoked_by_those_it_concerns_and_there_for_nobody_else(
    alice: User, bob: User, charlie: User, root: User, row: Approval
) -> None:
    give(sign_in(bob), row, minutes="60")
    given = TemporaryApproval.objects.get()
    address = f"/approvals/temporary/{given.pk}/revoke/"
    assert sign_in(bob).get(address).status_code == 405
    assert Client().post(address).status_code == 302
    for stranger in (charlie, root):
        unknown = sign_in(stranger).post(f"/approvals/temporary/{given.pk + 1}/revoke/")
        theirs = sign_in(stranger).post(address)
        strip = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')
        assert theirs.status_code == unknown.status_code == 404
        assert strip.sub("", theirs.content.decode()) == strip.sub("", unknown.content.decode())
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    assert strict.post(address).status_code == 403
    given.refresh_from_db()
    assert given.revoked is None
    answer = sign_in(alice).post(address, follow=True)
    assert "You revoked this temporary approval" in answer.content.decode()
    assert "approved by bob" not in answer.content.decode()
    given.refresh_from_db()
    assert given.revoked is not None
