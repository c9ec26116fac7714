"""Admin activity about approvals: what was logged of one, which nobody can take back by writing into its table."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet

from audit.format.timestamps import to_ms
from audit.format.uuid7 import first_id_of
from audit.models import Action

CLOCKS: Final = timedelta(hours=1)
"""How far the clocks of two machines may be apart."""


def find_last_use(kind: str, key: Any, created: datetime) -> str:
    """Return the id of the call that used the approval with this key last, as it was logged; "" without one."""
    rows = _about(kind, key, created).filter(verb="used").order_by("-pk").values_list("after", flat=True)
    after = json.loads(rows.first() or "null")
    return str(after.get("call", "")) if isinstance(after, dict) else ""


def has_ended(kind: str, key: Any, created: datetime, verbs: Collection[str]) -> bool:
    """Return whether one of these verbs was logged of the approval with this key, which was made at that time."""
    return _about(kind, key, created).filter(verb__in=verbs).exists()


def _about(kind: str, key: Any, created: datetime) -> QuerySet[Action]:
    """Return what was logged of an approval: targets end with its key.

    Ids of admin activity begin with the time, so that only the newest are looked at.
    """
    since = first_id_of(to_ms(created - CLOCKS))
    return Action.objects.filter(pk__gte=since, kind=kind, target__endswith=f"({key})")
