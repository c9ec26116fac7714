"""Values from outside on a page: indented, with invisible characters made visible."""

from __future__ import annotations

from typing import Any

from django import template

from catalog.openapi.document_import import readable as _readable
from toolhub.invisible import show

register = template.Library()


@register.filter
def visible(value: Any) -> str:
    return show(str(value))


@register.filter
def readable(value: Any) -> str:
    return _readable(value)
