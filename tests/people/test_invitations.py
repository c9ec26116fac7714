"""An invitation: one link, for one person, once, into groups that the inviter may give."""

from __future__ import annotations

import email
import logging
import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import caches
from django.db import connections
from django.test import Client
from django.utils import timezone

from audit.models import Action
from tests import factories
from tests.catalog.services import MailSink
from tests.people.conftest import Send, find_link, make_staff
from tests.polling import wait_until
from toolhub import log_lines
from toolhub.access.models import TemporaryPassword, digest_of
from toolhub.people import acceptance, invitations
from toolhub.people.guesses import Guesses
from toolhub.people.models import Invitation, OutgoingMail

pytestmark = pytest.mark.django_db
Open = Callable[..., Client]
PASSWORD = "chosen by the newcomer"
ACCOUNT = {"username": "newcomer", "password1": PASSWORD, "password2": PASSWORD}
ADD = "/admin/people/invitation/add/"
SHOWN = re.compile(r"http://localhost:8000(/invitation/[\w-]{43})<")


@pytest.fixture
def inviter() -> User:
    return make_staff("inviter", "add_user", "view_invitation", "view_group")


def invite(client: Client, addresses: str = "", **fields: Any) -> tuple[str, list[str]]:
    """Fill in the form; the page that follows, and the links on it."""
    form = {"addresses": addresses, "days": 7, "note": "", "username": "", "first_name": "", "last_name": ""}
    answer = client.post(ADD, {**form, **fields})
    assert answer.status_code == 200
    page = answer.content.decode()
    return page, SHOWN.findall(page)


def follow(client: Client, link: str) -> Any:
    moved = client.get(link)
    assert moved.status_code == 302 and moved["Location"] == "/invitation/"
    return client.get("/invitation/")


def accept(client: Client, link: str, **fields: Any) -> Any:
    follow(client, link)
    return client.post("/invitation/", {**ACCOUNT, **fields})


def test_an_invited_person_chooses_a_name_and_a_password_and_lands_where_new_users_do(
    inviter: User, open_browser: Open
) -> None:
    group = factories.make_group("analysts")
    factories.grant(None, factories.make_tool("for_everyone"))
    factories.load()
    page, links = invite(open_browser(inviter), groups=[group.pk], first_name="Nia", username="nia", note="from HR")
    assert len(links) == 1 and "hand over yourself" in page and "shown only once" in page
    client = open_browser()
    form = follow(client, links[0]).content.decode()
    assert "inviter invited you" in form and 'value="nia"' in form and "analysts" in form and "from HR" not in form
    answer = client.post("/invitation/", {**ACCOUNT, "first_name": "Nia", "last_name": "Newman"})
    assert (answer.status_code, answer["Location"]) == (302, "/connect/")
    user = User.objects.get(username="newcomer")
    assert client.session["_auth_user_id"] == str(user.pk)
    assert [str(one) for one in user.groups.all()] == ["analysts"]
    assert (user.get_full_name(), user.is_staff, user.is_superuser, user.is_active) == (
        "Nia Newman",
        False,
        False,
        True,
    )
    assert user.check_password(PASSWORD) and not TemporaryPassword.objects.exists()
    assert client.get("/tools/").status_code == 200, "the password is their own"
    made = Invitation.objects.get()
    assert (made.state, made.accepted_by, made.accepted_name) == ("accepted", user, "newcomer")


