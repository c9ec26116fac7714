"""What administrative actions are called on record, and how a page says it in its own language."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_noop, pgettext_lazy

VERBS: dict[str, str | Promise] = {
    "added to": pgettext_lazy("action", "added to"),
    "approved": pgettext_lazy("action", "approved"),
    "cancelled": pgettext_lazy("action", "cancelled"),
    "changed": pgettext_lazy("action", "changed"),
    "changed in quarantine": pgettext_lazy("action", "changed in quarantine"),
    "checked": pgettext_lazy("action", "checked"),
    "compared": pgettext_lazy("action", "compared"),
    "copied": pgettext_lazy("action", "copied"),
    "created": pgettext_lazy("action", "created"),
    "deleted": pgettext_lazy("action", "deleted"),
    "disconnected": pgettext_lazy("action", "disconnected"),
    "discovered": pgettext_lazy("action", "discovered"),
    "encrypted anew": pgettext_lazy("action", "encrypted anew"),
    "exported": pgettext_lazy("action", "exported"),
    "failed to sign in": pgettext_lazy("action", "failed to sign in"),
    "imported from": pgettext_lazy("action", "imported from"),
    "pruned": pgettext_lazy("action", "pruned"),
    "quarantined": pgettext_lazy("action", "quarantined"),
    "rejected": pgettext_lazy("action", "rejected"),
    "removed from": pgettext_lazy("action", "removed from"),
    "signed in": pgettext_lazy("action", "signed in"),
    "signed out": pgettext_lazy("action", "signed out"),
    "tested": pgettext_lazy("action", "tested"),
    "tried": pgettext_lazy("action", "tried"),
    "viewed": pgettext_lazy("action", "viewed"),
}
KINDS = (
    gettext_noop("OpenAPI document"),
    gettext_noop("access token"),
    gettext_noop("call"),
    gettext_noop("calls"),
    gettext_noop("connection"),
    gettext_noop("grant"),
    gettext_noop("group"),
    gettext_noop("limit"),
    gettext_noop("personal secret"),
    gettext_noop("prompt"),
    gettext_noop("record"),
    gettext_noop("resource"),
    gettext_noop("saved view"),
    gettext_noop("secret"),
    gettext_noop("session"),
    gettext_noop("tool"),
    gettext_noop("toolset"),
    gettext_noop("upstream"),
    gettext_noop("user"),
)


def verb(recorded: str) -> str:
    return str(VERBS.get(recorded, recorded))


def kind(recorded: str) -> str:
    return gettext(recorded) if recorded in KINDS else recorded
