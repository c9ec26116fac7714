"""Accounts for an upstream server that demands OAuth: each person connects their own."""

from __future__ import annotations

from django.db import transaction

from catalog.accounts import clients, discovery
from catalog.models import Secret, Upstream
from catalog.threads import run_in_loop
from toolhub import egress

HEADER = "Authorization"


def may_be_added(upstream: Upstream) -> bool:
    """Return whether this server could get accounts: it is reached over HTTP, and nobody set its credentials yet."""
    named = {name.lower() for name in upstream.headers} if isinstance(upstream.headers, dict) else set()
    return upstream.transport != Upstream.Transport.STDIO and HEADER.lower() not in named


def add(upstream: Upstream) -> Secret:
    """Make an account for this server, which from now on gets the token of each caller, and return it.

    Raises AccountProblem when nobody could connect it, ValidationError, PermissionDenied. Nothing is changed then.
    """
    secret = Secret(
        name=_find_name(upstream), kind=Secret.Kind.ACCOUNT, url=upstream.url, hosts=[egress.origin_of(upstream.url)]
    )
    server = run_in_loop(discovery.discover(secret))
    clients.describe_choice(secret, server)
    with transaction.atomic():
        secret.full_clean()
        secret.save()
        upstream.headers = {**upstream.headers, HEADER: {"secret": secret.name, "prefix": "Bearer "}}
        upstream.full_clean()
        upstream.save()
    return secret


def _find_name(upstream: Upstream) -> str:
    """Return a name for the account that no other secret has."""
    base = upstream.name.replace("-", "_")
    number, name = 1, base
    while Secret.objects.filter(name=name).exists():
        number += 1
        name = f"{base}_{number}"
    return name
