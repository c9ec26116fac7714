"""Why a test failed, in the language of the reader."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from audit import outcomes
from audit.types import Reason
from toolhub import invisible

TEXTS: dict[str, Promise] = {
    "test.status": _("The status is %(got)s, not %(expected)s: %(text)s"),
    "test.text": _("The result does not contain “%(text)s”."),
    "test.no_json": _("The result is not JSON."),
    "test.values": _("The value at %(where)s is missing or another one."),
    "test.schema": _("The value at %(where)s does not match the schema."),
    "test.limited": _("It did not run: a limit is reached. Run it again in %(seconds)s s."),
    "test.not_approved": _("It did not run: an approval rule asks a person first."),
    "test.not_logged": _("It did not run: calls cannot be logged now."),
    "test.not_permitted": _("It did not run: you may not try tools as %(user)s."),
    "test.not_yours": _("It did not run: %(editor)s saved it for their own account. Review it, and save it as yours."),
    "test.inactive": _("It did not run: the account of %(user)s is not active."),
    "test.cancelled": _("The call was cancelled."),
    "test.interrupted": _("The server stopped while it ran."),
    "test.internal": _("The call failed inside the server: %(error)s"),
}
_STATUSES = dict(outcomes.CHOICES)


def translate(stored: str) -> str:
    """Return the sentence of a stored problem; empty for none, or for one that this version does not know."""
    reason = Reason.read(stored)
    if reason is None or reason.code not in TEXTS:
        return ""
    params = {name: _show(value) for name, value in reason.params.items()}
    try:
        return str(TEXTS[reason.code]) % params
    except (KeyError, TypeError, ValueError):
        return ""  # the row was edited


def _show(value: object) -> str:
    return str(_STATUSES.get(str(value), "")) or invisible.show(str(value))
