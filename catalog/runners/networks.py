"""What every outgoing request of the catalogue shares: the private networks of the settings, and the resolver."""

from __future__ import annotations

from ipaddress import ip_address

from django.conf import settings
from django.utils.translation import gettext

from toolhub import egress
from toolhub.parts import parts


def allowed() -> egress.AllowList:
    """Return the networks of TOOLHUB_ALLOW_PRIVATE_NETWORKS."""
    return egress.parse_allowed(settings.ALLOW_PRIVATE_NETWORKS)


def allowed_within(entries: tuple[str, ...]) -> egress.AllowList:
    """Return the part of these networks that TOOLHUB_ALLOW_PRIVATE_NETWORKS covers, too."""
    return egress.intersect(egress.parse_allowed(entries), allowed())


def resolver() -> egress.Resolver:
    """Return the resolver of this process."""
    return parts.get(egress.NameResolver).resolve


def find_block(url: str) -> str | None:
    """Return why no request may go to this URL, as far as its text tells: no name is looked up. None where it may."""
    try:
        parsed = egress.parse_url(url)
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        host = parsed.host.rstrip(".").lower()
        address = "127.0.0.1" if host == "localhost" or host.endswith(".localhost") else host.strip("[]")
        found = ip_address(address)
    except egress.DeniedAddress as error:
        return gettext("%(text)s.") % {"text": error.localized_message}
    except ValueError:
        return None  # a name
    try:
        egress.check_address(address, port, allowed())
    except egress.PrivateAddress:
        example = egress.AllowedNetwork(f"{found}/{found.max_prefixlen}", port)
        blocked = gettext(
            "Blocked: %(address)s is a private address. Add it to TOOLHUB_ALLOW_PRIVATE_NETWORKS (for example "
            "%(example)s) and restart."
        )
        return blocked % {"address": host.strip("[]"), "example": example}
    except egress.DeniedAddress as error:
        return gettext("%(text)s.") % {"text": error.localized_message}
    return None
