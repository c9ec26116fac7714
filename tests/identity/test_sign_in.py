"""Signing in with an OpenID Connect provider: who gets in, as whom, and who does not."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client as Browser

from audit.models import Action
from tests.identity import idp
from tests.identity.company import Company, come
from toolhub.access.models import TemporaryPassword
from toolhub.env import fernet_key
from toolhub.identity import sign_in
from toolhub.identity.models import GroupMapping, Identity, Provider
from toolhub.identity.people import Person

if TYPE_CHECKING:
    from typing import Any

pytestmark = pytest.mark.django_db


def signed_in(browser: Browser) -> str | None:
    key = browser.session.get("_auth_user_id")
    return User.objects.get(pk=key).username if key else None


class TestTheDoor:
    def test_the_sign_in_page_offers_the_providers_that_are_on(self, provider: Provider) -> None:
        page = Browser().get("/sign-in/?next=/calls/").content.decode()
        assert 'href="/sign-in/with/company/?next=%2Fcalls%2F"' in page
        assert "Continue with The company" in page
        Provider.objects.update(enabled=False)
        assert "Continue with" not in Browser().get("/sign-in/").content.decode()

    def test_a_person_in_a_mapped_group_gets_an_account_and_the_group(self, company: Company, sales: Group) -> None:
        subject = company.employ("dora", "hub-sales", "others", claims={"given_name": "Dora", "family_name": "Lang"})
        browser = Browser()
        answer = come(browser, company, "dora", target="/calls/")
        assert (answer.status_code, answer.headers["location"]) == (302, "/calls/")
        assert signed_in(browser) == "dora"
        user = User.objects.get(username="dora")
        assert (user.get_full_name(), user.has_usable_password(), user.is_staff, user.is_superuser) == (
            "Dora Lang",
            False,
            False,
            False,
        )
        assert list(user.groups.all()) == [sales]
        identity = Identity.objects.get(user=user)
        assert (identity.issuer, identity.subject, identity.claimed_groups) == (
            company.url,
            subject,
            ["hub-sales", "others"],
        )

    def test_the_second_time_it_is_the_same_account(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        for _time in range(2):
            come(Browser(), company, "dora")
        assert User.objects.filter(username__startswith="dora").count() == 1

    def test_an_account_with_the_same_name_or_mail_is_never_taken_over(self, company: Company, sales: Group) -> None:
        local = User.objects.create_user("dora", "dora@example.com", "correct horse battery")
        company.employ("dora", "hub-sales", claims={"email": "dora@example.com", "email_verified": True})
        browser = Browser()
        come(browser, company, "dora")
        assert signed_in(browser) == "dora-2"
        assert not local.identities.exists()

    def test_a_session_says_how_it_began(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        browser = Browser()
        come(browser, company, "dora")
        assert browser.session["signed_in_with"] == "provider:company"
        entry = Action.objects.filter(verb="signed in").latest("link")
        assert (entry.actor, entry.target) == ("dora", "dora")

    def test_no_secret_is_stored_in_clear(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        identity, row = Identity.objects.get(), Provider.objects.get()
        token = identity.read_refresh_token()
        assert len(token) > 10
        assert token not in identity.refresh_token
        assert row.read_secret() not in row.client_secret
        other = Identity(pk=identity.pk + 1, refresh_token=identity.refresh_token)
        with pytest.raises(Exception, match="identity"):
            other.read_refresh_token()

    def test_new_keys_take_over_the_secrets_of_providers_and_their_tokens(
        self, company: Company, sales: Group, settings: Any
    ) -> None:
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        before = Identity.objects.get().read_refresh_token()
        settings.ENCRYPTION_KEYS = [fernet_key(), *settings.ENCRYPTION_KEYS]
        call_command("rotatesecrets", stdout=StringIO())
        settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]
        assert Identity.objects.get().read_refresh_token() == before
        assert Provider.objects.get().read_secret() == idp.CLIENT_SECRET

    def test_every_request_has_a_challenge_and_a_nonce_of_its_own(self, provider: Provider) -> None:
        sent = [
            parse_qs(urlsplit(Browser().get("/sign-in/with/company/").headers["location"]).query) for _time in range(2)
        ]
        assert [one["code_challenge_method"] for one in sent] == [["S256"], ["S256"]]
        assert sent[0]["code_challenge"] != sent[1]["code_challenge"]
        assert sent[0]["nonce"] != sent[1]["nonce"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("groups", "policy", "text"),
        [
            (["others"], Provider.NewPeople.MAPPED, "is in no group that has access here"),
            (["hub-sales"], Provider.NewPeople.NOBODY, "has no account here"),
        ],
    )
    def test_people_who_may_not_have_an_account_get_none(
        self, company: Company, sales: Group, groups: list[str], policy: str, text: str
    ) -> None:
        Provider.objects.update(new_people=policy)
        company.employ("erik", *groups)
        browser = Browser()
        answer = come(browser, company, "erik")
        assert (answer.status_code, text in answer.content.decode()) == (403, True)
        assert signed_in(browser) is None
        assert not User.objects.filter(username="erik").exists()
        reason = json.loads(Action.objects.filter(verb="failed to sign in").latest("link").after)["reason"]
        assert reason in {"no_mapped_group", "not_invited"}

    def test_a_provider_that_is_off_leads_nowhere(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        browser = Browser()
        leaving = browser.get("/sign-in/with/company/")
        back = company.answer(leaving.headers["location"], "dora")
        Provider.objects.update(enabled=False)
        assert browser.get(back).status_code == 403
        assert browser.get("/sign-in/with/company/").status_code == 404
        assert browser.get("/sign-in/with/nothing/").status_code == 404
        assert signed_in(browser) is None

    def test_an_account_that_an_administrator_deactivated_stays_so(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        User.objects.filter(username="dora").update(is_active=False)
        browser = Browser()
        answer = come(browser, company, "dora")
        assert (answer.status_code, "is not active" in answer.content.decode()) == (403, True)
        assert signed_in(browser) is None
        assert not User.objects.get(username="dora").is_active

    @pytest.mark.parametrize(
        "change",
        [
            {"state": "invented"},
            {"state": None},
            {"iss": "https://other.example"},
            {"code": None},
            {"code": "invented"},
        ],
        ids=str,
    )
    def test_an_answer_that_was_not_asked_for_signs_nobody_in(
        self, company: Company, sales: Group, change: dict[str, Any]
    ) -> None:
        company.employ("dora", "hub-sales")
        browser = Browser()
        back = company.answer(browser.get("/sign-in/with/company/").headers["location"], "dora")
        given = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()} | change
        query = urlencode({name: value for name, value in given.items() if value is not None})
        answer = browser.get(f"/sign-in/with/company/callback/?{query}")
        assert answer.status_code in {403, 502}
        assert signed_in(browser) is None
        assert not Identity.objects.exists()

    def test_an_answer_works_once_and_only_in_its_browser(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        browser, thief = Browser(), Browser()
        back = company.answer(browser.get("/sign-in/with/company/").headers["location"], "dora")
        assert thief.get(back).status_code == 403
        assert signed_in(thief) is None
        assert browser.get(back).status_code == 302
        again = Browser()
        again.cookies = browser.cookies
        assert again.get(back).status_code == 403

    @pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1"])
    def test_nobody_is_sent_to_a_foreign_page_afterwards(self, company: Company, sales: Group, target: str) -> None:
        company.employ("dora", "hub-sales")
        answer = come(Browser(), company, "dora", target=target)
        assert answer.headers["location"].startswith("/")
        assert "evil" not in answer.headers["location"]

    @pytest.mark.parametrize("part", ["/token", "/userinfo", "openid-configuration", "jwks.json"])
    def test_a_provider_that_fails_signs_nobody_in(self, company: Company, sales: Group, part: str) -> None:
        company.employ("dora", "hub-sales")
        browser = Browser()
        if part == "openid-configuration":
            company.control(broken=part)
            assert browser.get("/sign-in/with/company/").status_code == 502
            return
        back = company.answer(browser.get("/sign-in/with/company/").headers["location"], "dora")
        company.control(broken=part)
        answer = browser.get(back)
        assert (answer.status_code, "did not answer as expected" in answer.content.decode()) == (502, True)
        assert signed_in(browser) is None

    def test_a_private_address_that_nobody_allowed_is_not_asked(
        self, company: Company, sales: Group, settings: Any
    ) -> None:
        settings.SIGN_IN_NETWORKS = []
        assert Browser().get("/sign-in/with/company/").status_code == 502

    @pytest.mark.parametrize(
        ("claims", "text"),
        [
            ({"groups": "hub-sales"}, None),
            ({"groups": [1]}, "does not list groups"),
            ({"groups": {"a": 1}}, "does not list groups"),
            ({"_claim_names": {"groups": "src1"}}, "more groups than"),
        ],
        ids=str,
    )
    def test_groups_that_make_no_sense_give_nothing(
        self, company: Company, sales: Group, claims: dict[str, Any], text: str | None
    ) -> None:
        company.employ("frida", "hub-sales")
        company.control(user="frida", claims=claims)
        answer = come(Browser(), company, "frida")
        company.control(user="frida", claims={"_claim_names": None})
        if text is None:
            assert answer.status_code == 302
        else:
            assert (answer.status_code, text in answer.content.decode()) == (403, True)

    def test_one_address_begins_only_so_many(self, provider: Provider) -> None:
        browser = Browser(REMOTE_ADDR="203.0.113.9")
        found = [browser.get("/sign-in/with/company/").status_code for _time in range(61)]
        assert (found[0], found[-1]) == (302, 429)


class TestManagers:
    def test_a_manager_of_accounts_leaves_no_password_in_one_that_a_provider_made(
        self, company: Company, sales: Group
    ) -> None:
        company.employ("dora", "others")
        Provider.objects.update(new_people=Provider.NewPeople.EVERYONE)
        come(Browser(), company, "dora")
        dora = User.objects.get(username="dora")
        manager = User.objects.create_user("manager", password="correct horse battery", is_staff=True)
        manager.user_permissions.set(Permission.objects.filter(codename__in=["change_user", "view_user"]))
        browser = Browser()
        browser.force_login(manager)
        answer = browser.post(
            f"/admin/auth/user/{dora.pk}/password/",
            {"usable_password": "true", "password1": "battery staple 77", "password2": "battery staple 77"},
        )
        assert answer.status_code == 403
        assert not User.objects.get(pk=dora.pk).has_usable_password()


class TestStaff:
    def test_staff_comes_from_a_mapping_that_says_so_and_goes_with_it(self, company: Company, sales: Group) -> None:
        mapping = GroupMapping.objects.get()
        mapping.staff = True
        mapping.save()
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        assert User.objects.get(username="dora").is_staff
        mapping.staff = False
        mapping.save()
        assert not User.objects.get(username="dora").is_staff

    def test_no_claim_makes_a_superuser(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales", claims={"is_superuser": True, "is_staff": True, "roles": ["admin"]})
        come(Browser(), company, "dora")
        user = User.objects.get(username="dora")
        assert (user.is_staff, user.is_superuser) == (False, False)


class TestPasswords:
    """A person from the provider whose account also has a password that an administrator set."""

    def test_a_password_that_somebody_else_set_does_not_stand_in_the_way(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        user = User.objects.get(username="dora")
        user.set_password("correct horse battery")
        user.save()
        TemporaryPassword.objects.create(user=user, by="root")
        browser = Browser()
        come(browser, company, "dora")
        assert browser.get("/tools/").status_code == 200

    def test_the_form_is_folded_while_there_is_another_way(self, provider: Provider, settings: Any) -> None:
        settings.LOCAL_PASSWORDS = False
        assert '<details class="card"><summary>' in Browser().get("/sign-in/").content.decode()
        settings.LOCAL_PASSWORDS = True
        assert "<details" not in Browser().get("/sign-in/").content.decode()


class TestRaces:
    def test_provisioning_that_removes_a_person_meanwhile_counts(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        stale = Identity.objects.select_related("provider").get()
        Identity.objects.update(provisioned=False)
        with pytest.raises(sign_in.Refusal, match="removed"):
            sign_in.confirm(stale, Person(stale.subject, ("hub-sales",)), "")
        assert Identity.objects.get().provisioned is False

    def test_an_identity_that_is_removed_meanwhile_confirms_nothing(self, company: Company, sales: Group) -> None:
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        stale = Identity.objects.select_related("provider").get()
        Identity.objects.get().delete()
        with pytest.raises(sign_in.Refusal, match="removed"):
            sign_in.confirm(stale, Person(stale.subject, ("hub-sales",)), "")
        assert not User.objects.get(username="dora").groups.exists()
