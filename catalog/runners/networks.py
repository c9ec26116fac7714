"""What every outgoing request of the catalogue shares: the private networks of the settings, and the resolver."""

from __future__ import annotations

from django.conf import settings

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
