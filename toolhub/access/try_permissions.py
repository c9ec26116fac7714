"""Permission to try tools in the admin: checked when a try begins, and again while it runs."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User

MAY_TRY, MAY_TRY_AS = "catalog.try_tool", "catalog.try_tool_as_other"
MAX_QUERY_USERS = 500


def filter_permitted(credential_ids: Iterable[str]) -> set[str]:
    """Return those ids ("admin:3", or "admin:3:17": 3 tries as 17) whose users may still try tools."""
    users = {text: parts for text in credential_ids if (parts := _parse_users(text))}
    actors = {actor for actor, _ in users.values()}
    others = {other for _, other in users.values() if other is not None}
    may_try = _filter_users(actors, MAY_TRY)
    may_try_as = _filter_users({actor for actor, other in users.values() if other is not None}, MAY_TRY_AS)
    active = _filter_users(others)
    return {
        text
        for text, (actor, other) in users.items()
        if actor in may_try and (other is None or (actor in may_try_as and other in active))
    }


def _parse_users(text: str) -> tuple[int, int | None] | None:
    kind, *numbers = text.split(":")
    if kind != "admin" or len(numbers) not in {1, 2} or not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else None


def _filter_users(ids: Iterable[int], permission: str = "") -> set[int]:
    """Return the ids of active users; with `permission`, only of staff who hold it."""
    rest, found = list(ids), set()
    for start in range(0, len(rest), MAX_QUERY_USERS):
        users = User.objects.with_perm(permission).filter(is_staff=True) if permission else User.objects.all()
        found |= set(
            users.filter(pk__in=rest[start : start + MAX_QUERY_USERS], is_active=True).values_list("pk", flat=True)
        )
    return found
