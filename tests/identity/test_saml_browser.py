"""A person with a real browser: to a SAML provider on another site and back, with cookies as browsers send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import chromium as chromium
from tests.identity.saml_idp import Company
from tests.secure_hub import SecureHub

pytestmark = pytest.mark.chromium
PASSWORD = "correct horse battery"


def seed() -> None:
    from django.contrib.auth.models import User

    User.objects.create_user("alice", password=PASSWORD)
    User.objects.create_superuser("root", password=PASSWORD)


def configure(metadata: str, issuer: str) -> None:
    from django.contrib.auth.models import Group

    from toolhub.identity.models import GroupMapping, Provider

    row = Provider.objects.create(
        slug="works", name="The works", kind=Provider.Kind.SAML, enabled=True, issuer=issuer, metadata=metadata
    )
    GroupMapping.objects.create(provider=row, value="hub-sales", group=Group.objects.create(name="Sales"))


def people() -> list[list[Any]]:
    from toolhub.identity.models import Identity

    found = Identity.objects.select_related("user").order_by("pk")
    return [[one.user.username, one.subject, sorted(one.user.groups.values_list("name", flat=True))] for one in found]


@pytest.fixture(scope="module")
def works() -> Iterator[Company]:
    with Company("https://works.example/saml") as company:
        company.serve()
        yield company


@pytest.fixture(scope="module")
def site(works: Company) -> Iterator[SecureHub]:
    with SecureHub(seed=seed) as running:
        running.hub.call(configure, metadata=works.metadata(), issuer=works.entity_id)
        yield running


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(ignore_https_errors=True, locale="en")
    made = context.new_page()
    complaints: list[str] = []
    made.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield made
    context.close()
    # A page that says no has its status; anything else is a policy that was broken.
    assert [one for one in complaints if "Failed to load resource" not in one] == []


def sign_in_there(page: Any, name: str) -> None:
    page.wait_for_selector("text=Sign in at the works")
    page.fill("input[name=name]", name)
    page.click("text=Sign in at the works")


def test_a_person_signs_in_from_the_page_that_they_wanted(site: SecureHub, works: Company, page: Any) -> None:
    works.people["d-1"] = {"groups": ["hub-sales"], "attributes": {"uid": ["dora"]}}
    page.goto(f"{site.url}/calls/")
    page.click("text=Continue with The works")
    sign_in_there(page, "d-1")
    page.wait_for_url(f"{site.url}/calls/")
    assert "dora" in page.content()
    assert site.hub.call(people) == [["dora", "d-1", ["Sales"]]]
    # The cookie of the waiting response is gone, and the response with it.
    assert {one["name"] for one in page.context.cookies()} & {"toolhub_saml", "toolhub_session"} == {"toolhub_session"}
    page.go_back()
    page.goto(f"{site.url}/sign-in/with/works/saml/finish/")
    assert "You are not signed in" in page.content()


def test_a_person_links_it_to_their_account(site: SecureHub, works: Company, page: Any) -> None:
    works.people["a-1"] = {}
    page.goto(f"{site.url}/sign-in/?next=/account/")
    page.fill("#id_username", "alice")
    page.fill("#id_password", PASSWORD)
    page.press("#id_password", "Enter")
    page.wait_for_url(f"{site.url}/account/")
    page.click("form[action='/account/link/works/'] button")
    sign_in_there(page, "a-1")
    page.wait_for_url(f"{site.url}/account/")
    assert "You can now sign in with The works" in page.content()
    assert ["alice", "a-1", []] in site.hub.call(people)


def test_an_administrator_pastes_the_metadata_and_tests_it(site: SecureHub, works: Company, page: Any) -> None:
    works.people["r-1"] = {"groups": ["hub-sales", "staff"]}
    page.goto(f"{site.url}/admin/login/?next=/admin/identity/provider/")
    page.fill("#id_username", "root")
    page.fill("#id_password", PASSWORD)
    page.click("form button[type=submit]")
    page.click("text=The works")
    page.fill("textarea[name=metadata]", "<no-metadata/>")
    page.click("button[name=_continue], input[name=_continue]")
    page.wait_for_selector("text=This is not SAML metadata")
    page.fill("textarea[name=metadata]", works.metadata())
    page.click("button[name=_continue], input[name=_continue]")
    page.wait_for_selector(f"text={site.url}/sign-in/with/works/saml/acs/")
    page.click("text=Test this provider")
    page.click("text=Check the configuration")
    page.wait_for_selector("#checks >> text=A signing certificate is valid until")
    page.click("text=Sign in to test")
    sign_in_there(page, "r-1")
    page.wait_for_selector("#result >> text=r-1")
    assert ["root", "r-1", []] not in site.hub.call(people)
