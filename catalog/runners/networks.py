"""The private networks that tools may reach, from the settings."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from toolhub import egress


def allowed() -> egress.AllowList:
    """Return the networks of TOOLHUB_ALLOW_PRIVATE_NETWORKS."""
    return _parsed(tuple(settings.ALLOW_PRIVATE_NETWORKS))


@lru_cache(maxsize=4)
def _parsed(entries: tuple[str, ...]) -> egress.AllowList:
    return egress.parse_allowed(entries)
