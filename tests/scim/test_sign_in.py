"""Provisioning and signing in with the same provider: one account, and no way in for who was removed."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client as Browser

from tests.identity.company import Company, come
from tests.identity.conftest import _company_process as _company_process
from tests.identity.conftest import company as company
from tests.identity.conftest import provider as provider
from tests.identity.conftest import sales as sales
from tests.scim.idp import Idp, make_provider
from toolhub.identity.models import Identity, Provider

pytestmark = pytest.mark.django_db
OFF = {"op": "replace", "path": "active", "value": False}
ON = {"op": "replace", "path": "active", "value": True}


@pytest.fixture
def scim(provider: Provider) -> Idp:
    """The company, which also provisions, and lets nobody in whom it did not provision."""
    Provider.objects.update(new_people=Provider.NewPeople.NOBODY)
    return Idp.connect(provider)


def hire(scim: Idp, company: Company, name: str = "dora") -> dict[str, Any]:
    return scim.make_user(name, externalId=company.employ(name), userName=name)


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/account/").status_code == 200


def test_the_first_sign_in_finds_the_account_with_its_groups(scim: Idp, company: Company, sales: Group) -> None:
    refused = come(Browser(), company, "dora") if company.employ("dora") else None
    assert refused is not None and refused.status_code == 403
    dora = hire(scim, company)
    scim.make_group("hub-sales", dora)
    browser = Browser()
    assert come(browser, company, "dora").status_code == 302
    assert is_signed_in(browser)
    user = User.objects.get()
    assert (user.username, list(user.groups.all())) == ("dora", [sales])


def test_who_was_removed_is_signed_out_and_does_not_come_back_until_the_provider_says_so(
    scim: Idp, company: Company, sales: Group
) -> None:
    dora = hire(scim, company)
    browser = Browser()
    come(browser, company, "dora")
    scim.patch(f"Users/{dora['id']}", OFF)
    assert not is_signed_in(browser)
    assert come(browser, company, "dora").status_code == 403
    assert not is_signed_in(browser)
    scim.patch(f"Users/{dora['id']}", ON)
    assert come(Browser(), company, "dora").status_code == 302
    assert is_signed_in(browser), "the session is good again, like the tokens"
    scim.send("DELETE", f"Users/{dora['id']}")
    assert not is_signed_in(browser)
    assert come(Browser(), company, "dora").status_code == 403
    hire(scim, company)
    assert come(Browser(), company, "dora").status_code == 302
    assert User.objects.count() == 1


def test_who_was_removed_by_one_provider_does_not_come_back_through_another(
    scim: Idp, company: Company, sales: Group
) -> None:
    rival = Idp.connect(make_provider("rival"))
    theirs = rival.make_user("dora")
    Identity.objects.create(
        user=User.objects.get(),
        provider=scim.provider,
        issuer=scim.provider.issuer,
        subject=company.employ("dora"),
        linked_by_owner=True,
    )
    browser = Browser()
    assert come(browser, company, "dora").status_code == 302
    rival.patch(f"Users/{theirs['id']}", OFF)
    assert come(browser, company, "dora").status_code == 403
    assert not User.objects.get().is_active
