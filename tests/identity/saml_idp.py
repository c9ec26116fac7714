"""A SAML identity provider: it reads our requests, and signs assertions that a test may spoil before or after.

    with Company() as idp:
        row = idp.configure()
        form = idp.answer(request_address, "dora", groups=["hub-sales"])

`serve` makes it a web server whose page posts the response at once, for a real browser.
"""

from __future__ import annotations

import base64
import threading
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape, quoteattr

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from lxml import etree
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Names
from onelogin.saml2.utils import OneLogin_Saml2_Utils as Utils

from toolhub.identity.models import Provider as Row

NS = {"saml": Names.NS_SAML, "samlp": Names.NS_SAMLP, "ds": Names.NS_DS}
PERSISTENT = Names.NAMEID_PERSISTENT


class Key:
    """A signing key with its certificate."""

    def __init__(self, days: int = 365, bits: int = 2048) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
        self.pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "idp.example")])
        now = datetime.now(UTC)
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1000))
            .not_valid_after(now + timedelta(days=days))
            .sign(self.key, hashes.SHA256())
        )
        self.certificate_pem = self.certificate.public_bytes(serialization.Encoding.PEM)
        self.text = base64.b64encode(self.certificate.public_bytes(serialization.Encoding.DER)).decode()


class Company:
    def __init__(self, entity_id: str = "https://idp.example/saml?a=1&b=2") -> None:
        self.entity_id = entity_id
        self.key = Key()
        self.address = "https://idp.example/sso?tenant=1&x=2"
        self.people: dict[str, dict[str, Any]] = {}
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def metadata(self, *keys: Key, **changes: str) -> str:
        """Return the document that an administrator pastes; `changes` are attributes of the EntityDescriptor."""
        descriptors = "".join(
            f'<md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>{one.text}'
            "</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>"
            for one in keys or (self.key,)
        )
        more = "".join(f" {name}={quoteattr(value)}" for name, value in changes.items())
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<md:EntityDescriptor xmlns:md="{Names.NS_MD}"'
            f' xmlns:ds="{Names.NS_DS}" entityID={quoteattr(self.entity_id)}{more}>'
            f'<md:IDPSSODescriptor protocolSupportEnumeration="{Names.NS_SAMLP}">{descriptors}'
            f'<md:SingleSignOnService Binding="{Names.BINDING_HTTP_POST}" Location="https://idp.example/post"/>'
            f'<md:SingleSignOnService Binding="{Names.BINDING_HTTP_REDIRECT}" Location={quoteattr(self.address)}/>'
            "</md:IDPSSODescriptor></md:EntityDescriptor>"
        )

    def configure(self, **changes: Any) -> Row:
        """Return the row of this provider, as an administrator saves it."""
        return Row.objects.create(
            **{
                "slug": "works",
                "name": "The works",
                "kind": Row.Kind.SAML,
                "enabled": True,
                "issuer": self.entity_id,
                "metadata": self.metadata(),
                **changes,
            }
        )

    def answer(self, address: str, subject: str, **wanted: Any) -> dict[str, str]:
        """Return the form that this provider's page posts to us, for the request in this address."""
        return {"SAMLResponse": pack(self.sign(self.write(read_request(address), subject, **wanted)))}

    def write(self, request: Any, subject: str, **wanted: Any) -> Any:
        """Return an unsigned response to a request. `wanted` changes what it says; None leaves a part out."""
        now = wanted.get("now", datetime.now(UTC))
        acs = request.get("AssertionConsumerServiceURL")
        said = {
            "destination": acs,
            "recipient": acs,
            "audience": request.findtext("saml:Issuer", namespaces=NS),
            "in_response_to": request.get("ID"),
            "confirmed_request": request.get("ID"),
            "issuer": self.entity_id,
            "assertion_issuer": self.entity_id,
            "end": now + timedelta(minutes=5),
            "begin": now - timedelta(minutes=1),
            "confirmation_end": now + timedelta(minutes=5),
            "name_id_format": PERSISTENT,
            "qualifiers": {},
            "name_id": escape(subject),
            "attributes": {},
            "friendly": {},
            "status": Names.STATUS_SUCCESS,
            "method": Names.CM_BEARER,
            "conditions": "",
            "extensions": "",
            **wanted,
        }
        if "groups" in wanted:
            said["attributes"] = {"groups": wanted["groups"], **said["attributes"]}
        values = "".join(
            f"<saml:Attribute{_attributes(Name=name, FriendlyName=said['friendly'].get(name))}>"
            + "".join(f"<saml:AttributeValue>{escape(one)}</saml:AttributeValue>" for one in several)
            + "</saml:Attribute>"
            for name, several in said["attributes"].items()
        )
        statement = f"<saml:AttributeStatement>{values}</saml:AttributeStatement>" if values else ""
        audience = said["audience"]
        named = "" if audience is None else f"<saml:Audience>{escape(audience)}</saml:Audience>"
        restriction = f"<saml:AudienceRestriction>{named}</saml:AudienceRestriction>" if named else ""
        name_id = (
            ""
            if said["name_id"] is None
            else f"<saml:NameID{_attributes(Format=said['name_id_format'], **said['qualifiers'])}>{said['name_id']}"
            "</saml:NameID>"
        )
        confirmation = _attributes(
            Recipient=said["recipient"],
            InResponseTo=said["confirmed_request"],
            NotOnOrAfter=_time(said["confirmation_end"]),
        )
        document = (
            f'<samlp:Response xmlns:samlp="{Names.NS_SAMLP}" xmlns:saml="{Names.NS_SAML}"'
            f' ID="_r{Utils.generate_unique_id()}" Version="2.0" IssueInstant="{_time(now)}"'
            f"{_attributes(Destination=said['destination'], InResponseTo=said['in_response_to'])}>"
            f"<saml:Issuer>{escape(said['issuer'])}</saml:Issuer>{said['extensions']}"
            f'<samlp:Status><samlp:StatusCode Value="{said["status"]}"/></samlp:Status>'
            f'<saml:Assertion ID="_a{Utils.generate_unique_id()}" Version="2.0" IssueInstant="{_time(now)}">'
            f"<saml:Issuer>{escape(said['assertion_issuer'])}</saml:Issuer>"
            f'<saml:Subject>{name_id}<saml:SubjectConfirmation Method="{said["method"]}">'
            f"<saml:SubjectConfirmationData{confirmation}/></saml:SubjectConfirmation></saml:Subject>"
            f"<saml:Conditions{_attributes(NotBefore=_time(said['begin']), NotOnOrAfter=_time(said['end']))}>"
            f"{restriction}{said['conditions']}</saml:Conditions>"
            f'<saml:AuthnStatement AuthnInstant="{_time(now)}"><saml:AuthnContext><saml:AuthnContextClassRef>'
            f"urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext>"
            f"</saml:AuthnStatement>{statement}</saml:Assertion></samlp:Response>"
        )
        return etree.fromstring(document)

    def sign(
        self,
        response: Any,
        key: Key | None = None,
        *,
        algorithm: str = Names.RSA_SHA256,
        digest: str = Names.SHA256,
        what: str = "assertion",
    ) -> Any:
        """Return the response with its assertion signed, or the message."""
        key = key or self.key
        if what == "message":
            return etree.fromstring(
                Utils.add_sign(etree.tostring(response), key.pem, key.certificate_pem, False, algorithm, digest)
            )
        assertion = response.find("saml:Assertion", NS)
        signed = Utils.add_sign(etree.tostring(assertion), key.pem, key.certificate_pem, False, algorithm, digest)
        response.replace(assertion, etree.fromstring(signed))
        return response

    def serve(self) -> str:
        """Answer at an address of this machine: `?name=dora` there is who signs in. Return the address."""
        company = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                name = query.get("name", [""])[0]
                page = _pick_page(query["SAMLRequest"][0])
                if name:
                    acs = read_request(self.path).get("AssertionConsumerServiceURL")
                    form = company.answer(self.path, name, **company.people[name])
                    page = _post_page(acs, form["SAMLResponse"])
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/sso"
        return self.address


