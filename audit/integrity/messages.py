"""What a check of the chain found, in the language of the page. The record and `verifycalls` have it in English."""

from __future__ import annotations

import re

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

RECORD = re.compile(r"(call|action|checkpoint|link) ([^ :]+(?::\d+)?)( \(link \d+:\d+, [a-z]+\))?: (.+)", re.DOTALL)
RECORDS = {
    "call": gettext_noop("call %s"),
    "action": gettext_noop("change %s"),
    "checkpoint": gettext_noop("checkpoint %s"),
    "link": gettext_noop("hash chain entry %s"),
}
FOUND = {
    gettext_noop("edited after it was logged"),
    gettext_noop("arguments and result were removed, but not by a logged prune"),
    gettext_noop("does not follow the previous checkpoint"),
    gettext_noop("end_link was changed: the call points to a different end entry, or to none"),
    gettext_noop("its start was edited after it was logged"),
    gettext_noop("its end was edited after it was logged"),
    gettext_noop("Added outside the log: the hash chain has no entry for this change"),
    gettext_noop("Added outside the log: the hash chain has no entry for this call"),
    gettext_noop("differs from the external checkpoint"),
    gettext_noop("its hash chain entry, or an earlier one, was changed, replaced or moved"),
    gettext_noop("its hash chain entry was renumbered"),
    gettext_noop("its status was edited: the hash chain has an entry for its end"),
    gettext_noop("its status was never logged: the hash chain has no entry for its end"),
    gettext_noop("its signature is not valid"),
    gettext_noop("its writer was deleted"),
    gettext_noop("its writer was edited"),
    gettext_noop("link was changed"),
    gettext_noop("link was changed: a different call, or none, points to this start entry"),
    gettext_noop("missing: deleted"),
    gettext_noop("missing: only the external checkpoint has it, not the database"),
    gettext_noop("missing: the hash chain of this writer was deleted from its start"),
    gettext_noop("the change was deleted"),
    gettext_noop("the call was deleted"),
    gettext_noop("was changed"),
}
NAMING = {
    re.compile(re.escape(text).replace("%s", "(.+)")): text
    for text in (
        gettext_noop("missing: deleted before %s"),
        gettext_noop("missing: the newest entries were deleted, but %s names it"),
        gettext_noop("does not match the hash in %s"),
        gettext_noop("is signed with key %s, but this installation's key is %s"),
        gettext_noop("body_state was changed to %s"),
        gettext_noop("has an unknown type: %s"),
    )
}
"""What names something more."""


def said(problem: str) -> str:
    """The sentence; what is not known stays as it was recorded."""
    match = RECORD.fullmatch(problem)
    if match is None:
        return found(problem)
    kind, name, place, what = match.groups()
    return _("%(record)s: %(found)s") % {"record": _(RECORDS[kind]) % name + (place or ""), "found": found(what)}


def found(what: str) -> str:
    if what in FOUND:
        return _(what)
    for pattern, words in NAMING.items():
        if match := pattern.fullmatch(what):
            return _(words) % match.groups()
    return what
