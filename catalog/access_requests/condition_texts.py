"""The conditions of requests, and of the grants that they lead to, in words."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from catalog.conditions import definitions, words
from catalog.conditions.definitions import FIXED
from catalog.conditions.mistakes import Mistake
from catalog.models import AccessRequest
from toolhub.invisible import show


def describe(stored: Any, *, with_fixed: bool = True) -> list[str]:
    """Return a sentence for each condition, in the language of the page; without any, an empty list.

    Without fixed values, which people do not see, it is what a person may read of a grant.
    """
    try:
        found = definitions.parse(stored)
    except Mistake as mistake:
        return [show(words.mistake(mistake))]
    return [show(words.translate(one)) for one in found if with_fixed or one.operator != FIXED]


def describe_given(request: AccessRequest, *, with_fixed: bool = False) -> list[str]:
    """Return which calls an approval allows, where they are not those that were asked for."""
    grant = request.grant
    if request.state != AccessRequest.State.APPROVED or grant is None or grant.conditions == request.conditions:
        return []
    return describe(grant.conditions, with_fixed=with_fixed) if grant.conditions else [_("all calls")]
