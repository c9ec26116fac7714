"""Signing in with a SAML provider: who gets in, as whom, and which responses sign nobody in."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings as conf
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.cache import caches
from django.test import Client as Browser
from django.utils import timezone
from lxml import etree
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Names
from onelogin.saml2.xml_utils import OneLogin_Saml2_XML as Xml

from audit.models import Action
from tests.identity import saml_idp
from tests.identity.saml_idp import NS, Company, Key
from toolhub.identity import renewal, saml_metadata, saml_views
from toolhub.identity.models import GroupMapping, Identity, Provider
from toolhub.identity.saml_metadata import MetadataError

pytestmark = pytest.mark.django_db

ACS, FINISH, OWN = (f"/sign-in/with/works/saml/{name}/" for name in ("acs", "finish", "metadata"))
TRANSFORM = b'<ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/>'
ELSEWHERE, SELF = "https://evil.example/", conf.PUBLIC_URL


@pytest.fixture(scope="session")
def _works() -> Iterator[Company]:
    with Company() as found:
        yield found


@pytest.fixture
def works(_works: Company) -> Company:
    caches["limits"].clear()
    caches["local"].clear()
    return _works


@pytest.fixture(scope="session")
def stranger() -> Key:
    """A key that is not in the provider's metadata."""
    return Key()


@pytest.fixture
def row(db: None, works: Company) -> Provider:
    return works.configure()


@pytest.fixture
def sales(row: Provider) -> Group:
    group = Group.objects.create(name="Sales")
    GroupMapping.objects.create(provider=row, value="hub-sales", group=group)
    return group


@pytest.fixture
def open_door(row: Provider) -> Provider:
    """A provider whose people all get an account, so that nothing but the response can be the reason of a refusal."""
    row.new_people = Provider.NewPeople.EVERYONE
    row.save()
    return row


def begin(browser: Browser, target: str = "") -> str:
    """Leave for the provider; return the address there."""
    leaving = browser.get("/sign-in/with/works/", {"next": target} if target else {})
    assert leaving.status_code == 302, leaving.content.decode()
    return str(leaving.headers["location"])


def arrive(browser: Browser, form: dict[str, str]) -> Any:
    """Come back with the response of the provider: a POST without the session, then a GET with it."""
    posted = post(form)
    if posted.status_code != 303:
        return posted
    browser.cookies.update(posted.cookies)
    return browser.get(posted.headers["location"])


def post(form: dict[str, str], **options: Any) -> Any:
    """Send the form of the provider's page, as a browser does: no cookie goes along from another site."""
    return Browser(enforce_csrf_checks=True).post(ACS, form, **options)


def come(browser: Browser, works: Company, subject: str, *, target: str = "", **wanted: Any) -> Any:
    return arrive(browser, works.answer(begin(browser, target), subject, **wanted))


def signed_in(browser: Browser) -> str | None:
    key = browser.session.get("_auth_user_id")
    return User.objects.get(pk=key).username if key else None


def assert_refused(browser: Browser, answer: Any, code: str) -> None:
    assert answer.status_code in {403, 413, 429, 502}, answer.headers
    assert signed_in(browser) is None
    assert not Identity.objects.exists()
    if code:
        action = Action.objects.filter(verb="failed to sign in").latest("pk")
        assert code in str(action.after), action.after


