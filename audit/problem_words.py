"""What a check of the chain found, in the language of the page. The record and `verifycalls` have it in English."""

from __future__ import annotations

import re

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

RECORD = re.compile(r"(call|action|checkpoint|link) ([^ :]+(?::\d+)?)( \(link \d+:\d+, [a-z]+\))?: (.+)", re.DOTALL)
RECORDS: dict[str, str | Promise] = {
    "call": gettext_lazy("call %s"),
    "action": gettext_lazy("action %s"),
    "checkpoint": gettext_lazy("checkpoint %s"),
    "link": gettext_lazy("link %s"),
}
FOUND: dict[str, str | Promise] = {
    "a column of it was edited after it was recorded": gettext_lazy("a column of it was edited after it was recorded"),
    "arguments and result were removed, and no recorded prune did it": gettext_lazy(
        "arguments and result were removed, and no recorded prune did it"
    ),
    "does not follow the checkpoint before it": gettext_lazy("does not follow the checkpoint before it"),
    "end_link was changed: the call names another end, or none": gettext_lazy(
        "end_link was changed: the call names another end, or none"
    ),
    "how it began was edited after it was recorded": gettext_lazy("how it began was edited after it was recorded"),
    "how it ended was edited after it was recorded": gettext_lazy("how it ended was edited after it was recorded"),
    "inserted: no link of any chain holds it": gettext_lazy("inserted: no link of any chain holds it"),
    "inserted: no link of any chain holds its beginning": gettext_lazy(
        "inserted: no link of any chain holds its beginning"
    ),
    "is another than the one that is kept outside": gettext_lazy("is another than the one that is kept outside"),
    "its link was changed, replaced or moved, or one before it was": gettext_lazy(
        "its link was changed, replaced or moved, or one before it was"
    ),
    "its link was renumbered": gettext_lazy("its link was renumbered"),
    "its outcome was edited: a link holds its end": gettext_lazy("its outcome was edited: a link holds its end"),
    "its outcome was never recorded: no link of any chain holds its end": gettext_lazy(
        "its outcome was never recorded: no link of any chain holds its end"
    ),
    "its signature is wrong": gettext_lazy("its signature is wrong"),
    "its writer is missing: deleted": gettext_lazy("its writer is missing: deleted"),
    "its writer was edited": gettext_lazy("its writer was edited"),
    "link was changed": gettext_lazy("link was changed"),
    "link was changed: another call, or none, names this beginning": gettext_lazy(
        "link was changed: another call, or none, names this beginning"
    ),
    "missing: deleted": gettext_lazy("missing: deleted"),
    "missing: it is kept outside and not in the database": gettext_lazy(
        "missing: it is kept outside and not in the database"
    ),
    "missing: the chain of this writer was removed from its beginning": gettext_lazy(
        "missing: the chain of this writer was removed from its beginning"
    ),
    "the action is missing: deleted": gettext_lazy("the action is missing: deleted"),
    "the call is missing: deleted": gettext_lazy("the call is missing: deleted"),
    "was changed": gettext_lazy("was changed"),
}
NAMING: tuple[tuple[re.Pattern[str], str | Promise], ...] = (
    (re.compile(r"missing: deleted before (.+)"), gettext_lazy("missing: deleted before %s")),
    (
        re.compile(r"missing: the newest records were removed; (.+) names it"),
        gettext_lazy("missing: the newest records were removed; %s names it"),
    ),
    (re.compile(r"is another than the one that (.+) names"), gettext_lazy("is another than the one that %s names")),
    (
        re.compile(r"is signed with key (\S+), and this installation's key is (\S+)"),
        gettext_lazy("is signed with key %s, and this installation's key is %s"),
    ),
    (re.compile(r"body_state was changed to (.+)"), gettext_lazy("body_state was changed to %s")),
    (re.compile(r"is of a kind that nobody writes: (.+)"), gettext_lazy("is of a kind that nobody writes: %s")),
)
"""What names something more."""


def said(problem: str) -> str:
    """The sentence; what is not known stays as it was recorded."""
    match = RECORD.fullmatch(problem)
    if match is None:
        return found(problem)
    kind, name, place, what = match.groups()
    return _("%(record)s: %(found)s") % {"record": str(RECORDS[kind]) % name + (place or ""), "found": found(what)}


def found(what: str) -> str:
    if what in FOUND:
        return str(FOUND[what])
    for pattern, words in NAMING:
        if match := pattern.fullmatch(what):
            return str(words) % match.groups()
    return what
