"""Groups and the staff status of people as their identity providers say, through the mappings of an administrator.

A mapped group belongs to its provider for everybody who has an identity there: membership follows the provider, both
ways. Groups that are not mapped, and people without an identity, are left alone. Nothing here makes a superuser.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from django.contrib.auth.models import Group, User
from django.db import transaction

from audit.actions import actor
from toolhub.identity.models import GroupMapping, Identity, Provider

STAFF = "staff"
BATCH_USERS = 500


def apply(user_id: int, withdrawn: Iterable[int | str] = (), by: str = "") -> bool:
    """Bring the groups and the staff status of a user in line with their identities; return whether they changed.

    `withdrawn` is what an identity gave that no longer exists (primary keys of groups, and "staff"). `by` is for the
    audit log, by default the identity providers.
    """
    return bool(apply_many([user_id], withdrawn, by))


def apply_many(user_ids: Iterable[int], withdrawn: Iterable[int | str] = (), by: str = "") -> set[int]:
    """Do the same for several users; return those that changed.

    For a thousand people it takes about as many queries as for one, save for those whose staff status changes.
    """
    with transaction.atomic():
        found = User.objects.select_for_update().filter(pk__in=list(user_ids)).order_by("pk")
        users = {user.pk: user for user in found}
        identities: dict[int, list[Identity]] = {}
        for identity in Identity.objects.select_related("provider").filter(user__in=list(users)):
            identities.setdefault(identity.user_id, []).append(identity)
        providers = {identity.provider for some in identities.values() for identity in some}
        mappings: dict[int, list[GroupMapping]] = {}
        for mapping in GroupMapping.objects.filter(provider__in=providers):
            mappings.setdefault(mapping.provider_id, []).append(mapping)
        wanted = {user_id: _find_wanted(identities.get(user_id, ()), mappings) for user_id in users}
        controlled = {
            user_id: {*withdrawn, *_find_controlled(identities.get(user_id, ()), mappings)} for user_id in users
        }
        _store_given(identities, mappings)
        names = ", ".join(sorted(provider.name for provider in providers))
        with actor.override(by or (f"identity provider {names}" if names else "identity provider")):
            return _change_members(users, controlled, wanted) | _change_staff(users, controlled, wanted)


def apply_all(provider: Provider) -> None:
    """Bring everybody with an identity at the provider in line: its mappings changed."""
    user_ids = list(Identity.objects.filter(provider=provider).values_list("user_id", flat=True).distinct())
    for start in range(0, len(user_ids), BATCH_USERS):
        apply_many(user_ids[start : start + BATCH_USERS])


def has_mapped_group(provider: Provider, groups: set[str]) -> bool:
    return GroupMapping.objects.filter(provider=provider, value__in=groups).exists()


def find_managed(user_ids: Collection[int], group_ids: Collection[int]) -> dict[tuple[int, int], str]:
    """Return the pairs of a user and a group where a provider decides about the membership, with the provider's name.

    The group is mapped by the provider, also for groups that come by provisioning, and the user has an identity there.
    """
    if not user_ids or not group_ids:
        return {}
    rows = Identity.objects.filter(user__in=user_ids, provider__mappings__group__in=group_ids)
    names = rows.order_by("provider__name").values_list("user_id", "provider__mappings__group", "provider__name")
    return {(user_id, group_id): name for user_id, group_id, name in names}


def _find_given(groups: set[str], mappings: Iterable[GroupMapping]) -> set[int | str]:
    given: set[int | str] = set()
    for mapping in mappings:
        if mapping.value in groups:
            given.add(mapping.group_id)
            if mapping.staff:
                given.add(STAFF)
    return given


def _find_wanted(identities: Iterable[Identity], mappings: Mapping[int, list[GroupMapping]]) -> set[int | str]:
    return {
        key for identity in identities for key in _find_given(identity.groups, mappings.get(identity.provider_id, ()))
    }


def _find_controlled(identities: Iterable[Identity], mappings: Mapping[int, list[GroupMapping]]) -> set[int | str]:
    found: set[int | str] = set()
    for identity in identities:
        mapped = mappings.get(identity.provider_id, ())
        found |= {mapping.group_id for mapping in mapped} | set(identity.given)
        found |= {STAFF for mapping in mapped if mapping.staff}
    return found


def _store_given(identities: Mapping[int, list[Identity]], mappings: Mapping[int, list[GroupMapping]]) -> None:
    changed = []
    for identity in (one for some in identities.values() for one in some):
        given = sorted(_find_given(identity.groups, mappings.get(identity.provider_id, ())), key=str)
        if set(given) != set(identity.given):
            identity.given = given
            changed.append(identity)
    Identity.objects.bulk_update(changed, ["given"], batch_size=BATCH_USERS)


def _change_members(
    users: Mapping[int, User], controlled: Mapping[int, set[int | str]], wanted: Mapping[int, set[int | str]]
) -> set[int]:
    held: dict[int, set[int]] = {}
    rows = User.groups.through.objects.filter(user__in=list(users))
    for user_id, group_id in rows.values_list("user_id", "group_id"):
        held.setdefault(user_id, set()).add(group_id)
    added: dict[int, set[int]] = {}
    removed: dict[int, set[int]] = {}
    for user_id in users:
        before = held.get(user_id, set())
        for key in wanted[user_id] - before:
            if isinstance(key, int):
                added.setdefault(key, set()).add(user_id)
        for key in (before & controlled[user_id]) - wanted[user_id]:
            removed.setdefault(key, set()).add(user_id)
    for changes, method in ((added, "add"), (removed, "remove")):
        if changes and len(users) == 1:
            (user,) = users.values()
            getattr(user.groups, method)(*changes)
        elif changes:
            for group in Group.objects.filter(pk__in=list(changes)).order_by("pk"):
                getattr(group.user_set, method)(*changes[group.pk])
    return {user_id for changes in (added, removed) for some in changes.values() for user_id in some}


def _change_staff(
    users: Mapping[int, User], controlled: Mapping[int, set[int | str]], wanted: Mapping[int, set[int | str]]
) -> set[int]:
    changed = set()
    for user_id, user in users.items():
        staff = STAFF in wanted[user_id]
        if STAFF in controlled[user_id] and not user.is_superuser and staff != user.is_staff:
            user.is_staff = staff
            user.save(update_fields=["is_staff"])
            changed.add(user_id)
    return changed
