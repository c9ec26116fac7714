"""The check in the background: what a provider says later about people who signed in before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.test import Client as Browser
from django.utils import timezone

from audit.models import Action
from tests.factories import connect_app
from tests.identity.company import Company, come
from toolhub.access.models import AccessToken
from toolhub.access.personal_tokens import PersonalTokens
from toolhub.access.token_errors import BadToken
from toolhub.identity import accounts, openid, renewal
from toolhub.identity.models import Deactivation, Identity, Provider
from toolhub.oauth.models import ConnectedApp

pytestmark = pytest.mark.django_db


def make_due() -> None:
    Identity.objects.update(checked=timezone.now() - timedelta(days=1))


@pytest.fixture
def dora(company: Company, sales: Group) -> User:
    """A person of the company, who signed in here."""
    company.employ("dora", "hub-sales")
    come(Browser(), company, "dora")
    return User.objects.get(username="dora")


def is_active(user: User) -> bool:
    return User.objects.get(pk=user.pk).is_active


def is_in(user: User, group: Group) -> bool:
    return user.groups.filter(pk=group.pk).exists()


class TestGroups:
    def test_a_group_that_is_lost_there_is_lost_here_and_comes_back(
        self, company: Company, sales: Group, dora: User
    ) -> None:
        company.employ("dora", "others")
        make_due()
        renewal.run()
        assert not is_in(dora, sales)
        company.employ("dora", "hub-sales")
        make_due()
        renewal.run()
        assert is_in(dora, sales)
        assert "identity provider The company" in {action.actor for action in Action.objects.all()}

    def test_nobody_is_asked_about_before_their_time(self, company: Company, sales: Group, dora: User) -> None:
        company.employ("dora")
        renewal.run()
        assert is_in(dora, sales)

    def test_the_next_sign_in_counts_at_once(self, company: Company, sales: Group, dora: User) -> None:
        company.employ("dora")
        come(Browser(), company, "dora")
        assert not is_in(dora, sales)

    def test_each_check_uses_the_token_of_the_one_before(self, company: Company, dora: User) -> None:
        tokens = set()
        for _time in range(3):
            make_due()
            renewal.run()
            tokens.add(Identity.objects.get().read_refresh_token())
        assert len(tokens) == 3

    def test_a_check_confirms_the_sign_in_for_a_new_period(self, company: Company, dora: User) -> None:
        Identity.objects.update(valid_until=timezone.now() + timedelta(minutes=1))
        make_due()
        renewal.run()
        assert Identity.objects.filter(valid_until__gt=timezone.now() + timedelta(hours=23)).exists()


class TestLeaving:
    def test_who_may_not_sign_in_there_any_more_loses_every_credential_here(self, company: Company, dora: User) -> None:
        token, _text = AccessToken.objects.issue(dora, "script")
        app, _tokens = connect_app(dora)
        browser = Browser()
        come(browser, company, "dora")
        company.dismiss("dora")
        make_due()
        renewal.run()
        assert not is_active(dora)
        assert Deactivation.objects.get().reason == Deactivation.Reason.REFUSED
        with pytest.raises(BadToken, match="not active"):
            PersonalTokens().look_up(token.digest)
        assert app not in ConnectedApp.objects.usable()
        assert browser.get("/account/").status_code == 302
        assert Identity.objects.get().refresh_token == ""

    def test_who_comes_back_there_can_sign_in_here_again(self, company: Company, sales: Group, dora: User) -> None:
        company.dismiss("dora")
        make_due()
        renewal.run()
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        assert is_active(dora)
        assert not Deactivation.objects.exists()

    def test_an_administrator_who_leaves_is_no_exception_unless_nobody_else_is_left(
        self, company: Company, dora: User
    ) -> None:
        dora.is_superuser = True
        dora.set_password("correct horse battery")
        dora.save()
        assert accounts.is_last_administrator(dora)
        assert not accounts.deactivate(dora.pk, Deactivation.Reason.REFUSED, "test")
        User.objects.create_superuser("root2", password="correct horse battery")
        company.dismiss("dora")
        make_due()
        renewal.run()
        assert not is_active(dora)

    @pytest.mark.parametrize("part", ["/token", "/userinfo", "openid-configuration"])
    def test_a_provider_that_is_away_ends_nothing_until_the_sign_in_lapses(
        self, company: Company, sales: Group, dora: User, part: str
    ) -> None:
        from django.core.cache import caches

        company.control(broken=part)
        caches["local"].clear()
        make_due()
        renewal.run()
        assert is_active(dora)
        assert is_in(dora, sales)
        Identity.objects.update(valid_until=timezone.now() - timedelta(seconds=1))
        renewal.run()
        assert not is_active(dora)
        assert Deactivation.objects.get().reason == Deactivation.Reason.LAPSED

    def test_without_a_refresh_token_the_sign_in_lapses(self, company: Company, sales: Group) -> None:
        company.control(tokens="")
        company.employ("gina", "hub-sales")
        come(Browser(), company, "gina")
        identity = Identity.objects.get()
        assert identity.refresh_token == ""
        make_due()
        renewal.run()
        assert User.objects.get(username="gina").is_active
        Identity.objects.update(valid_until=timezone.now() - timedelta(seconds=1))
        renewal.run()
        assert not User.objects.get(username="gina").is_active
        come(Browser(), company, "gina")
        assert User.objects.get(username="gina").is_active

    def test_an_administrator_can_give_a_lapsed_person_one_more_period(self, company: Company, dora: User) -> None:
        Identity.objects.update(refresh_token="", valid_until=timezone.now() - timedelta(seconds=1))
        renewal.run()
        dora.refresh_from_db()
        dora.is_active = True
        dora.save()
        renewal.run()
        assert is_active(dora)

    def test_an_account_that_an_administrator_deactivated_is_not_asked_about(
        self, company: Company, dora: User
    ) -> None:
        dora.is_active = False
        dora.save()
        make_due()
        before = Identity.objects.get().checked
        renewal.run()
        assert Identity.objects.get().checked == before

    def test_a_provider_that_is_off_lets_sign_ins_lapse(self, company: Company, dora: User) -> None:
        Provider.objects.update(enabled=False)
        make_due()
        renewal.run()
        Identity.objects.update(valid_until=timezone.now() - timedelta(seconds=1))
        renewal.run()
        assert not is_active(dora)

    def test_a_token_that_another_person_owns_confirms_nobody(self, company: Company, sales: Group, dora: User) -> None:
        company.employ("hugo", "hub-sales")
        come(Browser(), company, "hugo")
        his, hers = Identity.objects.get(label="hugo"), Identity.objects.get(label="dora")
        with pytest.raises(openid.NotConfirmed, match="other_subject"):
            openid.check(hers.provider, his.read_refresh_token(), hers.subject)

    def test_a_wrong_client_secret_is_not_the_fault_of_people(self, company: Company, dora: User) -> None:
        row = Provider.objects.get()
        row.set_secret("wrong")
        row.save()
        make_due()
        renewal.run()
        assert is_active(dora)


class TestLinkedIdentities:
    @pytest.fixture
    def ivan(self, company: Company, sales: Group) -> User:
        """A person with an account here, who linked the company to it."""
        user = User.objects.create_user("ivan", password="correct horse battery")
        company.employ("ivan-there", "hub-sales")
        browser = Browser()
        browser.force_login(user)
        leaving = browser.post("/account/link/company/").context["address"]
        browser.get(company.answer(leaving, "ivan-there"))
        assert is_in(user, sales)
        return user

    def test_a_lapse_takes_the_groups_and_leaves_the_account(self, sales: Group, ivan: User) -> None:
        Identity.objects.update(valid_until=timezone.now() - timedelta(seconds=1))
        renewal.run()
        assert is_active(ivan)
        assert not is_in(ivan, sales)

    def test_a_lapse_ends_the_account_of_a_person_who_has_no_other_way_in(self, ivan: User, settings: Any) -> None:
        settings.LOCAL_PASSWORDS = False
        Identity.objects.update(valid_until=timezone.now() - timedelta(seconds=1))
        renewal.run()
        assert not is_active(ivan)

    def test_a_refusal_ends_the_account_all_the_same(self, company: Company, ivan: User) -> None:
        company.dismiss("ivan-there")
        make_due()
        renewal.run()
        assert not is_active(ivan)


class TestOrder:
    def test_a_token_of_an_earlier_issuer_is_not_sent_to_another_one(self, company: Company, dora: User) -> None:
        Provider.objects.update(issuer="https://another.example")
        make_due()
        before = Identity.objects.get().checked
        renewal.run()
        assert Identity.objects.get().checked == before

    def test_the_last_administrator_is_named_in_the_log_once(
        self, company: Company, dora: User, caplog: pytest.LogCaptureFixture
    ) -> None:
        User.objects.filter(pk=dora.pk).update(is_superuser=True, password=make_password("correct horse battery"))
        Identity.objects.update(valid_until=timezone.now() - timedelta(seconds=1))
        for _time in range(3):
            renewal.run()
        assert is_active(dora)
        assert len([record for record in caplog.records if "last administrator" in record.message]) == 1

    def test_a_token_that_was_used_up_meanwhile_ends_nothing(self, company: Company, sales: Group, dora: User) -> None:
        stale = Identity.objects.select_related("provider").get()
        make_due()
        renewal.run()  # the provider gave a new token for it
        renewal.check(stale)
        assert is_active(dora)

    def test_an_answer_that_a_sign_in_has_overtaken_is_dropped(
        self, company: Company, sales: Group, dora: User
    ) -> None:
        stale = Identity.objects.select_related("provider").get()
        company.employ("dora", "others")
        overtaken = openid.check(stale.provider, stale.read_refresh_token(), stale.subject)[0]
        assert overtaken.groups == ("others",)
        company.employ("dora", "hub-sales")
        come(Browser(), company, "dora")
        renewal.store(stale, overtaken, "older token")
        assert is_in(dora, sales)
        assert Identity.objects.get().read_refresh_token() != "older token"
