"""Groups of an identity provider and their members, whose groups here follow through the mappings."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from toolhub.identity import groups
from toolhub.identity.models import Identity, Provider
from toolhub.scim import errors, messages, people, schemas
from toolhub.scim.errors import invalid, not_found, taken
from toolhub.scim.messages import Operation, Path
from toolhub.scim.models import ScimGroup, ScimUser, key_of

MAX_MEMBERS = 10_000
BATCH_ROWS = 500
READ_ONLY = {"id": "id", "meta": "meta", "schemas": "schemas"}
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(slots=True)
class Description:
    """What a provider says about a group."""

    display_name: str = ""
    external_id: str = ""
    members: set[uuid.UUID] = field(default_factory=set)


# --- reading -------------------------------------------------------------------------------------------------------


def read(body: dict[str, Any], base: Description) -> Description:
    """Return the description of a whole resource; what has no default stays as in `base`. Raises ScimError."""
    messages.check_schema(body, schemas.GROUP)
    found = Description(external_id=base.external_id)
    for name, value in body.items():
        if name in {"displayname", "externalid", "members"}:
            _assign(found, Operation("replace", Path(name), value, explicit=True))
    return _check(found)


def patch(body: dict[str, Any], description: Description) -> Description:
    """Return the description after the operations of a PATCH request. Raises ScimError."""
    found = replace(description, members=set(description.members))
    for operation in messages.parse_operations(body):
        path = operation.path
        if path.schema and path.schema not in schemas.GROUP_NAMES:
            continue  # an extension: nothing here keeps it
        if path.attribute in READ_ONLY:
            if operation.explicit:
                raise messages.reject_read_only(READ_ONLY[path.attribute])
            continue
        _assign(found, operation)
    return _check(found)


def _assign(found: Description, operation: Operation) -> None:
    path, value = operation.path, operation.value
    if path.attribute == "members":
        _change_members(found, operation)
        if len(found.members) > MAX_MEMBERS:
            raise invalid(f"A group has at most {MAX_MEMBERS:,} members.", errors.EXCESS)
    elif path.sub or path.condition or path.attribute not in {"displayname", "externalid"}:
        raise messages.reject_unknown()
    elif path.attribute == "displayname":
        found.display_name = messages.read_text(None if operation.op == "remove" else value, "displayName")
    else:
        found.external_id = messages.read_text(None if operation.op == "remove" else value, "externalId")


def _change_members(found: Description, operation: Operation) -> None:
    path, value = operation.path, operation.value
    if path.sub:
        raise messages.reject_unknown()
    if path.condition:
        if operation.op != "remove" or len(path.condition) != 1 or path.condition[0].attribute != "value":
            raise invalid('Members are removed by members[value eq "id"].', errors.INVALID_PATH)
        found.members.discard(_parse_member(path.condition[0].value))
    elif operation.op == "add":
        found.members |= _read_members(value)
    elif operation.op == "replace":
        found.members = _read_members(value)
    elif value is None:
        found.members.clear()
    else:  # Entra
        found.members -= _read_members(value)


def _read_members(value: Any) -> set[uuid.UUID]:
    listed = [] if value is None else value if isinstance(value, list) else [value]
    return {_parse_member(messages.read_object(one, "A member").get("value")) for one in listed}


def _parse_member(value: Any) -> uuid.UUID:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise invalid("The value of a member must be the id of a user.")
    return uuid.UUID(value)


def _check(found: Description) -> Description:
    if not found.display_name.strip():
        raise invalid("displayName is required.")
    if _ID.fullmatch(found.display_name.strip()):
        # It would be taken for the externalId of another group, which a mapping can name.
        raise invalid("displayName must not be the ID of a group.")
    return found


# --- finding -------------------------------------------------------------------------------------------------------


def visible(provider: Provider) -> QuerySet[ScimGroup]:
    """Return the groups of the provider: every other group is absent for it."""
    return ScimGroup.objects.filter(provider=provider)


def find(provider: Provider, id: str) -> ScimGroup:
    """Return a group of the provider. Raises ScimError."""
    found = visible(provider).filter(pk=people.parse_id(id)).first()
    if found is None:
        raise not_found()
    return found


def lock(provider: Provider, id: str) -> ScimGroup:
    """Return a group that nobody else changes in the meantime. Raises ScimError."""
    found = visible(provider).select_for_update().filter(pk=people.parse_id(id)).first()
    if found is None:
        raise not_found()
    return found


def describe(stored: ScimGroup) -> Description:
    """Return what the provider says about this group."""
    members = set(stored.members.values_list("pk", flat=True))
    return Description(stored.display_name, stored.external_id, members)


# --- changing ------------------------------------------------------------------------------------------------------


def create(provider: Provider, description: Description, by: str) -> ScimGroup:
    """Add a group with its members. Raises ScimError."""
    stored = ScimGroup(provider=provider)
    _store(stored, Description(), description, by)
    return stored


def update(stored: ScimGroup, before: Description, description: Description, by: str) -> None:
    """Give a group, which must be locked, this description. Raises ScimError."""
    if description != before:
        _store(stored, before, description, by)


def remove(stored: ScimGroup, by: str) -> None:
    """Delete a group, which must be locked; its members leave the groups that it is mapped to."""
    members = describe(stored).members
    _lock_accounts(members)
    stored.delete()
    _pass_on(members, by)


def _store(stored: ScimGroup, before: Description, description: Description, by: str) -> None:
    _check_names(stored, description)
    added, removed = description.members - before.members, before.members - description.members
    renamed = (before.display_name, before.external_id) != (description.display_name, description.external_id)
    affected = before.members | description.members if renamed else added | removed
    _lock_accounts(affected)
    _check_members(stored.provider, added)
    stored.display_name, stored.external_id = description.display_name, description.external_id
    stored.display_name_key = key_of(description.display_name)
    stored.save()
    if added:
        stored.members.add(*ScimUser.objects.filter(pk__in=added))
    if removed:
        stored.members.remove(*ScimUser.objects.filter(pk__in=removed))
    _pass_on(affected, by)


def _check_names(stored: ScimGroup, description: Description) -> None:
    others = visible(stored.provider).exclude(pk=stored.pk)
    same = Q(display_name_key=key_of(description.display_name)) | Q(external_id=description.display_name)
    if others.filter(same).exists():
        raise taken("There is a group with this displayName.")
    same = Q(external_id=description.external_id) | Q(display_name=description.external_id)
    if description.external_id and others.filter(same).exists():
        raise taken("There is a group with this externalId.")


def _check_members(provider: Provider, added: Collection[uuid.UUID]) -> None:
    if added and people.visible(provider).filter(pk__in=added).count() != len(added):
        raise invalid("A member is no user of this identity provider: the value of a member is the id of a user.")


def _lock_accounts(members: Iterable[uuid.UUID]) -> None:
    """Lock accounts in the order in which everything locks them, before anything that hangs on them changes."""
    found = User.objects.filter(identities__scim_user__in=list(members)).values("pk")
    list(User.objects.select_for_update().filter(pk__in=found).order_by("pk").values_list("pk", flat=True))


def _pass_on(members: Iterable[uuid.UUID], by: str) -> None:
    """Store with the identities of these users in which groups they are, and bring their accounts in line."""
    ids = list(members)
    named: dict[int, set[str]] = {}
    rows = ScimGroup.members.through.objects.filter(scimuser__in=ids)
    for identity_id, *names in rows.values_list(
        "scimuser__identity", "scimgroup__display_name", "scimgroup__external_id"
    ):
        named.setdefault(identity_id, set()).update(filter(None, names))
    changed = []
    for identity in Identity.objects.filter(scim_user__in=ids):
        found = sorted(named.get(identity.pk, ()))
        if identity.provisioned_groups != found:
            identity.provisioned_groups = found
            changed.append(identity)
    Identity.objects.bulk_update(changed, ["provisioned_groups"], batch_size=BATCH_ROWS)
    groups.apply_many({identity.user_id for identity in changed}, by=by)
