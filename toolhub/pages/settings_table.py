"""The environment settings of this installation: names, meanings and defaults from the README, and what is set.

Values are never shown: many are secrets, and others hold addresses with passwords.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from toolhub.pages.staff import page, staff_page

VIEW_SETTINGS = "pages.view_settings"
_ROW = re.compile(r"^\| `(TOOLHUB_[A-Z_]+)` \| (.*?) \| (.*) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_MARK = re.compile(r"`([^`]+)`|\*([^*]+)\*")


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    default: SafeString
    meaning: SafeString


@cache
def read_settings() -> tuple[Setting, ...]:
    """Return every setting of the README's table, in its order."""
    text = (settings.BASE_DIR / "README.md").read_text(encoding="utf-8")
    return tuple(
        Setting(name, _render(default), _render(meaning))
        for name, default, meaning in _ROW.findall(text.partition("\n## Settings\n")[2])
    )


@staff_page(VIEW_SETTINGS)
@require_safe
def list_settings(request: HttpRequest) -> HttpResponse:
    """Show a read-only table: what each setting means, and whether the environment of this process has it."""
    rows = [(setting, _describe_source(setting.name)) for setting in read_settings()]
    return page(request, "admin/pages/settings.html", _("Environment settings"), rows=rows)


def _describe_source(name: str) -> str:
    if os.environ.get(name, "").strip():
        return _("set")
    return _("set by a file") if os.environ.get(f"{name}_FILE", "").strip() else ""


def _render(markdown: str) -> SafeString:
    """Return a cell of the README as HTML: code and emphasis; a link becomes its text."""
    html = escape(_LINK.sub(r"\1", markdown))
    marked = _MARK.sub(lambda match: f"<code>{match[1]}</code>" if match[1] else f"<em>{match[2]}</em>", html)
    return SafeString(marked)
