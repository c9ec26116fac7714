"""What is known about the chain, a check on demand, and the one that comes round by itself."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.utils import timezone
from django.utils.translation import gettext as _

from audit import display, local_time
from audit.integrity import messages, verify
from audit.integrity.checkpoints import Head, read_file
from audit.models import Verification
from audit.queries import lookup

logger = logging.getLogger(__name__)

_LONGEST_CHECK = 3_600


@dataclass(frozen=True, slots=True)
class State:
    """A sentence about the chain for the pages of the record."""

    tone: str
    """success, warning or danger."""
    words: str
    more: str = ""
    running: bool = False
    href: str = ""
    """The page of the record that is broken."""


_thread: threading.Thread | None = None
_lock = threading.Lock()


def running() -> bool:
    """Whether this process is checking right now."""
    return _thread is not None and _thread.is_alive()


def state() -> State:
    last = Verification.objects.first()
    if last is None:
        return State("warning", _("The audit log has not been verified yet."), running=running())
    when = _("checked at %s") % local_time.told(last.at, "minutes")
    if not last.ok:
        words = _("Verification failed: %s") % display.visible(messages.said(last.problem))
        return State("danger", words, when, running(), lookup.address_for(last.problem))
    upto = (
        _("Audit log verified up to call %s") % last.through if last.through else _("Audit log verified (no calls yet)")
    )
    outside = (
        _("%s hash chain entries verified and compared with an external checkpoint.")
        if last.outside_head
        else _(
            "%s hash chain entries verified. No external checkpoint is configured: deleting the newest "
            "entries could go unnoticed. Set one up with TOOLHUB_CHECKPOINT_FILE."
        )
    )
    return State(
        "success", _("%(upto)s, %(when)s") % {"upto": upto, "when": when}, outside % f"{last.links:,}", running()
    )


def start() -> bool:
    """Check in the background; False when this process is checking already."""
    global _thread
    with _lock:
        if running():
            return False
        _thread = threading.Thread(target=_check, name="audit-check", daemon=True)
        _thread.start()
    return True


def wait(timeout: float) -> bool:
    """Whether the check that was running, if any, is done within that time."""
    thread = _thread
    if thread is not None:
        thread.join(timeout)
    return not running()


def scheduled() -> bool:
    """The chore: start a check when the last one is older than the setting says. 0 switches it off."""
    if not settings.VERIFY_SECONDS:
        return False
    last = Verification.objects.values_list("at", flat=True).first()
    if last is not None and timezone.now() - last < timedelta(seconds=settings.VERIFY_SECONDS):
        return False
    # One process of all: the others find the answer next time.
    return cache.add("audit:check", 1, timeout=min(settings.VERIFY_SECONDS, _LONGEST_CHECK)) and start()


def _kept() -> list[Head] | None:
    """The heads that this installation keeps outside the database, if it does."""
    if not settings.CHECKPOINT_FILE:
        return None
    try:
        return read_file(Path(settings.CHECKPOINT_FILE))
    except (OSError, ValueError) as error:
        logger.warning("the checkpoints in %s cannot be read: %s", settings.CHECKPOINT_FILE, error)
        return None


def _check() -> None:
    try:
        verify.run(_kept())
    except Exception:
        logger.exception("the chain could not be checked")
    finally:
        connection.close()
