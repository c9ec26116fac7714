"""The pages of an import of people: choose a file, review every row, and the links of those who are invited.

Nothing is kept between the pages: the review sends the file back with the digest of what it showed.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
from typing import Any, cast

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.validators import MaxValueValidator, MinValueValidator
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminIntegerFieldWidget

from audit.export.rows import safe_cell
from toolhub.people import import_file, import_plan, outbox
from toolhub.people.invitations import Made, Refused
from toolhub.people.models import DEFAULT_DAYS, MAX_DAYS

CHOOSE, REVIEW = "admin/people/invitation/import.html", "admin/people/invitation/import_review.html"
RESULT = "admin/people/invitation/made.html"
STATES = {
    import_plan.NEW: ("good", gettext_lazy("invite")),
    import_plan.CHANGED: ("warn", gettext_lazy("add to groups")),
    import_plan.SAME: ("", gettext_lazy("no change")),
    import_plan.WRONG: ("bad", gettext_lazy("fix")),
}
"""The tone of the badge of a row, and its text, by state."""


class ImportForm(forms.Form):
    file = forms.FileField(
        label=gettext_lazy("File"), required=False, widget=UnfoldAdminFileFieldWidget(attrs={"accept": ".csv,text/csv"})
    )
    days = forms.IntegerField(
        label=gettext_lazy("Valid for (days)"),
        validators=[MinValueValidator(1), MaxValueValidator(MAX_DAYS)],
        initial=DEFAULT_DAYS,
        widget=UnfoldAdminIntegerFieldWidget,
    )


def respond(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Return the template of the answer, and its context."""
    if request.method != "POST":
        return CHOOSE, _describe_file()
    form = ImportForm(request.POST)
    if not form.is_valid():
        return CHOOSE, _describe_file(_("Valid for: enter a number of days from 1 to %d.") % MAX_DAYS)
    days = int(form.cleaned_data["days"])
    try:
        content = _read_content(request)
        rows = import_file.parse(content)
    except import_file.Unreadable as error:
        return CHOOSE, _describe_file(str(error), days)
    actor = cast(User, request.user)
    stale = False
    if digest := request.POST.get("sure", ""):
        try:
            outcome = import_plan.carry_out(actor, rows, days, digest)
        except (import_plan.StalePlan, Refused, PermissionDenied):
            stale = True
        else:
            download = _encode_download(outcome.made) if outcome.made else ""
            return RESULT, {"made": outcome.made, "changed": outcome.changed, "download": download}
    plan = import_plan.build(actor, rows, days)
    return REVIEW, {
        "plan": plan,
        "rows": [(one, *STATES[one.state]) for one in plan.decisions],
        "counts": dict(plan.counts),
        "stale": stale,
        "days": days,
        "content": base64.b64encode(content).decode("ascii"),
        "mails": outbox.is_configured(),
    }


def _describe_file(problem: str = "", days: int = DEFAULT_DAYS) -> dict[str, Any]:
    return {
        "problem": problem,
        "form": ImportForm(initial={"days": days}),
        "columns": ",".join(import_file.COLUMNS),
        "max_rows": f"{import_file.MAX_ROWS:,}",
    }


def _read_content(request: HttpRequest) -> bytes:
    """Return the file, or what the review sent back of it. Raises Unreadable."""
    file = request.FILES.get("file")
    if file is not None:
        if (file.size or 0) > import_file.MAX_BYTES:
            raise import_file.Unreadable(_("The file is larger than 1 MB. Split it."))
        content: bytes = file.read()
        return content
    if not request.POST.get("content"):
        raise import_file.Unreadable(_("Choose a file."))
    try:
        return base64.b64decode(request.POST["content"], validate=True)
    except (binascii.Error, ValueError):
        raise import_file.Unreadable(_("Choose a file.")) from None


def _encode_download(made: list[Made]) -> str:
    """Return the list of links as an address that the browser saves: nothing of it is kept here."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(("username", "email", "first_name", "last_name", "link", "valid_until"))
    for one in made:
        row = one.invitation
        cells = (row.username, row.email, row.first_name, row.last_name, one.link, f"{row.expires:%Y-%m-%d %H:%M} UTC")
        writer.writerow([safe_cell(cell) for cell in cells])
    content = lines.getvalue().encode("utf-8-sig", "backslashreplace")
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(content).decode('ascii')}"
