"""Groups and the staff status of people as their identity providers say, through the mappings of an administrator.

A mapped group belongs to its provider for everybody who has an identity there: membership follows the provider, both
ways. Groups that are not mapped, and people without an identity, are left alone. Nothing here makes a superuser.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User
from django.db import transaction

from audit.actions import actor
from toolhub.identity.models import GroupMapping, Identity, Provider

STAFF = "staff"


def apply(user_id: int, withdrawn: Iterable[int | str] = ()) -> bool:
    """Bring the groups and the staff status of a user in line with their identities; return whether they changed.

    `withdrawn` is what an identity gave that no longer exists (primary keys of groups, and "staff").
    """
    with transaction.atomic():
        user = User.objects.select_for_update().filter(pk=user_id).first()
        if user is None:
            return False
        identities = list(Identity.objects.select_related("provider").filter(user=user))
        mappings: dict[int, list[GroupMapping]] = {}
        for mapping in GroupMapping.objects.filter(provider__in={one.provider_id for one in identities}):
            mappings.setdefault(mapping.provider_id, []).append(mapping)
        controlled: set[int | str] = set(withdrawn)
        wanted: set[int | str] = set()
        for identity in identities:
            mapped = mappings.get(identity.provider_id, [])
            given = _find_given(identity.groups, mapped)
            controlled |= {mapping.group_id for mapping in mapped} | set(identity.given)
            controlled |= {STAFF for mapping in mapped if mapping.staff}
            wanted |= given
            if given != set(identity.given):
                identity.given = sorted(given, key=str)
                identity.save(update_fields=["given"])
        names = ", ".join(sorted({identity.provider.name for identity in identities}))
        with actor.override(f"identity provider {names}" if names else "identity provider"):
            return _change(user, controlled, wanted)


def apply_all(provider: Provider) -> None:
    """Bring everybody with an identity at the provider in line: its mappings changed."""
    for user_id in Identity.objects.filter(provider=provider).values_list("user_id", flat=True).distinct():
        apply(user_id)


def has_mapped_group(provider: Provider, groups: set[str]) -> bool:
    return GroupMapping.objects.filter(provider=provider, value__in=groups).exists()


def _find_given(groups: set[str], mappings: Iterable[GroupMapping]) -> set[int | str]:
    given: set[int | str] = set()
    for mapping in mappings:
        if mapping.value in groups:
            given.add(mapping.group_id)
            if mapping.staff:
                given.add(STAFF)
    return given


def _change(user: User, controlled: set[int | str], wanted: set[int | str]) -> bool:
    held: set[int | str] = set(user.groups.filter(pk__in=controlled - {STAFF}).values_list("pk", flat=True))
    added, removed = wanted - held - {STAFF}, (held & controlled) - wanted
    if added:
        user.groups.add(*(key for key in added if isinstance(key, int)))
    if removed:
        user.groups.remove(*(key for key in removed if isinstance(key, int)))
    staff = user.is_staff
    if STAFF in controlled and not user.is_superuser:
        staff = STAFF in wanted
    if staff != user.is_staff:
        user.is_staff = staff
        user.save(update_fields=["is_staff"])
        return True
    return bool(added or removed)