class TestRefusals:
    @pytest.mark.parametrize(
        ("wanted", "code"),
        [
            ({"destination": f"{ELSEWHERE}acs"}, "wrong_destination"),
            ({"destination": f"{SELF}{ACS}more"}, "wrong_destination"),
            ({"destination": None}, "wrong_destination"),
            ({"recipient": f"{ELSEWHERE}acs"}, "wrong_subjectconfirmation"),
            ({"recipient": f"{SELF}{ACS}more"}, "wrong_recipient"),
            ({"recipient": None}, "wrong_recipient"),
            ({"audience": "https://other.example/"}, "wrong_audience"),
            ({"audience": None}, "wrong_audience"),
            ({"in_response_to": None}, "unsolicited"),
            ({"in_response_to": None, "confirmed_request": None}, "unsolicited"),
            ({"confirmed_request": None}, "wrong_inresponseto"),
            ({"confirmed_request": "_another"}, "wrong_subjectconfirmation"),
            ({"issuer": "https://other-idp.example"}, "wrong_issuer"),
            ({"assertion_issuer": "https://other-idp.example"}, "wrong_issuer"),
            ({"assertion_issuer": ""}, "wrong_issuer"),
            ({"now": datetime.now(UTC) - timedelta(hours=1)}, "assertion_expired"),
            ({"begin": datetime.now(UTC) + timedelta(days=3650)}, "assertion_too_early"),
            ({"confirmation_end": datetime.now(UTC) - timedelta(seconds=1)}, "wrong_subjectconfirmation"),
            ({"confirmation_end": None}, "assertion_expired"),
            ({"method": "urn:oasis:names:tc:SAML:2.0:cm:sender-vouches"}, "wrong_subjectconfirmation"),
            ({"status": "urn:oasis:names:tc:SAML:2.0:status:Responder"}, "not_success"),
            ({"name_id": None}, "no_subject"),
            ({"name_id": ""}, "no_subject"),
            ({"name_id": "x" * 256}, "no_subject"),
            ({"name_id_format": Names.NAMEID_TRANSIENT}, "transient"),
            ({"name_id_format": Names.NAMEID_EMAIL_ADDRESS}, "changing_name"),
            ({"name_id_format": Names.NAMEID_UNSPECIFIED}, "changing_name"),
            ({"name_id_format": None}, "changing_name"),
            ({"qualifiers": {"SPNameQualifier": "https://other.example"}}, "name_qualifier"),
            ({"qualifiers": {"NameQualifier": "https://other-idp.example"}}, "name_qualifier"),
            ({"attributes": {"http://schemas.microsoft.com/claims/groups.link": ["https://graph"]}}, "too_many_groups"),
            (
                {
                    "conditions": '<saml:Condition xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
                    ' xsi:type="saml:OneTimeUseType"/>'
                },
                "unknown_condition",
            ),
        ],
        ids=lambda value: ",".join(map(str, value)) if isinstance(value, dict) else value,
    )
    def test_a_response_that_was_not_meant_for_this_sign_in(
        self, works: Company, open_door: Provider, wanted: dict[str, Any], code: str
    ) -> None:
        browser = Browser()
        assert_refused(browser, come(browser, works, "u-1", **wanted), code)
        # The same browser gets in with a good one, so the reason was the response.
        assert come(browser, works, "u-1").status_code == 302
        assert signed_in(browser) is not None

    @pytest.mark.parametrize(
        ("signing", "code"),
        [
            (None, "no_signed_assertion"),
            ({"key": "stranger"}, "invalid_signature"),
            ({"what": "message"}, "no_signed_assertion"),
            ({"algorithm": Names.RSA_SHA1}, "signature_algorithm"),
            ({"digest": Names.SHA1}, "signature_algorithm"),
        ],
        ids=str,
    )
    def test_an_assertion_that_the_provider_did_not_sign_well(
        self, works: Company, open_door: Provider, stranger: Key, signing: dict[str, Any] | None, code: str
    ) -> None:
        browser = Browser()
        response = works.write(saml_idp.read_request(begin(browser)), "u-1")
        if signing is not None:
            key = stranger if "key" in signing else works.key
            response = works.sign(response, key, **{name: signing[name] for name in signing if name != "key"})
        assert_refused(browser, arrive(browser, {"SAMLResponse": saml_idp.pack(response)}), code)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (b"u-1</saml:NameID>", b"u-2</saml:NameID>"),
            (b"u-1</saml:NameID>", b"u-1</saml:NameID><saml:NameID>u-2</saml:NameID>"),
            (b"<saml:AttributeValue>others", b"<saml:AttributeValue>hub-admins"),
            (
                b"<ds:Transforms>",
                b'<ds:Transforms><ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/>',
            ),
            (
                b"</ds:SignedInfo>",
                b'<ds:Reference URI="#x"><ds:DigestMethod Algorithm="a"/></ds:Reference></ds:SignedInfo>',
            ),
            (b"</ds:Signature>", b"<ds:Object/></ds:Signature>"),
        ],
        ids=str,
    )
    def test_a_signed_assertion_that_was_changed(
        self, works: Company, open_door: Provider, before: bytes, after: bytes
    ) -> None:
        browser = Browser()
        response = works.write(saml_idp.read_request(begin(browser)), "u-1", groups=["others"])
        changed = saml_idp.spoil(works.sign(response), lambda raw: raw.replace(before, after, 1))
        assert_refused(browser, arrive(browser, {"SAMLResponse": saml_idp.pack(changed)}), "")

    @pytest.mark.parametrize("place", ["extensions", "before", "after", "around", "object", "same id", "xml:id"])
    def test_a_signed_assertion_that_was_moved_aside_for_another(
        self, works: Company, open_door: Provider, place: str
    ) -> None:
        """Signature wrapping: the signed assertion is still there and valid, and the first one says something else."""
        browser = Browser()
        root = works.sign(works.write(saml_idp.read_request(begin(browser)), "u-1"))
        original = root.find("saml:Assertion", NS)
        forged = etree.fromstring(etree.tostring(original))
        signature = forged.find("ds:Signature", NS)
        forged.find("saml:Subject/saml:NameID", NS).text = "u-of-somebody-else"
        if place not in {"same id", "object"}:
            forged.set("ID", "_forged")
        if place != "object":
            forged.remove(signature)
        if place == "extensions":
            extensions = etree.Element(f"{{{Names.NS_SAMLP}}}Extensions")
            root.insert(1, extensions)
            extensions.append(original)
            root.append(forged)
        elif place == "before":
            original.addprevious(forged)
        elif place == "after":
            original.addnext(forged)
        elif place == "around":
            root.replace(original, forged)
            forged.append(original)
        elif place == "object":
            root.replace(original, forged)
            original.remove(original.find("ds:Signature", NS))
            etree.SubElement(signature, f"{{{Names.NS_DS}}}Object").append(original)
        elif place == "same id":
            original.addprevious(forged)
        else:
            root.replace(original, forged)
            forged.insert(1, original.find("ds:Signature", NS))
            forged.set("{http://www.w3.org/XML/1998/namespace}id", original.get("ID"))
        assert_refused(browser, arrive(browser, {"SAMLResponse": saml_idp.pack(root)}), "")

    @pytest.mark.parametrize(
        "declaration",
        [
            '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/hostname">]>',
            '<!DOCTYPE r [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x"> %x;]>',
            '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x">',
            '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY x "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
            "<!DOCTYPE r>",
        ],
    )
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    def test_a_document_type_is_never_read(
        self, works: Company, open_door: Provider, declaration: str, encoding: str
    ) -> None:
        browser = Browser()
        signed = etree.tostring(works.sign(works.write(saml_idp.read_request(begin(browser)), "u-1"))).decode()
        use = "&x;" if "ENTITY x" in declaration else ""
        text = f'<?xml version="1.0" encoding="{encoding}"?>{declaration}{signed}'.replace(
            "<samlp:Status>", f"<samlp:Extensions><x>{use}</x></samlp:Extensions><samlp:Status>", 1
        )
        form = {"SAMLResponse": saml_idp.pack(text.encode(encoding))}
        assert_refused(browser, arrive(browser, form), "unreadable")

    @pytest.mark.parametrize(
        "form",
        [
            {},
            {"SAMLResponse": ""},
            {"SAMLResponse": "%%%"},
            {"SAMLResponse": base64.b64encode(b"no xml").decode()},
            {"SAMLResponse": base64.b64encode(b"<x/>").decode()},
            {"SAMLResponse": base64.b64encode(b"\xff\xfe\x00").decode()},
            {"SAMLResponse": ["a", "b"]},
            {"SAMLRequest": "a"},
            {"SAMLResponse": base64.b64encode(b"<a>" * 5_000).decode()},
        ],
        ids=lambda form: str(form)[:40],
    )
    def test_whatever_else_anybody_posts_is_refused_and_nothing_is_stored(
        self, open_door: Provider, form: dict[str, Any]
    ) -> None:
        before = Session.objects.count()
        answer = post(form)
        assert (answer.status_code, Session.objects.count()) == (403, before)

    def test_a_body_that_is_too_large_is_refused(self, open_door: Provider) -> None:
        assert post({"SAMLResponse": "A" * saml_views.MAX_BODY_BYTES}).status_code == 413

    @pytest.mark.parametrize(
        ("before", "after", "code"),
        [
            (b"others", b"<x%s/>" % b"".join(b' a%d="1"' % one for one in range(51)), "too_many_attributes"),
            (TRANSFORM, TRANSFORM * 2, "signature_form"),
            (
                TRANSFORM,
                TRANSFORM.replace(b"/>", b'><e:InclusiveNamespaces xmlns:e="e" PrefixList="%s"/></ds:Transform>')
                % (b"p " * 101),
                "signature_form",
            ),
        ],
        ids=["attributes", "transforms", "prefixes"],
    )
    def test_a_signature_that_would_take_long_is_not_computed(
        self, works: Company, open_door: Provider, before: bytes, after: bytes, code: str
    ) -> None:
        browser = Browser()
        signed = works.sign(works.write(saml_idp.read_request(begin(browser)), "u-1", groups=["others"]))
        changed = saml_idp.spoil(signed, lambda raw: raw.replace(before, after, 1))
        assert_refused(browser, arrive(browser, {"SAMLResponse": saml_idp.pack(changed)}), code)

    def test_one_address_sends_only_so_many(self, open_door: Provider) -> None:
        found = [post({}, REMOTE_ADDR="203.0.113.8").status_code for _time in range(61)]
        assert (found[0], found[-1]) == (403, 429)
        assert post({}, REMOTE_ADDR="203.0.113.7").status_code == 403

    def test_a_response_works_once(self, works: Company, open_door: Provider) -> None:
        browser = Browser()
        form = works.answer(begin(browser), "u-1")
        assert arrive(browser, form).status_code == 302
        browser.post("/sign-out/")
        again = arrive(browser, form)
        assert (again.status_code, signed_in(browser)) == (403, None)
        assert "was used before" in again.content.decode()

    def test_a_response_works_only_in_the_browser_that_asked_for_it(self, works: Company, open_door: Provider) -> None:
        browser, thief = Browser(), Browser()
        begin(thief)
        form = works.answer(begin(browser), "u-1")
        assert_refused(thief, arrive(thief, form), "")
        posted = post(form)
        assert browser.get(FINISH).status_code == 403
        browser.cookies.update(posted.cookies)
        works.configure(slug="second", name="Second")
        assert browser.get(FINISH.replace("works", "second")).status_code == 403
        browser.cookies.update(posted.cookies)
        assert browser.get(FINISH).status_code == 302
        assert browser.get(FINISH).status_code == 403
        assert not Session.objects.filter(pk=posted.cookies[saml_views.COOKIE].value).exists()

    def test_a_response_waits_five_minutes_for_its_browser(self, works: Company, open_door: Provider) -> None:
        browser = Browser()
        posted = post(works.answer(begin(browser), "u-1"))
        cookie = posted.cookies[saml_views.COOKIE]
        assert (cookie["max-age"], cookie["path"], cookie["httponly"], cookie["samesite"]) == (300, FINISH, True, "Lax")
        waiting = Session.objects.get(pk=cookie.value)
        assert timedelta(seconds=290) < waiting.expire_date - timezone.now() <= timedelta(seconds=300)
        Session.objects.filter(pk=cookie.value).update(expire_date=timezone.now())
        browser.cookies.update(posted.cookies)
        assert_refused(browser, browser.get(FINISH), "")

    def test_a_session_that_is_no_waiting_response_is_left_alone(self, open_door: Provider, alice: User) -> None:
        browser = Browser()
        browser.force_login(alice)
        thief = Browser()
        thief.cookies[saml_views.COOKIE] = str(browser.session.session_key)
        assert thief.get(FINISH).status_code == 403
        assert signed_in(browser) == "alice"

    def test_the_response_of_another_provider_is_refused(self, works: Company, open_door: Provider) -> None:
        browser = Browser()
        with Company("https://other-idp.example") as other:
            other.configure(slug="other", name="Other", new_people=Provider.NewPeople.EVERYONE)
            address = begin(browser)
            assert_refused(browser, arrive(browser, other.answer(address, "u-1")), "wrong_issuer")
            # Nor with the name of this one.
            forged = other.answer(address, "u-1", issuer=works.entity_id, assertion_issuer=works.entity_id)
            assert_refused(browser, arrive(browser, forged), "invalid_signature")
            # Nor at the address of that one with the request of this one.
            theirs = Browser().post("/sign-in/with/other/saml/acs/", works.answer(address, "u-1"))
            assert theirs.status_code == 403

    def test_a_response_for_another_provider_with_the_same_key_is_refused(
        self, works: Company, open_door: Provider
    ) -> None:
        works.configure(slug="second", name="Second", new_people=Provider.NewPeople.EVERYONE)
        browser = Browser()
        address = str(browser.get("/sign-in/with/second/").headers["location"])
        assert_refused(browser, arrive(browser, works.answer(address, "u-1")), "wrong_destination")

    def test_a_provider_that_was_changed_meanwhile_signs_nobody_in(self, works: Company, open_door: Provider) -> None:
        browser = Browser()
        posted = post(works.answer(begin(browser), "u-1"))
        Provider.objects.update(issuer="https://new.example")
        browser.cookies.update(posted.cookies)
        assert_refused(browser, browser.get(FINISH), "")

    def test_a_provider_that_is_off_signs_nobody_in(self, works: Company, open_door: Provider) -> None:
        browser = Browser()
        form = works.answer(begin(browser), "u-1")
        Provider.objects.update(enabled=False)
        assert_refused(browser, arrive(browser, form), "off")

    def test_the_host_of_the_request_decides_nothing(self, works: Company, open_door: Provider, settings: Any) -> None:
        settings.ALLOWED_HOSTS = ["*"]
        browser = Browser(headers={"host": "evil.example", "x-forwarded-host": "evil.example"})
        request = saml_idp.read_request(begin(browser))
        assert request.get("AssertionConsumerServiceURL") == f"{settings.PUBLIC_URL}{ACS}"
        assert request.findtext("saml:Issuer", namespaces=NS) == f"{settings.PUBLIC_URL}{OWN}"
        forged = works.sign(works.write(request, "u-1", destination=f"http://evil.example{ACS}"))
        answer = post({"SAMLResponse": saml_idp.pack(forged)}, headers={"host": "evil.example"})
        assert_refused(browser, answer, "wrong_destination")

    def test_other_types_of_provider_have_no_such_addresses(self, row: Provider) -> None:
        row.kind = Provider.Kind.OPENID
        row.save()
        browser = Browser()
        assert [browser.post(ACS).status_code, *(browser.get(one).status_code for one in (FINISH, OWN))] == [404] * 3


