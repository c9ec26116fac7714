"""Limits of staff who manage accounts, groups and tokens: nobody becomes somebody else, or gets more than they hold.

An account is above an actor when it is a superuser or holds a permission that the actor lacks, directly or through a
group, whether or not it is active. Superusers are bound by nothing here, and neither are commands and background jobs.

The forms of the admin ask these questions to say no early. The signals at the end say no to everything else that
changes an account, a group or a token during a request: bulk actions, other pages, pages of later versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.db.models.signals import m2m_changed, pre_delete, pre_save
from django.utils.translation import gettext as _

from audit.actions import actor as actors
from toolhub import contact
from toolhub.access import hooks
from toolhub.access.models import AccessToken
from toolhub.access.try_permissions import MAY_TRY_AS

CHANGES_GRANTS = ("catalog.add_grant", "catalog.change_grant", "catalog.delete_grant")
"""The permissions with which the actor could grant the same tools on the page of grants."""
CHANGES_RULES = ("catalog.add_approvalrule", "catalog.change_approvalrule", "catalog.delete_approvalrule")
"""The permissions with which the actor could make calls ask a group of their own, or nobody."""
FLAGS = ("is_staff", "is_superuser")
"""Fields that only a superuser may switch on."""
IDENTITY = frozenset({"username", "email", "password"})
"""Fields that let another person sign in as the account, or be taken for it."""


# --- questions -----------------------------------------------------------------------------------------------------


def find_lacking(actor: User) -> QuerySet[Permission]:
    """Return the permissions that the actor does not hold."""
    if actor.is_superuser:
        return Permission.objects.none()
    held = Permission.objects.filter(Q(user=actor) | Q(group__user=actor)).order_by()
    return Permission.objects.exclude(pk__in=held.values("pk")).order_by()


def find_users_above(actor: User) -> QuerySet[User]:
    """Return the accounts above the actor; never the actor's own, and none for a superuser."""
    if actor.is_superuser:
        return User.objects.none()
    lacking = find_lacking(actor).values("pk")
    above = Q(is_superuser=True) | Q(user_permissions__in=lacking) | Q(groups__permissions__in=lacking)
    return User.objects.filter(above).exclude(pk=actor.pk).order_by()


def find_groups_above(actor: User) -> QuerySet[Group]:
    """Return the groups that hold a permission that the actor lacks."""
    return Group.objects.filter(permissions__in=find_lacking(actor).values("pk")).order_by()


def is_above(actor: User, user: User) -> bool:
    return not actor.is_superuser and find_users_above(actor).filter(pk=user.pk).exists()


def is_group_above(actor: User, group: Group) -> bool:
    return not actor.is_superuser and find_groups_above(actor).filter(pk=group.pk).exists()


def may_take_over(actor: User, user: User) -> bool:
    """Return whether the actor may decide how this person signs in: with which name, password or email address.

    They may not when the account is above theirs, may use tools that they may not use, may approve calls that they may
    not approve, or has personal secrets, or when its owner signs in with an identity provider: they would not notice a
    password or a passkey that somebody else left.
    """
    if actor.is_superuser or actor.pk == user.pk:
        return True
    if is_above(actor, user):
        return False
    questions = hooks.installed()
    if questions.has_personal_secrets(user.pk) or questions.has_identity(user.pk):
        return False
    if not actor.has_perms(CHANGES_RULES) and questions.approves_more(user.pk, actor.pk):
        return False
    return actor.has_perms(CHANGES_GRANTS) or not questions.reaches_more(user.pk, actor.pk)


def find_reserved_groups(actor: User, group_ids: Iterable[int]) -> list[Group]:
    """Return those of the groups whose members the actor may not choose.

    They hold a permission that the actor lacks, they have grants or limits and the actor may not change grants, or
    their members approve calls and the actor may not change approval rules.
    """
    ids = set(group_ids)
    if actor.is_superuser or not ids:
        return []
    reserved = set(find_groups_above(actor).filter(pk__in=ids).values_list("pk", flat=True))
    if not actor.has_perms(CHANGES_GRANTS):
        reserved |= hooks.installed().groups_with_access(frozenset(ids))
    if not actor.has_perms(CHANGES_RULES):
        reserved |= hooks.installed().approving_groups(frozenset(ids))
    return list(Group.objects.filter(pk__in=reserved).order_by("name"))


