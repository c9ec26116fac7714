"""A forgotten password: a mail for whoever has the account, and the same page for everybody else."""

from __future__ import annotations

import json
import logging
import re
import smtplib
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.auth.tokens import default_token_generator
from django.core import mail
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from audit.models import Action
from tests import factories
from tests.catalog.services import MailSink
from tests.people.conftest import Send, find_link
from toolhub.access.models import AccessToken, TemporaryPassword
from toolhub.people import outbox, password_reset
from toolhub.people.models import EnteredEmail, OutgoingMail

pytestmark = pytest.mark.django_db
Open = Callable[..., Client]
NEW = "a different long phrase"
FORM = {"new_password1": NEW, "new_password2": NEW}


@pytest.fixture
def alice(alice: User) -> User:
    alice.email = "Alice@Example.com"
    alice.save()
    return alice


def ask(client: Client, name: str, **options: Any) -> Any:
    return client.post("/password/forgotten/", {"account": name}, **options)


def strip_csrf(page: str) -> str:
    return re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", page)


def follow(client: Client, link: str) -> Any:
    """Open a link as a browser does."""
    moved = client.get(link)
    assert moved.status_code == 302 and moved["Location"] == "/password/new/"
    return client.get("/password/new/")


@pytest.mark.parametrize("name", ["alice", "alice@example.com"])
def test_the_owner_gets_a_link_and_chooses_a_password_with_it_once(
    alice: User, open_browser: Open, send: Send, name: str, settings: Any
) -> None:
    settings.PUBLIC_URL = "http://localhost:8000"
    elsewhere = open_browser(alice)
    _, text = AccessToken.objects.issue(alice, "laptop")
    client = open_browser()
    page = ask(client, name, headers={"host": "localhost", "x-forwarded-host": "evil.example"})
    assert page.status_code == 200 and "a mail with a link is on its way" in page.content.decode()
    assert mail.outbox == [], "the page waits for no mail server"
    (message,) = send()
    assert message.to == ["Alice@Example.com"] and "alice" in message.body and "one hour" in message.body
    assert "revoke them on the Tokens page" in message.body and "evil" not in message.body
    link = find_link(message.body)
    form = follow(client, link)
    assert form.status_code == 200 and "For the account alice" in form.content.decode()
    assert elsewhere.get("/tools/").status_code == 200, "opening a link changes nothing"
    done = client.post("/password/new/", FORM)
    assert (done.status_code, done["Location"]) == (302, "/sign-in/")
    page = client.get("/sign-in/").content.decode()
    assert "Your password was changed. Sign in with it." in page and "access tokens keep working" in page
    assert "_auth_user_id" not in client.session, "nobody is signed in by it"
    assert elsewhere.get("/tools/")["Location"].startswith("/sign-in/"), "other sessions are over"
    assert AccessToken.objects.get().is_usable and text
    for browser in (client, open_browser()):
        assert follow(browser, link).status_code == 404
        assert browser.post("/password/new/", FORM).status_code == 404
    assert client.post("/sign-in/", {"username": "alice", "password": NEW}).status_code == 302
    assert send() == [] and not OutgoingMail.objects.exists()


def test_the_answer_and_the_work_are_the_same_for_no_account(
    alice: User, charlie: User, open_browser: Open, send: Send, django_assert_max_num_queries: Any
) -> None:
    from django.db import connection

    pages, queries = set(), set()
    for name in ("alice", "nobody", "charlie", "alice@example.com", "no.such@example.com"):
        with CaptureQueriesContext(connection) as captured:
            pages.add(strip_csrf(ask(open_browser(), name).content.decode()))
        queries.add(len(captured))
    assert len(pages) == 1 and len(queries) == 1
    assert [message.to for message in send()] == [["Alice@Example.com"]] * 2
    assert not OutgoingMail.objects.exists()


def test_accounts_that_are_inactive_or_have_no_password_or_address_get_nothing(
    alice: User, bob: User, charlie: User, open_browser: Open, send: Send
) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    bob.email = "bob@example.com"
    bob.set_unusable_password()
    bob.save()
    for name in ("alice", "bob", "charlie"):
        ask(open_browser(), name)
    assert send() == []


def test_an_account_that_was_deactivated_meanwhile_gets_nothing_and_its_link_is_dead(
    alice: User, open_browser: Open, send: Send
) -> None:
    ask(open_browser(), "alice")
    ask(open_browser(), "Alice@example.com")
    link = find_link(send()[0].body)
    ask(open_browser(), "alice")
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert send() == [] and follow(open_browser(), link).status_code == 404