def test_a_link_works_once(inviter: User, open_browser: Open) -> None:
    _page, (link,) = invite(open_browser(inviter))
    first, second = open_browser(), open_browser()
    follow(second, link)
    assert accept(first, link).status_code == 302
    late = second.post("/invitation/", {**ACCOUNT, "username": "second"})
    assert late.status_code == 404 and "This invitation no longer works" in late.content.decode()
    assert follow(open_browser(), link).status_code == 404
    assert not User.objects.filter(username="second").exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_at_the_same_time_one_is_accepted(inviter: User, open_browser: Open) -> None:
    invitation = factories.invite(inviter)
    link, together = factories.link_of(invitation), threading.Barrier(2)
    statuses: dict[str, int] = {}

    def run(name: str) -> None:
        client = Client(raise_request_exception=False)
        follow(client, link)
        together.wait(30)
        statuses[name] = client.post("/invitation/", {**ACCOUNT, "username": name}).status_code
        connections.close_all()

    threads = [threading.Thread(target=run, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(statuses.values()) == [302, 404]
    assert User.objects.filter(username__in=["first", "second"]).count() == 1


def test_opening_a_link_uses_nothing_up_and_the_token_stays_out_of_pages_and_referrers(
    inviter: User, open_browser: Open
) -> None:
    invitation = factories.invite(inviter)
    link = factories.link_of(invitation)
    token = link.rpartition("/")[2]
    for _ in range(3):
        moved = open_browser().get(link)
        assert moved["Referrer-Policy"] == "no-referrer" and "no-store" in moved["Cache-Control"]
        assert open_browser().head(link).status_code == 302
    cookie = moved.cookies["toolhub_invitation"]
    assert cookie["httponly"] and cookie["path"] == "/invitation/" and cookie["samesite"] == "Lax"
    client = open_browser()
    page = follow(client, link)
    assert page.status_code == 200 and token not in page.content.decode() and not client.session.items()
    assert accept(client, link).status_code == 302 and client.cookies["toolhub_invitation"].value == ""


def test_the_token_is_in_no_column_no_activity_and_no_line_of_the_log(
    inviter: User, open_browser: Open, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    page, (link,) = invite(open_browser(inviter), "nia@example.com")
    token = link.rpartition("/")[2]
    made = Invitation.objects.get()
    assert made.digest == digest_of(token) and "is being sent" in page
    stored = [str(value) for row in Invitation.objects.values() for value in row.values()]
    stored += [str(value) for row in OutgoingMail.objects.values() for value in row.values()]
    stored += [row.target + row.before + row.after for row in Action.objects.all()]
    assert not [text for text in stored if token in text]
    activity = "".join(row.after for row in Action.objects.filter(kind="invitation"))
    assert made.digest not in activity and made.salt not in activity and "nia@example.com" in activity
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        open_browser().get(link + "/")
        open_browser().post(link)
        open_browser(enforce_csrf_checks=True).post(link)
    formatter = log_lines.LineFormatter("{message}", style="{")
    lines = [formatter.format(record) for record in caplog.records]
    assert any("/invitation/[hidden]" in line for line in lines)
    assert not [line for line in lines if token in line]


def test_an_invitation_expires_and_can_be_revoked_and_sent_again(inviter: User, open_browser: Open) -> None:
    boss = open_browser(inviter)
    _page, (link,) = invite(boss)
    made = Invitation.objects.get()
    Invitation.objects.update(expires=timezone.now() - timedelta(seconds=1))
    assert follow(open_browser(), link).status_code == 404
    assert "expired" in boss.get("/admin/people/invitation/").content.decode()
    renewed = boss.post(f"/admin/people/invitation/{made.pk}/renew/")
    (second,) = SHOWN.findall(renewed.content.decode())
    assert renewed.status_code == 200 and "no-store" in renewed["Cache-Control"] and second != link
    assert follow(open_browser(), link).status_code == 404 and follow(open_browser(), second).status_code == 200
    assert boss.post(f"/admin/people/invitation/{made.pk}/revoke/").status_code == 302
    assert follow(open_browser(), second).status_code == 404
    (third,) = SHOWN.findall(boss.post(f"/admin/people/invitation/{made.pk}/renew/").content.decode())
    assert accept(open_browser(), third).status_code == 302
    again = boss.post(f"/admin/people/invitation/{made.pk}/renew/", follow=True)
    assert "This invitation was accepted" in again.content.decode()
    boss.post(f"/admin/people/invitation/{made.pk}/revoke/")
    made.refresh_from_db()
    assert made.state == "accepted" and made.revoked is None


def test_an_invitation_of_somebody_who_is_no_longer_active_is_dead(inviter: User, open_browser: Open) -> None:
    link = factories.link_of(factories.invite(inviter))
    inviter.is_active = False
    inviter.save()
    assert accept(open_browser(), link).status_code == 404
    root = User.objects.create_superuser("root")
    assert "inviter inactive" in open_browser(root).get("/admin/people/invitation/").content.decode()
    (link,) = SHOWN.findall(
        open_browser(root).post(f"/admin/people/invitation/{Invitation.objects.get().pk}/renew/").content.decode()
    )
    assert accept(open_browser(), link).status_code == 302, "who sends it again is the inviter now"
    link = factories.link_of(factories.invite(inviter, "two@example.com"))
    inviter.delete()
    assert accept(open_browser(), link, username="two").status_code == 404


@pytest.mark.parametrize("token", ["none", "x" * 43, "x" * 400])
def test_other_links_read_like_those_that_were_used(inviter: User, open_browser: Open, token: str) -> None:
    used = factories.link_of(factories.invite(inviter))
    accept(open_browser(), used)
    pages = {
        re.sub(r'value="[^"]*"', "", follow(open_browser(), link).content.decode())
        for link in (used, f"/invitation/{token}")
    }
    assert len(pages) == 1 and open_browser().post("/invitation/", ACCOUNT).status_code == 404


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"username": "alice"}, "already exists"),
        ({"username": "ALICE"}, "already exists"),
        ({"username": "with blanks"}, "Enter a valid username"),
        ({"username": ""}, "required"),
        ({"password1": "short", "password2": "short"}, "too short"),
        ({"password1": "nia@example.com", "password2": "nia@example.com"}, "too similar to the email address"),
        ({"password2": "another"}, "match"),
        ({"is_staff": "on", "username": "alice"}, "already exists"),
    ],
)
def test_a_wrong_choice_is_explained_and_uses_nothing_up(
    inviter: User, alice: User, open_browser: Open, fields: dict[str, str], says: str
) -> None:
    link = factories.link_of(factories.invite(inviter, "nia@example.com"))
    client = open_browser()
    page = accept(client, link, **fields)
    assert page.status_code == 200 and says in page.content.decode()
    assert client.post("/invitation/", ACCOUNT).status_code == 302


