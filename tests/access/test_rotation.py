"""Renaming and rotating tokens: what is refused and leaves everything as it was, and then what is done."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.utils import timezone

from audit.models import Action
from tests import factories
from toolhub.access import rotation, views
from toolhub.access.models import AccessToken, digest_of

if TYPE_CHECKING:
    from django.test import Client

Browser = Callable[..., "Client"]
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
NAMES_THAT_MISLEAD = ("", " ", "a\x07b", "two\nlines", "a\u202eb", "\u200b", "x" * 101, "tag\U000e0041")


def issue(user: User, name: str = "laptop", **options: Any) -> AccessToken:
    return AccessToken.objects.issue(user, name, **options)[0]


def age(token: AccessToken, *, created: timedelta, expires: timedelta) -> AccessToken:
    """Let the token have been created so long ago, and expire so long from now."""
    now = timezone.now()
    AccessToken.objects.filter(pk=token.pk).update(created=now - created, expires=now + expires)
    token.refresh_from_db()
    return token


def read_rows() -> list[Any]:
    return list(AccessToken.objects.order_by("pk").values())


def rotate(client: Client, token: AccessToken, keep: Any = 24, **options: Any) -> str:
    return client.post(f"/tokens/{token.pk}/rotate/", {"keep": keep}, follow=True, **options).content.decode()


def about(moment: datetime, expected: datetime) -> bool:
    return abs(moment - expected) < MINUTE


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["rename", "rotate"])
def test_somebody_elses_token_is_as_absent_as_none(alice: User, charlie: User, browser: Browser, step: str) -> None:
    token = issue(alice, client_key="cursor")
    before = read_rows()
    client = browser(charlie)
    for sent in ({"name": "mine", "keep": "24"}, {"name": "", "keep": "9"}):
        answers = [client.post(f"/tokens/{pk}/{step}/", sent) for pk in (token.pk, 999_999, 10**30)]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
        assert len({answer.content for answer in answers}) == 1
    assert client.get(f"/tokens/{token.pk}/{step}/").status_code == 405
    assert read_rows() == before


@pytest.mark.parametrize("name", NAMES_THAT_MISLEAD)
def test_a_name_that_cannot_be_read_is_refused_where_it_was_entered(
    alice: User, root: User, browser: Browser, name: str
) -> None:
    token = issue(alice)
    before = read_rows()
    page = browser(alice).post(f"/tokens/{token.pk}/rename/", {"name": name}).content.decode()
    assert 'class="wrong"' in page and '<details class="confirm" open>' in page
    made = browser(alice).post("/tokens/", {"name": name, "days": "90"}).content.decode()
    assert 'class="wrong"' in made and not TOKEN.search(made)
    admin = browser(root).post("/admin/access/accesstoken/add/", {"user": alice.pk, "name": name, "days": "10"})
    assert not TOKEN.search(admin.content.decode())
    assert read_rows() == before


@pytest.mark.parametrize("fields", [{"revoked": True}, {"expires": True}])
def test_a_token_that_has_ended_keeps_its_name(alice: User, browser: Browser, fields: dict[str, bool]) -> None:
    token = issue(alice)
    AccessToken.objects.filter(pk=token.pk).update(**dict.fromkeys(fields, timezone.now()))
    page = browser(alice).post(f"/tokens/{token.pk}/rename/", {"name": "desk"}, follow=True).content.decode()
    assert "An expired or revoked token can&#x27;t be renamed." in page
    assert "desk" not in page


@pytest.mark.parametrize("keep", ["", "2", "-1", "169", "24.0", "x", "\x00", None])
def test_a_time_that_is_not_offered_rotates_nothing(alice: User, browser: Browser, keep: str | None) -> None:
    token = issue(alice)
    before = read_rows()
    sent = {} if keep is None else {"keep": keep}
    page = browser(alice).post(f"/tokens/{token.pk}/rotate/", sent, follow=True).content.decode()
    assert "Choose how long the old token works" in page and not TOKEN.search(page)
    assert read_rows() == before


@pytest.mark.parametrize(
    ("state", "said"),
    [("replaced", "already rotated"), ("revoked", "was revoked and can"), ("expired", "has expired and can")],
)
def test_a_token_that_cannot_be_rotated_says_why_and_nothing_changes(
    alice: User, browser: Browser, state: str, said: str
) -> None:
    token, client = issue(alice), browser(alice)
    if state == "replaced":
        assert TOKEN.search(rotate(client, token))
    elif state == "revoked":
        token.revoke()
    else:
        age(token, created=DAY, expires=-MINUTE)
    before = read_rows()
    page = rotate(client, token)
    assert said in page and not TOKEN.search(page)
    assert read_rows() == before


@pytest.mark.django_db(transaction=True)
def test_four_rotations_at_the_same_time_make_one_successor(alice: User, browser: Browser) -> None:
    token = issue(alice)
    clients = [browser(alice) for _ in range(4)]
    barrier = threading.Barrier(4)

    def send(client: Client) -> str:
        barrier.wait(60)
        try:
            return rotate(client, token)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        pages = list(threads.map(send, clients))
    shown = [found[0] for page in pages if (found := TOKEN.findall(page))]
    assert len(shown) == 1
    assert AccessToken.objects.get(replaces=token).digest == digest_of(shown[0])
    assert AccessToken.objects.count() == 2
    assert sum("already rotated" in page for page in pages) == 3


def test_rotating_is_bounded_and_always_possible_at_once(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_TOKENS", 2)
    monkeypatch.setattr(rotation, "MAX_REPLACED_TOKENS", 2)
    client = browser(alice)
    for name in ("first", "second"):
        assert TOKEN.search(client.post("/tokens/", {"name": name, "days": "90"}).content.decode())
    for token in AccessToken.objects.order_by("pk"):
        assert TOKEN.search(rotate(client, token))
    assert AccessToken.objects.usable().count() == 4
    newest = AccessToken.objects.latest("pk")
    assert "Too many replaced tokens still work" in rotate(client, newest)
    assert TOKEN.search(rotate(client, newest, keep=0))
    assert AccessToken.objects.usable().count() == 4
    assert "maximum of 2 active tokens" in client.post("/tokens/", {"name": "x", "days": "90"}).content.decode()
    AccessToken.objects.filter(successor=None).latest("pk").revoke()
    assert TOKEN.search(client.post("/tokens/", {"name": "x", "days": "90"}).content.decode())


# --- renaming ------------------------------------------------------------------------------------------------------


def test_a_renamed_token_has_its_name_everywhere_and_the_change_is_logged(alice: User, browser: Browser) -> None:
    token = issue(alice)
    page = browser(alice).post(f"/tokens/{token.pk}/rename/", {"name": "  desk "}, follow=True).content.decode()
    assert "“laptop” is now called “desk”." in page
    token.refresh_from_db()
    assert token.name == "desk"
    action = Action.objects.get(verb="changed", kind="access token")
    assert (action.before, action.after) == ('{"name":"laptop"}', '{"name":"desk"}')
    assert action.actor == "alice"


# --- rotating ------------------------------------------------------------------------------------------------------


def test_the_successor_is_as_its_predecessor_was_and_shown_once(alice: User, browser: Browser) -> None:
    numbers = factories.make_toolset("Numbers")
    token = age(issue(alice, "desk", toolsets=[numbers], client_key="cursor"), created=20 * DAY, expires=10 * DAY)
    client = browser(alice)
    answer = client.post(f"/tokens/{token.pk}/rotate/", {"keep": "24"})
    (text,) = set(TOKEN.findall(answer.content.decode()))
    assert "no-store" in answer["Cache-Control"]
    successor = AccessToken.objects.get(replaces=token)
    assert (successor.user, successor.name, successor.client_key) == (alice, "desk", "cursor")
    assert (successor.restricted, list(successor.toolsets.all())) == (True, [numbers])
    assert successor.digest == digest_of(text)
    assert successor.expires - successor.created == token.expires - token.created
    token.refresh_from_db()
    assert token.revoked is None and about(token.expires, timezone.now() + DAY)
    page = client.get("/tokens/").content.decode()
    assert not TOKEN.search(page)
    assert "Replaced; works until" in page
    assert f'href="#token-{token.pk}"' in page and f'href="#token-{successor.pk}"' in page
    assert page.count("Rotate token") == 1, "the replaced one is not rotated again"


def test_a_token_without_toolsets_left_gets_a_successor_without_access(alice: User, browser: Browser) -> None:
    token = issue(alice, toolsets=[])
    rotate(browser(alice), token)
    successor = AccessToken.objects.get(replaces=token)
    assert successor.restricted and not successor.toolsets.exists()


@pytest.mark.parametrize(
    ("keep", "left", "expected"),
    [(1, 10 * DAY, HOUR), (168, 10 * DAY, 7 * DAY), (168, DAY, DAY), (1, timedelta(minutes=30), timedelta(minutes=30))],
)
def test_the_old_token_works_as_long_as_chosen_and_never_longer_than_before(
    alice: User, browser: Browser, keep: int, left: timedelta, expected: timedelta
) -> None:
    token = age(issue(alice), created=5 * DAY, expires=left)
    before = token.expires
    page = rotate(browser(alice), token, keep)
    assert "The old token works until" in page
    token.refresh_from_db()
    assert about(token.expires, timezone.now() + expected)
    assert token.expires <= before and token.revoked is None


def test_at_once_revokes_the_old_token(alice: User, browser: Browser) -> None:
    token = issue(alice)
    page = rotate(browser(alice), token, 0)
    assert "Clients that use the old token are now rejected." in page
    token.refresh_from_db()
    assert token.revoked is not None
    assert [one.name for one in AccessToken.objects.usable()] == ["laptop"]


def test_rotating_logs_both_tokens_and_no_secret(alice: User, browser: Browser) -> None:
    token = issue(alice)
    (text,) = TOKEN.findall(rotate(browser(alice), token))
    successor = AccessToken.objects.get(replaces=token)
    logged = list(Action.objects.filter(kind="access token", actor="alice").order_by("pk"))
    assert {(action.verb, action.target.endswith(f"(id {successor.pk})")) for action in logged} == {
        ("created", True),
        ("changed", False),
    }
    everything = " ".join(action.before + action.after + action.target for action in logged)
    assert f'"replaces_id":{token.pk}' in everything and '"expires"' in everything
    assert text not in everything and successor.digest not in everything and token.digest not in everything


def test_the_owner_makes_a_token_of_somebody_else_their_own(alice: User, browser: Browser) -> None:
    token = issue(alice, "robot", made_by_owner=False)
    client = browser(alice)
    assert "it can also use your personal secrets" in client.get("/tokens/").content.decode()
    rotate(client, token)
    assert AccessToken.objects.get(replaces=token).made_by_owner
    token.refresh_from_db()
    assert not token.made_by_owner, "the text of the old one is still known to somebody else"


def test_nobody_gets_a_longer_token_than_they_had_or_could_create(alice: User, browser: Browser) -> None:
    client = browser(alice)
    almost_over = age(issue(alice, days=3650), created=3649 * DAY, expires=DAY)
    rotate(client, almost_over)
    assert about(AccessToken.objects.get(replaces=almost_over).expires, timezone.now() + 365 * DAY)
    long_left = age(issue(alice, days=3650), created=650 * DAY, expires=3000 * DAY)
    rotate(client, long_left)
    assert about(AccessToken.objects.get(replaces=long_left).expires, timezone.now() + 3000 * DAY)


def test_many_rotations_hide_no_token_that_works(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "TOKENS_PER_PAGE", 3)
    issue(alice, "seldom used")
    token, client = issue(alice, "rotated every day"), browser(alice)
    for _ in range(4):
        rotate(client, token, 0)
        token = AccessToken.objects.get(replaces=token)
    page = client.get("/tokens/").content.decode()
    assert "seldom used" in page and token.prefix in page
    assert "1 expired or revoked token<" in page


def test_a_chain_of_rotations_is_deleted_with_its_owner(alice: User, root: User, browser: Browser) -> None:
    token = issue(alice)
    for _ in range(3):
        rotate(browser(alice), token)
        token = AccessToken.objects.get(replaces=token)
    browser(root).post(f"/admin/auth/user/{alice.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(username="alice").exists()
    assert not AccessToken.objects.exists()


# --- last use ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "said"), [(5, "less than a minute ago"), (330, "5\xa0minutes ago"), (7300, "2\xa0hours ago")]
)
def test_the_last_use_says_how_long_ago_and_from_where(
    alice: User, root: User, browser: Browser, seconds: int, said: str
) -> None:
    token = issue(alice, client_key="cursor")
    when = timezone.now() - timedelta(seconds=seconds)
    AccessToken.objects.filter(pk=token.pk).update(last_used=when, last_address="10.0.0.7")
    for path in ("/tokens/", "/connect/cursor/"):
        page = browser(alice).get(path).content.decode()
        assert re.search(rf'{said}</time>\s*<span class="quiet">from 10\.0\.0\.7</span>', page)
    for path in ("/admin/access/accesstoken/", f"/admin/access/accesstoken/{token.pk}/change/"):
        assert "10.0.0.7" in browser(root).get(path).content.decode()
    AccessToken.objects.filter(pk=token.pk).update(last_address="")
    assert ">from" not in browser(alice).get("/tokens/").content.decode()


# --- the Connect page ----------------------------------------------------------------------------------------------


def connect(client: Client, **sent: Any) -> str:
    return client.post("/connect/cursor/", sent, follow=True).content.decode()


def test_the_connect_page_offers_to_rotate_what_it_created_for_the_same_client(alice: User, browser: Browser) -> None:
    client, offer = browser(alice), "You already have a token for Cursor."
    issue(alice, "Cursor")
    assert offer not in client.get("/connect/cursor/").content.decode(), "a name is no proof"
    connect(client)
    token = AccessToken.objects.get(client_key="cursor")
    client.post(f"/tokens/{token.pk}/rename/", {"name": "my desk"})
    page = client.get("/connect/cursor/").content.decode()
    assert offer in page and "my desk" in page and "Create another token" in page
    assert '<details class="more">' in page, "signing in is still what the page leads to"
    assert page.index("Add to Cursor") < page.index(offer)
    for path in ("/connect/vscode/", "/connect/curl/", "/connect/claude/"):
        assert "You already have a token" not in client.get(path).content.decode()


def test_rotating_on_the_connect_page_fills_the_settings_in_once(alice: User, browser: Browser) -> None:
    client = browser(alice)
    connect(client)
    token = AccessToken.objects.get()
    page = connect(client, rotate=token.pk, keep="1")
    (text,) = set(TOKEN.findall(page))
    successor = AccessToken.objects.get(replaces=token)
    assert successor.digest == digest_of(text)
    assert f'data-credential="token:{successor.pk}"' in page
    assert "The old token works until" in page
    assert "You already have a token" not in page
    again = connect(client, rotate=token.pk, keep="1")
    assert "already rotated" in again and not TOKEN.search(again)
    assert successor.prefix in again and AccessToken.objects.count() == 2


def test_another_token_for_the_same_client_stands_beside_the_first(alice: User, browser: Browser) -> None:
    client = browser(alice)
    for number in (1, 2):
        assert TOKEN.search(connect(client))
        assert AccessToken.objects.filter(client_key="cursor", replaces=None).count() == number
    assert client.get("/connect/cursor/").content.decode().count("Rotate token") == 2


@pytest.mark.parametrize("chosen", ["other client", "somebody else's", "", "x", "-1", "9" * 30, "\x00"])
def test_the_connect_page_rotates_only_the_persons_tokens_of_this_client(
    alice: User, bob: User, browser: Browser, chosen: str
) -> None:
    rows = {"other client": issue(alice, client_key="vscode"), "somebody else's": issue(bob, client_key="cursor")}
    before = read_rows()
    key = str(rows[chosen].pk) if chosen in rows else chosen
    answer = browser(alice).post("/connect/cursor/", {"rotate": key, "keep": "24"})
    assert answer.status_code == 404
    assert read_rows() == before


def test_the_connect_page_keeps_what_it_has_when_the_time_is_not_offered(alice: User, browser: Browser) -> None:
    token = issue(alice, client_key="cursor")
    before = read_rows()
    page = connect(browser(alice), rotate=token.pk, keep="2")
    assert "Choose how long the old token works" in page and "You already have a token for Cursor." in page
    assert read_rows() == before


# --- the admin -----------------------------------------------------------------------------------------------------


@pytest.fixture
def issuer(db: None) -> User:
    """Staff who may create and change tokens, but not act as others."""
    user = User.objects.create_user("issuer", is_staff=True)
    allow(user, "view_accesstoken", "add_accesstoken", "change_accesstoken")
    return user


def allow(user: User, *codenames: str) -> None:
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))


def page_of(token: AccessToken, step: str = "rotate") -> str:
    return f"/admin/access/accesstoken/{token.pk}/{step}/"


def test_staff_rotate_a_token_of_somebody_else_only_with_the_permission_to_act_as_others(
    issuer: User, alice: User, browser: Browser
) -> None:
    token = issue(alice, "robot")
    before = read_rows()
    client = browser(issuer)
    for answer in (client.get(page_of(token)), client.post(page_of(token), {"keep": "24"})):
        assert answer.status_code == 403
    assert page_of(token) not in client.get(page_of(token, "change")).content.decode()
    assert read_rows() == before
    allow(issuer, "try_tool_as_other")
    client = browser(User.objects.get(pk=issuer.pk))
    assert page_of(token) in client.get(page_of(token, "change")).content.decode()
    answer = client.post(page_of(token), {"keep": "24"})
    (text,) = set(TOKEN.findall(answer.content.decode()))
    assert "no-store" in answer["Cache-Control"]
    successor = AccessToken.objects.get(replaces=token)
    assert (successor.user, successor.digest) == (alice, digest_of(text))
    assert not successor.made_by_owner, "somebody else than its owner has seen it"
    assert successor.maker == issuer
    rotate(browser(alice), successor)
    assert AccessToken.objects.get(replaces=successor).maker is None
    for one, other in ((token, successor), (successor, token)):
        page = client.get(page_of(one, "change")).content.decode()
        assert page_of(other, "change") in page and text not in page


def test_staff_rotate_their_own_token_without_it(issuer: User, browser: Browser) -> None:
    token = issue(issuer, made_by_owner=False, days=3650)
    assert "can also use your personal secrets" in browser(issuer).get(page_of(token)).content.decode()
    assert TOKEN.search(browser(issuer).post(page_of(token), {"keep": "0"}).content.decode())
    successor = AccessToken.objects.get(replaces=token)
    assert successor.made_by_owner
    assert successor.expires - successor.created == 3650 * DAY


@pytest.mark.parametrize("missing", ["add_accesstoken", "change_accesstoken"])
def test_rotating_in_the_admin_needs_both_permissions(
    issuer: User, alice: User, browser: Browser, missing: str
) -> None:
    token = issue(alice)
    allow(issuer, "try_tool_as_other")
    issuer.user_permissions.remove(Permission.objects.get(codename=missing))
    assert browser(issuer).post(page_of(token), {"keep": "24"}).status_code == 403
    assert AccessToken.objects.count() == 1


def test_the_page_of_a_token_says_why_it_is_not_rotated(root: User, alice: User, browser: Browser) -> None:
    token, client = issue(alice), browser(root)
    assert "Select a valid choice" in client.post(page_of(token), {"keep": "2"}).content.decode()
    assert client.put(page_of(token)).status_code == 405
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert "is not active" in client.post(page_of(token), {"keep": "24"}, follow=True).content.decode()
    assert page_of(token) not in client.get(page_of(token, "change")).content.decode()
    assert AccessToken.objects.count() == 1
    for pk in ("999999", "x", "9" * 30):
        assert client.get(f"/admin/access/accesstoken/{pk}/rotate/").status_code == 404


def test_the_list_tells_replaced_tokens_that_still_work(root: User, alice: User, browser: Browser) -> None:
    kept, stopped = issue(alice, "kept"), issue(alice, "stopped")
    rotate(browser(alice), kept)
    rotate(browser(alice), stopped, 0)
    client = browser(root)
    listed = {
        state: {row.pk for row in client.get("/admin/access/accesstoken/", {"state": state}).context["cl"].result_list}
        for state in ("usable", "replaced", "revoked")
    }
    successors = set(AccessToken.objects.exclude(replaces=None).values_list("pk", flat=True))
    assert listed == {"usable": successors, "replaced": {kept.pk}, "revoked": {stopped.pk}}
