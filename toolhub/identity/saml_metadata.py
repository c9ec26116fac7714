"""Metadata of SAML identity providers (SAML 2.0 Metadata), as an administrator pastes it; nothing is fetched.

Of the document, these parts count: the entity ID, the address for sign-in with the redirect binding, and the signing
certificates. All certificates are accepted, so that a provider can change its key. XML libraries are imported late:
they take 150 ms, which no process without SAML has to spend.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from django.utils.dateparse import parse_datetime

MAX_BYTES = 262_144
MAX_CERTIFICATES = 20
MAX_ADDRESS_CHARACTERS = 1_000
MAX_ENTITY_ID_CHARACTERS = 500
MIN_RSA_BITS = 2_048
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
METADATA, SIGNATURE = "urn:oasis:names:tc:SAML:2.0:metadata", "http://www.w3.org/2000/09/xmldsig#"
PROTOCOL = "urn:oasis:names:tc:SAML:2.0:protocol"
REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
NAMES = {"md": METADATA, "ds": SIGNATURE}


class MetadataError(Exception):
    """An error for metadata that cannot be used; `code` names what is wrong."""

    def __init__(self, code: str) -> None:
        super().__init__(f"metadata: {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Metadata:
    entity_id: str
    sign_in_address: str
    certificates: tuple[str, ...]
    """The signing certificates: base64 of DER."""
    certificates_end: tuple[datetime, ...]
    """When each of them expires. Only its key counts; providers let certificates expire and sign on."""
    valid_until: datetime | None
    wants_signed_requests: bool


def parse(text: str) -> Metadata:
    """Return what the document of one identity provider says. Raises MetadataError."""
    if not text.strip():
        raise MetadataError("empty")
    if len(text.encode()) > MAX_BYTES:
        raise MetadataError("too_large")
    entity, ancestors = _find_entity(_parse_xml(text.strip()))
    descriptors = [
        one
        for one in entity.findall("md:IDPSSODescriptor", NAMES)
        if PROTOCOL in (one.get("protocolSupportEnumeration") or "").split()
    ]
    if len(descriptors) != 1:
        raise MetadataError("several" if descriptors else "no_provider")
    descriptor = descriptors[0]
    entity_id = entity.get("entityID") or ""
    if not 0 < len(entity_id) <= MAX_ENTITY_ID_CHARACTERS or entity_id != entity_id.strip():
        raise MetadataError("entity_id")
    certificates = _find_certificates(descriptor)
    dates = [_parse_date(one.get("validUntil")) for one in (*ancestors, entity, descriptor) if one.get("validUntil")]
    return Metadata(
        entity_id=entity_id,
        sign_in_address=_find_address(descriptor),
        certificates=tuple(base64.b64encode(raw).decode() for raw, _one in certificates),
        certificates_end=tuple(one.not_valid_after_utc for _raw, one in certificates),
        valid_until=min(dates, default=None),
        wants_signed_requests=descriptor.get("WantAuthnRequestsSigned") in {"true", "1"},
    )


def _parse_xml(text: str) -> Any:
    from lxml.etree import XMLSyntaxError
    from onelogin.saml2.xml_utils import OneLogin_Saml2_XML

    try:
        # Refuses document types, so that there are no entities; loads nothing, and drops comments.
        return OneLogin_Saml2_XML.to_etree(text)
    except (XMLSyntaxError, ValueError) as error:
        raise MetadataError("not_xml") from error


def _find_entity(root: Any) -> tuple[Any, list[Any]]:
    """Return the description of the one identity provider in the document, and what it lies in."""
    if root.tag == f"{{{METADATA}}}EntityDescriptor":
        return root, []
    if root.tag != f"{{{METADATA}}}EntitiesDescriptor":
        raise MetadataError("not_metadata")
    found = root.xpath(".//md:EntityDescriptor[md:IDPSSODescriptor]", namespaces=NAMES)
    if len(found) != 1:
        raise MetadataError("several" if found else "no_provider")
    return found[0], list(found[0].iterancestors())


def _find_address(descriptor: Any) -> str:
    services = descriptor.findall("md:SingleSignOnService", NAMES)
    found = [one.get("Location") or "" for one in services if one.get("Binding") == REDIRECT]
    if not found:
        raise MetadataError("no_redirect")
    address = found[0].strip()
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname or "", parts.port
    except ValueError as error:
        raise MetadataError("address") from error
    secure = parts.scheme == "https" or (parts.scheme == "http" and host in LOCAL_HOSTS)
    if not host or not secure or parts.username or parts.fragment or len(address) > MAX_ADDRESS_CHARACTERS:
        raise MetadataError("address")
    return address


def _find_certificates(descriptor: Any) -> list[tuple[bytes, x509.Certificate]]:
    found: list[tuple[bytes, x509.Certificate]] = []
    for key in descriptor.findall("md:KeyDescriptor", NAMES):
        if key.get("use") not in {None, "signing"}:
            continue
        nodes = key.findall("ds:KeyInfo/ds:X509Data/ds:X509Certificate", NAMES)
        if len(nodes) > 1:
            # A chain: whoever holds the key of its authority could sign for everybody.
            raise MetadataError("chain")
        found += [_load_certificate(node.text or "") for node in nodes]
    if not found:
        raise MetadataError("no_certificate")
    if len(found) > MAX_CERTIFICATES:
        raise MetadataError("too_large")
    return list({raw: (raw, certificate) for raw, certificate in found}.values())


def _load_certificate(text: str) -> tuple[bytes, x509.Certificate]:
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
        certificate = x509.load_der_x509_certificate(raw)
        key = certificate.public_key()
    except (binascii.Error, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise MetadataError("certificate") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) and not (
        isinstance(key, rsa.RSAPublicKey) and key.key_size >= MIN_RSA_BITS
    ):
        raise MetadataError("weak_key")
    return raw, certificate


def _parse_date(text: str) -> datetime:
    try:
        found = parse_datetime(text.strip())
    except ValueError:
        found = None
    if found is None:
        raise MetadataError("date")
    return found if found.tzinfo else found.replace(tzinfo=UTC)
