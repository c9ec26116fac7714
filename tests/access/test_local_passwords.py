"""TOOLHUB_LOCAL_PASSWORDS off: superusers sign in with a password, everybody else only in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User

from tests.access.test_sign_in import PASSWORD, sign_in, strip_csrf
from toolhub.access.models import TemporaryPassword

if TYPE_CHECKING:
    from django.test import Client

Browser = Callable[..., "Client"]
NEW = {"old_password": PASSWORD, "new_password1": "a different long phrase", "new_password2": "a different long phrase"}


@pytest.fixture
def off(settings: Any) -> None:
    settings.LOCAL_PASSWORDS = False


@pytest.fixture
def staff(db: None) -> User:
    """Staff with every permission, and still no superuser."""
    user = User.objects.create_user("staff", password=PASSWORD, is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    return user


@pytest.mark.usefixtures("off")
class TestSigningIn:
    def test_superusers_sign_in(self, root: User, browser: Browser) -> None:
        client = browser()
        assert sign_in(client, "root", PASSWORD)[0] == 302
        assert client.session["_auth_user_id"] == str(root.pk)

    @pytest.mark.parametrize("name", ["alice", "staff"])
    def test_the_right_password_of_others_reads_like_a_wrong_one(
        self, alice: User, staff: User, browser: Browser, name: str
    ) -> None:
        client = browser()
        wrong = strip_csrf(sign_in(client, name, "wrong")[1], name)
        status, page = sign_in(client, name, PASSWORD)
        assert (status, strip_csrf(page, name)) == (200, wrong)
        assert "_auth_user_id" not in client.session

    def test_the_page_folds_the_form_and_says_whom_it_is_for(self, db: None, browser: Browser) -> None:
        page = browser().get("/sign-in/").content.decode()
        assert "<summary>Sign in as a superuser with a password</summary>" in page
        assert '<details class="card" open>' in page  # there is no other way to sign in

    def test_the_form_is_open_after_an_error(self, root: User, browser: Browser) -> None:
        assert '<details class="card" open>' in sign_in(browser(), "root", "wrong")[1]


def test_sessions_that_began_before_go_on_until_they_end(alice: User, browser: Browser, settings: Any) -> None:
    client = browser(alice)
    settings.LOCAL_PASSWORDS = False
    assert client.get("/tools/").status_code == 200
    client.post("/sign-out/")
    sign_in(client, "alice", PASSWORD)
    assert client.get("/tools/").status_code == 302


class TestTheNewPassword:
    @pytest.mark.parametrize("path", ["/password/", "/admin/password_change/"])
    def test_there_is_no_page_for_those_who_may_not_use_one(
        self, staff: User, browser: Browser, off: None, path: str
    ) -> None:
        client = browser(staff)
        assert (client.get(path).status_code, client.post(path, NEW).status_code) == (404, 404)
        staff.refresh_from_db()
        assert staff.check_password(PASSWORD)

    def test_nobody_is_led_to_it(self, alice: User, root: User, browser: Browser, off: None) -> None:
        assert "/password/" not in browser(alice).get("/account/").content.decode()
        assert "/password/" in browser(root).get("/account/").content.decode()

    @pytest.mark.parametrize("path", ["/password/", "/admin/password_change/"])
    def test_there_is_none_for_those_who_have_no_password(self, staff: User, browser: Browser, path: str) -> None:
        staff.set_unusable_password()
        staff.save()
        assert browser(staff).get(path).status_code == 404

    def test_superusers_change_theirs(self, root: User, browser: Browser, off: None) -> None:
        assert browser(root).post("/password/", NEW).status_code == 302
        root.refresh_from_db()
        assert root.check_password(NEW["new_password1"])

    def test_without_a_sign_in_it_leads_to_the_sign_in(self, db: None, browser: Browser, off: None) -> None:
        assert browser().get("/password/")["Location"].startswith("/sign-in/?")

    def test_a_session_that_must_choose_a_password_can_still_do_so(
        self, alice: User, browser: Browser, settings: Any
    ) -> None:
        TemporaryPassword.objects.create(user=alice, by="root")
        client = browser()
        sign_in(client, "alice", PASSWORD)
        settings.LOCAL_PASSWORDS = False
        assert client.get("/tools/")["Location"] == "/password/"
        assert client.post("/password/", NEW).status_code == 302
        assert client.get("/tools/").status_code == 200