class TestSigningIn:
    def test_a_person_in_a_mapped_group_gets_an_account_and_the_group(self, works: Company, sales: Group) -> None:
        browser = Browser()
        answer = come(
            browser,
            works,
            "u-1",
            target="/calls/",
            groups=["hub-sales", "others"],
            attributes={
                "urn:oid:0.9.2342.19200300.100.1.1": ["dora"],
                "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress": ["dora@example.com"],
                "urn:oid:2.5.4.42": ["Dora"],
                "a-name-of-their-own": ["Lang"],
            },
            friendly={"a-name-of-their-own": "sn"},
        )
        assert (answer.status_code, answer.headers["location"]) == (302, "/calls/")
        assert signed_in(browser) == "dora"
        user = User.objects.get(username="dora")
        assert (user.get_full_name(), user.email, user.has_usable_password()) == (
            "Dora Lang",
            "dora@example.com",
            False,
        )
        assert (user.is_staff, user.is_superuser, list(user.groups.all())) == (False, False, [sales])
        identity = Identity.objects.get(user=user)
        assert (identity.issuer, identity.subject, identity.claimed_groups, identity.refresh_token) == (
            works.entity_id,
            "u-1",
            ["hub-sales", "others"],
            "",
        )

    def test_groups_change_with_the_next_sign_in(self, works: Company, sales: Group) -> None:
        come(Browser(), works, "u-1", groups=["hub-sales"])
        user = Identity.objects.get().user
        assert list(user.groups.all()) == [sales]
        come(Browser(), works, "u-1", groups=["others"])
        assert not user.groups.exists()
        come(Browser(), works, "u-1", groups=["hub-sales"])
        assert list(user.groups.all()) == [sales]
        assert Identity.objects.count() == 1

    def test_people_in_no_mapped_group_get_no_account(self, works: Company, sales: Group) -> None:
        browser = Browser()
        assert_refused(browser, come(browser, works, "u-1", groups=["others"]), "no_mapped_group")

    def test_the_sign_in_lapses_and_comes_back(self, works: Company, sales: Group) -> None:
        browser = Browser()
        come(browser, works, "u-1", groups=["hub-sales"])
        identity = Identity.objects.get()
        left = identity.valid_until - timezone.now()  # type: ignore[operator]
        assert timedelta(hours=23) < left <= timedelta(hours=24)
        Identity.objects.update(valid_until=timezone.now() - timedelta(seconds=1))
        renewal.run()
        assert not User.objects.get(pk=identity.user_id).is_active
        assert browser.get("/calls/").status_code == 302
        assert come(Browser(), works, "u-1", groups=["hub-sales"]).status_code == 302
        assert User.objects.get(pk=identity.user_id).is_active

    def test_a_comment_in_the_name_does_not_cut_it(self, works: Company, open_door: Provider) -> None:
        browser = Browser()
        signed = works.sign(works.write(saml_idp.read_request(begin(browser)), "admin@example.com.evil"))
        changed = saml_idp.spoil(
            signed, lambda raw: raw.replace(b"admin@example.com.evil", b"admin@example.com<!---->.evil")
        )
        assert arrive(browser, {"SAMLResponse": saml_idp.pack(changed)}).status_code == 302
        assert Identity.objects.get().subject == "admin@example.com.evil"

    def test_the_subject_can_be_an_attribute(self, works: Company, open_door: Provider) -> None:
        open_door.subject_claim = "employee"
        open_door.save()
        wanted = {"name_id": "dora@example.com", "name_id_format": Names.NAMEID_EMAIL_ADDRESS}
        browser = Browser()
        address = begin(browser)
        assert saml_idp.read_request(address).find("samlp:NameIDPolicy", NS) is None
        assert (
            arrive(browser, works.answer(address, "", attributes={"employee": ["4711"]}, **wanted)).status_code == 302
        )
        identity = Identity.objects.get()
        assert (identity.subject, identity.user.email) == ("4711", "dora@example.com")
        for values in ([], ["4711", "4712"]):
            other = Browser()
            answer = come(other, works, "", attributes={"employee": values}, **wanted)
            assert (answer.status_code, "employee" in answer.content.decode()) == (403, True)

    def test_a_friendly_name_is_no_subject_and_no_group(
        self, works: Company, open_door: Provider, sales: Group
    ) -> None:
        come(Browser(), works, "u-1", attributes={"x": ["hub-sales"]}, friendly={"x": "groups"})
        assert not Identity.objects.get().user.groups.exists()
        Identity.objects.all().delete()
        Provider.objects.update(subject_claim="employee")
        browser = Browser()
        answer = come(browser, works, "u-1", attributes={"x": ["4711"]}, friendly={"x": "employee"})
        assert_refused(browser, answer, "no_subject")

    def test_every_key_in_the_metadata_is_accepted(self, works: Company, open_door: Provider, stranger: Key) -> None:
        Provider.objects.update(metadata=works.metadata(works.key, stranger))
        for key in (works.key, stranger):
            browser = Browser()
            response = works.sign(works.write(saml_idp.read_request(begin(browser)), "u-1"), key)
            assert arrive(browser, {"SAMLResponse": saml_idp.pack(response)}).status_code == 302

    def test_a_message_that_is_signed_as_well_is_checked_as_well(
        self, works: Company, open_door: Provider, stranger: Key
    ) -> None:
        for key, status in ((stranger, 403), (works.key, 302)):
            browser = Browser()
            response = works.sign(works.write(saml_idp.read_request(begin(browser)), "u-1"))
            both = works.sign(response, key, what="message")
            assert arrive(browser, {"SAMLResponse": saml_idp.pack(both)}).status_code == status

    def test_a_person_links_it_to_their_account(self, works: Company, row: Provider, alice: User) -> None:
        browser = Browser()
        browser.force_login(alice)
        page = browser.post("/account/link/works/").content.decode()
        address = re.search(r'url=([^"]+)"', page)
        assert address is not None
        form = works.answer(address[1].replace("&amp;", "&"), "u-1")
        assert arrive(browser, form).headers["location"] == "/account/"
        identity = Identity.objects.get()
        assert (identity.user, identity.linked_by_owner) == (alice, True)

    def test_the_request_says_what_it_must(self, works: Company, row: Provider, settings: Any) -> None:
        address = begin(Browser())
        request = saml_idp.read_request(address)
        assert (request.get("Destination"), address.startswith(works.address)) == (works.address, True)
        assert request.find("samlp:NameIDPolicy", NS).get("Format") == Names.NAMEID_PERSISTENT
        assert not isinstance(Xml.validate_xml(etree.tostring(request), "saml-schema-protocol-2.0.xsd"), str)
        assert "RelayState" not in urlsplit(address).query

    def test_our_metadata_is_valid(self, row: Provider, settings: Any) -> None:
        answer = Browser().get(OWN)
        assert answer.headers["content-type"] == "application/samlmetadata+xml"
        root = Xml.validate_xml(answer.content, "saml-schema-metadata-2.0.xsd")
        assert not isinstance(root, str), root
        assert root.get("entityID") == f"{settings.PUBLIC_URL}{OWN}"
        assert f"{settings.PUBLIC_URL}{ACS}" in answer.content.decode()
        assert 'WantAssertionsSigned="true"' in answer.content.decode()


