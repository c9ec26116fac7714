"""System checks of the whole installation, ids toolhub.E001 and up; each hint names the fix."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from audit.format import keys

MIN_PROXY_PREFIX = {4: 8, 6: 16}
"""Shortest prefix of a network of proxies, by IP version; a shorter one contains other people's clients."""
PRIVATE_IPV6 = ipaddress.IPv6Network("fc00::/7")
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


@register(Tags.security)
def check_keys(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    if len(settings.SECRET_KEY) < 32:
        found.append(
            Error(
                "TOOLHUB_SECRET_KEY is shorter than 32 characters.",
                hint="Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(50))'",
                id="toolhub.E001",
            )
        )
    if not settings.RECORD_KEY:
        found.append(
            Error(
                "TOOLHUB_RECORD_KEY (or TOOLHUB_RECORD_KEY_FILE) is not set: checkpoints cannot be signed.",
                hint="Make one, keep it outside the database, and keep it: old checkpoints are verified with it.",
                id="toolhub.E002",
            )
        )
    elif len(settings.RECORD_KEY) < 32:
        found.append(
            Error("TOOLHUB_RECORD_KEY is shorter than 32 characters.", hint="Make a longer one.", id="toolhub.E002")
        )
    elif settings.RECORD_KEY == settings.SECRET_KEY:
        found.append(
            Error(
                "TOOLHUB_RECORD_KEY and TOOLHUB_SECRET_KEY are the same.",
                hint="Who can sign a session could sign a checkpoint: use two.",
                id="toolhub.E003",
            )
        )
    return [*found, *_check_old_keys()]


def _check_old_keys() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for number, key in enumerate(settings.RECORD_OLD_KEYS, 1):
        problem = ""
        if key == settings.RECORD_KEY:
            problem = "is TOOLHUB_RECORD_KEY itself"
        elif key.startswith(keys.PUBLIC_PREFIX):
            try:
                keys.parse_public_key(key)
            except ValueError:
                problem = f"is no public key: {keys.PUBLIC_PREFIX} and 64 hexadecimal digits"
        elif len(key) < keys.MIN_CHARACTERS:
            problem = f"is shorter than {keys.MIN_CHARACTERS} characters"
        if problem:
            found.append(
                Error(
                    f"Key {number} in TOOLHUB_RECORD_OLD_KEYS {problem}.",
                    hint="List earlier values of TOOLHUB_RECORD_KEY, newest first, or what `verifycalls --public-key` "
                    "printed for them.",
                    id="toolhub.E007",
                )
            )
    return found


@register(Tags.compatibility)
def check_data_folder(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    folder = settings.DATA_DIR
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return []
    return [
        Error(
            f"TOOLHUB_DATA_DIR ({settings.DATA_DIR}) cannot be written to.",
            hint="The spool, that keeps outcomes while the database is away, lives there.",
            id="toolhub.E004",
        )
    ]


@register(Tags.security)
def check_private_networks(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    from toolhub import egress

    try:
        egress.parse_allowed(settings.ALLOW_PRIVATE_NETWORKS)
    except ValueError as error:
        return [
            Error(
                f"TOOLHUB_ALLOW_PRIVATE_NETWORKS: {error}",
                hint="For example 10.1.2.0/24 or 10.1.2.3/32:8080, separated by commas.",
                id="toolhub.E005",
            )
        ]
    return []


@register(Tags.security)
def check_origins(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    wrong = [origin for origin in settings.ALLOWED_ORIGINS if not _is_origin(origin)]
    return [
        Error(
            f"TOOLHUB_ALLOWED_ORIGINS: {origin!r} is not an origin.",
            hint="An origin is scheme://host or scheme://host:port, without a path; * is not supported on purpose.",
            id="toolhub.E006",
        )
        for origin in wrong
    ]


@register(Tags.security)
def check_trusted_proxies(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for network in settings.TRUSTED_PROXIES:
        private = isinstance(network, ipaddress.IPv6Network) and network.subnet_of(PRIVATE_IPV6)
        if network.prefixlen < MIN_PROXY_PREFIX[network.version] and not private:
            found.append(
                Error(
                    f"TOOLHUB_TRUSTED_PROXIES: {network} trusts clients, too: each could choose its own address.",
                    hint="List only the addresses of your reverse proxies, for example 127.0.0.1 or 10.0.3.0/28.",
                    id="toolhub.E008",
                )
            )
    if settings.SECURE_PROXY_SSL_HEADER or settings.USE_X_FORWARDED_HOST or settings.USE_X_FORWARDED_PORT:
        found.append(
            Error(
                "SECURE_PROXY_SSL_HEADER or USE_X_FORWARDED_HOST or _PORT is set: every sender is believed.",
                hint="Remove them. TOOLHUB_TRUSTED_PROXIES reads these headers, from your reverse proxies only.",
                id="toolhub.E009",
            )
        )
    if "TOOLHUB_BEHIND_PROXY" in os.environ:
        found.append(
            Error(
                "TOOLHUB_BEHIND_PROXY has no effect any more.",
                hint="Remove it, and list the addresses of your reverse proxies in TOOLHUB_TRUSTED_PROXIES.",
                id="toolhub.E010",
            )
        )
    return found


@register(Tags.security, deploy=True)
def check_proxies_are_listed(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    if settings.TRUSTED_PROXIES or urlsplit(settings.PUBLIC_URL).scheme != "https":
        return []
    return [
        Warning(
            "TOOLHUB_PUBLIC_URL is https, and TOOLHUB_TRUSTED_PROXIES is empty: all clients have the proxy's address.",
            hint="List the addresses of the reverse proxy. Otherwise one client's invalid tokens and passwords count "
            "for everybody, and the audit log has no addresses.",
            id="toolhub.W004",
        )
    ]


def _is_origin(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        return (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and f"{parts.scheme}://{parts.netloc}" == origin
        )
    except ValueError:
        return False


@register(Tags.security)
def check_production(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Check what is harmless on one's own machine only. Every command prints it, `serve` too, and stops at an error."""
    if settings.DEVELOPMENT:
        return []
    found: list[CheckMessage] = []
    if settings.DEBUG:
        found.append(
            Error(
                f"TOOLHUB_DEBUG is on, and TOOLHUB_ENVIRONMENT is {settings.ENVIRONMENT!r}: error pages would show "
                "settings and code to anybody.",
                hint="Remove TOOLHUB_DEBUG, or set TOOLHUB_ENVIRONMENT to development on a machine of your own.",
                id="toolhub.E011",
            )
        )
    if any(host in {"*", "."} for host in settings.ALLOWED_HOSTS):
        found.append(
            Error(
                "TOOLHUB_ALLOWED_HOSTS contains *: requests for any host name would be answered.",
                hint="List the names of this server. The host of TOOLHUB_PUBLIC_URL is always allowed.",
                id="toolhub.E012",
            )
        )
    return [*found, *_check_public_address()]


def _check_public_address() -> list[CheckMessage]:
    parts = urlsplit(settings.PUBLIC_URL)
    if parts.scheme == "https":
        return []
    host = parts.hostname or ""
    if host in LOCAL_HOSTS or _is_private(host):
        return []
    return [
        Warning(
            f"TOOLHUB_PUBLIC_URL ({settings.PUBLIC_URL}) is not https: tokens and passwords would travel in clear.",
            hint="Put a TLS-terminating proxy in front and set the https address.",
            id="toolhub.W001",
        )
    ]


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


@register(Tags.security, deploy=True)
def check_debug(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    if settings.DEVELOPMENT:
        return [
            Warning(
                "TOOLHUB_ENVIRONMENT is 'development': keys are generated and local hosts are accepted.",
                hint="Set it to the name of this installation, for example production.",
                id="toolhub.W002",
            )
        ]
    return []


@register(Tags.caches, deploy=True)
def check_shared_counters(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    postgres = settings.DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql"
    if not postgres or settings.REDIS_URL:
        return []
    return [
        Warning(
            "PostgreSQL without Redis: only one worker can serve, and limits start again with every restart.",
            hint="Set TOOLHUB_REDIS_URL.",
            id="toolhub.W003",
        )
    ]
