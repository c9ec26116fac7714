"""SAML 2.0 sign-in (Web Browser SSO profile): requests by redirect, signed assertions by POST.

python3-saml validates the schema, the times and the signatures. It passes over conditions that an assertion leaves out,
and compares addresses by their beginning, so the profile's rules about recipient, audience and request are here, each
exact. Everything is read from the signed assertion, and no request is sent to the provider.

The ID of a request is the name of its state in the session that began it. An assertion names that request and the state
is used once, so an assertion works once, in that browser, within ten minutes.

Not the library's views for SAML: they believe the Host header, store any POST, and give people who come from the
provider without a request an account. Not its request either: it does not escape addresses.
"""

from __future__ import annotations

import base64
import secrets
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse

from toolhub.identity import saml_metadata
from toolhub.identity.models import Provider
from toolhub.identity.people import MAX_SUBJECT_CHARACTERS, ClaimsError, Person, find_groups
from toolhub.identity.saml_metadata import METADATA, PROTOCOL, SIGNATURE, Metadata

ASSERTION = "urn:oasis:names:tc:SAML:2.0:assertion"
NAMES = {"saml": ASSERTION, "samlp": PROTOCOL, "ds": SIGNATURE}
POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
MAX_ELEMENT_ATTRIBUTES, MAX_TRANSFORMS, MAX_PREFIX_CHARACTERS = 50, 2, 200
"""Bounds of what anybody may make us compute: the library takes 11 s for 32,000 attributes of one element, 130 s for
4,000 transforms, and 5 s for 40,000 prefixes (measured)."""
BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success"
PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
ADDRESS = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
NAME_ID = "sub"
"""The subject claim that stands for the NameID."""
GROUPS_OVERFLOW = "http://schemas.microsoft.com/claims/groups.link"
"""Entra sends it in place of the groups when a person is in more than 150."""

_MORE, _MORE_2007 = "http://www.w3.org/2001/04/xmldsig-more#", "http://www.w3.org/2007/05/xmldsig-more#"
SIGNATURES = frozenset(
    {f"{_MORE}{kind}-sha{bits}" for kind in ("rsa", "ecdsa") for bits in (256, 384, 512)}
    | {f"{_MORE_2007}sha{bits}-rsa-MGF1" for bits in (256, 384, 512)}
)
DIGESTS = frozenset(
    {
        "http://www.w3.org/2001/04/xmlenc#sha256",
        "http://www.w3.org/2001/04/xmldsig-more#sha384",
        "http://www.w3.org/2001/04/xmlenc#sha512",
    }
)
CANONICALIZATIONS = frozenset(
    {"http://www.w3.org/2001/10/xml-exc-c14n#", "http://www.w3.org/2001/10/xml-exc-c14n#WithComments"}
)
ENVELOPED = f"{SIGNATURE}enveloped-signature"
CONDITIONS = frozenset(f"{{{ASSERTION}}}{name}" for name in ("AudienceRestriction", "OneTimeUse", "ProxyRestriction"))

USERNAMES = (
    *("uid", "urn:oid:0.9.2342.19200300.100.1.1", "username", "preferred_username"),
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/upn",
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
    *("eduPersonPrincipalName", "urn:oid:1.3.6.1.4.1.5923.1.1.1.6"),
)
EMAILS = (
    *("mail", "email", "emailAddress", "urn:oid:0.9.2342.19200300.100.1.3"),
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
)
FIRST_NAMES = (
    *("givenName", "firstName", "first_name", "given_name", "urn:oid:2.5.4.42"),
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname",
)
LAST_NAMES = (
    *("sn", "surname", "lastName", "last_name", "family_name", "urn:oid:2.5.4.4"),
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname",
)
CHANGING_ATTRIBUTES = frozenset(name.lower() for name in (*USERNAMES, *EMAILS, *FIRST_NAMES, *LAST_NAMES))
"""Attributes that a provider may give to another person later."""


