"""Stored names of operations and kinds of admin activity, and their translations for pages."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, pgettext_lazy

VERBS: dict[str, str | Promise] = {
    "accepted": pgettext_lazy("action", "accepted"),
    "added to": pgettext_lazy("action", "added to"),
    "approved": pgettext_lazy("action", "approved"),
    "cancelled": pgettext_lazy("action", "cancelled"),
    "changed": pgettext_lazy("action", "changed"),
    "changed in quarantine": pgettext_lazy("action", "changed in quarantine"),
    "checked": pgettext_lazy("action", "verified"),
    "closed": pgettext_lazy("action", "closed"),
    "compared": pgettext_lazy("action", "compared"),
    "copied": pgettext_lazy("action", "copied"),
    "created": pgettext_lazy("action", "created"),
    "declined": pgettext_lazy("action", "declined"),
    "deleted": pgettext_lazy("action", "deleted"),
    "disconnected": pgettext_lazy("action", "disconnected"),
    "discovered": pgettext_lazy("action", "discovered"),
    "re-encrypted": pgettext_lazy("action", "re-encrypted"),
    "exported": pgettext_lazy("action", "exported"),
    "failed to sign in": pgettext_lazy("action", "failed to sign in"),
    "imported": pgettext_lazy("action", "imported"),
    "imported from": pgettext_lazy("action", "imported from"),
    "pinned": pgettext_lazy("action", "pinned"),
    "pruned": pgettext_lazy("action", "pruned"),
    "quarantined": pgettext_lazy("action", "quarantined"),
    "rejected": pgettext_lazy("action", "rejected"),
    "removed from": pgettext_lazy("action", "removed from"),
    "renewed": pgettext_lazy("action", "renewed"),
    "reported": pgettext_lazy("action", "reported"),
    "reopened": pgettext_lazy("action", "reopened"),
    "requested": pgettext_lazy("action", "requested"),
    "reset": pgettext_lazy("action", "reset"),
    "signed in": pgettext_lazy("action", "signed in"),
    "signed out": pgettext_lazy("action", "signed out"),
    "tested": pgettext_lazy("action", "tested"),
    "tried": pgettext_lazy("action", "tried"),
    "undone": pgettext_lazy("action", "undone"),
    "viewed": pgettext_lazy("action", "viewed"),
    "withdrawn": pgettext_lazy("action", "withdrawn"),
}
KINDS: dict[str, Promise] = {
    "OpenAPI document": gettext_lazy("OpenAPI document"),
    "access request": gettext_lazy("access request"),
    "access token": gettext_lazy("access token"),
    "account": gettext_lazy("account"),
    "admin activity": gettext_lazy("admin activity"),
    "backup confirmation": gettext_lazy("backup confirmation"),
    "call": gettext_lazy("call"),
    "calls": gettext_lazy("calls"),
    "case file": gettext_lazy("case file"),
    "client": gettext_lazy("client"),
    "connected app": gettext_lazy("connected app"),
    "connection": gettext_lazy("connection"),
    "deactivation": gettext_lazy("deactivation"),
    "flag": gettext_lazy("flag"),
    "grant": gettext_lazy("grant"),
    "group": gettext_lazy("group"),
    "group mapping": gettext_lazy("group mapping"),
    "identity": gettext_lazy("identity"),
    "identity provider": gettext_lazy("identity provider"),
    "import": gettext_lazy("import"),
    "invitation": gettext_lazy("invitation"),
    "limit": gettext_lazy("rate limit"),
    "password": gettext_lazy("password"),
    "people": gettext_lazy("people"),
    "personal secret": gettext_lazy("personal secret"),
    "prompt": gettext_lazy("prompt"),
    "provisioned group": gettext_lazy("provisioned group"),
    "provisioned user": gettext_lazy("provisioned user"),
    "provisioning token": gettext_lazy("provisioning token"),
    "record": gettext_lazy("audit log"),
    "reported call": gettext_lazy("reported call"),
    "resource": gettext_lazy("resource"),
    "saved view": gettext_lazy("saved view"),
    "second factor": gettext_lazy("second factor"),
    "secret": gettext_lazy("secret"),
    "session": gettext_lazy("session"),
    "tool": gettext_lazy("tool"),
    "toolset": gettext_lazy("toolset"),
    "upstream": gettext_lazy("upstream server"),
    "user": gettext_lazy("user"),
    "value list": gettext_lazy("value list"),
    "value list part": gettext_lazy("values in a value list"),
}
"""Stored kind of the changed row -> its name on a page."""


def translate_verb(stored: str) -> str:
    return str(VERBS.get(stored, stored))


def translate_kind(stored: str) -> str:
    return str(KINDS.get(stored, stored))
