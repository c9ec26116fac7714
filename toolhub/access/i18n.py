"""Permission names in the language of the page. Django stores them in English, in the database."""

from __future__ import annotations

from django.contrib.auth.models import Permission
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

PERMISSION_LABELS: dict[str, str | Promise] = {
    "add": _("Can add %s"),
    "change": _("Can change %s"),
    "delete": _("Can delete %s"),
    "view": _("Can view %s"),
}


def permission_label(permission: Permission) -> str:
    """Return the content type and the name of a permission, such as "Audit log | call | Can view call"."""
    kind = permission.content_type
    verb, _of, model = permission.codename.partition("_")
    plain = verb in PERMISSION_LABELS and model == kind.model
    # Our own models mark the names of their permissions with gettext_noop.
    name = str(PERMISSION_LABELS[verb]) % kind.name if plain else gettext(permission.name)
    return f"{kind} | {name}"
