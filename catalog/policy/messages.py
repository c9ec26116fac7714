"""Grants and limits in the language of the page. What they write of themselves is English, for the record."""

from __future__ import annotations

import re

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Grant
from catalog.policy import rules

SENTENCES: dict[str, str | Promise] = {
    rules.NO_USER: gettext_lazy("There is no such user."),
    rules.INACTIVE: gettext_lazy("The user is not active."),
    rules.NO_GRANT: gettext_lazy("No grant allows it."),
    rules.OTHER_TOOLSETS: gettext_lazy("The token is restricted to other toolsets."),
    rules.NOT_OFFERED: gettext_lazy("It is switched off or no longer exists."),
    rules.QUARANTINED: gettext_lazy("Quarantined: its definition changed at its source."),
}
"""What decides where no grant does."""
GRANT = re.compile(r"Grant (\d+): (allow|deny) (tool|toolset|resource|prompt) (.+)", re.DOTALL)
LIMIT = re.compile(r"Limit (\d+): (\S+) on (?:(tool|toolset) (.+)|all tools( for .+))", re.DOTALL)
_TO = re.compile(r" to (?:(user|group) (?=.)|(everyone)\Z)", re.DOTALL)
_FOR = re.compile(r" for (?:(user) (?=.)|(each member of) (?=.)|(each user|everyone together)\Z)", re.DOTALL)


def said(rule: str) -> str:
    """The sentence of a rule. It is left as it is where a name in it has the words between which it is parted."""
    if match := GRANT.fullmatch(rule):
        number, effect, kind, rest = match.groups()
        if parted := _parted(_TO, rest):
            name, by, whom = parted
            words = {"what": target(kind, name), "whom": subject(by, whom), "number": number}
            if effect == Grant.Effect.DENY:
                return _("Grant %(number)s: deny %(what)s to %(whom)s") % words
            return _("Grant %(number)s: allow %(what)s to %(whom)s") % words
    elif match := LIMIT.fullmatch(rule):
        number, rate, kind, rest, of_all = match.groups()
        if parted := _parted(_FOR, rest or of_all):
            name, by, whom = parted
            words = {"what": target(kind or "all tools", name), "whom": subject(by, whom), "number": number}
            return _("Rate limit %(number)s: %(rate)s on %(what)s for %(whom)s") % {**words, "rate": rate}
    return rule


def sentence(rule: str) -> str:
    """What decided, in the words of the page."""
    return str(SENTENCES.get(rule) or said(rule))


def what(grant: Grant) -> str:
    """What a grant is about."""
    kind = next((kind for kind in Grant.TARGETS if getattr(grant, f"{kind}_id") is not None), "")
    return target(kind, str(getattr(grant, kind))) if kind else "-"


def whom(grant: Grant) -> str:
    """Whom a grant is for."""
    if grant.user_id is not None:
        return subject("user", str(grant.user))
    return subject("group", str(grant.group)) if grant.group_id is not None else subject("everyone")


def target(kind: str, name: str) -> str:
    match kind:
        case "tool":
            return _("tool %s") % name
        case "toolset":
            return _("toolset %s") % name
        case "resource":
            return _("resource %s") % name
        case "prompt":
            return _("prompt %s") % name
    return _("all tools")


def subject(by: str, name: str = "") -> str:
    match by:
        case "user":
            return _("user %s") % name
        case "group":
            return _("group %s") % name
        case "each member of":
            return _("each member of %s") % name
        case "each user":
            return _("each user")
        case "everyone together":
            return _("everyone together")
    return _("everyone")


def _parted(between: re.Pattern[str], text: str) -> tuple[str, str, str] | None:
    """The name before, by what it is parted, the name after; None when there is more than one way to part it."""
    found = list(between.finditer(text))
    if len(found) != 1:
        return None
    (one,) = found
    return text[: one.start()], next(word for word in one.groups() if word), text[one.end() :]
