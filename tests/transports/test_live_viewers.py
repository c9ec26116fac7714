"""Who may look at an open page: this site's own pages, while their person is signed in and has the right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib import auth
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db.backends.utils import CursorWrapper
from django.http import HttpRequest
from django.test import Client
from django.utils import timezone

from tests.polling import wait_until_async
from tests.transports.conftest import run_in_database, sockets
from tests.transports.windows import sign_in
from toolhub.client_address import TrustedProxies
from toolhub.transports import live, live_viewers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]
TOOLS, INSIDE = "tools.example.com", "hub.internal:8443"


# --- which pages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "opens"),
    [
        pytest.param({"host": TOOLS, "origin": f"https://{TOOLS}"}, True, id="the public address"),
        pytest.param(
            {"host": "10.1.2.3:8000", "origin": f"https://{TOOLS}"}, True, id="behind a proxy that names itself"
        ),
        pytest.param({"host": INSIDE, "origin": f"https://{INSIDE}"}, True, id="another address of the site"),
        pytest.param({"host": TOOLS, "origin": f"http://{TOOLS}"}, False, id="the public address without TLS"),
        pytest.param({"host": INSIDE, "origin": f"http://{INSIDE}"}, False, id="another address without TLS"),
        pytest.param(
            {"host": TOOLS, "origin": f"http://{TOOLS}", "x_forwarded_proto": "http"}, False, id="the proxy had no TLS"
        ),
        pytest.param(
            {"host": INSIDE, "origin": f"https://{TOOLS}:444"}, False, id="another port of the public address"
        ),
    ],
)
@pytest.mark.parametrize("proxy", [False, True], ids=["plain", "behind a proxy"])
async def test_where_pages_come_by_https_no_page_that_came_by_http_gets_in(
    alice, wire, windows, settings, headers, opens, proxy
):
    settings.PUBLIC_URL = f"https://{TOOLS}"
    settings.ALLOWED_HOSTS = [TOOLS, "hub.internal", "10.1.2.3"]
    wire.application.proxies = TrustedProxies([ip_network("192.0.2.9")] if proxy else [])
    window = await windows(alice, **({"x_forwarded_proto": "https"} if proxy else {}) | headers)
    assert await (window.opened() if opens else window.refused())


@pytest.mark.parametrize(
    ("proxy", "said", "origin", "opens"),
    [
        pytest.param(False, None, "http://localhost:8000", True, id="development"),
        pytest.param(False, "https", "http://localhost:8000", True, id="a claim that nobody trusts"),
        pytest.param(True, "https", "https://localhost:8000", True, id="TLS in front"),
        pytest.param(True, "https", "http://localhost:8000", False, id="TLS in front, a page without"),
        pytest.param(True, "https, http", "http://localhost:8000", False, id="TLS in front of two proxies"),
        pytest.param(True, "http", "http://localhost:8000", True, id="no TLS in front"),
    ],
)
async def test_without_a_public_https_address_a_trusted_proxy_says_how_pages_come(
    alice, wire, windows, settings, proxy, said, origin, opens
):
    settings.PUBLIC_URL = "http://other.example"
    wire.application.proxies = TrustedProxies([ip_network("192.0.2.9"), ip_network("10.0.0.0/8")] if proxy else [])
    window = await windows(alice, x_forwarded_for="198.51.100.7, 10.0.0.3", origin=origin, x_forwarded_proto=said)
    assert await (window.opened() if opens else window.refused())


# --- whose session ---------------------------------------------------------------------------------------------------


def change(key: str, **values: Any) -> None:
    session = SessionStore(key)
    session.update(values)
    session.save()


def expire(user: User, key: str, settings: Any) -> None:
    Session.objects.filter(pk=key).update(expire_date=timezone.now() - timedelta(seconds=1))


def deactivate(user: User, key: str, settings: Any) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def delete(user: User, key: str, settings: Any) -> None:
    user.delete()


def set_new_password(user: User, key: str, settings: Any) -> None:
    user.set_password("another horse battery")
    user.save()


def rotate_secret(user: User, key: str, settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "n" * 50


def replace_secret(user: User, key: str, settings: Any) -> None:
    settings.SECRET_KEY = "n" * 50


def set_other_backend(user: User, key: str, settings: Any) -> None:
    change(key, **{auth.BACKEND_SESSION_KEY: "somewhere.else.Backend"})


def remove_proof(user: User, key: str, settings: Any) -> None:
    change(key, **{auth.HASH_SESSION_KEY: ""})


def make_staff(user: User, key: str, settings: Any) -> None:
    User.objects.filter(pk=user.pk).update(is_staff=True)


def make_auditor(user: User, key: str, settings: Any) -> None:
    make_staff(user, key, settings)
    user.user_permissions.add(Permission.objects.get(codename="view_call"))


def make_auditor_by_group(user: User, key: str, settings: Any) -> None:
    make_staff(user, key, settings)
    group = Group.objects.create(name="auditors")
    group.permissions.add(Permission.objects.get(codename="view_call"))
    user.groups.add(group)


def make_auditor_without_staff(user: User, key: str, settings: Any) -> None:
    user.user_permissions.add(Permission.objects.get(codename="view_call"))


def make_superuser(user: User, key: str, settings: Any) -> None:
    User.objects.filter(pk=user.pk).update(is_superuser=True, is_staff=True)


def change_nothing(user: User, key: str, settings: Any) -> None:
    """As she signed in."""


SIGNED_IN = (
    change_nothing,
    rotate_secret,
    make_staff,
    make_auditor,
    make_auditor_by_group,
    make_auditor_without_staff,
    make_superuser,
)
SIGNED_OUT = (expire, deactivate, delete, set_new_password, replace_secret, set_other_backend, remove_proof)


@pytest.mark.parametrize("happened", [*SIGNED_IN, *SIGNED_OUT])
def test_many_sessions_at_once_are_read_as_django_reads_each(
    happened: Callable[[User, str, Any], None], alice: User, bob: User, settings: Any
) -> None:
    key, others = sign_in(alice), sign_in(bob)
    happened(alice, key, settings)
    found = live_viewers.identify([key, others, "made-up"])
    assert (key in found) == (happened in SIGNED_IN)
    request = HttpRequest()
    request.session = SessionStore(key)
    user = auth.get_user(request)
    assert (key in found) == user.is_authenticated
    if key in found:
        assert found[key] == live_viewers.Viewer(alice.pk, user.is_staff and user.has_perm("audit.view_call"))
    if happened is not replace_secret:
        assert found[others].user_id == bob.pk


async def test_the_sessions_of_all_open_pages_are_looked_up_together(windows, monkeypatch):
    asked: list[tuple[str, int]] = []
    plain = CursorWrapper.execute

    def execute(self: Any, sql: Any, params: Any = None) -> Any:
        if "django_session" in str(sql) and threading.current_thread().name.startswith("look"):
            asked.append((str(sql), len(keys & set(map(str, params or ())))))
        return plain(self, sql, params)

    def people() -> list[User]:
        return [User.objects.create_user(f"person{number}") for number in range(7)]

    keys: set[str] = set()
    opened = [await (await windows(user)).opened() for user in await run_in_database(people)]
    keys |= {socket.key for socket in sockets()}
    assert len(opened) == len(keys) == 7
    monkeypatch.setattr(live_viewers, "MAX_QUERY_SESSIONS", 5)
    monkeypatch.setattr(CursorWrapper, "execute", execute)
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.05)
    await wait_until_async(lambda: len(asked) >= 4, what="two looks")
    assert sorted(number for _, number in asked[:4]) == [2, 2, 5, 5], asked


async def test_an_auditor_who_loses_the_permission_reconnects_with_the_remaining_rights(
    bob, alice, windows, monkeypatch
):
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.1)
    await run_in_database(make_auditor_by_group, bob, "", None)
    window = await (await windows(bob)).opened()
    other = await (await windows(alice)).opened()
    (socket,) = [socket for socket in sockets() if socket.viewer.user_id == bob.pk]
    assert socket.viewer.auditor
    await run_in_database(lambda: Group.objects.get(name="auditors").permissions.clear())
    assert await window.closed() == 1013, "not 4401: he is still signed in"
    again = await (await windows(bob)).opened()
    (socket,) = [socket for socket in sockets() if socket.viewer.user_id == bob.pk]
    assert not socket.viewer.auditor
    for each in (again, other):
        assert not each.task.done() and each.outgoing.empty()


async def test_a_page_is_closed_after_its_user_signed_out_however_many_others_are_open(alice, windows, monkeypatch):
    monkeypatch.setattr(live, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(live_viewers, "MAX_QUERY_SESSIONS", 2)
    others = [await (await windows(alice)).opened() for _ in range(5)]
    browser = Client()
    await run_in_database(browser.force_login, alice)
    window = await (await windows(key=browser.cookies[configured.SESSION_COOKIE_NAME].value)).opened()
    await run_in_database(browser.logout)
    assert await window.closed() == live.SIGNED_OUT
    assert all(not each.task.done() and each.outgoing.empty() for each in others)
