"""Rules for rows that open private networks: who may open one, and never beyond the operator's list.

The list of an upstream server names the private networks that this server may be in. What it opens at run time is the
part of it that TOOLHUB_ALLOW_PRIVATE_NETWORKS covers, too (`catalog.runners.networks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied, ValidationError
from django.utils.translation import gettext as _

from audit.actions import actor
from catalog.runners import networks
from toolhub import contact, egress

if TYPE_CHECKING:
    from catalog.models import Upstream

PERMISSION = "catalog.open_private_networks"


def may_open() -> bool:
    """Return whether the signed-in user of the current request may open private networks.

    Outside of a request, as in a command, the answer is always yes.
    """
    user = actor.current_user()
    return user is None or bool(user.has_perm(PERMISSION))


def check_upstream(row: Upstream) -> None:
    """Raise ValidationError for networks beyond the operator's, or that the signed-in user may not open."""
    outside = tuple(one for one in _parse(row) if not one.is_within(networks.allowed()))
    if outside:
        beyond = _(
            "TOOLHUB_ALLOW_PRIVATE_NETWORKS does not include %(networks)s. Add it there and restart, or remove it."
        )
        refusal = beyond % {"networks": ", ".join(map(str, outside))}
        # Only for who may open networks: a wide one would list those of the operator.
        if (parts := egress.intersect(outside, networks.allowed())) and may_open():
            refusal += " " + _("It includes this part, which you can enter: %(parts)s.") % {
                "parts": ", ".join(map(str, parts))
            }
        raise ValidationError({"allowed_networks": refusal}, code="private_networks_beyond")
    if refusal := _find_refusal(row):
        raise ValidationError({"allowed_networks": refusal}, code="private_networks")


def require_permission(row: Upstream) -> None:
    """Raise PermissionDenied when the signed-in user may not open the networks of the row."""
    if refusal := _find_refusal(row):
        raise PermissionDenied(refusal)


def _find_refusal(row: Upstream) -> str:
    """Return why the signed-in user may not save the networks of the row; empty when they may.

    To keep or narrow the networks of the same address needs no permission; a new address opens them anew.
    """
    wanted = _parse(row)
    if not wanted or may_open():
        return ""
    stored = type(row)._base_manager.filter(pk=row.pk).first() if row.pk else None
    before = _parse(stored) if stored is not None and _address(stored) == _address(row) else ()
    opened = [str(one) for one in wanted if not one.is_within(before)]
    if not opened:
        return ""
    sentence = _(
        'You need the permission "Can open private networks to upstream servers" to let this upstream server reach '
        "%(networks)s. Ask %(contact)s for it, or remove these networks."
    )
    return contact.fill(sentence, networks=", ".join(opened))


def _parse(row: Upstream) -> egress.AllowList:
    try:
        return egress.parse_allowed(row.allowed_networks)
    except (ValueError, TypeError, AttributeError):  # no list of networks opens none; `clean` says what is wrong
        return ()


def _address(row: Upstream) -> str:
    """Return where the server is: its origin, or what is as good as one."""
    if row.transport == row.Transport.STDIO:
        return row.transport
    try:
        return egress.origin_of(row.url)
    except egress.DeniedAddress:
        return row.url
