"""What may be entered as a secret."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from audit.secret_values import SHORTEST


def check_value(value: str) -> None:
    if len(value) < SHORTEST:
        raise ValidationError(
            _("A secret has at least %d characters: a shorter one could not be kept out of the record.") % SHORTEST,
            code="too_short",
        )
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", value):
        raise ValidationError(_("A secret has no control characters."), code="control_characters")