def test_two_accounts_with_one_address_get_a_mail_each_that_names_them(
    alice: User, bob: User, open_browser: Open, send: Send
) -> None:
    User.objects.filter(pk=bob.pk).update(email="alice@example.com")
    ask(open_browser(), "alice@example.com")
    assert sorted(re.findall(r"account (\w+) at", message.body)[0] for message in send()) == ["alice", "bob"]


def test_a_link_ends_after_an_hour_with_a_newer_password_and_with_another_address(
    alice: User, open_browser: Open, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link() -> str:
        from django.utils.encoding import force_bytes
        from django.utils.http import urlsafe_base64_encode

        alice.refresh_from_db()
        key = urlsafe_base64_encode(force_bytes(alice.pk))
        return f"/password/new/{key}/{default_token_generator.make_token(alice)}"

    assert settings.PASSWORD_RESET_TIMEOUT == 3600
    late = link()
    now = default_token_generator._now()
    monkeypatch.setattr(default_token_generator, "_now", lambda: now + timedelta(seconds=3500))
    assert follow(open_browser(), late).status_code == 200
    monkeypatch.setattr(default_token_generator, "_now", lambda: now + timedelta(seconds=3602))
    assert follow(open_browser(), late).status_code == 404
    monkeypatch.undo()
    old = link()
    alice.set_password("chosen in another browser")
    alice.save()
    assert follow(open_browser(), old).status_code == 404
    old = link()
    alice.email = "other@example.com"
    alice.save()
    assert follow(open_browser(), old).status_code == 404


@pytest.mark.parametrize("link", ["none/none", "MQ/abc-def", "x" * 200 + "/" + "y" * 200, "OTk5OTk5OTk5OTk5OTk5OTk/a"])
def test_other_links_are_dead(alice: User, open_browser: Open, link: str) -> None:
    client = open_browser()
    page = follow(client, f"/password/new/{link}")
    assert page.status_code == 404 and "This link no longer works" in page.content.decode()
    assert client.post("/password/new/", FORM).status_code == 404


def test_a_bad_password_is_refused_and_the_link_stays(alice: User, open_browser: Open, send: Send) -> None:
    client = open_browser()
    ask(client, "alice")
    follow(client, find_link(send()[0].body))
    for first, second in (("alice", "alice"), ("12345678901", "12345678901"), (NEW, "another one"), ("", "")):
        page = client.post("/password/new/", {"new_password1": first, "new_password2": second})
        assert page.status_code == 200 and 'class="wrong"' in page.content.decode()
    alice.refresh_from_db()
    assert alice.check_password("correct horse battery")
    assert client.post("/password/new/", FORM).status_code == 302


def test_the_token_is_in_no_page_no_session_and_no_referrer(alice: User, open_browser: Open, send: Send) -> None:
    client = open_browser()
    ask(client, "alice")
    link = find_link(send()[0].body)
    token = link.rpartition("/")[2]
    moved = client.get(link)
    assert moved["Referrer-Policy"] == "no-referrer" and "no-store" in moved["Cache-Control"]
    cookie = moved.cookies["toolhub_new_password"]
    assert cookie["httponly"] and cookie["path"] == "/password/new/" and cookie["samesite"] == "Lax"
    page = client.get("/password/new/")
    assert token not in page.content.decode() and "no-store" in page["Cache-Control"]
    assert not client.session.items()
    client.post("/password/new/", FORM)
    assert client.cookies["toolhub_new_password"].value == ""
    logged = "".join(row.target + row.before + row.after for row in Action.objects.all())
    assert token not in logged


def test_whoever_is_signed_in_is_signed_out_and_the_owner_of_the_link_acts(
    alice: User, bob: User, open_browser: Open, send: Send
) -> None:
    client = open_browser(bob)
    ask(client, "alice")
    follow(client, find_link(send()[0].body))
    assert client.post("/password/new/", FORM).status_code == 302
    assert "_auth_user_id" not in client.session
    alice.refresh_from_db()
    assert alice.check_password(NEW) and not TemporaryPassword.objects.exists()


def test_requests_and_new_passwords_are_logged_and_typed_passwords_are_not(
    alice: User, open_browser: Open, send: Send
) -> None:
    client = open_browser()
    ask(client, "alice")
    ask(client, "hunter2 is my password")
    follow(client, find_link(send()[0].body))
    client.post("/password/new/", FORM)
    rows = [(row.actor, row.verb, row.target) for row in Action.objects.filter(kind="password").order_by("link")]
    assert ("nobody signed in", "requested", "alice") in rows and ("alice", "reset", "alice") in rows
    unknown = [target for _actor, verb, target in rows if verb == "requested" and target != "alice"]
    assert len(unknown) == 1 and "hunter2" not in unknown[0]
    assert all(json.loads(row.after)["address"] == "127.0.0.1" for row in Action.objects.filter(kind="password"))
    everything = "".join(row.target + row.before + row.after for row in Action.objects.all())
    assert NEW not in everything and "hunter2" not in everything


# --- accounts that somebody else managed -----------------------------------------------------------------------------


@pytest.fixture
def manager() -> User:
    user = User.objects.create_user("manager", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["add_user", "change_user", "view_user"]))
    return user


