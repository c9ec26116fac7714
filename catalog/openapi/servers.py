"""The servers of an API that a document names, as absolute URLs."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

from django.utils.translation import gettext as _

from catalog.openapi.references import Refused
from toolhub import egress


def of(holder: dict[str, Any], source: str) -> list[str]:
    """Return the usable URLs, without a slash at the end; variables take their defaults."""
    found = []
    listed = holder.get("servers")
    for server in listed if isinstance(listed, list) else []:
        if isinstance(server, dict) and isinstance(server.get("url"), str):
            address = absolute(_filled(server), source)
            if address and address not in found:
                found.append(address)
    if not found and "paths" in holder and source.startswith(("http://", "https://")):
        found.append(absolute("/", source))
    return [address for address in found if address]


def absolute(url: str, source: str) -> str:
    """Return the absolute URL, or an empty text when no request may go there."""
    joined = urljoin(source, url) if source.startswith(("http://", "https://")) else url
    joined = joined.partition("#")[0].partition("?")[0].rstrip("/")
    try:
        egress.parse_url(joined)
    except egress.Denied:
        return ""
    return "" if re.search(r"[{}]", joined) else joined


def address(document: dict[str, Any], item: dict[str, Any], operation: dict[str, Any], base: str, source: str) -> str:
    """Return the chosen server's URL.

    Raises Refused for an operation that is served elsewhere: requests with credentials go only to the chosen server.
    """
    for holder in (operation, item):
        if holder.get("servers"):
            own = of(holder, source)
            if base not in own:
                if not own:
                    raise Refused(_("The server address of this operation cannot be used."))
                raise Refused(
                    _("This operation is served at %(url)s. Choose that server to import it.") % {"url": own[0]}
                )
            break
    if not base:
        raise Refused(_("The document names no server. Enter one."))
    return base


def _filled(server: dict[str, Any]) -> str:
    variables = server.get("variables")
    url = str(server["url"])
    for name, variable in (variables if isinstance(variables, dict) else {}).items():
        default = variable.get("default") if isinstance(variable, dict) else None
        if isinstance(default, str | int):
            url = url.replace("{" + str(name) + "}", str(default))
    return url
