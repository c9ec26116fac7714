"""The application that composes the others: commands, system checks, the names of models."""

from __future__ import annotations

from typing import Any, cast

from django.apps import AppConfig
from django.db.models.signals import class_prepared
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

OURS = ("toolhub.", "catalog.", "audit.")


def name_in_the_readers_language(sender: Any, **_: Any) -> None:
    """What Django calls a model and its fields where nothing else is said ("last used") is a text as well.

    It happens when a class is prepared, before any form takes the names over, and changes no migration.
    """
    if not sender.__module__.startswith(OURS):
        return
    meta = sender._meta
    if meta.auto_created:
        meta.verbose_name = gettext_lazy("place in a toolset")
        meta.verbose_name_plural = gettext_lazy("places in toolsets")
    elif not isinstance(meta.verbose_name, Promise):
        plural = meta.original_attrs.get("verbose_name_plural", f"{meta.verbose_name}s")
        meta.verbose_name = gettext_lazy(meta.verbose_name)
        meta.verbose_name_plural = gettext_lazy(plural)
    elif "verbose_name_plural" not in meta.original_attrs:
        # Django adds an "s" to the translation; what is translated is not to be looked up before every app is there.
        (name,) = cast(Any, meta.verbose_name)._args
        meta.verbose_name_plural = gettext_lazy(f"{name}s")
    for field in (*meta.local_fields, *meta.local_many_to_many):
        if not isinstance(field.verbose_name, Promise):
            field.verbose_name = gettext_lazy(str(field.verbose_name))


# Here and not in ready(): this module is imported before the first model is.
class_prepared.connect(name_in_the_readers_language)


class ToolhubConfig(AppConfig):
    name = "toolhub"
    label = "toolhub"
    verbose_name = "toolhub"

    def ready(self) -> None:
        from toolhub import checks, composition  # noqa: F401  (the checks register themselves)

        composition.connect()