def test_flags_and_groups_that_a_form_sends_are_not_taken(inviter: User, open_browser: Open) -> None:
    other = factories.make_group("others")
    link = factories.link_of(factories.invite(inviter, "nia@example.com"))
    more = {"is_staff": "on", "is_superuser": "on", "groups": [other.pk], "email": "mine@example.com"}
    assert accept(open_browser(), link, **more).status_code == 302
    user = User.objects.get(username="newcomer")
    assert (user.is_staff, user.is_superuser, user.email) == (False, False, "nia@example.com")
    assert not user.groups.exists() and not user.user_permissions.exists()


def test_looking_for_usernames_with_an_invitation_is_throttled(
    inviter: User, alice: User, open_browser: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "GUESSES", Guesses("invitation", "3/10h", "60/10m"))
    link = factories.link_of(factories.invite(inviter))
    client = open_browser()
    for _ in range(3):
        assert accept(client, link, username="alice").status_code == 200
    refused = client.post("/invitation/", {**ACCOUNT, "username": "alice"})
    page = refused.content.decode()
    assert refused.status_code == 429 and int(refused["Retry-After"]) > 0
    assert "Too many attempts" in page and "already exists" not in page
    caches["limits"].clear()
    assert client.post("/invitation/", ACCOUNT).status_code == 302


def test_whoever_is_signed_in_is_asked_to_sign_out(inviter: User, alice: User, open_browser: Open) -> None:
    link = factories.link_of(factories.invite(inviter))
    client = open_browser(alice)
    page = accept(client, link)
    assert page.status_code == 200 and "You are signed in as alice" in page.content.decode()
    assert not User.objects.filter(username="newcomer").exists()


# --- who may invite, and into which groups ---------------------------------------------------------------------------


def test_nobody_invites_into_groups_that_they_could_not_give(inviter: User, open_browser: Open) -> None:
    strong = factories.make_group("strong")
    strong.permissions.add(Permission.objects.get(codename="delete_user"))
    granted = factories.make_group("granted")
    factories.grant(granted, factories.make_tool("powerful"))
    for group in (strong, granted, Group.objects.get(name="auditor")):
        page, links = invite(open_browser(inviter), groups=[group.pk])
        assert links == [] and f"You cannot change who is in {group.name}" in page
        with pytest.raises(invitations.Refused):
            factories.invite(inviter, groups=[group])
    assert not Invitation.objects.exists()


def test_nobody_sends_an_invitation_again_into_groups_that_they_could_not_give(
    inviter: User, root: User, open_browser: Open
) -> None:
    strong = factories.make_group("strong")
    strong.permissions.add(Permission.objects.get(codename="delete_user"))
    made = factories.invite(root, groups=[strong])
    link = factories.link_of(made)
    page = open_browser(inviter).post(f"/admin/people/invitation/{made.pk}/renew/", follow=True).content.decode()
    assert "You cannot change who is in strong" in page and SHOWN.findall(page) == []
    assert accept(open_browser(), link).status_code == 302, "the old link is as good as before"


def test_without_the_permission_nobody_invites_and_the_list_shows_no_links(
    inviter: User, alice: User, open_browser: Open
) -> None:
    made = factories.invite(inviter)
    reader = make_staff("reader", "view_invitation")
    client = open_browser(reader)
    pages = ["/admin/people/invitation/", f"/admin/people/invitation/{made.pk}/change/"]
    for path in pages:
        page = client.get(path).content.decode()
        assert "newcomer@example.com" in page and made.derive_token() not in page and made.digest not in page
        assert "/invitation/add/" not in page and "Send again" not in page
    for path in (ADD, "/admin/people/invitation/import/"):
        assert client.get(path).status_code == client.post(path).status_code == 403
    for verb in ("renew", "revoke"):
        assert client.post(f"/admin/people/invitation/{made.pk}/{verb}/").status_code == 403
    sender = make_staff("sender", "add_user")
    assert open_browser(sender).get("/admin/people/invitation/").status_code == 403
    assert open_browser(sender).post(f"/admin/people/invitation/{made.pk}/renew/").status_code == 403
    assert len(invite(open_browser(sender))[1]) == 1


