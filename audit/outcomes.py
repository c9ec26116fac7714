"""How a call can end. A call has one of these, and `running` until it has one."""

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
UNKNOWN = "unknown"

CHOICES = (
    (RUNNING, _("running")),
    (OK, _("ok")),
    (TOOL_ERROR, _("tool error")),
    (INVALID_ARGUMENTS, _("invalid arguments")),
    (REFUSED, _("refused")),
    (UNKNOWN_TOOL, _("unknown tool")),
    (LIMITED, _("limited")),
    (TIMEOUT, _("timed out")),
    (CANCELLED, _("cancelled")),
    (INPUT_REQUIRED, _("input required")),
    (UNKNOWN, _("unknown")),
)
NEVER_RAN = frozenset({INVALID_ARGUMENTS, REFUSED, UNKNOWN_TOOL, LIMITED})
"""Outcomes of attempts that were turned away before anything ran."""
