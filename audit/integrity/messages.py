"""What a check of the chain found, in the language of the page. The record and `verifycalls` have it in English."""

from __future__ import annotations

import re

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

RECORD = re.compile(r"(call|action|checkpoint|link) ([^ :]+(?::\d+)?)( \(link \d+:\d+, [a-z]+\))?: (.+)", re.DOTALL)
RECORDS = {
    "call": gettext_noop("call %s"),
    "action": gettext_noop("action %s"),
    "checkpoint": gettext_noop("checkpoint %s"),
    "link": gettext_noop("link %s"),
}
FOUND = {
    gettext_noop("a column of it was edited after it was recorded"),
    gettext_noop("arguments and result were removed, and no recorded prune did it"),
    gettext_noop("does not follow the checkpoint before it"),
    gettext_noop("end_link was changed: the call names another end, or none"),
    gettext_noop("how it began was edited after it was recorded"),
    gettext_noop("how it ended was edited after it was recorded"),
    gettext_noop("inserted: no link of any chain holds it"),
    gettext_noop("inserted: no link of any chain holds its beginning"),
    gettext_noop("is another than the one that is kept outside"),
    gettext_noop("its link was changed, replaced or moved, or one before it was"),
    gettext_noop("its link was renumbered"),
    gettext_noop("its outcome was edited: a link holds its end"),
    gettext_noop("its outcome was never recorded: no link of any chain holds its end"),
    gettext_noop("its signature is wrong"),
    gettext_noop("its writer is missing: deleted"),
    gettext_noop("its writer was edited"),
    gettext_noop("link was changed"),
    gettext_noop("link was changed: another call, or none, names this beginning"),
    gettext_noop("missing: deleted"),
    gettext_noop("missing: it is kept outside and not in the database"),
    gettext_noop("missing: the chain of this writer was removed from its beginning"),
    gettext_noop("the action is missing: deleted"),
    gettext_noop("the call is missing: deleted"),
    gettext_noop("was changed"),
}
NAMING = {
    re.compile(re.escape(text).replace("%s", "(.+)")): text
    for text in (
        gettext_noop("missing: deleted before %s"),
        gettext_noop("missing: the newest records were removed; %s names it"),
        gettext_noop("is another than the one that %s names"),
        gettext_noop("is signed with key %s, and this installation's key is %s"),
        gettext_noop("body_state was changed to %s"),
        gettext_noop("is of a kind that nobody writes: %s"),
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
