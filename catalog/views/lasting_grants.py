"""Lasting grants on the pages of approvals: the form to make one, or why there is none, and those in force."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.access_requests import condition_texts
from catalog.approvals import lasting
from catalog.approvals.lasting import NotPossible
from catalog.models import Approval, Grant
from catalog.policy.definitions import Snapshot
from toolhub.invisible import show

_PROBLEMS: Final = {
    "others": gettext_lazy(
        "Another approval rule asks other people about calls of this tool, so you cannot let it run without approval. "
        "Ask an administrator."
    ),
    "hidden": gettext_lazy(
        "Some arguments are hidden from you or too large, so no grant can be for exactly these. Approve each call."
    ),
    "tried": gettext_lazy("An administrator tried the tool as this user. Only a call of the user can run from now on."),
    "exists": gettext_lazy("A lasting grant was made of this request already."),
    "gone": gettext_lazy("The tool was deleted or is not available."),
    "unsealed": gettext_lazy("The request was changed in the database, so it cannot be relied on."),
}
"""Why no lasting grant can be made, by the code of NotPossible."""


class LastingForm(forms.Form):
    """How long exactly this call runs without approval, and why."""

    END_CHOICES = (
        ("", gettext_lazy("no end")),
        ("7", gettext_lazy("in 7 days")),
        ("30", gettext_lazy("in 30 days")),
    )
    end = forms.ChoiceField(label=gettext_lazy("End"), choices=END_CHOICES, required=False)
    note = forms.CharField(
        label=gettext_lazy("Reason (optional)"),
        required=False,
        max_length=Grant._meta.get_field("note").max_length,
        help_text=gettext_lazy("Administrators read it in the note of the grant."),
    )

    @property
    def ends(self) -> datetime | None:
        """Return the end that was chosen, of a valid form."""
        days = int(self.cleaned_data["end"] or 0)
        return timezone.now() + timedelta(days=days) if days else None


@dataclass(frozen=True, slots=True)
class Offer:
    """What the page of a request offers: a form, or the sentence why there is none."""

    form: LastingForm | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LastingGrant:
    """A lasting grant, as lists and the page of its request show it."""

    row: Approval
    number: int
    tool: str
    user: str
    conditions: list[str]
    ends: datetime | None
    is_over: bool
    can_end: bool


def describe_problem(code: str) -> str:
    return str(_PROBLEMS[code])


def propose_lasting(row: Approval, user: User, catalogue: Snapshot, form: LastingForm | None) -> Offer | None:
    """Return what this user is offered; None for people who can make no lasting grant of this request."""
    is_possible = row.lasting_grant_id is None and row.state_at(timezone.now()) in lasting.POSSIBLE
    if not is_possible or not lasting.may_make(row, user):
        return None
    try:
        lasting.check(row, user, catalogue)
    except NotPossible as error:
        return Offer(None, describe_problem(error.code))
    return Offer(form or LastingForm())


def present_lasting(row: Approval, user: User) -> LastingGrant:
    """Return the lasting grant of a request, which has one."""
    grant: Any = row.lasting_grant
    over = grant.ends is not None and grant.ends <= timezone.now()
    return LastingGrant(
        row=row,
        number=grant.pk,
        tool=show(row.tool_name),
        user=show(row.user.get_username()),
        conditions=condition_texts.describe(grant.conditions) or [_("all calls")],
        ends=grant.ends,
        is_over=over,
        can_end=not over and lasting.may_end(row, user),
    )
