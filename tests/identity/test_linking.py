"""Linking an identity to an account that exists, removing it, and what several identities of one account mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client as Browser

from tests.identity.company import Company, come
from toolhub.identity import accounts
from toolhub.identity.models import Deactivation, GroupMapping, Identity, Provider

if TYPE_CHECKING:
    from collections.abc import Callable

    Opens = Callable[..., Browser]

pytestmark = pytest.mark.django_db
LINK = "/account/link/company/"


def open_browser(user: User | None = None) -> Browser:
    browser = Browser()
    if user is not None:
        browser.force_login(user)
    return browser


def leave(browser: Browser) -> str:
    """The address of the provider to which the button on the Account page leads."""
    answer = browser.post(LINK)
    assert answer.status_code == 200, answer.content.decode()
    return str(answer.context["address"])


def link(browser: Browser, company: Company, name: str) -> Any:
    return browser.get(company.answer(leave(browser), name))


def make_identity(user: User, provider: Provider, subject: str = "1", **fields: Any) -> Identity:
    return Identity.objects.create(user=user, provider=provider, issuer=provider.issuer, subject=subject, **fields)


def unlink(browser: Browser, identity: Identity) -> Any:
    return browser.post(f"/account/unlink/{identity.pk}/", follow=True)


class TestLinking:
    def test_a_person_adds_their_identity_and_signs_in_with_it(
        self, company: Company, sales: Group, alice: User
    ) -> None:
        company.employ("alice.l", "hub-sales")
        answer = link(open_browser(alice), company, "alice.l")
        assert (answer.status_code, answer["Location"]) == (302, "/account/")
        identity = Identity.objects.get()
        assert (identity.user, identity.linked_by_owner) == (alice, True)
        assert list(alice.groups.all()) == [sales]
        browser = open_browser()
        come(browser, company, "alice.l")
        assert browser.session["_auth_user_id"] == str(alice.pk)
        assert User.objects.count() == 1

    def test_it_works_where_nobody_gets_an_account_by_signing_in(
        self, company: Company, provider: Provider, alice: User
    ) -> None:
        Provider.objects.update(new_people=Provider.NewPeople.NOBODY)
        company.employ("alice.l")
        assert link(open_browser(alice), company, "alice.l").status_code == 302
        assert alice.identities.count() == 1

    def test_it_leads_nowhere_without_a_sign_in(self, company: Company, provider: Provider) -> None:
        answer = open_browser().post(LINK)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in/?")

    def test_it_takes_a_post_with_the_token_of_the_form(self, provider: Provider, alice: User) -> None:
        browser = Browser(enforce_csrf_checks=True)
        browser.force_login(alice)
        assert browser.get(LINK).status_code == 405
        assert browser.post(LINK).status_code == 403
        token = str(browser.get("/account/").context["csrf_token"])
        assert browser.post(LINK, {"csrfmiddlewaretoken": token}).status_code == 200

    def test_a_provider_that_is_off_or_absent_cannot_be_linked(self, provider: Provider, alice: User) -> None:
        Provider.objects.update(enabled=False)
        browser = open_browser(alice)
        assert browser.post(LINK).status_code == 404
        assert browser.post("/account/link/nothing/").status_code == 404

    def test_the_identity_of_somebody_else_stays_theirs(
        self, company: Company, sales: Group, alice: User, bob: User
    ) -> None:
        company.employ("bob.b", "hub-sales")
        link(open_browser(bob), company, "bob.b")
        before = Identity.objects.values().get()
        answer = link(open_browser(alice), company, "bob.b")
        assert (answer.status_code, "belongs to another account here" in answer.content.decode()) == (403, True)
        assert Identity.objects.values().get() == before
        assert not alice.groups.exists()

    def test_a_link_that_alice_began_is_refused_while_bob_is_signed_in(
        self, company: Company, provider: Provider, alice: User, bob: User
    ) -> None:
        company.employ("alice.l")
        browser = open_browser(alice)
        back = company.answer(leave(browser), "alice.l")
        session = browser.session
        session["_auth_user_id"], session["_auth_user_hash"] = str(bob.pk), bob.get_session_auth_hash()
        session.save()
        answer = browser.get(back)
        assert (answer.status_code, "Somebody else has signed in" in answer.content.decode()) == (403, True)
        assert not Identity.objects.exists()

    def test_a_link_of_somebody_who_signed_out_meanwhile_is_refused(
        self, company: Company, provider: Provider, alice: User
    ) -> None:
        company.employ("alice.l")
        browser = open_browser(alice)
        back = company.answer(leave(browser), "alice.l")
        browser.post("/sign-out/")
        assert browser.get(back).status_code == 403
        assert not Identity.objects.exists()

    def test_a_sign_in_never_links_to_the_account_that_is_signed_in(
        self, company: Company, sales: Group, alice: User
    ) -> None:
        company.employ("dora", "hub-sales")
        browser = open_browser()
        back = company.answer(browser.get("/sign-in/with/company/").headers["location"], "dora")
        browser.force_login(alice)
        browser.get(back)
        assert not alice.identities.exists()

    def test_an_identity_of_another_provider_of_the_same_issuer_is_refused(
        self, company: Company, provider: Provider, alice: User
    ) -> None:
        subject = company.employ("alice.l")
        other = Provider.objects.create(slug="other", name="Other", issuer=provider.issuer, client_id="other")
        known = make_identity(alice, other, subject)
        assert link(open_browser(alice), company, "alice.l").status_code == 403
        known.refresh_from_db()
        assert (known.valid_until, known.refresh_token) == (None, "")


class TestRemoving:
    def test_a_person_removes_an_identity_that_they_linked_and_loses_its_groups(
        self, company: Company, sales: Group, alice: User
    ) -> None:
        by_hand = Group.objects.create(name="By hand")
        alice.groups.add(by_hand)
        company.employ("alice.l", "hub-sales")
        browser = open_browser(alice)
        link(browser, company, "alice.l")
        assert set(alice.groups.all()) == {sales, by_hand}
        page = unlink(browser, Identity.objects.get()).content.decode()
        assert "You can no longer sign in with The company." in page
        assert not Identity.objects.exists()
        assert list(alice.groups.all()) == [by_hand]

    def test_it_takes_a_post_with_the_token_of_the_form(self, provider: Provider, alice: User) -> None:
        identity = make_identity(alice, provider, linked_by_owner=True)
        browser = Browser(enforce_csrf_checks=True)
        browser.force_login(alice)
        assert browser.get(f"/account/unlink/{identity.pk}/").status_code == 405
        assert browser.post(f"/account/unlink/{identity.pk}/").status_code == 403
        assert open_browser().post(f"/account/unlink/{identity.pk}/").status_code == 302
        assert Identity.objects.exists()

    def test_what_the_provider_made_and_what_is_somebody_elses_reads_like_nothing(
        self, provider: Provider, alice: User, bob: User
    ) -> None:
        made = make_identity(alice, provider, "1")
        bobs = make_identity(bob, provider, "2", linked_by_owner=True)
        browser = open_browser(alice)
        for pk in (made.pk, bobs.pk, 99_999):
            assert browser.post(f"/account/unlink/{pk}/").status_code == 404
        assert Identity.objects.count() == 2

    def test_the_only_way_to_sign_in_stays(self, provider: Provider, alice: User) -> None:
        identity = make_identity(alice, provider, linked_by_owner=True)
        alice.set_unusable_password()
        alice.save()
        browser = open_browser(alice)
        assert "This is your only way to sign in." in unlink(browser, identity).content.decode()
        assert Identity.objects.exists()
        off = Provider.objects.create(slug="off", name="Off", issuer="https://off.example")
        make_identity(alice, off)
        assert "This is your only way to sign in." in unlink(browser, identity).content.decode()
        Provider.objects.update(enabled=True)
        unlink(browser, identity)
        assert not Identity.objects.filter(pk=identity.pk).exists()

    def test_a_password_that_nobody_may_use_is_no_other_way(
        self, provider: Provider, alice: User, settings: Any
    ) -> None:
        settings.LOCAL_PASSWORDS = False
        identity = make_identity(alice, provider, linked_by_owner=True)
        browser = open_browser(alice)
        assert "Remove The company" not in browser.get("/account/").content.decode()
        unlink(browser, identity)
        assert Identity.objects.exists()


class TestTheAccountPage:
    def test_without_a_provider_it_says_nothing_of_them(self, alice: User) -> None:
        page = open_browser(alice).get("/account/").content.decode()
        assert "Single sign-on" not in page
        assert "Change password" in page

    def test_it_offers_to_link_and_then_to_remove(self, company: Company, provider: Provider, alice: User) -> None:
        browser = open_browser(alice)
        page = browser.get("/account/").content.decode()
        assert ("Link The company" in page, "Remove The company" in page) == (True, False)
        company.employ("alice.l")
        link(browser, company, "alice.l")
        page = browser.get("/account/").content.decode()
        assert ("Link The company" in page, "Remove The company" in page, "alice.l" in page) == (False, True, True)

    def test_a_person_from_the_provider_finds_no_password_and_nothing_to_remove(
        self, company: Company, sales: Group
    ) -> None:
        company.employ("dora", "hub-sales")
        browser = open_browser()
        come(browser, company, "dora")
        page = browser.get("/account/").content.decode()
        assert "Single sign-on" in page and "dora" in page
        assert "Change password" not in page
        assert "Remove The company" not in page

    def test_a_name_from_the_provider_is_text_and_no_markup(self, provider: Provider, alice: User) -> None:
        make_identity(alice, provider, label='<img src=x onerror="1">')
        assert "<img src=x" not in open_browser(alice).get("/account/").content.decode()


class TestSeveralIdentities:
    """A person whom the company dismissed also has an identity elsewhere, which they linked themselves."""

    @pytest.fixture
    def elsewhere(self, provider: Provider, company: Company) -> Provider:
        return company.configure(slug="elsewhere", name="Elsewhere", issuer="https://elsewhere.example")

    @pytest.fixture
    def dora(self, company: Company, sales: Group, elsewhere: Provider) -> User:
        """She came from elsewhere, and linked her identity at the company later; both are confirmed."""
        subject = company.employ("dora", "hub-sales")
        user = User.objects.create_user("dora")
        for provider, number in ((Provider.objects.get(slug="company"), subject), (elsewhere, "7")):
            identity = make_identity(user, provider, number)
            accounts.extend(identity)
            identity.save()
        return user

    def end(self, user: User, slug: str, reason: Deactivation.Reason) -> None:
        from django.utils import timezone

        Identity.objects.filter(user=user, provider__slug=slug).update(valid_until=timezone.now())
        assert accounts.deactivate(user.pk, reason, "the test")

    @pytest.mark.parametrize("reason", [Deactivation.Reason.REFUSED, Deactivation.Reason.LAPSED])
    def test_another_identity_does_not_undo_the_end_of_one(
        self, company: Company, dora: User, reason: Deactivation.Reason
    ) -> None:
        self.end(dora, "elsewhere", reason)
        answer = come(Browser(), company, "dora")
        assert (answer.status_code, "another sign-in of yours ended" in answer.content.decode()) == (403, True)
        dora.refresh_from_db()
        assert not dora.is_active

    @pytest.mark.parametrize("reason", [Deactivation.Reason.REFUSED, Deactivation.Reason.LAPSED])
    def test_the_identity_that_ended_undoes_its_end(
        self, company: Company, dora: User, reason: Deactivation.Reason
    ) -> None:
        self.end(dora, "company", reason)
        assert come(Browser(), company, "dora").status_code == 302
        dora.refresh_from_db()
        assert dora.is_active

    def test_provisioning_elsewhere_that_removed_the_person_is_not_undone(self, company: Company, dora: User) -> None:
        Identity.objects.filter(user=dora, provider__slug="elsewhere").update(provisioned=False)
        accounts.deactivate(dora.pk, Deactivation.Reason.REMOVED, "the test")
        assert come(Browser(), company, "dora").status_code == 403
        dora.refresh_from_db()
        assert not dora.is_active

    def test_signing_in_confirms_one_identity_and_not_the_others(self, company: Company, dora: User) -> None:
        self.end(dora, "company", Deactivation.Reason.LAPSED)
        Identity.objects.filter(provider__slug="elsewhere").update(
            valid_until=Identity.objects.values("valid_until").get(provider__slug="company")["valid_until"]
        )
        come(Browser(), company, "dora")
        company_until, other_until = (
            Identity.objects.values_list("valid_until", flat=True).get(provider__slug=slug)
            for slug in ("company", "elsewhere")
        )
        assert company_until is not None and other_until is not None
        assert other_until < company_until

    def test_removing_the_identity_that_ended_leaves_the_account_to_an_administrator(
        self, company: Company, dora: User
    ) -> None:
        self.end(dora, "elsewhere", Deactivation.Reason.REFUSED)
        Identity.objects.get(provider__slug="elsewhere").delete()
        assert come(Browser(), company, "dora").status_code == 403
        dora.is_active = True
        dora.save()
        assert come(Browser(), company, "dora").status_code == 302

    def test_an_administrator_who_activates_starts_every_period_anew(self, dora: User) -> None:
        from django.utils import timezone

        self.end(dora, "company", Deactivation.Reason.LAPSED)
        dora.refresh_from_db()
        dora.is_active = True
        dora.save()
        assert not Deactivation.objects.exists()
        assert not dora.identities.filter(valid_until__lte=timezone.now()).exists()


def test_the_mapping_of_a_provider_counts_for_linked_identities_too(
    company: Company, sales: Group, alice: User
) -> None:
    company.employ("alice.l", "hub-sales")
    link(open_browser(alice), company, "alice.l")
    GroupMapping.objects.all().delete()
    assert not alice.groups.exists()
