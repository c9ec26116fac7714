"""Connected apps as a kind of credentials: their access tokens (`tho_...`) open /mcp like personal ones."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from oauth2_provider.models import get_access_token_model

from audit.types import Credential
from toolhub.access import hooks
from toolhub.access.kinds import collect_toolsets
from toolhub.access.personal_tokens import LAST_USED_SECONDS
from toolhub.access.token_errors import BadToken
from toolhub.oauth import scopes
from toolhub.oauth.models import Client, ConnectedApp
from toolhub.oauth.resources import RESOURCE


class ConnectedApps:
    prefixes = frozenset({"app"})
    pattern = re.compile(r"tho_[A-Za-z0-9_-]{43}")

    def look_up(self, digest: str) -> Credential:
        """Return the credential of the token with this SHA-256. Raises BadToken when it is not valid now.

        Tokens of another resource and of a connection that is gone are rejected like unknown ones.
        """
        token = (
            get_access_token_model()
            .objects.filter(token_checksum=digest)
            .values("expires", "resource", "scope", "refresh_token__token_family")
            .first()
        )
        if token is None or RESOURCE not in token["resource"]:
            raise BadToken("unknown")
        family = token["refresh_token__token_family"]
        app = ConnectedApp.objects.select_related("user", "client").filter(family=family).first()
        if app is None or app.activated is None:
            raise BadToken("unknown")
        name, now, owner = app.user.get_username(), timezone.now(), (app.user_id, app.credential_id)
        if app.revoked is not None or app.client.blocked:
            raise BadToken(f"{app.credential_id} of {name} was revoked", code="revoked", owner=owner)
        if min(app.expires, token["expires"]) <= now:
            raise BadToken(f"{app.credential_id} of {name} has expired", code="expired", owner=owner)
        if not app.user.is_active:
            raise BadToken(f"{app.credential_id}: the user {name} is not active", code="inactive", owner=owner)
        if app.identity is not None and not hooks.installed().filter_accepted([(app.identity, app.client_id)]):
            raise BadToken(f"{app.credential_id} of {name} is not accepted now", code="revoked", owner=owner)
        return Credential(
            user_id=app.user_id,
            username=name,
            id=app.credential_id,
            label=str(app.client)[:100],
            toolset_ids=frozenset(app.toolsets.values_list("pk", flat=True)) if app.restricted else None,
            expires_at=min(app.expires, token["expires"]).timestamp(),
            may_write=scopes.may_write(token["scope"]),
        )

    def list_issued(self, after: int) -> list[tuple[int, str]]:
        tokens = get_access_token_model().objects.filter(pk__gt=after, expires__gt=timezone.now()).order_by()
        return list(tokens.values_list("pk", "token_checksum"))

    def filter_usable(self, keys: Collection[int]) -> set[int]:
        rows = list(ConnectedApp.objects.usable().filter(pk__in=keys).values_list("pk", "identity", "client"))
        asserted = [(identity, client) for _key, identity, client in rows if identity is not None]
        accepted = hooks.installed().filter_accepted(asserted) if asserted else set()
        return {key for key, identity, client in rows if identity is None or (identity, client) in accepted}

    def find_toolsets(self, keys: Collection[int]) -> dict[int, set[int] | None]:
        return collect_toolsets(ConnectedApp.objects.filter(pk__in=keys))

    def mark_used(self, key: int, address: str) -> None:
        """Store that a client used it now, from this address, unless that was stored within the last minute."""
        now = timezone.now()
        recent = Q(last_used__gt=now - timedelta(seconds=LAST_USED_SECONDS), last_address=address)
        with transaction.atomic():
            if ConnectedApp.objects.filter(pk=key).exclude(recent).update(last_used=now, last_address=address[:64]):
                Client.objects.filter(connections=key).update(last_used=now)

    def find(self, key: int) -> ConnectedApp | None:
        return ConnectedApp.objects.select_related("client").filter(pk=key).first()