def enter_email(client: Client, user: User, email: str) -> None:
    form = {"username": user.username, "email": email, "is_active": "on", "date_joined_0": "2026-01-01"}
    answer = client.post(f"/admin/auth/user/{user.pk}/change/", {**form, "date_joined_1": "00:00:00"})
    assert answer.status_code == 302, answer.content.decode()[-2000:]


def reset(client: Client, send: Send, name: str, password: str = NEW) -> str:
    ask(client, name)
    follow(client, find_link(send()[-1].body))
    assert client.post("/password/new/", {"new_password1": password, "new_password2": password}).status_code == 302
    return client.get("/sign-in/").content.decode()


def test_a_temporary_password_is_over_and_what_the_manager_kept_is_revoked(
    alice: User, manager: User, open_browser: Open, send: Send
) -> None:
    given = {"password1": "given by another 1", "password2": "given by another 1", "usable_password": "true"}
    open_browser(manager).post(f"/admin/auth/user/{alice.pk}/password/", given)
    AccessToken.objects.issue(alice, "kept by the manager")
    app, _tokens = factories.connect_app(alice)
    assert TemporaryPassword.objects.filter(user=alice).exists()
    client = open_browser()
    assert "Your access tokens were revoked" in reset(client, send, "alice")
    assert not TemporaryPassword.objects.exists() and not AccessToken.objects.get().is_usable
    app.refresh_from_db()
    assert app.revoked is not None
    client.post("/sign-in/", {"username": "alice", "password": NEW})
    assert client.get("/tools/").status_code == 200, "a password of one's own opens everything"


def test_a_manager_who_entered_an_address_of_their_own_keeps_no_token(
    charlie: User, manager: User, open_browser: Open, send: Send
) -> None:
    boss = open_browser(manager)
    enter_email(boss, charlie, "manager@example.com")
    assert EnteredEmail.objects.get().by == "manager"
    reset(open_browser(), send, "manager@example.com", "chosen by the manager")
    AccessToken.objects.issue(charlie, "kept by the manager")
    assert not EnteredEmail.objects.exists()
    enter_email(boss, charlie, "charlie@example.com")
    assert "Your access tokens were revoked" in reset(open_browser(), send, "charlie")
    assert not AccessToken.objects.get().is_usable and not EnteredEmail.objects.exists()
    AccessToken.objects.issue(charlie, "of charlie")
    assert "access tokens keep working" in reset(open_browser(), send, "charlie", "chosen once more")
    assert AccessToken.objects.get(name="of charlie").is_usable


# --- throttling, and mail that fails ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_too_many_requests_have_to_wait_whether_or_not_the_account_exists(
    alice: User, open_browser: Open, send: Send, name: str
) -> None:
    client = open_browser()
    for _ in range(5):
        assert ask(client, name).status_code == 200
    refused = ask(client, name)
    assert refused.status_code == 429 and int(refused["Retry-After"]) > 0
    assert "Too many attempts. Try again in" in refused.content.decode()
    assert ask(client, "somebody-else").status_code == 200


def test_one_address_cannot_ask_for_every_account(open_browser: Open, send: Send, db: None) -> None:
    client = open_browser()
    statuses = [ask(client, f"guess{number}").status_code for number in range(31)]
    assert statuses == [200] * 30 + [429]


def test_nobody_is_flooded_with_mails_from_many_addresses(
    alice: User, open_browser: Open, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_reset, "ACCOUNT_RATE", "3/10h")
    pages = [ask(open_browser(), "alice", REMOTE_ADDR=f"192.0.2.{number}") for number in range(6)]
    assert {page.status_code for page in pages} == {200} and len({strip_csrf(p.content.decode()) for p in pages}) == 1
    assert len(send()) == 3


