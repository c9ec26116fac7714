"""The ways to sign in with an identity provider, for the pages of accounts."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.urls import reverse

from toolhub.access.backends import may_use_password
from toolhub.access.hooks import LinkedIdentity, SignInOptions, SignInWay
from toolhub.identity import providers
from toolhub.identity.models import Identity


def list_ways() -> tuple[SignInWay, ...]:
    return tuple(SignInWay(one.name, reverse("identity:start", args=[one.slug])) for one in providers.list_enabled())


def has_identity(user_id: int) -> bool:
    return Identity.objects.filter(user_id=user_id).exists()


def list_options(user_id: int) -> SignInOptions:
    """Return the identities of this user, and the providers where they have none yet."""
    rows = list(Identity.objects.filter(user_id=user_id).select_related("provider"))
    enabled = providers.list_enabled()
    usable = {one.pk for one in enabled}
    user = User.objects.get(pk=user_id)
    has_password = user.has_usable_password() and may_use_password(user)
    identities = tuple(
        LinkedIdentity(
            provider=row.provider.name,
            label=row.label or row.subject,
            last_used=row.last_sign_in,
            unlink_address=(
                reverse("identity:unlink", args=[row.pk])
                if row.linked_by_owner and (has_password or any(r.provider_id in usable for r in rows if r is not row))
                else ""
            ),
        )
        for row in rows
    )
    taken = {row.provider_id for row in rows}
    linkable = tuple(
        SignInWay(one.name, reverse("identity:link", args=[one.slug])) for one in enabled if one.pk not in taken
    )
    return SignInOptions(identities, linkable)