def find_unheld(actor: User, permission_ids: Iterable[int]) -> list[Permission]:
    """Return those of the permissions that the actor does not hold, and so may not give."""
    ids = set(permission_ids)
    if actor.is_superuser or not ids:
        return []
    return list(find_lacking(actor).filter(pk__in=ids).select_related("content_type"))


def may_act_as(actor: User, user_id: int | None) -> bool:
    """Return whether the actor may act as this user: create or widen their token, or send what runs as them."""
    return actor.pk == user_id or actor.has_perm(MAY_TRY_AS)


def is_wider(token: AccessToken, stored: AccessToken) -> bool:
    """Return whether the changed token reaches more, or for longer, than the stored one (its toolsets aside)."""
    return (
        token.user_id != stored.user_id
        or token.expires > stored.expires
        or (stored.restricted and not token.restricted)
        or (stored.revoked is not None and token.revoked is None)
        or (token.made_by_owner and not stored.made_by_owner)
    )


# --- sentences -----------------------------------------------------------------------------------------------------


def account_refusal(user: User) -> str:
    return _("The account %(name)s holds permissions that you do not have. Ask a superuser to make this change.") % {
        "name": user.get_username()
    }


def take_over_refusal(user: User) -> str:
    return _(
        "The account %(name)s has access that you do not have. Ask a superuser to change how this user signs in."
    ) % {"name": user.get_username()}


def groups_refusal(groups: Iterable[Group]) -> str:
    names = ", ".join(group.name for group in groups)
    return _(
        "You cannot change who is in %(groups)s: the group gives access that you do not have. Ask a superuser."
    ) % {"groups": names}


def permissions_refusal(permissions: Iterable[Permission]) -> str:
    names = ", ".join(f"{one.content_type.app_label}.{one.codename}" for one in permissions)
    return _("You can give only permissions that you have yourself. Remove %(permissions)s, or ask a superuser.") % {
        "permissions": names
    }


def flags_refusal() -> str:
    return _("Only a superuser can give the staff or superuser status.")


def token_refusal() -> str:
    return contact.fill(
        _(
            'You need the permission "Can try tools from the admin as another user" to create a token for somebody '
            "else, or to let one reach more. Ask %(contact)s for it, or choose yourself."
        )
    )


# --- signals: whatever a form or page forgot -----------------------------------------------------------------------


def _bound() -> Any:
    """Return the signed-in user of the current request; None for a superuser, a visitor, and outside of a request."""
    user = actors.current_user()
    return None if user is None or not user.is_authenticated or user.is_superuser else user


def on_user_saving(instance: User, update_fields: frozenset[str] | None, **_rest: Any) -> None:
    actor = _bound()
    if actor is None:
        return
    stored = User._base_manager.filter(pk=instance.pk).first() if instance.pk else None
    changed = list_changes(instance, stored, update_fields)
    if any(getattr(instance, name) for name in changed.intersection(FLAGS)):
        raise PermissionDenied(flags_refusal())
    if stored is None or stored.pk == actor.pk or not changed:
        return
    if is_above(actor, stored):
        raise PermissionDenied(account_refusal(stored))
    if changed & IDENTITY and not may_take_over(actor, stored):
        raise PermissionDenied(take_over_refusal(stored))


def list_changes(user: User, stored: User | None, update_fields: frozenset[str] | None) -> set[str]:
    """Return the columns that saving `user` with these `update_fields` changes; `stored` is the row as it is."""
    names = {field.attname for field in User._meta.concrete_fields if field.attname not in {"id", "last_login"}}
    if update_fields is not None:
        names &= update_fields
    if names == {"password"} and getattr(user, "_password", None) is None:
        return set()  # a correct password is hashed again with a newer algorithm when its owner signs in
    if stored is None:
        return names
    return {name for name in names if getattr(user, name) != getattr(stored, name)}