class AnswerError(Exception):
    """An error for a response that signs nobody in; `code` names the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def find_acs_address(slug: str) -> str:
    """Return the address at which we receive responses (Assertion Consumer Service)."""
    return f"{settings.PUBLIC_URL}{reverse('identity:saml_acs', args=[slug])}"


def find_own_entity_id(slug: str) -> str:
    """Return our entity ID for this provider, which is the address of our metadata."""
    return f"{settings.PUBLIC_URL}{reverse('identity:saml_metadata', args=[slug])}"


class SAML(SAMLProvider):  # type: ignore[misc]
    """The library's provider for rows of ours."""

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, data: Any = None, **options: Any
    ) -> HttpResponseBase:
        """Return the redirect to the provider. Raises MetadataError."""
        metadata = saml_metadata.parse(self.app.settings["metadata"])
        number = f"_{secrets.token_hex(20)}"
        document = make_request(self.app.provider_id, number, metadata, self.app.settings["subject_claim"])
        self.stash_redirect_state(request, process, next_url, data, state_id=number, **options)
        return HttpResponseRedirect(f"{metadata.sign_in_address}{_query(metadata, document)}")


def _query(metadata: Metadata, document: bytes) -> str:
    compressor = zlib.compressobj(wbits=-15)
    packed = base64.b64encode(compressor.compress(document) + compressor.flush()).decode()
    return ("&" if "?" in metadata.sign_in_address else "?") + urlencode({"SAMLRequest": packed})


def make_request(slug: str, number: str, metadata: Metadata, subject_claim: str) -> bytes:
    """Return an AuthnRequest; it asks for a persistent NameID when that is to identify people."""
    root = ElementTree.Element(
        f"{{{PROTOCOL}}}AuthnRequest",
        {
            "ID": number,
            "Version": "2.0",
            "IssueInstant": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "Destination": metadata.sign_in_address,
            "ProtocolBinding": POST,
            "AssertionConsumerServiceURL": find_acs_address(slug),
        },
    )
    ElementTree.SubElement(root, f"{{{ASSERTION}}}Issuer").text = find_own_entity_id(slug)
    if subject_claim == NAME_ID:
        policy = {"Format": PERSISTENT, "AllowCreate": "true"}
        ElementTree.SubElement(root, f"{{{PROTOCOL}}}NameIDPolicy", policy)
    document: bytes = ElementTree.tostring(root)
    return document


def make_own_metadata(slug: str, subject_claim: str) -> bytes:
    """Return the metadata that an administrator gives to the provider."""
    root = ElementTree.Element(f"{{{METADATA}}}EntityDescriptor", {"entityID": find_own_entity_id(slug)})
    descriptor = ElementTree.SubElement(
        root,
        f"{{{METADATA}}}SPSSODescriptor",
        {"AuthnRequestsSigned": "false", "WantAssertionsSigned": "true", "protocolSupportEnumeration": PROTOCOL},
    )
    if subject_claim == NAME_ID:
        ElementTree.SubElement(descriptor, f"{{{METADATA}}}NameIDFormat").text = PERSISTENT
    ElementTree.SubElement(
        descriptor,
        f"{{{METADATA}}}AssertionConsumerService",
        {"Binding": POST, "Location": find_acs_address(slug), "index": "0", "isDefault": "true"},
    )
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def verify(provider: Provider, response: str) -> dict[str, Any]:
    """Return what a response (base64) says, and the request that it answers. Raises AnswerError, MetadataError.

    Whoever calls this must know the request: nothing here says that it was this browser's.
    """
    metadata = saml_metadata.parse(provider.metadata)
    if metadata.entity_id != provider.issuer:
        raise AnswerError("issuer")
    acs, own_id = find_acs_address(provider.slug), find_own_entity_id(provider.slug)
    root = _verify_signed(metadata, response, acs, own_id)
    number = root.get("InResponseTo")
    if not number:
        raise AnswerError("unsolicited")
    if root.get("Destination") != acs:
        raise AnswerError("wrong_destination")
    assertion = root.find("saml:Assertion", NAMES)
    if _text(assertion.find("saml:Issuer", NAMES)) != metadata.entity_id:
        raise AnswerError("wrong_issuer")
    _check_conditions(assertion, own_id)
    _check_confirmation(assertion, acs, number)
    return {"issuer": metadata.entity_id, "in_response_to": number, **_read_assertion(assertion, own_id)}


