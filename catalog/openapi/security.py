"""Security schemes of a document as references to secrets; the document itself never holds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.openapi.references import OperationError, References
from catalog.openapi.schemas import plain_text

PLACE_TEXTS: dict[str, Promise] = {
    "static_headers": gettext_lazy("%(kind)s in the header %(name)s"),
    "static_query": gettext_lazy("%(kind)s in the query parameter %(name)s"),
    "static_cookies": gettext_lazy("%(kind)s in the cookie %(name)s"),
}


def schemes(document: dict[str, Any]) -> dict[str, str]:
    """Return {name of a scheme that a secret can serve: its description}."""
    references = References(document)
    components = document.get("components")
    listed = components.get("securitySchemes") if isinstance(components, dict) else None
    found = {}
    for name, value in (listed if isinstance(listed, dict) else {}).items():
        try:
            place, key, reference = _place_secret(references.resolve(value), "x")
        except OperationError:
            continue
        words = str(PLACE_TEXTS[place]) % {"kind": reference.get("prefix", "").strip() or _("a key"), "name": key}
        if reference.get("encoding"):
            words = _("%(where)s. The secret must be user:password") % {"where": words}
        found[name] = plain_text(words, 300)
    return found


def _place_secret(scheme: dict[str, Any], secret: str) -> tuple[str, str, dict[str, str]]:
    """Return (setting, name in it, reference). Raises OperationError for an unsupported scheme."""
    kind = scheme.get("type")
    if kind == "apiKey" and isinstance(scheme.get("name"), str):
        places = {"header": "static_headers", "query": "static_query", "cookie": "static_cookies"}
        place = places.get(str(scheme.get("in")))
        if place is not None:
            return place, scheme["name"], {"secret": secret}
    if kind == "http" and str(scheme.get("scheme")).lower() == "basic":
        return "static_headers", "Authorization", {"secret": secret, "prefix": "Basic ", "encoding": "base64"}
    if kind in {"oauth2", "openIdConnect"} or (kind == "http" and str(scheme.get("scheme")).lower() == "bearer"):
        return "static_headers", "Authorization", {"secret": secret, "prefix": "Bearer "}
    raise OperationError(_("This kind of security scheme is not supported."))


def add(
    settings: dict[str, Any],
    document: dict[str, Any],
    references: References,
    operation: dict[str, Any],
    chosen: Mapping[str, str],
    notes: list[str],
) -> None:
    """Add the secrets of the first alternative whose schemes all have one; add a note when there is none."""
    wanted = operation.get("security", document.get("security"))
    alternatives = [found for found in wanted if isinstance(found, dict)] if isinstance(wanted, list) else []
    if not alternatives:
        return
    components = document.get("components")
    listed = components.get("securitySchemes") if isinstance(components, dict) else None
    known = listed if isinstance(listed, dict) else {}
    for alternative in alternatives:
        if alternative and all(chosen.get(name) and name in known for name in alternative):
            try:
                placed = [_place_secret(references.resolve(known[name]), chosen[name]) for name in alternative]
            except OperationError:
                continue
            for place, key, reference in placed:
                settings.setdefault(place, {})[key] = reference
            return
    if {} not in alternatives:
        names = " / ".join(" + ".join(alternative) for alternative in alternatives)
        notes.append(_("This operation needs %(names)s. Choose a secret for it.") % {"names": plain_text(names, 300)})
