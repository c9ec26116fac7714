"""Schemas from outside: one that could not be saved is rejected on import, with the operation named."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from catalog.openapi.references import Refused
from catalog.schemas import validator


def check(schema: dict[str, Any], sentence: str) -> None:
    """Raise Refused for an unusable schema; `sentence` names the schema and has a place for %(why)s."""
    try:
        validator.check(schema)
    except ValidationError as error:
        raise Refused(sentence % {"why": error.messages[0]}) from None
    except RecursionError:
        raise Refused(sentence % {"why": _("It is nested too deeply.")}) from None