class TestMetadata:
    def test_it_has_all_keys_once(self, works: Company, stranger: Key) -> None:
        found = saml_metadata.parse(works.metadata(works.key, stranger, works.key))
        assert found.certificates == (works.key.text, stranger.text)
        assert (found.entity_id, found.sign_in_address) == (works.entity_id, works.address)

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (lambda text: "", "empty"),
            (lambda text: "x", "not_xml"),
            (lambda text: "<a/>", "not_metadata"),
            (lambda text: text + "<!-- " + "x" * 262_144 + " -->", "too_large"),
            (
                lambda text: text.replace("?>", '?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>', 1),
                "not_xml",
            ),
            (lambda text: text.replace("IDPSSODescriptor", "SPSSODescriptor"), "no_provider"),
            (lambda text: text.replace("SAML:2.0:protocol", "SAML:1.1:protocol"), "no_provider"),
            (lambda text: re.sub(r' entityID="[^"]*"', "", text), "entity_id"),
            (lambda text: re.sub(r' entityID="[^"]*"', ' entityID=" a "', text), "entity_id"),
            (lambda text: text.replace("HTTP-Redirect", "HTTP-Artifact"), "no_redirect"),
            (lambda text: text.replace("https://idp.example/sso", "http://idp.example/sso"), "address"),
            (lambda text: text.replace("https://idp.example/sso", "javascript:alert"), "address"),
            (lambda text: text.replace("https://idp.example/sso", "https://[x/sso"), "address"),
            (lambda text: text.replace('use="signing"', 'use="encryption"'), "no_certificate"),
            (lambda text: re.sub("Certificate>[^<]+", "Certificate>AAAA", text), "certificate"),
            (lambda text: re.sub("Certificate>[^<]+", "Certificate>%%%", text), "certificate"),
            (lambda text: re.sub("(<ds:X509Certificate>.*?</ds:X509Certificate>)", r"\1\1", text), "chain"),
            (lambda text: text.replace(" entityID", ' validUntil="soon" entityID'), "date"),
        ],
    )
    def test_what_is_wrong_with_it_is_said(self, works: Company, change: Callable[[str], str], code: str) -> None:
        with pytest.raises(MetadataError) as raised:
            saml_metadata.parse(change(works.metadata()))
        assert raised.value.code == code

    def test_a_weak_key_is_refused(self, works: Company) -> None:
        with pytest.raises(MetadataError) as raised:
            saml_metadata.parse(works.metadata(Key(bits=1024)))
        assert raised.value.code == "weak_key"

    def test_of_a_federation_only_the_document_of_one_provider_is_read(self, works: Company) -> None:
        one = works.metadata().partition("\n")[2]
        around = (
            f'<md:EntitiesDescriptor xmlns:md="{Names.NS_MD}" validUntil="2020-01-01T00:00:00Z">%s'
            "</md:EntitiesDescriptor>"
        )
        found = saml_metadata.parse(around % one)
        assert (found.entity_id, found.valid_until) == (works.entity_id, datetime(2020, 1, 1, tzinfo=UTC))
        with pytest.raises(MetadataError) as raised:
            saml_metadata.parse(around % (one + one))
        assert raised.value.code == "several"


