"""Codes of the status of a call: `running` at first, then one of the others."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

RUNNING = "running"
OK = "ok"
TOOL_ERROR = "tool_error"
INVALID_ARGUMENTS = "invalid_arguments"
REFUSED = "refused"
UNKNOWN_TOOL = "unknown_tool"
LIMITED = "limited"
TIMEOUT = "timeout"
CANCELLED = "cancelled"
INPUT_REQUIRED = "input_required"
WAITING = "waiting"
APPROVAL_DENIED = "approval_denied"
APPROVAL_EXPIRED = "approval_expired"
UNKNOWN = "unknown"

CHOICES = (
    (RUNNING, _("Running")),
    (OK, _("Success")),
    (TOOL_ERROR, _("Tool error")),
    (INVALID_ARGUMENTS, _("Invalid arguments")),
    (REFUSED, _("Denied")),
    (UNKNOWN_TOOL, _("Unknown tool")),
    (LIMITED, _("Rate limited")),
    (TIMEOUT, _("Timed out")),
    (CANCELLED, _("Cancelled")),
    (INPUT_REQUIRED, _("Input required")),
    (WAITING, _("Waiting for approval")),
    (APPROVAL_DENIED, _("Approval denied")),
    (APPROVAL_EXPIRED, _("Approval expired")),
    (UNKNOWN, _("Interrupted")),
)
REJECTED = frozenset({INVALID_ARGUMENTS, REFUSED, UNKNOWN_TOOL, LIMITED, APPROVAL_DENIED, APPROVAL_EXPIRED})
"""Outcomes of attempts that were rejected before anything ran."""
NOT_FAILED = frozenset({OK, WAITING})
"""Outcomes that statistics do not count as failed: what comes of a call that waits is another call's outcome."""
NOT_RUN = REJECTED | {WAITING}
"""Outcomes of attempts in which nothing ran. The call that runs after an approval is another one."""
OWNER_OUTCOMES = {REFUSED: UNKNOWN_TOOL}
"""How the person who made a call reads its outcome: "Denied" would tell them which tools exist."""