def test_a_mail_server_that_is_away_delays_no_page_and_is_tried_again(
    alice: User, open_browser: Open, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sink = MailSink()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
    sink._server.server_close()
    assert ask(open_browser(), "alice").status_code == 200
    with caplog.at_level(logging.WARNING, "toolhub.people"):
        outbox.send_due()
        outbox.send_due()
    assert [record.getMessage() for record in caplog.records] == [
        "Mail cannot be sent (ConnectionRefusedError), next attempt in 30 s: see TOOLHUB_SMTP_URL"
    ]
    waiting = OutgoingMail.objects.get()
    assert waiting.attempts == 1 and waiting.due > timezone.now() + timedelta(seconds=20)
    OutgoingMail.objects.update(due=timezone.now(), created=timezone.now() - timedelta(hours=1))
    outbox.send_due()
    assert "was not sent after 2 attempts" in caplog.text and not OutgoingMail.objects.exists()
    with MailSink() as back:
        settings.EMAIL_PORT = back.port
        ask(open_browser(), "alice")
        outbox.send_due()
        assert [message["recipients"] for message in back.mails] == [["Alice@Example.com"]]


def test_an_address_that_the_mail_server_refuses_keeps_no_other_waiting(
    alice: User, bob: User, open_browser: Open, settings: Any
) -> None:
    User.objects.filter(pk=bob.pk).update(email="nobody@example.com")
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with MailSink() as sink:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
        for name in ("bob", "alice"):
            ask(open_browser(), name)
        outbox.send_due()
    assert [message["recipients"] for message in sink.mails] == [["Alice@Example.com"]]
    assert not OutgoingMail.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_processes_send_a_mail_once(
    alice: User, open_browser: Open, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import connections

    for _ in range(4):
        ask(open_browser(), "alice")
    together, sent = threading.Barrier(2), []

    def count(self: Any) -> None:
        sent.append(self.to)

    monkeypatch.setattr("django.core.mail.EmailMessage.send", count)

    def run() -> None:
        together.wait(30)
        outbox.send_due()
        connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(sent) == 4 and not OutgoingMail.objects.exists()


def test_other_errors_of_the_mail_server_are_tried_again(
    alice: User, open_browser: Open, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(open_browser(), "alice")

    def refuse(self: Any) -> int:
        raise smtplib.SMTPAuthenticationError(535, b"no")

    monkeypatch.setattr("django.core.mail.EmailMessage.send", refuse)
    outbox.send_due()
    assert OutgoingMail.objects.get().attempts == 1


# --- what the sign-in page offers ------------------------------------------------------------------------------------


def test_the_sign_in_page_offers_what_works_here(alice: User, open_browser: Open, settings: Any) -> None:
    client = open_browser()
    page = client.get("/sign-in/").content.decode()
    assert "No account or forgot your password? Contact your administrator." in page
    assert "/password/forgotten/" not in page
    assert "This server sends no mail" in client.get("/password/forgotten/").content.decode()
    assert "This server sends no mail" in ask(client, "alice").content.decode() and not OutgoingMail.objects.exists()
    settings.EMAIL_HOST = "mail.example.com"
    page = client.get("/sign-in/").content.decode()
    assert '<a href="/password/forgotten/">Forgot your password?</a>' in page and "No account? Contact" in page
    settings.LOCAL_PASSWORDS = False
    page = client.get("/sign-in/").content.decode()
    assert "orgot your password" not in page and "No account? Contact your administrator." in page
    for path in ("/password/forgotten/", "/password/new/"):
        assert client.get(path).status_code == client.post(path).status_code == 404


def test_a_link_from_before_local_passwords_were_turned_off_is_dead(
    alice: User, open_browser: Open, send: Send, settings: Any
) -> None:
    ask(open_browser(), "alice")
    ask(open_browser(), "alice@example.com")
    link = find_link(send()[0].body)
    ask(open_browser(), "alice")
    settings.LOCAL_PASSWORDS = False
    assert send() == [] and follow(open_browser(), link).status_code == 404


def test_a_locked_out_person_is_told_what_works_here(
    alice: User, open_browser: Open, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolhub.access.forms.NAME_RATE", "1/10h")
    client = open_browser()
    for _ in range(2):
        page = client.post("/sign-in/", {"username": "alice", "password": "wrong"}).content.decode()
    assert "choose “Forgot your password?” on the sign-in page" in page
