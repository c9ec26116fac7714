"""The private networks that tools may reach, read from the settings once."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from toolhub import egress

_allowed: egress.Allowed | None = None


def allowed() -> egress.Allowed:
    global _allowed
    if _allowed is None:
        _allowed = egress.parse_allowed(settings.ALLOW_PRIVATE_NETWORKS)
    return _allowed


def _forget(*, setting: str, **_: Any) -> None:
    global _allowed
    if setting == "ALLOW_PRIVATE_NETWORKS":
        _allowed = None


setting_changed.connect(_forget, dispatch_uid="catalog.runners.networks")
