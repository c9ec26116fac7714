"""Users and groups as SCIM resources, and the parts of them that a request asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolhub.scim import people, schemas
from toolhub.scim.models import ScimGroup, ScimUser, base_url

MAX_NAMES = 100
ALWAYS = frozenset({"id", "schemas"})


@dataclass(frozen=True, slots=True)
class Selection:
    """The attributes that a request wants, or does not want: names in lower case, with a dot for parts of one."""

    wanted: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()

    def has(self, attribute: str) -> bool:
        """Return whether any part of an attribute is to be sent."""
        name = attribute.lower()
        if self.wanted is not None:
            return any(one == name or one.startswith(f"{name}.") for one in self.wanted)
        return name not in self.excluded

    def apply(self, resource: dict[str, Any]) -> dict[str, Any]:
        """Return the resource without what is not to be sent."""
        return {
            name: value if name in ALWAYS else self._select_parts(name.lower(), value)
            for name, value in resource.items()
            if name in ALWAYS or self.has(name)
        }

    def _select_parts(self, name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._select_parts(name, one) for one in value]
        if not isinstance(value, dict):
            return value
        if self.wanted is not None:
            if name in self.wanted:
                return value
            return {part: one for part, one in value.items() if f"{name}.{part}".lower() in self.wanted}
        return {part: one for part, one in value.items() if f"{name}.{part}".lower() not in self.excluded}


def parse_selection(attributes: str, excluded: str) -> Selection:
    """Return the selection of the two parameters; unknown names select nothing."""
    if attributes.strip():
        return Selection(wanted=frozenset(_parse_names(attributes)))
    return Selection(excluded=frozenset(_parse_names(excluded)))


def _parse_names(text: str) -> Iterable[str]:
    for name in text.lower().split(",")[:MAX_NAMES]:
        plain = name.strip()
        for schema in (schemas.USER.lower(), schemas.GROUP.lower()):
            plain = plain.removeprefix(f"{schema}:")
        yield plain


def user(stored: ScimUser, groups: Iterable[ScimGroup]) -> dict[str, Any]:
    """Return a user, whose identity and account were selected with it."""
    name = {"givenName": stored.given_name, "familyName": stored.family_name}
    found = {
        "schemas": [schemas.USER],
        "id": str(stored.pk),
        "externalId": stored.identity.subject,
        "userName": stored.user_name,
        "name": {part: text for part, text in name.items() if text},
        "displayName": stored.display_name,
        "emails": [{"value": stored.email, "type": "work", "primary": True}] if stored.email else [],
        "active": people.is_active(stored),
        "groups": [
            {"value": str(one.pk), "$ref": location("Group", one.pk), "display": one.display_name} for one in groups
        ],
        "meta": _describe_row("User", stored),
    }
    return {name: value for name, value in found.items() if value not in ("", [], {})}


def group(stored: ScimGroup, members: Iterable[tuple[Any, str]] = ()) -> dict[str, Any]:
    """Return a group with these members (id, user name)."""
    found = {
        "schemas": [schemas.GROUP],
        "id": str(stored.pk),
        "externalId": stored.external_id,
        "displayName": stored.display_name,
        "members": [
            {"value": str(id), "$ref": location("User", id), "display": name, "type": "User"} for id, name in members
        ],
        "meta": _describe_row("Group", stored),
    }
    return {name: value for name, value in found.items() if value not in ("", [])}


def location(kind: str, id: Any) -> str:
    return f"{base_url()}/{kind}s/{id}"


def _describe_row(kind: str, stored: ScimUser | ScimGroup) -> dict[str, Any]:
    return {
        "resourceType": kind,
        "created": _format(stored.created),
        "lastModified": _format(stored.modified),
        "location": location(kind, stored.pk),
    }


def _format(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
