"""Security schemes of a document as references to secrets; the document itself never holds one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.openapi.references import OperationError, References
from catalog.openapi.schemas import plain_text

Missing = tuple[tuple[str, ...], ...] | None
"""Alternatives of security schemes, one of which an operation needs and has no secrets for."""
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
) -> Missing:
    """Add the secrets of the first alternative whose schemes all have one; add a note when there is none.

    Return the alternatives that secrets could serve when the operation needs credentials and gets none, otherwise None.
    """
    wanted = operation.get("security", document.get("security"))
    alternatives = [found for found in wanted if isinstance(found, dict)] if isinstance(wanted, list) else []
    if not alternatives:
        return None
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
            return None
    if {} in alternatives:
        return None
    names = join_alternatives(tuple(map(tuple, alternatives)))
    possible = tuple(tuple(one) for one in alternatives if all(_is_usable(known.get(name), references) for name in one))
    if possible:
        notes.append(_("This operation needs %(names)s. Choose a secret for it.") % {"names": names})
    else:
        notes.append(_("This operation needs %(names)s, which a secret cannot serve.") % {"names": names})
    return possible


def join_alternatives(alternatives: Iterable[Iterable[str]]) -> str:
    """Return alternatives of security schemes as one text, such as "key / user + password"."""
    return plain_text(" / ".join(" + ".join(alternative) for alternative in alternatives), 300)


def _is_usable(scheme: Any, references: References) -> bool:
    """Return whether a secret can serve this scheme of the document."""
    if not isinstance(scheme, dict):
        return False
    try:
        _place_secret(references.resolve(scheme), "x")
    except OperationError:
        return False
    return True