def _pick_page(request: str) -> str:
    return (
        '<!doctype html><title>The works</title><form><label>Name <input name="name"></label>'
        f'<input type="hidden" name="SAMLRequest" value={quoteattr(request)}>'
        "<button>Sign in at the works</button></form>"
    )


def _post_page(acs: str, response: str) -> str:
    return (
        f'<!doctype html><form method="post" action={quoteattr(acs)}><input type="hidden" name="SAMLResponse"'
        f' value="{response}"></form><script>document.forms[0].submit()</script>'
    )


def read_request(address: str) -> Any:
    """Return the AuthnRequest in an address."""
    packed = parse_qs(urlsplit(address).query)["SAMLRequest"][0]
    return etree.fromstring(zlib.decompress(base64.b64decode(packed), wbits=-15))


def pack(response: Any) -> str:
    """Return a response as it is posted."""
    raw = response if isinstance(response, bytes) else etree.tostring(response)
    return base64.b64encode(raw).decode()


def spoil(response: Any, change: Callable[[bytes], bytes]) -> bytes:
    """Return the bytes of a signed response after a change."""
    raw = etree.tostring(response)
    changed = change(raw)
    assert changed != raw
    return changed


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _attributes(**values: Any) -> str:
    return "".join(f" {name}={quoteattr(str(value))}" for name, value in values.items() if value is not None)
