"""The identity provider that TOOLHUB_OIDC_* configures: its row follows the settings, and its secret stays there."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client as Browser

from audit.models import Action
from tests.identity import idp
from tests.identity.company import Company, come
from toolhub.identity import providers
from toolhub.identity.models import GroupMapping, Identity, Provider

pytestmark = pytest.mark.django_db
SECRET = "a-secret-of-the-environment"


@pytest.fixture
def configured(settings: Any) -> Any:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = "https://login.example", "hub"
    settings.OIDC_CLIENT_SECRET, settings.OIDC_NAME = SECRET, "Acme"
    return settings


def test_without_settings_there_is_no_provider() -> None:
    Browser().get("/sign-in/")
    assert not Provider.objects.exists()


def test_the_settings_make_a_provider_that_is_on(configured: Any) -> None:
    assert "Continue with Acme" in Browser().get("/sign-in/").content.decode()
    row = Provider.objects.get()
    assert (row.slug, row.issuer, row.client_id, row.enabled, row.from_environment, row.new_people) == (
        *("sso", "https://login.example", "hub", True, True),
        "mapped",
    )
    assert row.read_secret() == SECRET


def test_the_row_is_written_once_and_the_log_says_by_whom(configured: Any) -> None:
    for _time in range(3):
        Browser().get("/sign-in/")
    entry = Action.objects.get(kind="identity provider")
    assert (entry.actor, entry.verb) == ("environment", "created")


def test_the_secret_never_reaches_the_database(configured: Any) -> None:
    Browser().get("/sign-in/")
    assert Provider.objects.get().client_secret == ""
    assert SECRET not in json.dumps(list(Action.objects.values("before", "after")))


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("OIDC_NAME", "Acme Inc", "name"),
        ("OIDC_CLIENT_ID", "other", "client_id"),
        ("OIDC_SCOPES", "openid", "scopes"),
        ("OIDC_GROUPS_CLAIM", "roles", "groups_claim"),
        ("OIDC_SUBJECT_CLAIM", "oid", "subject_claim"),
        ("OIDC_ISSUER", "https://new.example", "issuer"),
    ],
)
def test_a_changed_setting_changes_the_row(configured: Any, setting: str, value: str, name: str) -> None:
    first = providers.find("sso")
    setattr(configured, setting, value)
    second = providers.find("sso")
    assert first is not None and second is not None
    assert (second.pk, getattr(second, name)) == (first.pk, value)


def test_what_an_administrator_chose_stays(configured: Any) -> None:
    providers.find("sso")
    Provider.objects.update(new_people="everyone", check_minutes=3)
    configured.OIDC_NAME = "Renamed"
    row = providers.find("sso")
    assert row is not None
    assert (row.name, row.new_people, row.check_minutes) == ("Renamed", "everyone", 3)


def test_without_the_settings_it_is_turned_off_and_kept(configured: Any, alice: User) -> None:
    row = providers.find("sso")
    assert row is not None
    Identity.objects.create(user=alice, provider=row, issuer=row.issuer, subject="1")
    configured.OIDC_ISSUER = ""
    assert "Continue with" not in Browser().get("/sign-in/").content.decode()
    assert Browser().get("/sign-in/with/sso/").status_code == 404
    assert Identity.objects.get().provider.enabled is False
    configured.OIDC_ISSUER = "https://login.example"
    assert "Continue with Acme" in Browser().get("/sign-in/").content.decode()


def test_another_issuer_takes_back_the_groups_of_the_earlier_one(configured: Any, alice: User) -> None:
    row = providers.find("sso")
    assert row is not None
    GroupMapping.objects.create(provider=row, value="s", group=Group.objects.create(name="Sales"), staff=True)
    Identity.objects.create(user=alice, provider=row, issuer=row.issuer, subject="1", claimed_groups=["s"])
    GroupMapping.objects.get().save()
    assert alice.groups.exists()
    configured.OIDC_ISSUER = "https://new.example"
    Browser().get("/sign-in/")
    assert not alice.groups.exists()
    assert not User.objects.get(pk=alice.pk).is_staff


def test_a_short_name_that_is_taken_leaves_the_sign_in_page_and_the_row_as_they_are(
    configured: Any, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    mine = Provider.objects.create(slug="sso", name="Mine", issuer="https://mine.example")
    with caplog.at_level(logging.ERROR, logger="toolhub.identity.providers"):
        assert Browser().get("/sign-in/").status_code == 200
    assert "TOOLHUB_OIDC_ISSUER is not used" in caplog.text
    answer = Browser(REMOTE_ADDR="203.0.113.77").post(
        "/sign-in/", {"username": "alice", "password": "correct horse battery"}
    )
    assert answer.status_code == 302
    mine.refresh_from_db()
    assert (mine.name, mine.issuer, mine.from_environment) == ("Mine", "https://mine.example", False)
    assert Provider.objects.count() == 1


def test_people_sign_in_with_it(company: Company, configured: Any) -> None:
    configured.OIDC_ISSUER, configured.OIDC_CLIENT_ID = company.url, idp.CLIENT_ID
    configured.OIDC_CLIENT_SECRET = idp.CLIENT_SECRET
    company.control(redirects=[f"{configured.PUBLIC_URL}/sign-in/with/sso/callback/"])
    providers.find("sso")
    Provider.objects.update(new_people="everyone")
    company.employ("dora")
    assert come(Browser(), company, "dora", slug="sso").status_code == 302
    assert Identity.objects.get().user.username == "dora"
