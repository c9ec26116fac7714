"""Texts of the causes of failed calls: what went wrong, how often, and where to look."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from audit import local_time
from toolhub import invisible
from toolhub.pages.health import findings, queries


def describe_turn(one: findings.Trouble) -> list[str]:
    """Return what changed when a tool that had worked began to fail."""
    if one.began_failing is None:
        return []
    began = local_time.format_time_with_zone(datetime.fromtimestamp(one.began_failing, UTC), "minutes")
    changed = queries.find_change_before(one.tool, one.began_failing)
    if changed is None:
        return [
            _("It worked until %(at)s. Its definition had not changed: check the service that it calls.")
            % {"at": began}
        ]
    saved = local_time.format_time_with_zone(changed, "minutes")
    return [
        _("It worked until %(at)s, after its definition was changed at %(saved)s. Compare the versions.")
        % {"at": began, "saved": saved}
    ]


_CAUSE_TEXTS = {
    "401": gettext_lazy("The service rejects the credentials (401): the secret is wrong, expired or revoked."),
    "403": gettext_lazy("The service denies access (403): the account of the secret lacks a permission."),
    "404": gettext_lazy("The service does not find it (404): a wrong address in the settings, or items that are gone."),
    "407": gettext_lazy("A proxy asks for credentials (407). Check the network of this server."),
    "409": gettext_lazy("The service reports a conflict (409): the item exists already, or was changed meanwhile."),
    "422": gettext_lazy("The service does not accept the values (422). Add its rules to the schema."),
    "429": gettext_lazy("The service limits requests (429). A limit of this tool keeps clients below it."),
    "timeout": gettext_lazy("The service did not answer in time."),
    "unreachable": gettext_lazy("The service cannot be reached: its address, the network, or it is down."),
    findings.TIMED_OUT: gettext_lazy("The tool did not finish within its timeout."),
    findings.INTERRUPTED: gettext_lazy("The server stopped while it ran."),
}


def describe_cause(cause: findings.Cause) -> str:
    """Return what went wrong, how often, and where to look."""
    known = _CAUSE_TEXTS.get(cause.code)
    if cause.code == findings.CRASHED:
        text = _("Its code raised %(error)s. The server log has the traceback.") % {
            "error": invisible.show(cause.detail[:100])
        }
    elif cause.code == findings.OWN:
        text = _("It reported: %(detail)s") % {"detail": invisible.show(cause.detail)}
    elif known is not None:
        text = str(known)
    elif re.fullmatch("5[0-9][0-9]", cause.code):
        text = _("The service itself fails (%(code)s).") % {"code": cause.code}
    else:
        text = _("It ended with the code %(code)s.") % {"code": cause.code}
    return _("%(number)s×: %(text)s") % {"number": cause.number, "text": text}