def test_the_list_says_what_became_of_each(inviter: User, open_browser: Open) -> None:
    made = {name: factories.invite(inviter, f"{name}@example.com") for name in ("open", "used", "late", "taken-back")}
    accept(open_browser(), factories.link_of(made["used"]))
    Invitation.objects.filter(pk=made["late"].pk).update(expires=timezone.now())
    invitations.revoke(made["taken-back"])
    client = open_browser(inviter)
    for state, name in (("pending", "open"), ("accepted", "used"), ("expired", "late"), ("revoked", "taken-back")):
        page = client.get(f"/admin/people/invitation/?state={state}").content.decode()
        assert re.findall(r"([\w-]+)@example\.com", page)[:1] == [name]
        assert all(f"{other}@example.com" not in page for other in made if other != name)
    assert "newcomer" in client.get("/admin/people/invitation/?state=accepted").content.decode()
    client.post(
        "/admin/people/invitation/", {"action": "revoke_chosen", "_selected_action": [row.pk for row in made.values()]}
    )
    assert sorted(one.state for one in Invitation.objects.all()) == ["accepted", "revoked", "revoked", "revoked"]


def test_admin_activity_says_who_invited_and_who_accepted(inviter: User, open_browser: Open) -> None:
    group = factories.make_group("analysts")
    _page, (link,) = invite(open_browser(inviter), "nia@example.com", groups=[group.pk])
    accept(open_browser(), link)
    rows = [(row.actor, row.verb, row.kind) for row in Action.objects.all()]
    for expected in (
        ("inviter", "created", "invitation"),
        ("inviter", "added to", "invitation"),
        ("newcomer", "created", "user"),
        ("newcomer", "added to", "user"),
        ("newcomer", "accepted", "invitation"),
        ("newcomer", "signed in", "session"),
    ):
        assert expected in rows, expected


# --- many at once, and mail ------------------------------------------------------------------------------------------


def test_each_line_of_addresses_is_an_invitation_of_its_own(inviter: User, open_browser: Open, send: Send) -> None:
    group = factories.make_group("analysts")
    text = "one@example.com\r\n  two@example.com \r\n\r\nONE@example.com\r\nthree@example.com"
    page, links = invite(open_browser(inviter), text, groups=[group.pk])
    assert len(set(links)) == 3 and page.count("is being sent") == 3
    assert [one.groups.get().name for one in Invitation.objects.all()] == ["analysts"] * 3
    sent = send()
    assert sorted(message.to[0] for message in sent) == ["ONE@example.com", "three@example.com", "two@example.com"]
    assert {find_link(message.body) for message in sent} == set(links)
    assert all("inviter invites you to http://localhost:8000" in message.body for message in sent)
    assert all(one.mailed for one in Invitation.objects.all())
    page = open_browser(inviter).get("/admin/people/invitation/").content.decode()
    assert page.count("sent") >= 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("one@example.com\nnot an address", "not an address: Enter a valid email address."),
        ("alice@example.com", "There is an account with this address."),
        ("ALICE@example.com", "There is an account with this address."),
        ("invited@Example.com", "This address has a pending invitation."),
        ("\n".join(f"p{number}@example.com" for number in range(201)), "Enter at most 200 addresses"),
    ],
)
def test_one_wrong_address_invites_nobody(
    inviter: User, alice: User, open_browser: Open, send: Send, text: str, says: str
) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.com")
    factories.invite(inviter, "invited@example.com")
    page, links = invite(open_browser(inviter), text)
    assert links == [] and says in page and Invitation.objects.count() == 1


def test_a_name_is_for_one_person(inviter: User, open_browser: Open) -> None:
    page, links = invite(open_browser(inviter), "one@example.com\ntwo@example.com", username="one")
    assert links == [] and "Leave this empty for several addresses" in page


def test_a_mail_that_was_not_sent_yet_is_not_sent_after_a_revocation(
    inviter: User, open_browser: Open, send: Send
) -> None:
    invite(open_browser(inviter), "nia@example.com")
    made = Invitation.objects.get()
    OutgoingMail.objects.create(invitation=made)
    Invitation.objects.update(revoked=timezone.now())
    assert send() == [] and not OutgoingMail.objects.exists()


