"""Rules for rows that send secrets: who may change where a secret goes, and the hosts that a secret is bound to.

A flow is one secret on its way from one place in the settings to one destination (`catalog.runners.destinations`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.utils.translation import gettext as _

from catalog.models.secrets import Secret, may_use_secrets
from catalog.runners.destinations import Flow, by_secret
from toolhub import contact

if TYPE_CHECKING:
    from catalog.models import Tool, Upstream


def find_refusal(after: Iterable[Flow], before: Iterable[Flow] = ()) -> str:
    """Return why the signed-in user may not save these flows where there were those; empty when they may."""
    if may_use_secrets():
        return ""
    new = frozenset(after) - frozenset(before)
    sentence = _(
        'You need the permission "Can use secrets in tools and upstream servers" to send the secret %(name)s to '
        "%(destination)s. Ask %(contact)s for it, or undo this change."
    )
    return contact.join(contact.fill(sentence, **values) for values in _name_all(new))


def find_binding_problem(flows: Iterable[Flow]) -> str:
    """Return which secrets are bound to hosts that do not include these destinations; empty when all may go there."""
    found = frozenset(flows)
    if not found:
        return ""
    names = {flow.secret for flow in found}
    bound = {secret.name: secret for secret in Secret.objects.filter(name__in=names).exclude(hosts=[])}
    wrong = [flow for flow in found if flow.secret in bound and not bound[flow.secret].allows(flow.destination)]
    sentence = _(
        "The secret %(name)s is bound to hosts, and %(destination)s is not among them. Choose another secret, or ask "
        "an administrator to add this destination on the page of the secret."
    )
    return " ".join(sentence % values for values in _name_all(wrong))


def describe(flows: Iterable[Flow]) -> list[str]:
    """Return a sentence for each secret and destination, for forms and pages."""
    return [_("%(name)s is sent to %(destination)s.") % values for values in _name_all(flows)]


def _name_all(flows: Iterable[Flow]) -> Iterator[dict[str, str]]:
    for name, destinations in by_secret(flows).items():
        for destination in destinations:
            yield {"name": name, "destination": destination.label}


def check_tool(row: Tool) -> None:
    """Raise ValidationError when the signed-in user may not save the tool's flows, or a secret is bound elsewhere."""
    flows = row.secret_flows()
    if problem := _find_row_refusal(row, flows) or find_binding_problem(flows):
        raise ValidationError({"settings": problem}, code="secret_destination")


def check_upstream(row: Upstream) -> None:
    """Raise ValidationError when the signed-in user may not save the flows, or a secret is bound elsewhere."""
    flows = row.secret_flows()
    if problem := _find_row_refusal(row, flows) or find_binding_problem(flows):
        # The field that moves a secret: that of the reference, unless the reference was there before.
        places = {(flow.secret, flow.place, flow.form) for flow in stored_flows(row)}
        added = any((flow.secret, flow.place, flow.form) not in places for flow in flows)
        stdio = row.transport == row.Transport.STDIO
        field = ("env" if added else "command") if stdio else ("headers" if added else "url")
        raise ValidationError({field: problem}, code="secret_destination")


def require_permission(row: Tool | Upstream) -> None:
    """Raise PermissionDenied when the signed-in user may not save the row's flows."""
    if problem := _find_row_refusal(row, row.secret_flows()):
        raise PermissionDenied(problem)


def stored_flows(row: Any) -> frozenset[Flow]:
    """Return the flows of the row as it is stored; none for a new row."""
    stored = type(row)._base_manager.filter(pk=row.pk).first() if row.pk is not None else None
    return frozenset() if stored is None else frozenset(stored.secret_flows())


def _find_row_refusal(row: Tool | Upstream, flows: frozenset[Flow]) -> str:
    """Return why the signed-in user may not save the row with these flows, reading the stored row only if need be."""
    return "" if not flows or may_use_secrets() else find_refusal(flows, stored_flows(row))
