"""A person connects an account in the browser; whoever else answers, or whatever else comes back, connects nothing."""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client as Browser

from audit.models import Action
from catalog.accounts import clients, flow, links
from catalog.models import ConnectedAccount, Grant, PersonalSecret, Secret, Tool
from tests.catalog.accounts.hub import leave, make_account, make_api_tool, sign_in
from tests.catalog.accounts.stand_in import AS_METADATA, StandIn, asked

pytestmark = pytest.mark.django_db
CALLBACK = "/accounts/callback/"


@pytest.fixture
def secret(stand_in: StandIn, alice: User, bob: User) -> Secret:
    made = make_account(f"{stand_in.url}/mcp")
    make_api_tool(f"{stand_in.url}/notes", alice, bob)
    return made


def come_back(browser: Browser, stand_in: StandIn, address: str, **changes: Any) -> Any:
    """The answer of the authorization server to this request."""
    answer = {"code": "the-code", "state": asked(address)["state"], "iss": stand_in.url, **changes}
    return browser.get(CALLBACK, {name: value for name, value in answer.items() if value is not None}, follow=True)


def read(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def test_a_connected_account_holds_its_tokens_encrypted(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    wanted = asked(address)
    assert address.startswith(f"{stand_in.url}/authorize?")
    assert (wanted["client_id"], wanted["redirect_uri"]) == ("registered-1", clients.redirect_url())
    assert (wanted["code_challenge_method"], wanted["response_type"]) == ("S256", "code")
    assert (wanted["resource"], wanted["scope"]) == (f"{stand_in.url}/mcp", "notes:read")
    assert len(wanted["code_challenge"]) == 43 and len(wanted["state"]) >= 43
    page = come_back(browser, stand_in, address)
    assert page.redirect_chain == [("/secrets/", 302)] and "“notes” is connected" in read(page)
    sent = stand_in.requests("/token")[0]
    assert sent.form["code"] == "the-code" and sent.form["grant_type"] == "authorization_code"
    assert sent.form["redirect_uri"] == clients.redirect_url() and sent.form["resource"] == wanted["resource"]
    assert len(sent.form["code_verifier"]) >= 43 and sent.headers["authorization"].startswith("Basic ")
    account = ConnectedAccount.objects.get()
    assert account.entry.user == alice and account.issuer == stand_in.url
    found = account.read()
    assert (found.access_token, found.refresh_token) == ("access-of-the-stand-in", "refresh-of-the-stand-in")
    rows = [model.objects.values() for model in (ConnectedAccount, PersonalSecret, Secret, Action, Session)]
    stored = str([list(row) for row in rows])
    for value in ("access-of-the-stand-in", "refresh-of-the-stand-in", "registered-secret", sent.form["code_verifier"]):
        assert value not in stored and value not in read(browser.get("/secrets/"))
    assert Action.objects.filter(kind="account", verb="created", actor="alice").exists()


def test_the_account_may_be_used_where_the_page_said(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    Tool.objects.update(settings={"url": "https://attacker.example/notes"})
    make_api_tool("https://elsewhere.example/notes", alice, name="other")
    page = read(come_back(browser, stand_in, address))
    assert "destinations that you have not allowed yet" in page
    assert PersonalSecret.objects.get().destinations == {}


def test_connecting_again_replaces_the_tokens(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    come_back(browser, stand_in, leave(browser))
    stand_in.answers["/token"] = (200, stand_in.issued(access_token="a-second-token", refresh_token="a-second-refresh"))
    come_back(browser, stand_in, leave(browser))
    assert ConnectedAccount.objects.get().read().access_token == "a-second-token"
    # A service may issue the same again, or end all of one client's together.
    assert not stand_in.requests("/revoke")


def test_connecting_at_another_server_revokes_what_there_was(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    come_back(browser, stand_in, leave(browser))
    Secret.objects.update(client_id="ours", issuer=stand_in.url)
    come_back(browser, stand_in, leave(browser))
    revoked = [one.form["token"] for one in stand_in.requests("/revoke")]
    assert revoked == ["refresh-of-the-stand-in", "access-of-the-stand-in"]
    assert ConnectedAccount.objects.get().client_id == "ours"


def test_disconnecting_revokes_the_tokens_and_removes_them(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    come_back(browser, stand_in, leave(browser))
    page = browser.post("/secrets/notes/remove/", follow=True)
    assert "the service revoked its tokens" in read(page) and "not connected" in read(page)
    assert not ConnectedAccount.objects.exists() and not PersonalSecret.objects.exists()
    revoked = stand_in.requests("/revoke")
    assert [one.form["token"] for one in revoked] == ["refresh-of-the-stand-in", "access-of-the-stand-in"]
    assert all(one.headers["authorization"].startswith("Basic ") for one in revoked)


def test_a_service_that_does_not_confirm_is_named(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    come_back(browser, stand_in, leave(browser))
    stand_in.answers["/revoke"] = (503, "")
    assert "did not confirm" in read(browser.post("/secrets/notes/remove/", follow=True))
    assert not ConnectedAccount.objects.exists()


def test_a_service_that_issues_no_refresh_token_and_no_end_can_be_used(
    secret: Secret, stand_in: StandIn, alice: User
) -> None:
    stand_in.answers["/token"] = (200, stand_in.issued(refresh_token=None, expires_in=None))
    browser = sign_in(alice)
    come_back(browser, stand_in, leave(browser))
    account = ConnectedAccount.objects.get()
    assert account.expires_at is None and account.read().refresh_token == ""


# --- answers that connect nothing ------------------------------------------------------------------------------------

ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "declined": ({"code": None, "error": "access_denied"}, "You did not allow the access"),
    "an error": ({"code": None, "error": "server_error"}, "server_error"),
    "an error of another server": ({"code": None, "error": "x", "iss": "https://other.example"}, "other.example"),
    "another server (RFC 9207, 2.4)": ({"iss": "https://other.example"}, "The answer came from https://other.example"),
    "no issuer, which was announced (RFC 9207, 2.4)": ({"iss": None}, "was not used"),
    "no code": ({"code": None}, "no authorization code"),
    "another state": ({"state": "x" * 43}, "too old, was used before"),
    "no state": ({"state": None}, "too old, was used before"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_does_not_fit_connects_nothing(
    secret: Secret, stand_in: StandIn, alice: User, name: str
) -> None:
    changes, says = ANSWERS[name]
    browser = sign_in(alice)
    answer = come_back(browser, stand_in, leave(browser), **changes)
    assert answer.status_code == 400 and says in read(answer)
    assert not ConnectedAccount.objects.exists() and not stand_in.requests("/token")


TOKENS: dict[str, tuple[tuple[Any, ...], str]] = {
    "refused": ((400, {"error": "invalid_grant"}), "invalid_grant"),
    "an error with status 200": ((200, {"error": "bad_verification_code"}), "bad_verification_code"),
    "no JSON": ((200, "access_token=x"), "access_token"),
    "another type": ((200, {"access_token": "long-enough", "token_type": "mac"}), "token_type"),
    "no token": ((200, {"token_type": "Bearer"}), "access_token"),
    "a token that is too long": ((200, {"access_token": "x" * 8000, "token_type": "Bearer"}), "access_token"),
    "a token that is a word": ((200, {"access_token": "INFO", "token_type": "Bearer"}), "access_token"),
    "a refresh token with half a character": (
        (200, {"access_token": "long-enough", "token_type": "Bearer", "refresh_token": "r\ud800"}),
        "refresh_token",
    ),
    "a token that no header can carry": ((200, {"access_token": "a\r\nb", "token_type": "Bearer"}), "access_token"),
    "a failure": ((503, ""), "503"),
}


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_endpoint_that_issues_nothing_connects_nothing(
    secret: Secret, stand_in: StandIn, alice: User, name: str
) -> None:
    stand_in.answers["/token"], says = TOKENS[name]
    browser = sign_in(alice)
    answer = come_back(browser, stand_in, leave(browser))
    assert answer.status_code == 400 and says in read(answer)
    assert not PersonalSecret.objects.exists()


def test_entered_endpoints_take_no_answer_of_another_server(secret: Secret, stand_in: StandIn, alice: User) -> None:
    """The sign-in is that of an honest server, and the tokens would come from another one."""
    with StandIn() as attacker:
        Secret.objects.update(
            url="",
            client_id="a public client",
            authorization_endpoint=f"{stand_in.url}/authorize",
            token_endpoint=f"{attacker.url}/token",
        )
        browser = sign_in(alice)
        page = read(browser.get("/secrets/"))
        assert "your tokens come from" in page and attacker.url in page and "same service" in page
        answer = come_back(browser, stand_in, leave(browser))
        assert answer.status_code == 400 and "was not used" in read(answer)
        assert attacker.seen == []


def test_tokens_that_nobody_needs_any_more_are_revoked(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    Grant.objects.all().delete()
    assert come_back(browser, stand_in, address).status_code == 400
    assert [one.form["token"] for one in stand_in.requests("/revoke")] == [
        "refresh-of-the-stand-in",
        "access-of-the-stand-in",
    ]


def test_a_client_that_the_server_forgot_is_registered_anew(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    stand_in.answers["/token"] = (401, {"error": "invalid_client"})
    assert come_back(browser, stand_in, leave(browser)).status_code == 400
    stand_in.answers["/token"] = (200, stand_in.issued())
    assert come_back(browser, stand_in, leave(browser)).status_code == 200
    assert len(stand_in.requests("/register")) == 2


def test_an_answer_counts_once(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    assert come_back(browser, stand_in, address).status_code == 200
    assert "was used before" in read(come_back(browser, stand_in, address))
    assert len(stand_in.requests("/token")) == 1


def test_an_answer_counts_only_in_the_browser_that_began(
    secret: Secret, stand_in: StandIn, alice: User, bob: User
) -> None:
    address = leave(sign_in(alice))
    for other in (sign_in(bob), sign_in(alice), Browser()):
        answer = come_back(other, stand_in, address)
        assert answer.status_code == 400 and "began in another browser" in read(answer)
    assert not PersonalSecret.objects.exists() and not stand_in.requests("/token")


def test_an_answer_counts_only_for_the_person_who_began(
    secret: Secret, stand_in: StandIn, alice: User, bob: User
) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    opened = browser.session[flow.KEY]
    his = sign_in(bob)
    session = his.session
    session[flow.KEY] = opened  # somebody who can write to the table of sessions
    session.save()
    assert come_back(his, stand_in, address).status_code == 400
    assert not PersonalSecret.objects.exists() and not stand_in.requests("/token")


def test_an_answer_does_not_count_after_ten_minutes(
    secret: Secret, stand_in: StandIn, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + flow.LIFETIME_SECONDS + 1)
    assert come_back(browser, stand_in, address).status_code == 400
    assert not stand_in.requests("/token")


CHANGES: dict[str, Callable[[Secret], Any]] = {
    "the issuer": lambda secret: Secret.objects.filter(pk=secret.pk).update(issuer="https://attacker.example"),
    "the kind": lambda secret: Secret.objects.filter(pk=secret.pk).update(kind="personal"),
    "everything": lambda secret: secret.delete(),
    "the grant": lambda secret: Grant.objects.all().delete(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_answer_does_not_count_for_what_changed_meanwhile(
    secret: Secret, stand_in: StandIn, alice: User, name: str
) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    CHANGES[name](secret)
    answer = come_back(browser, stand_in, address)
    assert answer.status_code == 400 and "changed in the meantime" in read(answer)
    assert not PersonalSecret.objects.exists()


# --- who may connect -------------------------------------------------------------------------------------------------


def test_a_link_works_for_the_person_it_was_made_for_and_carries_no_credential(
    secret: Secret, alice: User, bob: User, settings: Any
) -> None:
    link = links.make(alice.pk, "notes").removeprefix(settings.PUBLIC_URL)
    page = read(sign_in(alice).get(link))
    assert "Connect your account “notes”" in page
    answer = sign_in(bob).get(link)
    assert answer.status_code == 403 and "made for somebody else" in read(answer)
    assert "alice" not in read(answer)
    anonymous = Browser().get(link)
    assert anonymous.status_code == 302 and anonymous.headers["Location"].endswith(f"?next={link}")
    for wrong in (link[:-2] + "x/", link.replace("notes", "other"), "/accounts/notes/x/"):
        assert sign_in(alice).get(wrong).status_code == 403, wrong


def test_opening_a_link_changes_nothing(secret: Secret, stand_in: StandIn, alice: User, settings: Any) -> None:
    browser = sign_in(alice)
    browser.get(links.make(alice.pk, "notes").removeprefix(settings.PUBLIC_URL))
    assert stand_in.seen == [] and flow.KEY not in browser.session


def test_an_account_that_none_of_ones_tools_needs_cannot_be_connected(
    secret: Secret, stand_in: StandIn, charlie: User, settings: Any
) -> None:
    browser = sign_in(charlie)
    assert browser.post("/accounts/notes/connect/").status_code == 404
    assert browser.post("/accounts/unknown/connect/").status_code == 404
    mine = links.make(charlie.pk, "notes").removeprefix(settings.PUBLIC_URL)
    theirs = links.make(charlie.pk, "unknown").removeprefix(settings.PUBLIC_URL)
    assert browser.get(mine).status_code == browser.get(theirs).status_code == 403
    assert stand_in.seen == []


def test_a_value_is_not_entered_for_an_account_nor_an_account_connected_for_a_value(
    secret: Secret, alice: User
) -> None:
    browser = sign_in(alice)
    assert browser.post("/secrets/notes/", {"value": "a value"}).status_code == 404
    Secret.objects.update(kind="personal", url="")
    assert browser.post("/accounts/notes/connect/").status_code == 404


def test_connecting_needs_a_post_with_a_token_against_forgery(secret: Secret, alice: User) -> None:
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(alice)
    assert browser.post("/accounts/notes/connect/").status_code == 403
    assert browser.get("/accounts/notes/connect/").status_code == 405


def test_one_person_begins_a_bounded_number_of_sign_ins(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    statuses = [browser.post("/accounts/notes/connect/").status_code for _ in range(22)]
    assert statuses == [200] * 20 + [429] * 2
    assert len(browser.session[flow.KEY]) == flow.MAX_OPEN


def test_without_keys_nothing_is_begun(secret: Secret, stand_in: StandIn, alice: User, settings: Any) -> None:
    settings.ENCRYPTION_KEYS = []
    answer = sign_in(alice).post("/accounts/notes/connect/")
    assert answer.status_code == 400 and "TOOLHUB_ENCRYPTION_KEYS" in read(answer)
    assert stand_in.seen == []


def test_a_problem_of_the_service_is_told_before_anybody_leaves(secret: Secret, stand_in: StandIn, alice: User) -> None:
    stand_in.answers[AS_METADATA] = (503, "")
    answer = sign_in(alice).post("/accounts/notes/connect/")
    assert answer.status_code == 400 and "HTTP status 503" in read(answer)


def test_a_hostile_service_writes_nothing_into_the_page(secret: Secret, stand_in: StandIn, alice: User) -> None:
    browser = sign_in(alice)
    address = leave(browser)
    answer = come_back(browser, stand_in, address, error="<script>alert(1)</script>\u202e", code=None)
    assert b"<script>alert" not in answer.content and "\u202e" not in answer.content.decode()
