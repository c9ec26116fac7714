"""Permissions in the language of the page. Django keeps their names in English, in the database."""

from __future__ import annotations

from django.contrib.auth.models import Permission
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

PLAIN: dict[str, str | Promise] = {
    "add": _("Can add %s"),
    "change": _("Can change %s"),
    "delete": _("Can delete %s"),
    "view": _("Can view %s"),
}
OWN: dict[str, str | Promise] = {
    "cancel_call": _("Can cancel running calls"),
    "disconnect_client": _("Can disconnect clients"),
    "review_tool": _("Can review changed definitions of tools"),
    "try_tool": _("Can try tools from the admin"),
    "try_tool_as_other": _("Can try tools from the admin as another user"),
    "use_command_runner": _("Can save tools that run programs of the hub's machine"),
    "view_connections": _("Can see who is connected"),
}
"""By codename: those that models of ours name themselves."""


def said(permission: Permission) -> str:
    """Where it belongs and what it allows, such as "Record | call | Can view call"."""
    kind = permission.content_type
    verb, _of, model = permission.codename.partition("_")
    if permission.codename in OWN:
        name = str(OWN[permission.codename])
    elif verb in PLAIN and model == kind.model:
        name = str(PLAIN[verb]) % kind.name
    else:
        name = permission.name
    return f"{kind} | {name}"
