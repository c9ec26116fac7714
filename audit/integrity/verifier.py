"""State of the hash chains for pages, and their verification: on demand and when it is due."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.core.cache import cache
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from audit import local_time
from audit.background import BackgroundTask, Pacer
from audit.integrity import messages, verification
from audit.integrity.checkpoints import SignedCheckpoint, read_file
from audit.queries import lookup
from toolhub import invisible
from toolhub.parts import parts

logger = logging.getLogger(__name__)

MAX_VERIFY_SECONDS = 4 * 3_600
"""Maximum seconds until another process begins a verification that is due and that a process began."""


@dataclass(frozen=True, slots=True)
class State:
    """State of the hash chains as the pages of the audit log show it."""

    tone: str
    """success, warning or danger."""
    text: str
    more: str = ""
    running: bool = False
    href: str = ""
    """URL of the call or change with the problem."""


class Verifier(BackgroundTask):
    """The verification task of this process, on demand or when due."""

    def __init__(self) -> None:
        super().__init__("audit-check", _verify)


def running() -> bool:
    """Return whether this process is verifying now."""
    return parts.get(Verifier).running


def state() -> State:
    last = verification.find_last()
    if last is None:
        return State("warning", _("The audit log has not been verified yet."), running=running())
    when = _("checked at %s") % local_time.format_time_with_zone(last.at, "minutes")
    if not last.ok:
        text = _("Verification failed: %s") % invisible.show(messages.sentence_of(last))
        found = messages.problem_of(last)
        return State("danger", text, when, running(), lookup.find_url(found.subject.name) if found else "")
    upto = (
        _("Audit log verified up to call %s") % last.through if last.through else _("Audit log verified (no calls yet)")
    )
    outside = (
        _("%s hash chain entries verified and compared with an external checkpoint.")
        if last.outside_head
        else _(
            "%s hash chain entries verified, but not compared with the external checkpoint. Choose Verify now to "
            "compare them."
        )
        if settings.CHECKPOINT_FILE
        else _(
            "%s hash chain entries verified. No external checkpoint is configured: deleting the newest "
            "entries could go unnoticed. Set one up with TOOLHUB_CHECKPOINT_FILE."
        )
    )
    more = outside % f"{last.links:,}"
    if last.uncovered:
        more += " " + ngettext(
            "%s newer entry is not yet covered by a checkpoint.",
            "%s newer entries are not yet covered by a checkpoint.",
            last.uncovered,
        ) % (f"{last.uncovered:,}")
    if last.links and last.checkpoint is None:
        upto = _("No checkpoint covers the audit log yet")
    tone = "warning" if last.links and last.checkpoint is None else "success"
    return State(tone, _("%(upto)s, %(when)s") % {"upto": upto, "when": when}, more, running())


def start() -> bool:
    """Verify in the background. Return False when this process is already verifying."""
    return parts.get(Verifier).start()


def is_due() -> bool:
    """Return whether the last verification is older than VERIFY_SECONDS; the value 0 disables it."""
    if not settings.VERIFY_SECONDS:
        return False
    last = verification.find_last()
    return last is None or timezone.now() - last.at >= timedelta(seconds=settings.VERIFY_SECONDS)


def verify_if_due() -> None:
    """Verify in this thread when it is due, in one of all processes; the others find its result next time."""
    timeout = min(settings.VERIFY_SECONDS, MAX_VERIFY_SECONDS)
    if is_due() and cache.add("audit:check", 1, timeout=timeout):
        parts.get(Verifier).run()


def _read_external() -> list[SignedCheckpoint] | None:
    """Return the external checkpoints of this installation; None if none are configured or readable."""
    if not settings.CHECKPOINT_FILE:
        return None
    try:
        return read_file(Path(settings.CHECKPOINT_FILE))
    except (OSError, ValueError) as error:
        logger.warning("the checkpoints in %s cannot be read: %s", settings.CHECKPOINT_FILE, error)
        return None


def _verify() -> None:
    verification.run(_read_external(), step=Pacer().pause)
