"""Rules for grants and limits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from catalog.models import Grant, Limit

RATE = re.compile(r"([0-9]{1,9})/([0-9]{0,6})([smhd])")
PERIODS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
LONGEST = 366 * 86_400
ENVIRONMENT = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def rate(value: str) -> None:
    found = RATE.fullmatch(value)
    if not found:
        raise ValidationError(
            _("A rate looks like 30/m: a number of calls per s, m, h or d (or per 2h)."), code="invalid"
        )
    seconds = int(found[2] or 1) * PERIODS[found[3]]
    if not 0 < seconds <= LONGEST:
        raise ValidationError(_("The period of a rate lies between one second and a year."), code="invalid")


def environments(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(name, str) and ENVIRONMENT.fullmatch(name) for name in value):
        raise ValidationError(
            _("These are names such as production, staging: letters, digits, underscore, hyphen and dot."),
            code="invalid",
        )


def _given(row: Grant | Limit, *names: str) -> list[str]:
    """Which of these are set; that of the page a form stands on counts, though it may not be saved yet."""
    inside = getattr(row, "inside", None)
    return [name for name in names if getattr(row, f"{name}_id") is not None or name == inside]


def grant(row: Grant) -> None:
    targets = _given(row, *row.TARGETS)
    if len(targets) != 1:
        raise ValidationError(
            {targets[1] if targets else "tool": _("Choose exactly one of tool, toolset, resource and prompt.")}
        )
    subjects = _given(row, "user", "group")
    subjects += ["everyone"] if row.everyone else []
    if len(subjects) != 1:
        raise ValidationError(
            {subjects[1] if subjects else "user": _("Choose exactly one of user, group and everyone.")}
        )
    if row.starts and row.ends and row.ends <= row.starts:
        raise ValidationError({"ends": _("The end must lie after the start.")})


def limit(row: Limit) -> None:
    targets = _given(row, "tool", "toolset")
    targets += ["all_tools"] if row.all_tools else []
    if len(targets) != 1:
        raise ValidationError(
            {targets[1] if targets else "tool": _("Choose exactly one of tool, toolset and all tools.")}
        )
    needs = {"user": "user", "each_member": "group"}.get(row.scope)
    for field in ("user", "group"):
        given = bool(_given(row, field))
        if needs == field and not given:
            raise ValidationError(
                {
                    field: _("Choose the user whose calls are counted.")
                    if field == "user"
                    else _("Choose the group whose calls are counted.")
                }
            )
        if needs != field and given:
            raise ValidationError({field: _("This scope counts others: leave it empty.")})
