"""Personal access tokens (`thp_...`) as a kind of credentials: people create them for scripts and clients."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from audit.types import Credential
from toolhub.access.kinds import collect_toolsets
from toolhub.access.models import MAX_ADDRESS_CHARACTERS, AccessToken
from toolhub.access.token_errors import BadToken

LAST_USED_SECONDS = 60.0


class PersonalTokens:
    prefixes = frozenset({"token", "stdio"})
    pattern = re.compile(r"thp_[A-Za-z0-9_-]{43}")

    def look_up(self, digest: str) -> Credential:
        """Return the credential of the token with this SHA-256. Raises BadToken when it is not valid now."""
        row = AccessToken.objects.select_related("user").filter(digest=digest).first()
        if row is None:
            raise BadToken("unknown")
        toolsets = frozenset(row.toolsets.values_list("pk", flat=True)) if row.restricted else None
        name, owner = row.user.get_username(), (row.user.pk, row.credential_id)
        if row.revoked is not None:
            raise BadToken(f"{row.credential_id} of {name} was revoked", code="revoked", owner=owner)
        if row.expires <= timezone.now():
            raise BadToken(f"{row.credential_id} of {name} has expired", code="expired", owner=owner)
        if not row.user.is_active:
            raise BadToken(f"{row.credential_id}: the user {name} is not active", code="inactive", owner=owner)
        return Credential(
            user_id=row.user.pk,
            username=name,
            id=row.credential_id,
            label=row.name,
            toolset_ids=toolsets,
            expires_at=row.expires.timestamp(),
            made_by_owner=row.made_by_owner,
            maker_id=row.maker_id,
        )

    def list_issued(self, after: int) -> list[tuple[int, str]]:
        return list(AccessToken.objects.usable().filter(pk__gt=after).order_by().values_list("pk", "digest"))

    def filter_usable(self, keys: Collection[int]) -> set[int]:
        return set(AccessToken.objects.usable().filter(pk__in=keys).values_list("pk", flat=True))

    def find_toolsets(self, keys: Collection[int]) -> dict[int, set[int] | None]:
        return collect_toolsets(AccessToken.objects.filter(pk__in=keys))

    def mark_used(self, key: int, address: str) -> None:
        """Store that a client used it now, from this address, unless that was stored within the last minute."""
        now, address = timezone.now(), address[:MAX_ADDRESS_CHARACTERS]
        recent = Q(last_used__gt=now - timedelta(seconds=LAST_USED_SECONDS), last_address=address)
        AccessToken.objects.filter(pk=key).exclude(recent).update(last_used=now, last_address=address)

    def find(self, key: int) -> AccessToken | None:
        return AccessToken.objects.filter(pk=key).first()