def on_user_deleting(instance: User, **_rest: Any) -> None:
    if (actor := _bound()) is not None and is_above(actor, instance):
        raise PermissionDenied(account_refusal(instance))


def on_group_saving(instance: Group, **_rest: Any) -> None:
    if (actor := _bound()) is not None and instance.pk and is_group_above(actor, instance):
        raise PermissionDenied(groups_refusal([instance]))


def on_group_deleting(instance: Group, **_rest: Any) -> None:
    if (actor := _bound()) is not None and (reserved := find_reserved_groups(actor, [instance.pk])):
        raise PermissionDenied(groups_refusal(reserved))


def on_members_changing(instance: Any, action: str, reverse: bool, pk_set: set[int] | None, **_rest: Any) -> None:
    """Check a change of who is in which group, from either side."""
    actor = _bound()
    if actor is None or not action.startswith("pre_"):
        return
    if reverse:
        group_ids = {instance.pk}
        user_ids = set(instance.user_set.values_list("pk", flat=True)) if pk_set is None else pk_set
    else:
        group_ids = set(instance.groups.values_list("pk", flat=True)) if pk_set is None else pk_set
        user_ids = {instance.pk}
    if not group_ids or not user_ids:
        return
    if reserved := find_reserved_groups(actor, group_ids):
        raise PermissionDenied(groups_refusal(reserved))
    if (user := find_users_above(actor).filter(pk__in=user_ids).first()) is not None:
        raise PermissionDenied(account_refusal(user))


def on_permissions_changing(instance: Any, action: str, reverse: bool, pk_set: set[int] | None, **_rest: Any) -> None:
    """Check a change of the permissions of an account or a group, from either side."""
    actor = _bound()
    if actor is None or not action.startswith("pre_") or (pk_set is not None and not pk_set):
        return
    if reverse:
        # From the side of a permission, which no page of ours does.
        raise PermissionDenied(permissions_refusal([instance]))
    if action == "pre_add" and (unheld := find_unheld(actor, pk_set or ())):
        raise PermissionDenied(permissions_refusal(unheld))
    if isinstance(instance, Group):
        if is_group_above(actor, instance):
            raise PermissionDenied(groups_refusal([instance]))
    elif is_above(actor, instance):
        raise PermissionDenied(account_refusal(instance))


def on_token_saving(instance: AccessToken, **_rest: Any) -> None:
    actor = _bound()
    if actor is None:
        return
    stored = AccessToken._base_manager.filter(pk=instance.pk).first() if instance.pk else None
    owners = {instance.user_id, stored.user_id if stored is not None else instance.user_id}
    if all(may_act_as(actor, owner) for owner in owners):
        return
    if stored is None or is_wider(instance, stored):
        raise PermissionDenied(token_refusal())


def on_toolsets_changing(instance: Any, action: str, reverse: bool, **_rest: Any) -> None:
    actor = _bound()
    if actor is None or action != "pre_add" or reverse or not isinstance(instance, AccessToken):
        return
    if not may_act_as(actor, instance.user_id):
        raise PermissionDenied(token_refusal())


def connect() -> None:
    for signal, receiver, sender in (
        (pre_save, on_user_saving, User),
        (pre_delete, on_user_deleting, User),
        (pre_save, on_group_saving, Group),
        (pre_delete, on_group_deleting, Group),
        (m2m_changed, on_members_changing, User.groups.through),
        (m2m_changed, on_permissions_changing, User.user_permissions.through),
        (m2m_changed, on_permissions_changing, Group.permissions.through),
        (pre_save, on_token_saving, AccessToken),
        (m2m_changed, on_toolsets_changing, AccessToken.toolsets.through),
    ):
        name = f"access.privileges.{receiver.__name__}.{sender._meta.label_lower}"
        signal.connect(receiver, sender=sender, dispatch_uid=name)
