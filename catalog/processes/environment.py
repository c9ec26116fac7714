"""The environment of a process that runs the hub's own code for a tool: listed names only, and none of the hub's keys.

The process reads the hub's settings, so it gets those that are no secret, and TOOLHUB_KEYLESS: without it, settings
would ask for keys or read the generated ones. One that uses the database gets its address, which may contain a
password.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping

from django.conf import settings

from toolhub import env

SYSTEM = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "LANG", "LANGUAGE", "LD_LIBRARY_PATH"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR"}
)
"""What programs expect of any system; with every LC_ variable."""
OWN = frozenset(
    {"TOOLHUB_ENVIRONMENT", "TOOLHUB_DATA_DIR", "TOOLHUB_WORKSPACE_DIR", "TOOLHUB_PUBLIC_URL", "TOOLHUB_LOG_LEVEL"}
    | {"TOOLHUB_TOOL_MODULES", "TOOLHUB_TOOL_THREADS", "TOOLHUB_TOOL_PROCESSES", "TOOLHUB_RUNNERS"}
    | {"TOOLHUB_COMMANDS", "TOOLHUB_ALLOW_PRIVATE_NETWORKS", "DJANGO_SETTINGS_MODULE"}
    | {"TOOLHUB_CONTACT_NAME", "TOOLHUB_CONTACT_URL"}
)
"""Settings of the hub without secrets."""
DATABASE = frozenset({"TOOLHUB_DATABASE_URL", "TOOLHUB_DATABASE_URL_FILE"})
"""With every PG variable: libpq reads them."""
log = logging.getLogger(__name__)


def for_function(*, database: bool) -> dict[str, str]:
    """Return the environment of an isolated function; with `database`, of one that uses Django and its database."""
    return {**dict(_select(os.environ, database=database)), env.KEYLESS: "yes"}


def _select(environment: Mapping[str, str], *, database: bool) -> Iterator[tuple[str, str]]:
    listed = frozenset(settings.ISOLATED_ENVIRONMENT)
    names, prefixes = (SYSTEM | OWN | DATABASE, ("LC_", "PG")) if database else (SYSTEM | OWN, ("LC_",))
    for name, value in environment.items():
        if name in names or name.startswith(prefixes):
            yield name, value
        elif name in listed:
            if _contains_key(value):
                log.error("%s is not passed to isolated functions: it contains a key of toolhub", name)
            else:
                yield name, value


def _contains_key(value: str) -> bool:
    """Return whether a variable of another name holds one of the hub's own keys."""
    keys = (settings.SECRET_KEY, settings.RECORD_KEY, *settings.RECORD_OLD_KEYS, *settings.ENCRYPTION_KEYS)
    return any(key and key in value for key in keys)