def _verify_signed(metadata: Metadata, response: str, acs: str, own_id: str) -> Any:
    """Return the root of a response with one assertion, directly in it, that the provider signed.

    Whether the message is signed as well does not matter: nothing that counts is in it alone.
    """
    from onelogin.saml2.errors import OneLogin_Saml2_ValidationError
    from onelogin.saml2.response import OneLogin_Saml2_Response
    from onelogin.saml2.settings import OneLogin_Saml2_Settings

    configuration = OneLogin_Saml2_Settings(
        {
            "strict": True,
            "sp": {"entityId": own_id, "assertionConsumerService": {"url": acs, "binding": POST}},
            "idp": {
                "entityId": metadata.entity_id,
                "singleSignOnService": {"url": metadata.sign_in_address},
                "x509certMulti": {"signing": list(metadata.certificates)},
            },
            "security": {
                "wantAssertionsSigned": True,
                "rejectDeprecatedAlgorithm": True,
                "wantAttributeStatement": False,
                "allowRepeatAttributeName": True,
                "allowSingleLabelDomains": True,
            },
        }
    )
    place = urlsplit(acs)
    here = {
        "https": "on" if place.scheme == "https" else "off",
        "http_host": place.netloc,
        "script_name": "",
        "path_info": place.path,
    }
    try:
        # Without a key of ours, this also refuses encrypted assertions.
        parsed = OneLogin_Saml2_Response(configuration, response)
        root = parsed.document
        status = root.find("samlp:Status/samlp:StatusCode", NAMES)
        if status is not None and status.get("Value") != SUCCESS:
            raise AnswerError("not_success")
        _check_signatures(root)
        parsed.is_valid(here, raise_exceptions=True)
    except AnswerError:
        raise
    except OneLogin_Saml2_ValidationError as error:
        raise AnswerError(_name_code(error)) from error
    except Exception as error:  # anybody sends anything here, and the library raises whatever comes of it
        raise AnswerError("unreadable") from error
    return root


def _name_code(error: Any) -> str:
    codes = {value: name for name, value in vars(type(error)).items() if name.isupper()}
    return str(codes.get(error.code, "invalid")).lower()


def _check_signatures(root: Any) -> None:
    """Refuse signatures in another form than SAML gives them (Core, section 5.4), before any is computed."""
    if root.tag != f"{{{PROTOCOL}}}Response":
        raise AnswerError("no_response")
    if any(len(node.attrib) > MAX_ELEMENT_ATTRIBUTES for node in root.iter()):
        raise AnswerError("too_many_attributes")
    numbers = root.xpath("//@ID | //@Id | //@id | //@xml:id")
    if len(numbers) != len(set(numbers)):
        raise AnswerError("duplicate_id")
    for signature in root.iter(f"{{{SIGNATURE}}}Signature"):
        parts = [child.tag.removeprefix(f"{{{SIGNATURE}}}") for child in signature]
        if parts not in (["SignedInfo", "SignatureValue"], ["SignedInfo", "SignatureValue", "KeyInfo"]):
            raise AnswerError("signature_form")
        references = signature.findall("ds:SignedInfo/ds:Reference", NAMES)
        if len(references) != 1 or references[0].get("URI") != f"#{signature.getparent().get('ID')}":
            raise AnswerError("signature_reference")
        transforms = [one.get("Algorithm") for one in references[0].findall("ds:Transforms/ds:Transform", NAMES)]
        prefixes = [one.get("PrefixList") or "" for one in signature.iter("{*}InclusiveNamespaces")]
        if len(transforms) > MAX_TRANSFORMS or any(len(one) > MAX_PREFIX_CHARACTERS for one in prefixes):
            raise AnswerError("signature_form")
        used = (
            (_find_algorithms(signature, "ds:SignedInfo/ds:SignatureMethod"), SIGNATURES),
            (_find_algorithms(signature, "ds:SignedInfo/ds:CanonicalizationMethod"), CANONICALIZATIONS),
            (_find_algorithms(references[0], "ds:DigestMethod"), DIGESTS),
            (set(transforms), CANONICALIZATIONS | {ENVELOPED}),
        )
        if not all(found and found <= allowed for found, allowed in used):
            raise AnswerError("signature_algorithm")


def _find_algorithms(node: Any, path: str) -> set[str | None]:
    return {one.get("Algorithm") for one in node.findall(path, NAMES)}


def _check_conditions(assertion: Any, own_id: str) -> None:
    """Refuse an assertion that is not for us, or under conditions that we do not know (Core, section 2.5.1)."""
    conditions = list(assertion.find("saml:Conditions", NAMES))
    if any(one.tag not in CONDITIONS for one in conditions):
        raise AnswerError("unknown_condition")
    restrictions = [one for one in conditions if one.tag.endswith("AudienceRestriction")]
    if not restrictions:
        raise AnswerError("wrong_audience")
    for one in restrictions:
        if own_id not in [_text(audience) for audience in one.findall("saml:Audience", NAMES)]:
            raise AnswerError("wrong_audience")


