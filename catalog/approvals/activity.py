"""Admin activity about approvals: what was logged of one, which nobody can take back by writing into its table."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from audit.format.timestamps import to_ms
from audit.format.uuid7 import first_id_of
from audit.models import Action

CLOCKS: Final = timedelta(hours=1)
"""How far the clocks of two machines may be apart."""


def has_ended(kind: str, key: Any, created: datetime, verbs: Collection[str]) -> bool:
    """Return whether one of these verbs was logged of the approval with this key, which was made at that time.

    Targets end with the key. Ids of admin activity begin with the time, so that only the newest are looked at.
    """
    since = first_id_of(to_ms(created - CLOCKS))
    return Action.objects.filter(pk__gte=since, kind=kind, verb__in=verbs, target__endswith=f"({key})").exists()
