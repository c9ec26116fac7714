"""The part of a call's arguments and result that the log has, and the sentences that say so."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from audit import display
from audit.bodies import whole
from audit.format.chain import PRUNED_PREFIX
from audit.models import Call
from audit.types import Ending

ARGUMENTS, RESULT = "arguments", "result"
EMPTY, COMPLETE, WHOLE, CUT, ALTERED = "empty", "complete", "whole", "cut", "altered"
UNKEPT, PRUNED = "unkept", "pruned"
"""COMPLETE: the call has all of it. WHOLE: the call has the beginning, and all of it is kept beside the log. CUT: only
the beginning is kept. ALTERED: what is kept beside the log is not what was logged. UNKEPT: too large to be logged."""
_UNKEPT = re.compile(
    r'\{"\$redacted":"(?:too large to record"|not logged: [\w ]{1,100}"(?:,"length":[0-9]{1,20})?)\}', re.ASCII
)
"""All of what is logged instead of a body: a caller's own text that only begins like it is a body like any other."""
_REPLACED = re.compile(r"\$redacted|\[redacted ")


@dataclass(frozen=True, slots=True)
class Kept:
    """One body of a call."""

    name: str
    state: str
    text: str
    """The longest text that is known to be true."""
    kept: int
    """Bytes of it in the call; 0 once they were removed."""
    size: int
    """Bytes of all of it, after secrets were replaced."""

    @property
    def is_complete(self) -> bool:
        """Whether `text` is all of it."""
        return self.state in {EMPTY, COMPLETE, WHOLE}

    @property
    def has_secrets(self) -> bool:
        return _REPLACED.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Download:
    """A file with one body of a call."""

    what: str
    """Last part of its address: `arguments`, `result` (the part in the call) or `whole`."""
    label: str


def count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def measure_result(call: Call | Ending) -> tuple[int, bool]:
    """Return how many bytes of its result a call, or the end of one, has, and whether these are all."""
    if call.result.startswith(PRUNED_PREFIX):
        return 0, False
    kept = count_bytes(call.result)
    return kept, kept >= call.result_bytes


def read_arguments(call: Call) -> Kept:
    """Return the arguments of a call, which are never cut."""
    if call.arguments.startswith(PRUNED_PREFIX):
        return Kept(ARGUMENTS, PRUNED, call.arguments, 0, 0)
    size = count_bytes(call.arguments)
    return Kept(ARGUMENTS, _state(call.arguments), call.arguments, size, size)


def read_result(call: Call) -> Kept:
    """Return the result of a call: all of it where that is kept anywhere."""
    kept, is_all = measure_result(call)
    if call.result.startswith(PRUNED_PREFIX):
        return Kept(RESULT, PRUNED, call.result, 0, call.result_bytes)
    if is_all or not call.result_sha256:
        return Kept(RESULT, _state(call.result), call.result, kept, kept)
    found = whole.find(call)
    if found.state == whole.KEPT:
        return Kept(RESULT, WHOLE, found.text, kept, call.result_bytes)
    state = ALTERED if found.state == whole.ALTERED else CUT
    return Kept(RESULT, state, call.result, kept, call.result_bytes)


def _state(text: str) -> str:
    return UNKEPT if _UNKEPT.fullmatch(text) else COMPLETE if text else EMPTY


def value(found: Kept) -> Any:
    """Return the JSON value of a complete body; None for any other, and for one that is too large to be parsed."""
    if not found.is_complete or not display.is_parseable(found.text):
        return None
    try:
        return json.loads(found.text)
    except (ValueError, RecursionError):
        return None


def readable(found: Kept) -> str:
    """Return the text with its letters readable, where it is cut or too long to be indented as JSON."""
    if found.state not in {CUT, ALTERED} and len(found.text) <= display.MAX_INDENTED_CHARACTERS:
        return found.text
    return display.unescape(found.text)


def show(found: Kept, max_bytes: int = display.MAX_TEXT_BYTES) -> display.Body:
    """Return the text for a <pre> element."""
    beginning = replace(found, text=found.text[: display.MAX_INDENTED_CHARACTERS + 1])
    body = display.body(readable(beginning), max_bytes)
    is_part = body.truncated or len(found.text) > len(beginning.text)
    return replace(body, size=len(found.text), truncated=is_part)


def notes(found: Kept, shown: display.Body | None = None, *, advise: bool = False) -> list[str]:
    """Return sentences about what is kept and shown; with `advise`, also the setting that keeps more."""
    sentences = []
    limit = settings.KEEP_WHOLE_BODIES_BYTES
    if found.state in {CUT, ALTERED}:
        sentences.append(
            _("First %(kept)s of %(size)s kept (%(kept_bytes)s of %(size_bytes)s bytes).") % {
                "kept": filesizeformat(found.kept), "size": filesizeformat(found.size),
                "kept_bytes": f"{found.kept:,}", "size_bytes": f"{found.size:,}",
            }
        )  # fmt: skip
    if found.state == ALTERED:
        sentences.append(
            _("The whole result that is stored beside the log is gone or changed. Its SHA-256 is not the logged one.")
        )
    elif found.state == WHOLE:
        sentences.append(
            _("The whole result is kept: %(size)s. Its SHA-256 is the logged one.")
            % {"size": filesizeformat(found.size)}
        )
    elif found.state == CUT and found.size <= limit:
        sentences.append(
            _("Results up to %(limit)s are kept whole, but this one is not.") % {"limit": filesizeformat(limit)}
        )
        if whole.is_full(found.size):
            text = _("The store of whole results is full now: all together may take %(total)s.")
            sentences.append(text % {"total": filesizeformat(settings.MAX_WHOLE_BODIES_BYTES)})
            if advise:
                sentences.append(_("%(setting)s sets its size.") % {"setting": "TOOLHUB_MAX_WHOLE_BODIES_MB"})
    elif found.state == CUT and advise:
        sentences.append(
            _("%(setting)s keeps whole results of later calls.") % {"setting": "TOOLHUB_KEEP_WHOLE_BODIES_MB"}
        )
    elif found.state == UNKEPT:
        sentences.append(_("Too large to keep: the log says only that there was something."))
    if found.has_secrets and found.state != UNKEPT:
        sentences.append(_("Secret values in it were replaced before it was kept. The sizes are those without them."))
    if shown is not None and shown.truncated:
        sentences.append(_("This page shows the beginning. The download has the rest."))
    return sentences


def downloads(found: Kept) -> list[Download]:
    """Return the files that this body has, each with a label that says what is in it."""
    if found.state in {EMPTY, PRUNED, UNKEPT}:
        return []
    sizes = {"kept": filesizeformat(found.kept), "size": filesizeformat(found.size)}
    if found.name == ARGUMENTS:
        return [Download(ARGUMENTS, _("Download arguments (%(size)s)") % sizes)]
    if found.state == COMPLETE:
        return [Download(RESULT, _("Download result (%(size)s)") % sizes)]
    part = Download(RESULT, _("Download kept part of the result (%(kept)s of %(size)s)") % sizes)
    if found.state != WHOLE:
        return [part]
    return [Download("whole", _("Download whole result (%(size)s)") % sizes)]