def _check_confirmation(assertion: Any, acs: str, number: str) -> None:
    """Require what the profile requires of a bearer (Profiles, section 4.1.4.2): recipient, request and end."""
    from onelogin.saml2.utils import OneLogin_Saml2_Utils as Utils

    now = Utils.now()
    wrong = "wrong_subjectconfirmation"
    for one in assertion.findall("saml:Subject/saml:SubjectConfirmation", NAMES):
        data = one.find("saml:SubjectConfirmationData", NAMES)
        if one.get("Method") != BEARER or data is None or data.get("NotBefore") is not None:
            continue
        end = data.get("NotOnOrAfter")
        if data.get("Recipient") != acs:
            wrong = "wrong_recipient"
        elif data.get("InResponseTo") != number:
            wrong = "wrong_inresponseto"
        elif end is None or Utils.parse_SAML_to_time(end) <= now:
            wrong = "assertion_expired"
        else:
            return
    raise AnswerError(wrong)


def _read_assertion(assertion: Any, own_id: str) -> dict[str, Any]:
    node = assertion.find("saml:Subject/saml:NameID", NAMES)
    if node is not None and (
        node.get("SPNameQualifier") not in {None, own_id}
        or node.get("NameQualifier") not in {None, _text(assertion.find("saml:Issuer", NAMES))}
    ):
        raise AnswerError("name_qualifier")  # a NameID that is unique elsewhere
    attributes: dict[str, list[str | None]] = {}
    friendly: dict[str, list[str | None]] = {}
    for one in assertion.findall("saml:AttributeStatement/saml:Attribute", NAMES):
        values = [_text(value) for value in one.findall("saml:AttributeValue", NAMES)]
        attributes.setdefault(one.get("Name"), []).extend(value for value in values if value != "")
        if one.get("FriendlyName"):
            friendly.setdefault(one.get("FriendlyName"), []).extend(value for value in values if value != "")
    return {
        "name_id": _text(node) if node is not None else None,
        "name_id_format": node.get("Format") if node is not None else None,
        "attributes": attributes,
        "friendly": friendly,
    }


def _text(node: Any) -> str | None:
    """Return the text of an element; None if there is none or it holds others. Comments were dropped when parsing."""
    return None if node is None or len(node) else (node.text or "").strip()


def read_person(provider: Provider, claims: Mapping[str, Any]) -> Person:
    """Return the person whom `verify` found. Raises ClaimsError.

    The subject and the groups are known by the name of their attribute alone: a friendly name is for reading.
    """
    attributes = claims["attributes"]
    if provider.groups_claim and provider.groups_claim not in attributes and GROUPS_OVERFLOW in attributes:
        raise ClaimsError("too_many_groups", provider.groups_claim)
    names = {**claims["friendly"], **attributes}
    address = _first(names, EMAILS) or (claims["name_id"] if claims["name_id_format"] == ADDRESS else "")
    return Person(
        subject=_find_subject(provider.subject_claim, claims),
        groups=find_groups(attributes, provider.groups_claim),
        username=_first(names, USERNAMES)[:150],
        email=(address or "")[:254],
        first_name=_first(names, FIRST_NAMES)[:150],
        last_name=_first(names, LAST_NAMES)[:150],
    )


def _find_subject(claim: str, claims: Mapping[str, Any]) -> str:
    if claim == NAME_ID:
        found, shape = [claims["name_id"]], claims["name_id_format"]
        if claims["name_id"] and shape != PERSISTENT:
            raise ClaimsError("transient" if shape == TRANSIENT else "changing_name", str(shape or "unspecified")[:200])
    else:
        found = claims["attributes"].get(claim, [])
    if len(found) != 1 or not isinstance(found[0], str) or not 0 < len(found[0]) <= MAX_SUBJECT_CHARACTERS:
        raise ClaimsError("no_subject", "NameID" if claim == NAME_ID else claim)
    return found[0]


def _first(names: Mapping[str, Any], wanted: tuple[str, ...]) -> str:
    values = (value for name in wanted for value in names.get(name, ()) if value)
    return str(next(values, ""))
