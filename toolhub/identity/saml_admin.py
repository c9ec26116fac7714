"""The SAML parts of the admin: the metadata that an administrator pastes, what they register there, and the check."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from toolhub.identity import saml, saml_metadata
from toolhub.identity.models import Provider
from toolhub.identity.saml_metadata import Metadata, MetadataError

WARNING_DAYS = 30
HELP_TEXTS = {
    "subject_claim": _("sub stands for a persistent NameID. Or the name of an attribute that never changes hands."),
    "groups_claim": _("The name of the attribute that lists groups, as the provider sends it."),
    "metadata": _("The XML document of your provider: its entity ID, address and certificates are read from it."),
}
PROBLEMS = {
    "empty": _("The metadata is missing. Paste the XML document of your provider."),
    "too_large": _("The document is larger than 256 KB or has more than 20 certificates. Paste one provider's only."),
    "not_xml": _("This is not XML, or it declares a document type. Paste the whole document."),
    "not_metadata": _("This is not SAML metadata: it must begin with an EntityDescriptor."),
    "several": _("The document describes several identity providers. Keep only yours."),
    "no_provider": _("The document describes no SAML 2.0 identity provider (IDPSSODescriptor)."),
    "entity_id": _("The entity ID is missing, has spaces around it, or is longer than 500 characters."),
    "no_redirect": _("The provider offers no sign-in with the HTTP-Redirect binding. Turn it on there."),
    "address": _("The sign-in address must be an https address of at most 1,000 characters."),
    "chain": _("A KeyDescriptor holds several certificates. Keep only the one that signs."),
    "no_certificate": _("The document has no signing certificate (X509Certificate)."),
    "certificate": _("A signing certificate cannot be read. Paste the document as your provider gives it."),
    "weak_key": _("A signing key is too weak. Use RSA with at least 2,048 bits, or an elliptic curve."),
    "date": _("A validUntil is not a date and time."),
}


def describe_fields(fields: Mapping[str, Any]) -> None:
    """Say in the form what claims are in SAML; fields that are read-only are not in it."""
    for name, text in HELP_TEXTS.items():
        if name in fields:
            fields[name].help_text = text


def clean_metadata(provider: Provider, text: str) -> Metadata:
    """Return the metadata of a form, and give the provider its entity ID. Raises ValidationError."""
    try:
        found = saml_metadata.parse(text)
    except MetadataError as error:
        raise ValidationError(PROBLEMS[error.code], code=error.code) from None
    if provider.issuer != found.entity_id and provider.identities.exists():
        message = gettext("The entity ID is %(new)s. People sign in here as people of %(old)s: add another provider.")
        raise ValidationError(message % {"new": found.entity_id, "old": provider.issuer}, code="other_issuer")
    provider.issuer = found.entity_id
    return found


def clean_subject_claim(name: str) -> None:
    """Refuse an attribute that changes hands. Raises ValidationError."""
    if name.lower() in saml.CHANGING_ATTRIBUTES:
        raise ValidationError(
            gettext("Choose an attribute that identifies a person for ever. Mail addresses and names change hands."),
            code="changing",
        )


def describe_addresses(provider: Provider) -> SafeString:
    """Return what an administrator registers at the provider."""
    return format_html(
        '{}<br><code class="select-all">{}</code><br>{}<br><code class="select-all">{}</code><br>'
        '{}<br><a class="underline" href="{}">{}</a>',
        gettext("ACS address (reply URL), for POST:"),
        saml.find_acs_address(provider.slug),
        gettext("Entity ID (audience):"),
        saml.find_own_entity_id(provider.slug),
        gettext("Or register our metadata:"),
        saml.find_own_entity_id(provider.slug),
        saml.find_own_entity_id(provider.slug),
    )


def run_checks(provider: Provider) -> list[tuple[bool, str]]:
    """Return what the metadata says: (passed, a sentence) each. Nothing is fetched."""
    try:
        metadata = saml_metadata.parse(provider.metadata)
    except MetadataError as error:
        return [(False, str(PROBLEMS[error.code]))]
    now = timezone.now()
    found = [(True, gettext("The metadata of %s was read.") % metadata.entity_id)]
    if metadata.entity_id != provider.issuer:
        found.append((False, gettext("The issuer is not the entity ID of the metadata. Save the metadata again.")))
    if metadata.valid_until is not None and metadata.valid_until <= now:
        text = gettext("The metadata was valid until %s. Paste the current document of your provider.")
        found.append((False, text % _date(metadata.valid_until)))
    valid = [end for end in metadata.certificates_end if end > now]
    for end in metadata.certificates_end:
        if end <= now:
            text = gettext("A signing certificate expired on %s. Its key is still accepted: remove it if it is unused.")
            found.append((bool(valid), text % _date(end)))
        elif end <= now + timedelta(days=WARNING_DAYS):
            text = gettext("A signing certificate expires on %s. Add the next one to the metadata before that.")
            found.append((len(valid) > 1, text % _date(end)))
        else:
            found.append((True, gettext("A signing certificate is valid until %s.") % _date(end)))
    if metadata.wants_signed_requests:
        text = gettext("The provider wants signed requests, and toolhub signs none. Turn that off at your provider.")
        found.append((False, text))
    if not settings.PUBLIC_URL.startswith("https://"):
        text = gettext("TOOLHUB_PUBLIC_URL is no https address: most providers refuse to register %s.")
        found.append((True, text % saml.find_acs_address(provider.slug)))
    return found


def warn(metadata: Metadata) -> str:
    """Return what to tell an administrator who saves this metadata, or ""."""
    if metadata.valid_until is not None and metadata.valid_until <= timezone.now():
        text = gettext("The metadata was valid until %s. Paste the current document of your provider.")
        return text % _date(metadata.valid_until)
    return ""


def _date(value: datetime) -> str:
    return date_format(value, "DATE_FORMAT")
