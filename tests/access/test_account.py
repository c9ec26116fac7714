"""One's account: language, time zone, name and password, and that they count in every browser."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from audit.models import Action
from tests.access.test_pages import log_call
from toolhub.access import forms
from toolhub.access.models import Preference

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

Browser = Callable[..., "Client"]
PASSWORD = "correct horse battery"
TWO_LANGUAGES = [("en", "English"), ("zh-hans", "Simplified Chinese")]


def save(client: Client, **fields: str) -> Any:
    return client.post(
        "/account/", {"first_name": "", "last_name": "", "language": "", "time_zone": "", **fields}, follow=True
    )


def test_account_page_requires_signing_in(browser: Browser, db: None) -> None:
    assert browser().get("/account/").status_code == 302


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"time_zone": "Mars/Olympus"}, id="a zone that is none"),
        pytest.param({"time_zone": "../../etc/passwd"}, id="a path"),
        pytest.param({"language": "tlh"}, id="a language that is not there"),
    ],
)
def test_unknown_choices_are_rejected(alice: User, browser: Browser, fields: dict[str, str]) -> None:
    page = save(browser(alice), **fields)
    assert "not one of the available choices" in page.content.decode()
    assert not Preference.objects.exists()


def test_users_change_only_their_own_settings_and_only_form_fields(alice: User, bob: User, browser: Browser) -> None:
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
    log_call(alice, started_at=datetime(2026, 1, 2, 23, 30, tzinfo=UTC))
    assert "2026-01-02 23:30:00 UTC" in client.get("/calls/").content.decode()


def test_times_are_in_the_zone_that_the_browser_names(alice: User, browser: Browser) -> None:
    client = browser(alice)
    client.cookies["toolhub_zone"] = "Asia/Shanghai"
    log_call(alice, started_at=datetime(2026, 1, 2, 23, 30, tzinfo=UTC))
    assert "2026-01-03 07:30:00 CST" in client.get("/calls/").content.decode()


def test_a_chosen_zone_and_language_count_in_a_new_browser(
    alice: User, browser: Browser, settings: Any, address: str
) -> None:
    settings.LANGUAGES = TWO_LANGUAGES
    save(browser(alice), time_zone="America/New_York", language="zh-hans")
    log_call(alice, started_at=datetime(2026, 1, 2, 3, 30, tzinfo=UTC))
    other = browser()
    other.cookies["toolhub_zone"] = "Asia/Shanghai"
    other.post("/sign-in/", {"username": "alice", "password": PASSWORD})
    page = other.get("/calls/").content.decode()
    assert "2026-01-01 22:30:00 EST" in page
    assert '<html lang="zh-hans" data-zone="America/New_York">' in page


def test_a_choice_applies_at_once_in_its_browser(alice: User, browser: Browser, settings: Any) -> None:
    settings.LANGUAGES = TWO_LANGUAGES
    client = browser(alice)
    assert '<html lang="zh-hans"' in save(client, language="zh-hans").content.decode()
    assert '<html lang="en"' in save(client, language="").content.decode()


def test_the_admin_is_in_the_chosen_zone_as_its_columns_say(root: User, browser: Browser) -> None:
    client = browser(root)
    save(client, time_zone="Asia/Shanghai")
    log_call(root, started_at=datetime(2026, 1, 2, 23, 30, tzinfo=UTC))
    page = client.get("/admin/audit/call/").content.decode()
    assert "2026-01-03 07:30:00" in page
    assert "Start (Asia/Shanghai)" in page
    assert "23:30" not in page


def test_signed_out_visitors_can_choose_a_language(browser: Browser, db: None, settings: Any) -> None:
    settings.LANGUAGES = TWO_LANGUAGES
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
