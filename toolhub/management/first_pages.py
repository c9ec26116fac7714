"""What the first visitor of a process would wait for: URL configuration, translations, and templates.

Loaded in a thread after the process serves, so that no call waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from django.conf import settings
from django.template import engines
from django.template.library import InclusionNode
from django.template.loader_tags import ExtendsNode, IncludeNode
from django.urls import get_resolver, reverse
from django.utils import formats, translation

from toolhub.pages import examples

TEMPLATES = (
    "access/sign_in.html",
    "admin/index.html",
    "catalog/tools.html",
    "access/connect.html",
    "access/calls.html",
    "admin/change_list.html",
    "admin/change_list_results.html",
    "admin/search_form.html",
    "admin/filter.html",
    "admin/pagination.html",
    "admin/actions.html",
    "unfold/components/card.html",
    "unfold/components/button.html",
    "unfold/helpers/header_title.html",
    "unfold/helpers/tab_actions.html",
)
"""Templates of the pages that are opened first, and of every list. Another one takes 10 ms when it is first shown."""
MODULES = (
    "toolhub.pages.home",
    "django.contrib.messages.storage.fallback",
    "django.contrib.sessions.serializers",
    "django.db.models.sql.compiler",
)
"""Modules that Django, the admin and the theme import when they first need them."""


def load(pause: Callable[[], None]) -> None:
    """Load all of it, with a pause after each piece."""
    for _piece in _pieces():
        pause()


def _pieces() -> Iterator[None]:
    len(get_resolver().url_patterns)  # imports every view
    yield
    for language, _name in settings.LANGUAGES:
        with translation.override(language):
            # Django keeps an index of the addresses for each language, and reads its translations at the first text.
            reverse("admin:index")
            formats.get_format("DATETIME_FORMAT")
        yield
    examples.names()
    yield
    for name in MODULES:
        import_module(name)
    yield
    yield from _load_templates()


def _load_templates() -> Iterator[None]:
    """Compile the templates, and those that they extend and include by name, also through a tag."""
    django: Any = engines["django"]
    engine = django.engine
    len(engine.template_context_processors)  # imports them
    waiting: list[tuple[str, tuple[Any, ...]]] = [(name, ()) for name in TEMPLATES]
    known = list(waiting)
    while waiting:
        name, skip = waiting.pop()
        # As Django does it: a template that extends the one of its own name extends that of the theme, past itself.
        template = engine.find_template(name, skip=list(skip))[0] if skip else engine.get_template(name)
        yield
        for node in template.nodelist.get_nodes_by_type((ExtendsNode, IncludeNode, InclusionNode)):
            other = _find_name(node)
            if not isinstance(other, str):
                continue
            wanted = (other, (*skip, template.origin) if isinstance(node, ExtendsNode) and other == name else ())
            if wanted not in known:
                known.append(wanted)
                waiting.append(wanted)


def _find_name(node: Any) -> Any:
    """Return the name of the template that a node uses; something else than a string when only a page decides it."""
    if isinstance(node, InclusionNode):
        return node.filename
    expression: Any = node.parent_name if isinstance(node, ExtendsNode) else node.template
    return expression.var
