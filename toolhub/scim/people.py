"""Users of an identity provider: an account is made before the first sign-in, follows the provider, and ends with it.

A provider reaches the people alone who have an identity there. The identity of somebody is (issuer, externalId), as at
the sign-in. Nobody is matched by name or mail address.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from toolhub import invisible
from toolhub.identity import accounts, groups
from toolhub.identity.models import Deactivation, Identity, Provider
from toolhub.scim import errors, messages, schemas
from toolhub.scim.errors import invalid, not_found, taken
from toolhub.scim.messages import Operation, Path
from toolhub.scim.models import MAX_TEXT_CHARACTERS, ScimUser, key_of

MAX_EMAIL_CHARACTERS = 254
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
_REQUIRED = frozenset({"username", "externalid", "active"})
READ_ONLY = {"id": "id", "meta": "meta", "schemas": "schemas", "groups": "groups"}
EXTERNAL_ID_MISSING = (
    "externalId is required: it identifies the person, and must be what your identity provider sends as the subject at "
    "the sign-in. Entra: map externalId to objectId, and choose the subject claim oid here. Okta: map externalId to "
    "user.getInternalProperty('id'), which is the subject claim sub."
)


@dataclass(frozen=True, slots=True)
class Person:
    """What a provider says about somebody."""

    user_name: str = ""
    external_id: str = ""
    given_name: str = ""
    family_name: str = ""
    display_name: str = ""
    email: str = ""
    active: bool = True

    @property
    def names(self) -> dict[str, str]:
        """The names for an account; who has only a display name is called that."""
        if self.given_name or self.family_name:
            return {"first_name": self.given_name, "last_name": self.family_name}
        return {"first_name": self.display_name, "last_name": ""}


# --- reading -------------------------------------------------------------------------------------------------------


def read(body: dict[str, Any], base: Person) -> Person:
    """Return the person of a whole resource; what has no default stays as in `base`. Raises ScimError."""
    messages.check_schema(body, schemas.USER)
    found = Person(external_id=base.external_id, active=base.active)
    for name, value in body.items():
        if _is_known(name):
            found = _assign(found, Path(name), value)
    return _check(found)


def patch(body: dict[str, Any], person: Person) -> Person:
    """Return the person after the operations of a PATCH request. Raises ScimError."""
    for operation in messages.parse_operations(body):
        person = _apply(person, operation)
    return _check(person)


def _check(person: Person) -> Person:
    if not person.user_name.strip():
        raise invalid("userName is required.")
    if not person.external_id.strip():
        raise invalid(EXTERNAL_ID_MISSING)
    if invisible.show(person.user_name) != person.user_name:
        raise invalid("userName must not contain invisible characters.")
    return person


def _apply(person: Person, operation: Operation) -> Person:
    path = operation.path
    if path.schema and path.schema not in schemas.USER_NAMES:
        return person  # an extension, such as the enterprise user's: nothing here keeps it
    if path.attribute in READ_ONLY:
        if operation.explicit:
            raise messages.reject_read_only(READ_ONLY[path.attribute])
        return person
    if path.attribute == "password":
        raise invalid("Passwords cannot be set here: people sign in with the identity provider.", errors.MUTABILITY)
    if not _is_known(path.attribute):
        if operation.explicit and path.attribute not in schemas.IGNORED_OF_USERS:
            raise messages.reject_unknown()
        return person
    if operation.op == "remove" and path.attribute in _REQUIRED:
        raise invalid("userName, externalId and active cannot be removed.", errors.MUTABILITY)
    return _assign(person, path, None if operation.op == "remove" else operation.value)


def _is_known(attribute: str) -> bool:
    return attribute in _TEXTS or attribute in {"active", "name", "emails"}


_TEXTS = {"username": ("user_name", "userName"), "externalid": ("external_id", "externalId")}
_TEXTS["displayname"] = ("display_name", "displayName")
_NAMES = {"givenname": ("given_name", "name.givenName"), "familyname": ("family_name", "name.familyName")}


def _assign(person: Person, path: Path, value: Any) -> Person:
    if path.attribute in _TEXTS:
        if path.sub or path.condition:
            raise messages.reject_unknown()
        field, name = _TEXTS[path.attribute]
        return _set(person, {field: messages.read_text(value, name)})
    if path.attribute == "active":
        if path.sub or path.condition:
            raise messages.reject_unknown()
        return replace(person, active=messages.read_boolean(value, "active"))
    if path.attribute == "name":
        return _assign_name(person, path, value)
    return _assign_email(person, path, value)


def _assign_name(person: Person, path: Path, value: Any) -> Person:
    if path.condition:
        raise messages.reject_unknown()
    if path.sub:
        given = {path.sub: value}
    elif value is None:
        given = dict.fromkeys(_NAMES)
    else:
        given = messages.read_object(value, "name")
    parts = {_NAMES[sub][0]: messages.read_text(part, _NAMES[sub][1]) for sub, part in given.items() if sub in _NAMES}
    return _set(person, parts)


def _set(person: Person, texts: dict[str, str]) -> Person:
    found: Any = texts
    return replace(person, **found)


def _assign_email(person: Person, path: Path, value: Any) -> Person:
    """Keep one address: the primary one, or that of work."""
    for one in path.condition:
        if one.attribute not in {"type", "primary", "value"}:
            raise messages.reject_unknown()
        if (one.attribute == "type" and one.value.lower() != "work") or (one.attribute, one.value) == (
            "primary",
            "false",
        ):
            return person  # another address than the one that is kept
        if one.attribute == "value" and one.value.lower() != person.email.lower():
            return person
    if path.sub and path.sub != "value":
        return person
    if value is not None and not path.sub:
        value = _choose_email(value)
    return replace(person, email=_read_email(value))


def _choose_email(value: Any) -> Any:
    listed = value if isinstance(value, list) else [value]
    found = [one if isinstance(one, str) else messages.read_object(one, "An email address") for one in listed]
    objects = [{"value": one} if isinstance(one, str) else one for one in found]
    first = [one for one in objects if one.get("primary") in (True, "true", "True")]
    first += [one for one in objects if str(one.get("type")).lower() == "work"]
    chosen = next(iter(first + objects), None)
    return chosen.get("value") if chosen is not None else None


def _read_email(value: Any) -> str:
    text = messages.read_text(value, "emails.value")
    if text and (len(text) > MAX_EMAIL_CHARACTERS or not _EMAIL.fullmatch(text) or invisible.show(text) != text):
        raise invalid("emails.value is not an email address.")
    return text


# --- finding -------------------------------------------------------------------------------------------------------


def visible(provider: Provider) -> QuerySet[ScimUser]:
    """Return the users of the provider: everybody else is absent for it."""
    own = ScimUser.objects.filter(provider=provider, identity__provider=provider, identity__issuer=provider.issuer)
    return own.select_related("identity__user")


def find(provider: Provider, id: str) -> ScimUser:
    """Return a user of the provider. Raises ScimError."""
    found = visible(provider).filter(pk=parse_id(id)).first()
    if found is None:
        raise not_found()
    return found


def lock(provider: Provider, id: str) -> ScimUser:
    """Return a user whose account nobody else changes in the meantime. Raises ScimError."""
    User.objects.select_for_update().filter(pk=find(provider, id).identity.user_id).first()
    return find(provider, id)


def parse_id(text: str) -> uuid.UUID:
    """Return the id of a resource. Raises ScimError for what can be none."""
    try:
        found = uuid.UUID(text)
    except ValueError:
        raise not_found() from None
    if str(found) != text.lower():
        raise not_found()
    return found


def describe(stored: ScimUser) -> Person:
    """Return what the provider says about this user."""
    return Person(
        user_name=stored.user_name,
        external_id=stored.identity.subject,
        given_name=stored.given_name,
        family_name=stored.family_name,
        display_name=stored.display_name,
        email=stored.email,
        active=stored.identity.provisioned is not False,
    )


def is_active(stored: ScimUser) -> bool:
    """Return whether the person can use the account: an administrator can have deactivated it, too."""
    return stored.identity.user.is_active and stored.identity.provisioned is not False


# --- changing ------------------------------------------------------------------------------------------------------


def create(provider: Provider, person: Person, by: str) -> ScimUser:
    """Provision a person: with the account of their identity, or with a new one. Raises ScimError.

    An identity that is there and not provisioned has signed in before, or was deleted by the provider.
    """
    _check_name(provider, person.user_name)
    identity = Identity.objects.filter(issuer=provider.issuer, subject=person.external_id).first()
    if identity is None:
        # The same name as a first sign-in would choose.
        wanted = person.user_name.partition("@")[0]
        user = accounts.create(provider, wanted, email=person.email, by=by, **person.names)
        identity = Identity.objects.create(
            user=user,
            provider=provider,
            issuer=provider.issuer,
            subject=person.external_id,
            label=person.user_name,
        )
        before = person
    else:
        User.objects.select_for_update().filter(pk=identity.user_id).first()
        identity.refresh_from_db()
        if identity.provider_id != provider.pk or ScimUser.objects.filter(identity=identity).exists():
            raise taken("There is a user with this externalId.")
        before = Person()
    stored = ScimUser(provider=provider, identity=identity)
    _store(stored, before, person, by)
    return find(provider, str(stored.pk))


def update(stored: ScimUser, person: Person, by: str) -> ScimUser:
    """Give a user, which must be locked, this description. Raises ScimError."""
    before = describe(stored)
    if person == before and (person.active or not stored.identity.user.is_active):
        return stored
    if person.external_id != before.external_id:
        _change_subject(stored, person.external_id)
    if key_of(person.user_name) != stored.user_name_key:
        _check_name(stored.provider, person.user_name)
    _store(stored, before, person, by)
    return find(stored.provider, str(stored.pk))


def remove(stored: ScimUser, by: str) -> None:
    """Deactivate the account of a user, which must be locked, and forget the user."""
    identity = stored.identity
    stored.delete()
    identity.provisioned, identity.provisioned_groups = False, []
    identity.save(update_fields=["provisioned", "provisioned_groups"])
    accounts.deactivate(identity.user_id, Deactivation.Reason.REMOVED, by)
    groups.apply(identity.user_id, by=by)


def _store(stored: ScimUser, before: Person, person: Person, by: str) -> None:
    identity = stored.identity
    for name, value in asdict(person).items():
        if name not in {"external_id", "active"}:
            setattr(stored, name, value)
    stored.user_name_key = key_of(person.user_name)
    stored.save()
    was_provisioned = identity.provisioned
    identity.label, identity.provisioned = person.user_name[:MAX_TEXT_CHARACTERS], person.active
    identity.save(update_fields=["label", "provisioned"])
    _update_account(identity, before, person, by)
    if not person.active:
        accounts.deactivate(identity.user_id, Deactivation.Reason.REMOVED, by)
    elif not was_provisioned and accounts.may_reactivate(identity):
        accounts.reactivate(identity.user_id, by)


def _update_account(identity: Identity, before: Person, person: Person, by: str) -> None:
    """Pass on what changed, unless the account is somebody's own or a superuser's: its name there is theirs."""
    if identity.linked_by_owner or identity.user.is_superuser:
        return
    wanted = person.names if person.names != before.names else {}
    if person.email != before.email:
        wanted["email"] = person.email
    accounts.update(identity.user, by, **wanted)


def _check_name(provider: Provider, user_name: str) -> None:
    """Raise ScimError if somebody else has this name; users of an earlier issuer are forgotten where they are met."""
    same = (
        ScimUser.objects.select_related("identity").filter(provider=provider, user_name_key=key_of(user_name)).first()
    )
    if same is None:
        return
    if same.identity.issuer == provider.issuer:
        raise taken("There is a user with this userName.")
    same.delete()


def _change_subject(stored: ScimUser, external_id: str) -> None:
    """Let a wrong mapping of externalId be repaired, as long as nobody has signed in with it."""
    identity = stored.identity
    if identity.last_sign_in is not None or identity.linked_by_owner:
        raise invalid(
            "externalId cannot change: this person has signed in with it. Delete the user, and create another one.",
            errors.MUTABILITY,
        )
    if Identity.objects.filter(issuer=identity.issuer, subject=external_id).exists():
        raise taken("There is a user with this externalId.")
    identity.subject = external_id
    identity.save(update_fields=["subject"])
