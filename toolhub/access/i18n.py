"""Permission names in the language of the page. Django stores them in English, in the database."""

from __future__ import annotations

from django.contrib.auth.models import Permission
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

PLAIN: dict[str, str | Promise] = {
    "add": _("Can add %s"),
    "change": _("Can change %s"),
    "delete": _("Can delete %s"),
    "view": _("Can view %s"),
}


def said(permission: Permission) -> str:
    """Return the content type and the name of a permission, such as "Audit log | call | Can view call"."""
    kind = permission.content_type
    verb, _of, model = permission.codename.partition("_")
    plain = verb in PLAIN and model == kind.model
    # Our own models mark the names of their permissions with gettext_noop.
    name = str(PLAIN[verb]) % kind.name if plain else gettext(permission.name)
    return f"{kind} | {name}"
