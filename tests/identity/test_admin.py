"""Identity providers and identities in the admin: who may do what, which settings are refused, and testing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client as Browser

from audit.models import Action
from tests.identity import idp
from tests.identity.company import Company, come
from tests.identity.stand_in import Answer, StandIn
from toolhub.identity.models import GroupMapping, Identity, Provider
from toolhub.oauth.models import Client

pytestmark = pytest.mark.django_db
LIST = "/admin/identity/provider/"
SECRET = "a-secret-that-nobody-sees"


def page_of(row: Provider, what: str = "change") -> str:
    return f"{LIST}{row.pk}/{what}/"


def values_of(row: Provider, **changes: Any) -> dict[str, Any]:
    """The form of a provider, with these changes."""
    names = ("name", "issuer", "client_id", "scopes", "subject_claim", "groups_claim", "new_people")
    values = {name: getattr(row, name) for name in (*names, "check_minutes", "lapse_hours")}
    if row.enabled:
        values["enabled"] = "on"
    inlines = {f"mappings-{name}": 0 for name in ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")}
    return {name: value for name, value in ({**values, **inlines} | changes).items() if value is not None}


def save(browser: Browser, row: Provider, **changes: Any) -> Any:
    return browser.post(page_of(row), values_of(row, **changes))


def errors_of(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.headers
    return dict(answer.context["adminform"].form.errors)


@pytest.fixture
def row(db: None) -> Provider:
    made = Provider(slug="acme", name="Acme", issuer="https://login.example", client_id="hub", scopes="openid profile")
    made.set_secret(SECRET)
    made.save()
    return made


@pytest.fixture
def viewer(db: None) -> Browser:
    """Staff who may view providers and identities."""
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="identity"))
    browser = Browser()
    browser.force_login(user)
    return browser


@pytest.fixture
def manager(db: None) -> Browser:
    """Staff who may do everything with users and groups."""
    user = User.objects.create_user("manager", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="auth"))
    browser = Browser()
    browser.force_login(user)
    return browser


class TestWhoMay:
    def test_there_is_no_permission_but_that_to_view(self) -> None:
        found = Permission.objects.filter(content_type__app_label__in=("identity", "account", "socialaccount", "mfa"))
        assert set(found.values_list("codename", flat=True)) == {"view_provider", "view_groupmapping", "view_identity"}

    @pytest.mark.parametrize("who", ["viewer", "manager"])
    def test_only_superusers_change_anything(self, row: Provider, who: str, request: pytest.FixtureRequest) -> None:
        browser: Browser = request.getfixturevalue(who)
        owner = User.objects.create_user("owner")
        identity = Identity.objects.create(user=owner, provider=row, issuer=row.issuer, subject="1")
        before = Provider.objects.values().get()
        answers = [
            browser.get(f"{LIST}add/"),
            browser.post(f"{LIST}add/", {"name": "Evil", "slug": "evil", "kind": "openid_connect"}),
            save(browser, row, issuer="https://evil.example", new_secret="x"),
            browser.post(page_of(row, "delete"), {"post": "yes"}),
            browser.get(page_of(row, "test")),
            browser.post(page_of(row, "test"), {"action": "sign-in"}),
            browser.post(page_of(row, "test"), {"action": "check"}),
            browser.post(f"/admin/identity/identity/{identity.pk}/delete/", {"post": "yes"}),
            browser.post(f"/admin/identity/identity/{identity.pk}/change/", {"subject": "2"}),
        ]
        assert [answer.status_code for answer in answers] == [403] * len(answers)
        browser.post(
            "/admin/identity/identity/", {"action": "delete_selected", "_selected_action": [identity.pk], "post": "yes"}
        )
        browser.post(LIST, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
        assert Provider.objects.values().get() == before
        assert Identity.objects.values_list("subject", flat=True).get() == "1"

    def test_managers_of_users_see_nothing_of_it(self, row: Provider, manager: Browser) -> None:
        assert [manager.get(path).status_code for path in (LIST, page_of(row))] == [403, 403]

    def test_viewers_see_everything_but_the_secret(self, row: Provider, viewer: Browser) -> None:
        GroupMapping.objects.create(provider=row, value="there", group=Group.objects.create(name="Here"))
        page = viewer.get(page_of(row)).content.decode()
        assert "https://login.example" in page and "there" in page
        assert 'name="new_secret"' not in page
        assert 'name="issuer"' not in page
        assert SECRET not in page and row.client_secret not in page

    def test_people_who_are_no_staff_are_led_to_the_sign_in(self, row: Provider, alice: User) -> None:
        browser = Browser()
        browser.force_login(alice)
        for path in (LIST, page_of(row), page_of(row, "test")):
            assert browser.get(path)["Location"].startswith("/admin/login/")


class TestSaving:
    def test_a_new_provider_is_off_until_it_is_complete(self, browser: Browser) -> None:
        answer = browser.post(f"{LIST}add/", {"name": "Acme", "slug": "acme", "kind": "openid_connect"})
        row = Provider.objects.get()
        assert answer["Location"] == page_of(row)
        assert (row.enabled, row.issuer, row.scopes, row.new_people) == (False, "", "openid profile email", "mapped")
        assert errors_of(save(browser, row, enabled="on")) == {
            "issuer": ["Required before people can sign in."],
            "client_id": ["Required before people can sign in."],
        }
        assert save(browser, row, enabled="on", issuer="https://login.example", client_id="hub").status_code == 302
        row.refresh_from_db()
        assert row.enabled

    def test_github_has_its_address_and_needs_a_secret(self, browser: Browser) -> None:
        browser.post(f"{LIST}add/", {"name": "GitHub", "slug": "github", "kind": "github"})
        row = Provider.objects.get()
        assert (row.issuer, row.scopes) == ("https://github.com", "read:user read:org")
        assert "new_secret" in errors_of(save(browser, row, enabled="on", client_id="x"))
        assert save(browser, row, enabled="on", client_id="x", new_secret="y").status_code == 302

    @pytest.mark.parametrize(
        "address",
        [
            "http://login.example",
            "ftp://login.example",
            "login.example",
            "https://",
            "https://login.example/?tenant=1",
            "https://login.example/?",
            "https://login.example/#x",
            "https://user@login.example",
            "https://:secret@login.example",
            "https://login.example:abc",
            "https://[::1",
            "https://login.example\\@evil.example",
            "https://log in.example",
            "javascript:alert(1)",
            "http://localhost.evil.example",
        ],
    )
    def test_an_issuer_that_is_no_https_address_is_refused(self, row: Provider, browser: Browser, address: str) -> None:
        assert list(errors_of(save(browser, row, issuer=address))) == ["issuer"]
        row.refresh_from_db()
        assert row.issuer == "https://login.example"

    @pytest.mark.parametrize(
        ("address", "stored"),
        [
            ("https://login.example/realms/a/", "https://login.example/realms/a"),
            ("https://login.example:8443//", "https://login.example:8443"),
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("http://localhost", "http://localhost"),
            ("http://[::1]:9000", "http://[::1]:9000"),
        ],
    )
    def test_an_issuer_is_stored_without_a_slash_at_its_end(
        self, row: Provider, browser: Browser, address: str, stored: str
    ) -> None:
        assert save(browser, row, issuer=address).status_code == 302
        row.refresh_from_db()
        assert row.issuer == stored

    @pytest.mark.parametrize("claim", ["email", "Email", " upn ", "preferred_username", "name", ""])
    def test_a_claim_that_changes_hands_identifies_nobody(self, row: Provider, browser: Browser, claim: str) -> None:
        assert list(errors_of(save(browser, row, subject_claim=claim))) == ["subject_claim"]

    @pytest.mark.parametrize("scopes", ["profile", "openid2 email", "OPENID"])
    def test_scopes_without_openid_are_refused(self, row: Provider, browser: Browser, scopes: str) -> None:
        assert list(errors_of(save(browser, row, scopes=scopes))) == ["scopes"]

    @pytest.mark.parametrize("changes", [{"check_minutes": 0}, {"lapse_hours": 0}, {"lapse_hours": 10_000}], ids=str)
    def test_periods_without_end_are_refused(self, row: Provider, browser: Browser, changes: dict[str, int]) -> None:
        assert list(errors_of(save(browser, row, **changes))) == list(changes)

    def test_the_secret_is_in_no_page_and_not_in_the_log(self, row: Provider, browser: Browser) -> None:
        assert save(browser, row, new_secret="another-secret").status_code == 302
        row.refresh_from_db()
        assert row.read_secret() == "another-secret"
        for path in (LIST, page_of(row), page_of(row, "test"), page_of(row, "history")):
            page = browser.get(path).content.decode()
            assert "another-secret" not in page and row.client_secret not in page, path
        refused = save(browser, row, new_secret="a-third-secret", issuer="garbage").content.decode()
        assert "a-third-secret" not in refused
        logged = json.dumps(list(Action.objects.values("before", "after", "target")))
        assert "identity provider" in json.dumps(list(Action.objects.values_list("kind", flat=True)))
        for text in ("another-secret", SECRET, row.client_secret):
            assert text not in logged

    def test_an_empty_secret_keeps_the_stored_one(self, row: Provider, browser: Browser) -> None:
        assert save(browser, row, new_secret="", name="Acme Inc").status_code == 302
        row.refresh_from_db()
        assert (row.read_secret(), row.name) == (SECRET, "Acme Inc")

    def test_without_a_key_a_secret_is_refused(self, row: Provider, browser: Browser, settings: Any) -> None:
        settings.ENCRYPTION_KEYS = []
        assert "TOOLHUB_ENCRYPTION_KEYS" in str(errors_of(save(browser, row, new_secret="x"))["new_secret"])

    def test_the_short_name_and_the_type_never_change(self, row: Provider, browser: Browser) -> None:
        assert save(browser, row, slug="evil", kind="github", from_environment="on", metadata="<x/>").status_code == 302
        row.refresh_from_db()
        assert (row.slug, row.kind, row.from_environment, row.metadata) == ("acme", "openid_connect", False, "")

    def test_the_short_name_of_the_environment_is_reserved(self, browser: Browser) -> None:
        answer = browser.post(f"{LIST}add/", {"name": "Mine", "slug": "sso", "kind": "openid_connect"})
        assert list(errors_of(answer)) == ["slug"]

    def test_a_secret_sent_to_the_form_for_a_new_provider_is_not_kept(self, browser: Browser) -> None:
        browser.post(f"{LIST}add/", {"name": "A", "slug": "a", "kind": "openid_connect", "new_secret": "x"})
        assert Provider.objects.get().client_secret == ""

    def test_mappings_are_saved_and_logged(self, row: Provider, browser: Browser) -> None:
        group = Group.objects.create(name="Here")
        mapping = {"mappings-TOTAL_FORMS": 1, "mappings-MAX_NUM_FORMS": 1000, "mappings-0-value": "there"}
        assert (
            save(browser, row, **mapping, **{"mappings-0-group": group.pk, "mappings-0-staff": "on"}).status_code == 302
        )
        assert GroupMapping.objects.values_list("value", "group", "staff").get() == ("there", group.pk, True)
        assert Action.objects.filter(kind="group mapping", actor="root").exists()

    def test_many_mappings_are_read_and_saved_page_by_page(self, row: Provider, browser: Browser) -> None:
        groups = [Group.objects.create(name=f"group{number:02}") for number in range(12)]
        rows = [GroupMapping.objects.create(provider=row, value=group.name, group=group) for group in groups]
        first, second = (browser.get(page_of(row), {"mappings-page": page}).content.decode() for page in (1, 2))
        assert 'value="group09"' in first and 'value="group10"' not in first
        assert 'value="group10"' in second and 'value="group09"' not in second
        mapping = {"mappings-page": "2", "mappings-TOTAL_FORMS": "2", "mappings-INITIAL_FORMS": "2"}
        for number, one in enumerate(rows[10:]):
            sent = {"id": one.pk, "provider": row.pk, "value": f"new{number}", "group": one.group_id}
            mapping |= {f"mappings-{number}-{name}": str(value) for name, value in sent.items()}
        assert save(browser, row, **mapping).status_code == 302
        values = list(GroupMapping.objects.order_by("pk").values_list("value", flat=True))
        assert values == [*(group.name for group in groups[:10]), "new0", "new1"]


class TestWhilePeopleSignIn:
    @pytest.fixture
    def identity(self, row: Provider, alice: User) -> Identity:
        return Identity.objects.create(user=alice, provider=row, issuer=row.issuer, subject="1", label="alice.l")

    def test_issuer_and_subject_claim_are_fixed(self, row: Provider, browser: Browser, identity: Identity) -> None:
        assert save(browser, row, issuer="https://evil.example", subject_claim="oid", name="Renamed").status_code == 302
        row.refresh_from_db()
        assert (row.issuer, row.subject_claim, row.name) == ("https://login.example", "sub", "Renamed")

    def test_the_provider_cannot_be_deleted(self, row: Provider, browser: Browser, identity: Identity) -> None:
        assert browser.post(page_of(row, "delete"), {"post": "yes"}).status_code == 403
        browser.post(LIST, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
        assert Provider.objects.exists()

    def test_an_identity_is_shown_and_removed_and_never_changed(
        self, row: Provider, browser: Browser, identity: Identity, alice: User
    ) -> None:
        path = f"/admin/identity/identity/{identity.pk}/change/"
        page = browser.get(path).content.decode()
        assert "alice.l" in page and 'name="subject"' not in page
        assert browser.post(path, {"subject": "2", "user": "1"}).status_code == 403
        assert browser.get("/admin/identity/identity/add/").status_code == 403
        assert "alice.l" in browser.get("/admin/identity/identity/?q=alice").content.decode()
        assert browser.post(path.replace("change", "delete"), {"post": "yes"}).status_code == 302
        assert not Identity.objects.exists()
        assert User.objects.filter(pk=alice.pk).exists()

    def test_removing_identities_at_once_takes_their_groups(
        self, row: Provider, browser: Browser, identity: Identity, alice: User
    ) -> None:
        Identity.objects.update(claimed_groups=["there"])
        GroupMapping.objects.create(provider=row, value="there", group=Group.objects.create(name="Here"), staff=True)
        assert alice.groups.exists()
        browser.post(
            "/admin/identity/identity/", {"action": "delete_selected", "_selected_action": [identity.pk], "post": "yes"}
        )
        assert not Identity.objects.exists()
        assert not alice.groups.exists()
        assert not User.objects.get(pk=alice.pk).is_staff

    def test_no_page_has_the_token_of_the_provider(self, row: Provider, browser: Browser, identity: Identity) -> None:
        identity.set_refresh_token("a-refresh-token")
        identity.save()
        for path in ("/admin/identity/identity/", f"/admin/identity/identity/{identity.pk}/change/"):
            page = browser.get(path).content.decode()
            assert "a-refresh-token" not in page and identity.refresh_token not in page
        assert identity.refresh_token not in json.dumps(list(Action.objects.values("before", "after")))


class TestChecking:
    def check(self, browser: Browser, row: Provider) -> list[tuple[bool, str]]:
        answer = browser.post(page_of(row, "test"), {"action": "check"})
        assert answer.status_code == 200
        found: list[tuple[bool, str]] = answer.context["checks"]
        return found

    def test_a_provider_that_works_passes(self, browser: Browser, provider: Provider, sales: Group) -> None:
        found = self.check(browser, provider)
        assert all(passed for passed, _text in found), found
        assert "The provider's signing keys were read." in [text for _passed, text in found]

    def test_it_names_what_is_missing(self, browser: Browser, provider: Provider) -> None:
        Provider.objects.update(client_id="", client_secret="")
        texts = [text for passed, text in self.check(browser, provider) if not passed]
        assert texts == ["The client ID is missing.", "No group is mapped, so nobody new can sign in."]

    @pytest.mark.parametrize("part", ["openid-configuration", "jwks.json"])
    def test_one_that_fails_is_named(self, browser: Browser, company: Company, provider: Provider, part: str) -> None:
        company.control(broken=part)
        assert "503" in str([text for passed, text in self.check(browser, provider) if not passed])

    def test_one_that_does_not_answer_is_named(self, browser: Browser, provider: Provider, sales: Group) -> None:
        Provider.objects.update(issuer="http://127.0.0.1:9")
        (text,) = [text for passed, text in self.check(browser, provider) if not passed]
        assert text.startswith("The provider cannot be used: ")

    def test_one_that_says_another_issuer_is_named(self, browser: Browser, provider: Provider, sales: Group) -> None:
        with StandIn() as other:
            other.answers["/.well-known/openid-configuration"] = Answer({"issuer": provider.issuer})
            Provider.objects.update(issuer=other.url)
            (text,) = [text for passed, text in self.check(browser, provider) if not passed]
        assert text == "The provider cannot be used: other_issuer."


class TestSigningInToTest:
    def begin(self, browser: Browser, row: Provider, company: Company, name: str) -> str:
        answer = browser.post(page_of(row, "test"), {"action": "sign-in"})
        assert answer.status_code == 200, answer.content.decode()
        return company.answer(answer.context["address"], name)

    def test_it_shows_what_the_provider_says_and_changes_nothing(
        self, browser: Browser, company: Company, provider: Provider, sales: Group
    ) -> None:
        Provider.objects.update(enabled=False)
        subject = company.employ("dora", "hub-sales", "others", claims={"email": "dora@example.com"})
        answer = browser.get(self.begin(browser, provider, company, "dora"), follow=True)
        page = answer.content.decode()
        for text in (subject, "dora@example.com", "hub-sales", "Sales", "others"):
            assert text in page
        assert not User.objects.filter(username="dora").exists()
        assert not Identity.objects.exists()
        assert User.objects.get(pk=browser.session["_auth_user_id"]).username == "root"

    def test_the_result_is_of_this_provider_only(
        self, browser: Browser, company: Company, provider: Provider, row: Provider
    ) -> None:
        company.employ("dora")
        browser.get(self.begin(browser, provider, company, "dora"))
        assert browser.get(page_of(provider, "test")).context["result"] is not None
        assert browser.get(page_of(row, "test")).context["result"] is None

    def test_it_ends_with_the_administrator_who_began(
        self, browser: Browser, company: Company, provider: Provider
    ) -> None:
        company.employ("dora")
        back = self.begin(browser, provider, company, "dora")
        other = User.objects.create_user("second", is_staff=True, is_superuser=True)
        session = browser.session
        session["_auth_user_id"], session["_auth_user_hash"] = str(other.pk), other.get_session_auth_hash()
        session.save()
        assert browser.get(back).status_code == 403
        assert "identity_test" not in browser.session

    def test_somebody_who_is_no_superuser_any_more_sees_nothing(
        self, browser: Browser, company: Company, provider: Provider
    ) -> None:
        company.employ("dora")
        back = self.begin(browser, provider, company, "dora")
        User.objects.filter(username="root").update(is_superuser=False)
        assert browser.get(back).status_code == 403


class TestTheEnvironment:
    @pytest.fixture
    def fixed(self, settings: Any, db: None) -> Provider:
        from toolhub.identity import providers

        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = "https://login.example", "hub"
        settings.OIDC_CLIENT_SECRET = SECRET
        row = providers.find("sso")
        assert row is not None
        return row

    def test_what_the_environment_says_cannot_be_changed_here(self, fixed: Provider, browser: Browser) -> None:
        page = browser.get(page_of(fixed)).content.decode()
        assert 'name="issuer"' not in page and 'name="new_secret"' not in page and SECRET not in page
        changes = {"issuer": "https://evil.example", "client_id": "evil", "new_secret": "evil", "name": "Evil"}
        assert save(browser, fixed, **changes, enabled=None, new_people="everyone").status_code == 302
        fixed.refresh_from_db()
        assert (fixed.issuer, fixed.client_id, fixed.name, fixed.enabled, fixed.client_secret, fixed.new_people) == (
            *("https://login.example", "hub", "Single sign-on", True, ""),
            "everyone",
        )

    def test_it_cannot_be_deleted(self, fixed: Provider, browser: Browser) -> None:
        assert browser.post(page_of(fixed, "delete"), {"post": "yes"}).status_code == 403
        assert Provider.objects.exists()


def test_the_page_of_an_identity_shows_its_groups(
    browser: Browser, company: Company, provider: Provider, sales: Group
) -> None:
    company.employ("dora", "hub-sales", "zeta")
    come(Browser(), company, "dora")
    identity = Identity.objects.get()
    page = browser.get(f"/admin/identity/identity/{identity.pk}/change/").content.decode()
    assert "hub-sales, zeta" in page
    assert idp.CLIENT_SECRET not in page


class TestAssertions:
    """Which clients a provider may connect people to, without asking them."""

    @staticmethod
    def make_client(**changes: Any) -> Client:
        values = {"name": "Chat", "client_type": Client.CLIENT_CONFIDENTIAL, "redirect_uris": "https://a.example/cb"}
        return Client.objects.create(**{**values, **changes})

    def test_a_superuser_turns_them_on_for_chosen_clients(self, row: Provider, browser: Browser) -> None:
        client = self.make_client()
        assert (row.accepts_assertions, row.assertion_clients.count()) == (False, 0)
        answer = save(browser, row, accepts_assertions="on", assertion_clients=[client.pk])
        assert answer.status_code == 302
        row.refresh_from_db()
        assert (row.accepts_assertions, list(row.assertion_clients.all())) == (True, [client])
        logged = repr(list(Action.objects.filter(kind="identity provider").values_list("after", flat=True)))
        assert "accepts_assertions" in logged and "Chat" in logged
        save(browser, row)
        row.refresh_from_db()
        assert (row.accepts_assertions, row.assertion_clients.count()) == (False, 0)

    @pytest.mark.parametrize(
        "changes",
        [
            {"client_type": Client.CLIENT_PUBLIC},
            {"registration_source": Client.RegistrationSource.DCR},
            {"registration_source": Client.RegistrationSource.CIMD},
        ],
        ids=str,
    )
    def test_a_client_that_anybody_could_have_made_is_no_choice(
        self, row: Provider, browser: Browser, changes: dict[str, Any]
    ) -> None:
        client = self.make_client(**changes)
        answer = save(browser, row, accepts_assertions="on", assertion_clients=[client.pk])
        assert set(errors_of(answer)) == {"assertion_clients"}
        query = {"app_label": "identity", "model_name": "provider", "field_name": "assertion_clients", "term": "Chat"}
        assert browser.get("/admin/autocomplete/", query).json()["results"] == []

    @pytest.mark.parametrize("who", ["viewer", "manager"])
    def test_nobody_else_does(self, row: Provider, who: str, request: pytest.FixtureRequest) -> None:
        client = self.make_client()
        browser: Browser = request.getfixturevalue(who)
        answer = save(browser, row, accepts_assertions="on", assertion_clients=[client.pk])
        assert answer.status_code == 403
        row.refresh_from_db()
        assert (row.accepts_assertions, row.assertion_clients.count()) == (False, 0)

    @pytest.mark.parametrize("kind", [Provider.Kind.SAML, Provider.Kind.GITHUB])
    def test_other_types_of_providers_have_no_such_choice(self, row: Provider, browser: Browser, kind: str) -> None:
        Provider.objects.update(kind=kind)
        assert "accepts_assertions" not in browser.get(page_of(row)).content.decode()
        save(browser, row, accepts_assertions="on", assertion_clients=[self.make_client().pk])
        row.refresh_from_db()
        assert (row.accepts_assertions, row.assertion_clients.count()) == (False, 0)
