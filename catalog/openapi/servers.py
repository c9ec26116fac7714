"""The servers of an API that a document names, as absolute URLs."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

from django.utils.translation import gettext as _

from catalog.openapi.references import OperationError
from toolhub import egress


def list_urls(holder: dict[str, Any], source: str) -> list[str]:
    """Return the usable URLs, without a slash at the end; variables take their defaults."""
    found = []
    listed = holder.get("servers")
    for server in listed if isinstance(listed, list) else []:
        if isinstance(server, dict) and isinstance(server.get("url"), str):
            candidate = resolve_url(_fill_variables(server), source)
            if candidate and candidate not in found:
                found.append(candidate)
    if not found and "paths" in holder and source.startswith(("http://", "https://")):
        found.append(resolve_url("/", source))
    return [candidate for candidate in found if candidate]


def resolve_url(url: str, source: str) -> str:
    """Return the absolute URL, or an empty text when no request may go there."""
    joined = urljoin(source, url) if source.startswith(("http://", "https://")) else url
    joined = joined.partition("#")[0].partition("?")[0].rstrip("/")
    try:
        egress.parse_url(joined)
    except egress.Denied:
        return ""
    return "" if re.search(r"[{}]", joined) else joined


def choose_url(
    document: dict[str, Any], item: dict[str, Any], operation: dict[str, Any], base: str, source: str
) -> str:
    """Return the chosen server's URL.

    Raises OperationError for an operation served elsewhere: requests with credentials go only to the chosen server.
    """
    for holder in (operation, item):
        if holder.get("servers"):
            own = list_urls(holder, source)
            if base not in own:
                if not own:
                    raise OperationError(_("The server address of this operation cannot be used."))
                raise OperationError(
                    _("This operation is served at %(url)s. Choose that server to import it.") % {"url": own[0]}
                )
            break
    if not base:
        raise OperationError(_("The document names no server. Enter one."))
    return base


def _fill_variables(server: dict[str, Any]) -> str:
    variables = server.get("variables")
    url = str(server["url"])
    for name, variable in (variables if isinstance(variables, dict) else {}).items():
        default = variable.get("default") if isinstance(variable, dict) else None
        if isinstance(default, str | int):
            url = url.replace("{" + str(name) + "}", str(default))
    return url