def test_a_mail_whose_token_cannot_be_derived_any_more_is_not_sent(
    inviter: User, open_browser: Open, send: Send, settings: Any
) -> None:
    _page, (link,) = invite(open_browser(inviter), "nia@example.com")
    settings.SECRET_KEY = "another key " * 5
    assert send() == []
    assert follow(open_browser(), link).status_code == 200, "a link that was handed over works on"


def test_an_address_that_is_refused_shows_in_the_list(inviter: User, open_browser: Open, settings: Any) -> None:
    from toolhub.people import outbox

    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with MailSink() as sink:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
        invite(open_browser(inviter), "nobody@example.com")
        outbox.send_due()
    page = open_browser(inviter).get("/admin/people/invitation/").content.decode()
    assert "failed (SMTPRecipientsRefused)" in page


def test_a_username_is_suggested_that_is_free(inviter: User, alice: User) -> None:
    for email_address, name, wanted in (
        ("nia.newman@example.com", "", "nia.newman"),
        ("alice@example.com", "", "alice2"),
        ("", "ALICE", "ALICE2"),
        ("x y@example.com", "", "x.y"),
        ("", "", ""),
    ):
        one = Invitation(email=email_address, username=name)
        assert invitations.suggest_username(one) == wanted
    assert invitations.suggest_username(Invitation(first_name="Zoë", last_name="O'Hara")) == "zoë.o.hara"


# --- accounts without passwords of their own -------------------------------------------------------------------------


def test_without_local_passwords_nobody_invites_and_links_lead_to_the_sign_in(
    inviter: User, open_browser: Open, settings: Any
) -> None:
    made = factories.invite(inviter)
    settings.LOCAL_PASSWORDS = False
    client = open_browser(inviter)
    for path in (ADD, "/admin/people/invitation/import/"):
        for answer in (client.get(path), client.post(path, {"addresses": "", "days": 7})):
            assert answer.status_code == 200 and "TOOLHUB_LOCAL_PASSWORDS is off" in answer.content.decode()
    page = client.post(f"/admin/people/invitation/{made.pk}/renew/", follow=True).content.decode()
    assert "TOOLHUB_LOCAL_PASSWORDS is off" in page and Invitation.objects.count() == 1
    page = accept(open_browser(), factories.link_of(made)).content.decode()
    assert "Sign in with your identity provider" in page and not User.objects.filter(username="newcomer").exists()


# --- from end to end -------------------------------------------------------------------------------------------------


def seed_inviter() -> None:
    User.objects.create_superuser("root", password="correct horse battery")
    factories.make_group("analysts")


def test_from_the_form_by_mail_to_the_first_page_on_a_real_server() -> None:
    import httpx2 as httpx

    from tests.real_servers import Hub

    def sign_in(client: httpx.Client) -> None:
        token = read_token(client.get("/sign-in/").text)
        form = {"username": "root", "password": "correct horse battery", "csrfmiddlewaretoken": token}
        assert client.post("/sign-in/?next=/admin/", data=form).status_code == 302

    def read_token(page: str) -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert found is not None
        return found[1]

    with MailSink() as sink:
        settings = {"TOOLHUB_SMTP_URL": f"smtp://127.0.0.1:{sink.port}", "TOOLHUB_CONTACT_NAME": "Dana"}
        with Hub(seed=seed_inviter, env=settings) as hub:
            with httpx.Client(base_url=hub.url) as root:
                sign_in(root)
                token = read_token(root.get(ADD).text)
                form = {"addresses": "nia@example.com", "days": "7", "csrfmiddlewaretoken": token}
                assert "is being sent" in root.post(ADD, data=form).text
            wait_until(lambda: bool(sink.mails), what="the mail is sent")
            parsed = email.message_from_string(sink.mails[0]["data"])
            body = parsed.get_payload(decode=True)
            assert isinstance(body, bytes) and parsed["To"] == "nia@example.com" and b"ask Dana" in body
            link = re.search(r"/invitation/[\w-]+", body.decode())
            assert link is not None
            with httpx.Client(base_url=hub.url, follow_redirects=True) as newcomer:
                page = newcomer.get(link[0])
                assert page.url.path == "/invitation/" and "root invited you" in page.text
                token = read_token(page.text)
                done = newcomer.post("/invitation/", data={**ACCOUNT, "csrfmiddlewaretoken": token})
                assert done.status_code == 200 and done.url.path in {"/tools/", "/connect/"}
                assert "newcomer" in done.text
            assert link[0].rpartition("/")[2] not in hub.log()
