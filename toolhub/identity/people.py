"""What an identity provider says about a person, in one shape for every type of provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_SUBJECT_CHARACTERS = 255
MAX_GROUPS = 1_000
MAX_GROUP_CHARACTERS = 255


class ClaimsError(Exception):
    """An error for an answer of a provider that cannot be used; `code` names what is wrong, `claim` where."""

    def __init__(self, code: str, claim: str = "") -> None:
        super().__init__(f"{code}: {claim}" if claim else code)
        self.code = code
        self.claim = claim


@dataclass(frozen=True, slots=True)
class Person:
    subject: str
    groups: tuple[str, ...] = ()
    username: str = ""
    email: str = ""
    first_name: str = ""
    last_name: str = ""

    @property
    def label(self) -> str:
        return (self.username or self.email or self.subject)[:255]


def from_claims(claims: Mapping[str, Any], *, subject_claim: str, groups_claim: str) -> Person:
    """Return the person of these OpenID Connect claims. Raises ClaimsError."""
    subject = claims.get(subject_claim)
    if isinstance(subject, int) and not isinstance(subject, bool):
        subject = str(subject)
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARACTERS:
        raise ClaimsError("no_subject", subject_claim)
    return Person(
        subject=subject,
        groups=find_groups(claims, groups_claim),
        username=_text(claims, "preferred_username"),
        email=_text(claims, "email"),
        first_name=_text(claims, "given_name"),
        last_name=_text(claims, "family_name"),
    )


def find_groups(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the groups in a claim; a name with dots may be a path ("realm_access.roles").

    A provider that names no groups says that there are none. Raises ClaimsError when it has them and does not send them
    all: taking those for none would take groups away from a person who is in them.
    """
    if not name:
        return ()
    # Entra sends a reference in place of the claim when a person is in more than 200 groups.
    references = claims.get("_claim_names")
    if isinstance(references, Mapping) and name in references:
        raise ClaimsError("too_many_groups", name)
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for step in name.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
    values = [found] if isinstance(found, str) else found
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ClaimsError("groups_not_texts", name)
    if len(values) > MAX_GROUPS:
        raise ClaimsError("too_many_groups", name)
    return tuple(sorted({one for one in values if 0 < len(one) <= MAX_GROUP_CHARACTERS}))


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value[:254] if isinstance(value, str) else ""
