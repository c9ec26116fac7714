"""Removal of what nobody can use any more: a background job."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Count, Q
from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_grant_model, get_refresh_token_model

from toolhub.oauth import registration
from toolhub.oauth.models import ConnectedApp, DeviceRequest, UsedAssertion

PENDING_MINUTES = 10
"""Minutes after which a decision that no client fetched is forgotten; a code lasts one."""
MAX_OLD_TOKENS = 100
"""Refresh tokens of a connection that are remembered after their exchange, to notice that one was copied."""


def clean_up() -> None:
    """Delete expired codes and tokens, decisions that led to nothing, and clients that nobody has connected."""
    now = timezone.now()
    refresh_tokens = get_refresh_token_model().objects
    get_grant_model().objects.filter(expires__lt=now).delete()
    ConnectedApp.objects.filter(activated=None, created__lt=now - timedelta(minutes=PENDING_MINUTES)).delete()
    DeviceRequest.objects.filter(expires__lt=now).delete()
    UsedAssertion.objects.filter(expires__lt=now).delete()
    get_access_token_model().objects.filter(expires__lt=now).delete()
    ended = ConnectedApp.objects.filter(Q(revoked__isnull=False) | Q(expires__lt=now)).values("family")
    refresh_tokens.filter(token_family__in=ended).delete()
    asserted = ConnectedApp.objects.filter(identity__isnull=False).values("family")
    refresh_tokens.filter(token_family__in=asserted, access_token=None).delete()
    crowded = (
        refresh_tokens.order_by().values("token_family").annotate(number=Count("pk")).filter(number__gt=MAX_OLD_TOKENS)
    )
    for family in crowded.values_list("token_family", flat=True):
        newest = refresh_tokens.filter(token_family=family).order_by("-pk").values_list("pk", flat=True)
        kept = list(newest[:MAX_OLD_TOKENS])
        refresh_tokens.filter(token_family=family).exclude(pk__in=kept).delete()
    registration.remove_unused()
