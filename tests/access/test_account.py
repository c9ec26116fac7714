"""One's account: language, time zone, name and password, and that they count in every browser."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from audit.models import Action
from tests.access.test_pages import record
from toolhub.access import forms
from toolhub.access.models import Preference

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

Browser = Callable[..., "Client"]
PASSWORD = "correct horse battery"
TWO = [("en", "English"), ("zh-hans", "Simplified Chinese")]


def save(client: Client, **fields: str) -> Any:
    return client.post(
        "/account/", {"first_name": "", "last_name": "", "language": "", "time_zone": "", **fields}, follow=True
    )


def test_nobody_sees_it_without_signing_in(browser: Browser, db: None) -> None:
    assert browser().get("/account/").status_code == 302


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"time_zone": "Mars/Olympus"}, id="a zone that is none"),
        pytest.param({"time_zone": "../../etc/passwd"}, id="a path"),
        pytest.param({"language": "tlh"}, id="a language that is not there"),
    ],
)
def test_what_does_not_exist_cannot_be_chosen(alice: User, browser: Browser, fields: dict[str, str]) -> None:
    page = save(browser(alice), **fields)
    assert "not one of the available choices" in page.content.decode()
    assert not Preference.objects.exists()


def test_one_saves_for_oneself_alone_and_only_what_the_form_has(alice: User, bob: User, browser: Browser) -> None:
    save(browser(alice), first_name="Alice", is_staff="on", username="root", user=str(bob.pk))
    alice.refresh_from_db()
    bob.refresh_from_db()
    assert (alice.first_name, alice.username, alice.is_staff) == ("Alice", "alice", False)
    assert bob.first_name == ""
    assert Action.objects.filter(actor="alice", kind="user").exists()


@pytest.mark.parametrize("cookie", ["Mars/Olympus", "../../etc/localtime", "%00", "x" * 4000])
def test_a_cookie_that_names_no_zone_is_ignored(alice: User, browser: Browser, cookie: str) -> None:
    client = browser(alice)
    client.cookies["toolhub_zone"] = cookie
    record(alice, started_at=datetime(2026, 1, 2, 23, 30, tzinfo=UTC))
    assert "2026-01-02 23:30:00 UTC" in client.get("/calls/").content.decode()


def test_times_are_in_the_zone_that_the_browser_names(alice: User, browser: Browser) -> None:
    client = browser(alice)
    client.cookies["toolhub_zone"] = "Asia/Shanghai"
    record(alice, started_at=datetime(2026, 1, 2, 23, 30, tzinfo=UTC))
    assert "2026-01-03 07:30:00 CST" in client.get("/calls/").content.decode()


def test_a_chosen_zone_and_language_count_in_a_new_browser(
    alice: User, browser: Browser, settings: Any, address: str
) -> None:
    settings.LANGUAGES = TWO
    save(browser(alice), time_zone="America/New_York", language="zh-hans")
    record(alice, started_at=datetime(2026, 1, 2, 3, 30, tzinfo=UTC))
    other = browser()
    other.cookies["toolhub_zone"] = "Asia/Shanghai"
    other.post("/sign-in/", {"username": "alice", "password": PASSWORD})
    page = other.get("/calls/").content.decode()
    assert "2026-01-01 22:30:00 EST" in page
    assert '<html lang="zh-hans" data-zone="America/New_York">' in page


def test_what_was_chosen_counts_at_once_where_it_was_chosen(alice: User, browser: Browser, settings: Any) -> None:
    settings.LANGUAGES = TWO
    client = browser(alice)
    assert '<html lang="zh-hans"' in save(client, language="zh-hans").content.decode()
    assert '<html lang="en"' in save(client, language="").content.decode()


def test_the_admin_is_in_the_chosen_zone_as_its_columns_say(root: User, browser: Browser) -> None:
    client = browser(root)
    save(client, time_zone="Asia/Shanghai")
    record(root, started_at=datetime(2026, 1, 2, 23, 30, tzinfo=UTC))
    page = client.get("/admin/audit/call/").content.decode()
    assert "2026-01-03 07:30:00" in page
    assert "Start (Asia/Shanghai)" in page
    assert "23:30" not in page


def test_somebody_who_is_not_signed_in_chooses_a_language_too(browser: Browser, db: None, settings: Any) -> None:
    settings.LANGUAGES = TWO
    client = browser()
    assert client.get("/language/").status_code == 405
    assert "简体中文" in client.get("/sign-in/").content.decode()
    answer = client.post("/language/", {"language": "zh-hans", "next": "https://evil.example/"})
    assert answer.headers["Location"] == "/"
    assert '<html lang="zh-hans">' in client.get("/sign-in/").content.decode()


# --- the password ----------------------------------------------------------------------------------------------------


def change(client: Client, old: str, new: str = "another long horse") -> str:
    answer = client.post("/password/", {"old_password": old, "new_password1": new, "new_password2": new}, follow=True)
    return answer.content.decode()


def test_guessing_the_old_password_is_slowed_down_like_signing_in(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "NAME_RATE", "3/10h")
    client = browser(alice)
    for _ in range(3):
        assert "Too many failed attempts" not in change(client, "wrong")
    assert "Too many failed attempts" in change(client, PASSWORD)
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_the_right_old_password_changes_it(alice: User, browser: Browser) -> None:
    assert "Your password was changed" in change(browser(alice), PASSWORD)
    alice.refresh_from_db()
    assert alice.check_password("another long horse")
