"""What a person reads when something cannot go on: what happened, and the next step."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client, RequestFactory
from django.test.utils import override_settings
from django.views import defaults

from tests import factories

pytestmark = pytest.mark.django_db
HOST = "http://testserver"


def sign_in(user: User, **options: object) -> Client:
    client = Client(**options)  # type: ignore[arg-type]
    client.force_login(user)
    return client


def end_session() -> None:
    Session.objects.all().delete()


def target(location: str) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(location)
    return parts.path, parse_qs(parts.query, keep_blank_values=True)


def test_a_form_that_came_after_the_session_leads_back_to_its_page_and_says_that_nothing_was_saved(
    alice: User,
) -> None:
    client = sign_in(alice)
    end_session()
    answer = client.post("/tokens/7/revoke/", {"x": "y"}, headers={"referer": f"{HOST}/tokens/?page=2#x"})
    path, query = target(answer["Location"])
    assert (path, query) == ("/sign-in/", {"next": ["/tokens/?page=2"], "ended": ["form"]})
    page = client.get(answer["Location"]).content.decode()
    assert "Your session ended before this form arrived. Nothing was saved." in page
    signed_in = client.post(path, {"username": "alice", "password": "correct horse battery", "next": query["next"][0]})
    assert signed_in["Location"] == "/tokens/?page=2"


def test_a_form_of_the_administration_leads_back_to_its_page(root: User) -> None:
    tool = factories.make_tool("add")
    client = sign_in(root)
    end_session()
    page = f"/admin/catalog/tool/{tool.pk}/change/"
    answer = client.post(page, {}, headers={"referer": HOST + page})
    assert target(answer["Location"])[1] == {"next": [page], "ended": ["form"]}


@pytest.mark.parametrize(
    "referrer",
    [
        *(
            "https://evil.example.com/tokens/",
            "//evil.example.com/x",
            "javascript:alert(1)",
            "/tokens/",
            "",
            "http://[",
        ),
        *(f"{HOST}//evil.example.com/", f"{HOST}:81/tokens/", f"{HOST}/{'x' * 3000}"),
    ],
)
def test_no_other_site_chooses_the_page_after_the_sign_in(alice: User, referrer: str) -> None:
    client = sign_in(alice)
    end_session()
    answer = client.post("/tokens/", {}, headers={"referer": referrer})
    assert target(answer["Location"]) == ("/sign-in/", {"next": [""], "ended": ["form"]})
    failed = Client(enforce_csrf_checks=True).post("/tokens/", {}, headers={"referer": referrer}).content.decode()
    assert "Open the page again" not in failed and "evil" not in failed


def test_a_page_that_is_opened_after_the_session_says_so_and_comes_after_the_sign_in(root: User) -> None:
    client = sign_in(root)
    end_session()
    answer = client.get("/admin/jobs/?x=1")
    assert target(answer["Location"]) == ("/sign-in/", {"next": ["/admin/jobs/?x=1"], "ended": ["session"]})
    assert "Your session ended. Sign in again." in client.get(answer["Location"]).content.decode()


def test_whoever_was_never_signed_in_or_signed_out_is_not_told_of_an_ended_session(alice: User) -> None:
    stranger, client = Client(), sign_in(alice)
    client.post("/sign-out/")
    for person in (stranger, client):
        location = person.get("/tokens/")["Location"]
        assert "ended" not in target(location)[1]
        assert "session ended" not in person.get(location).content.decode()


def test_a_stale_form_leads_back_to_its_page_and_promises_nothing(alice: User) -> None:
    client = sign_in(alice, enforce_csrf_checks=True)
    client.get("/tokens/")
    sent = {"csrfmiddlewaretoken": "x" * 64}
    answer = client.post("/tokens/", sent, headers={"referer": f"{HOST}/tokens/?a=%3Cb%3E"})
    page = answer.content.decode()
    assert answer.status_code == 403 and "no-store" in answer["Cache-Control"]
    assert 'href="/tokens/?a=%3Cb%3E"' in page and "Your changes were not saved." in page
    assert "Allow cookies" not in page
    del client.cookies["toolhub_csrf"]
    assert "Allow cookies" in client.post("/tokens/", sent).content.decode()


def test_a_missing_page_offers_what_this_person_can_do_next(alice: User, root: User) -> None:
    for client, offered, other in (
        (Client(), "/sign-in/", "/admin/search/"),
        (sign_in(root), "/admin/search/", "/sign-in/"),
    ):
        answer = client.get("/nothing/")
        page = answer.content.decode()
        assert answer.status_code == 404 and 'href="/"' in page
        assert f'href="{offered}"' in page and f'href="{other}"' not in page
    assert "/admin/" not in sign_in(alice).get("/nothing/").content.decode()


@override_settings(CONTACT_NAME="the platform team", CONTACT_URL="mailto:help@example.com")
def test_pages_of_failures_name_whom_to_ask(alice: User, rf: RequestFactory) -> None:
    client = sign_in(alice)
    forbidden = client.get("/admin/", follow=True)
    assert forbidden.status_code == 403 and "You are signed in as alice." in forbidden.content.decode()
    request = rf.get("/")
    broken, unreadable = defaults.server_error(request), defaults.bad_request(request, ValueError())
    assert (broken.status_code, unreadable.status_code) == (500, 400)
    for answer in (forbidden, client.get("/nothing/"), broken, unreadable):
        page = answer.content.decode()
        assert 'href="mailto:help@example.com"' in page and 'href="/"' in page