class TestAdmin:
    @pytest.fixture
    def page(self, works: Company) -> str:
        row = works.configure(enabled=False, issuer="", metadata="")
        return f"/admin/identity/provider/{row.pk}/change/"

    def send(self, browser: Browser, page: str, **values: str) -> Any:
        form = {
            "name": "The works",
            "subject_claim": "sub",
            "groups_claim": "groups",
            "new_people": "mapped",
            "lapse_hours": "24",
            "metadata": "",
            "mappings-TOTAL_FORMS": "0",
            "mappings-INITIAL_FORMS": "0",
            **values,
        }
        return browser.post(page, form)

    def test_the_entity_id_is_read_from_the_metadata(self, browser: Browser, works: Company, page: str) -> None:
        assert self.send(browser, page, metadata=works.metadata(), enabled="on").status_code == 302
        row = Provider.objects.get()
        assert (row.issuer, row.enabled) == (works.entity_id, True)
        shown = browser.get(page).content.decode()
        assert 'name="issuer"' not in shown
        assert "https://idp.example/saml?a=1&amp;b=2" in shown

    def test_a_large_document_is_saved_and_logged(self, browser: Browser, works: Company, page: str) -> None:
        document = works.metadata() + "<!--" + "x" * 200_000 + "-->"
        assert self.send(browser, page, metadata=document).status_code == 302
        assert Provider.objects.get().metadata == document
        assert works.key.text in str(Action.objects.filter(kind="identity provider").latest("pk").after)

    def test_the_form_speaks_of_attributes_and_of_no_checks(self, browser: Browser, page: str) -> None:
        shown = browser.get(page).content.decode()
        assert "a persistent NameID" in shown
        assert 'name="check_minutes"' not in shown
        assert 'name="client_id"' not in shown

    def test_the_addresses_to_register_are_shown(self, browser: Browser, page: str, settings: Any) -> None:
        shown = browser.get(page).content.decode()
        for address in (ACS, OWN):
            assert f"{settings.PUBLIC_URL}{address}</code>" in shown
        assert f'href="{settings.PUBLIC_URL}{OWN}"' in shown
        assert "/callback/" not in shown

    @pytest.mark.parametrize(
        ("values", "text"),
        [
            ({"enabled": "on"}, "Required before people can sign in"),
            ({"metadata": "<a/>"}, "This is not SAML metadata"),
            ({"subject_claim": "mail"}, "Choose a claim that identifies a person for ever"),
            ({"subject_claim": "urn:oid:0.9.2342.19200300.100.1.3"}, "Choose an attribute that identifies a person"),
        ],
        ids=str,
    )
    def test_bad_input_is_explained_and_nothing_is_saved(
        self, browser: Browser, page: str, values: dict[str, str], text: str
    ) -> None:
        answer = self.send(browser, page, **values)
        assert (answer.status_code, text in answer.content.decode()) == (200, True)
        row = Provider.objects.get()
        assert (row.enabled, row.metadata, row.issuer, row.subject_claim) == (False, "", "", "sub")

    def test_the_entity_id_stays_while_people_have_identities(
        self, browser: Browser, works: Company, page: str, alice: User
    ) -> None:
        self.send(browser, page, metadata=works.metadata())
        row = Provider.objects.get()
        Identity.objects.create(user=alice, provider=row, issuer=row.issuer, subject="u-1")
        with Company("https://other-idp.example") as other:
            answer = self.send(browser, page, metadata=other.metadata())
        assert (answer.status_code, "add another provider" in answer.content.decode()) == (200, True)
        assert Provider.objects.get().issuer == works.entity_id

    def test_metadata_that_is_out_of_date_is_saved_with_a_warning(
        self, browser: Browser, works: Company, page: str
    ) -> None:
        answer = self.send(browser, page, metadata=works.metadata(validUntil="2020-01-01T00:00:00Z"), enabled="on")
        shown = browser.get(answer.headers["location"]).content.decode()
        assert "The metadata was valid until 2020-01-01" in shown
        assert Provider.objects.get().enabled

    def test_the_check_reads_dates_and_says_what_to_fix(self, browser: Browser, works: Company, page: str) -> None:
        test = page.replace("/change/", "/test/")
        assert "The metadata is missing" in browser.post(test, {"action": "check"}).content.decode()
        document = works.metadata(Key(days=-1), Key(days=5), validUntil="2020-01-01T00:00:00Z")
        self.send(browser, page, metadata=document.replace("<md:IDP", "<md:IDP", 1))
        Provider.objects.update(
            metadata=document.replace("<md:IDPSSODescriptor", '<md:IDPSSODescriptor WantAuthnRequestsSigned="true"')
        )
        shown = browser.post(test, {"action": "check"}).content.decode()
        for text in ("was read", "was valid until", "certificate expired on", "certificate expires on", "signs none"):
            assert text in shown, text
        assert "client" not in shown.lower().partition('id="checks"')[2].partition("</ul>")[0]

    def test_a_test_shows_what_the_provider_says_and_changes_nothing(
        self, browser: Browser, works: Company, page: str
    ) -> None:
        self.send(browser, page, metadata=works.metadata())
        leaving = browser.post(page.replace("/change/", "/test/"), {"action": "sign-in"}).content.decode()
        address = re.search(r'url=([^"]+)"', leaving)
        assert address is not None
        form = works.answer(address[1].replace("&amp;", "&"), "u-1", groups=["hub-sales"])
        answer = arrive(browser, form)
        shown = browser.get(answer.headers["location"]).content.decode()
        for text in ("u-1", "hub-sales", "groups", "nameid-format:persistent", "sign in again every 24 hours"):
            assert text in shown, text
        assert not Identity.objects.exists()
