"""The texts of the pages and their translations: `python -m tests.messages` brings the catalogues up to date.

It collects what Python and templates pass to gettext, ours and those of the admin's theme (which brings no
translations), and the names of models; writes new texts untranslated into `toolhub/locale/*/LC_MESSAGES/django.po`,
drops what is gone, keeps every translation, and compiles the `.mo` beside it. GNU gettext is not needed. To add a
language: make its folder, name it in LANGUAGES of `toolhub/settings.py`, run this, translate, run it again.
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
LOCALES = ROOT / "toolhub" / "locale"
SOURCES = ("toolhub", "catalog", "audit", "templates")
KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
OURS = ("toolhub.", "catalog.", "audit.")
HEADER = r"""# Texts of toolhub's pages.
msgid ""
msgstr ""
"Language: {language}\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: {plural}\n"

"""
_STRING = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
CALL = re.compile(rf"\b(_|[dnp]*gettext)\(\s*((?:{_STRING}\s*,?\s*)+)", re.DOTALL)
"""A call in what Django makes of a template: Python as far as gettext calls go, and X for everything else."""
STRING = re.compile(_STRING, re.DOTALL)


@dataclass(slots=True)
class Message:
    singular: str
    plural: str = ""
    context: str | None = None
    files: set[str] = field(default_factory=set)

    @property
    def key(self) -> tuple[str | None, str]:
        return self.context, self.singular

    @property
    def id(self) -> str | tuple[str, str]:
        return (self.singular, self.plural) if self.plural else self.singular


def in_python(text: bytes) -> Iterator[Message]:
    for _line, found, _comments, context in extract("python", io.BytesIO(text), KEYWORDS):
        if isinstance(found, tuple):
            yield Message(found[0], found[1], context=context)
        elif found:
            yield Message(found, context=context)


def in_template(text: str) -> Iterator[Message]:
    from django.utils.translation.template import templatize

    for name, strings in CALL.findall(templatize(text)):
        values = [ast.literal_eval(found) for found in STRING.findall(strings)]
        context = values.pop(0) if "p" in name.removeprefix("n")[:1] else None
        if values and values[0]:
            yield Message(values[0], values[1] if name.startswith("n") else "", context=context)


def files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"migrations", "locale", "static", "__pycache__"})
        yield from (Path(place) / name for name in sorted(names) if name.endswith((".py", ".html", ".txt")))


def collect(folder: Path, base: Path) -> dict[tuple[str | None, str], Message]:
    found: dict[tuple[str | None, str], Message] = {}
    for file in files(folder):
        text = file.read_bytes()
        for message in in_python(text) if file.suffix == ".py" else in_template(text.decode()):
            kept = found.setdefault(message.key, message)
            kept.plural = kept.plural or message.plural
            kept.files.add(file.relative_to(base).as_posix())
    return found


def ours() -> dict[tuple[str | None, str], Message]:
    """What our own pages say."""
    found: dict[tuple[str | None, str], Message] = {}
    for name in SOURCES:
        for key, message in collect(ROOT / name, ROOT).items():
            kept = found.setdefault(key, message)
            kept.plural = kept.plural or message.plural
            kept.files |= message.files
    return found


def names() -> dict[tuple[str | None, str], Message]:
    """What models, their fields and their permissions are called in the admin."""
    from django.apps import apps
    from django.contrib import admin
    from django.utils.translation import override

    found: dict[tuple[str | None, str], Message] = {}
    with override(None):
        for model in apps.get_models():
            meta = model._meta
            own = model in admin.site._registry
            # Others are named where somebody deletes what they belong to.
            hangs = any(row.related_model in admin.site._registry for row in meta.local_fields)
            named = own or hangs or meta.permissions
            if model.__module__.startswith(OURS) and named and not model.__name__.startswith("Historical"):
                said = [meta.verbose_name, *(name for _codename, name in meta.permissions)]
                if own or hangs:
                    said.append(meta.verbose_name_plural)
                if own:
                    said += [row.verbose_name for row in (*meta.local_fields, *meta.local_many_to_many)]
                for text in map(str, said):
                    kept = found.setdefault((None, text), Message(text))
                    kept.files.add(model.__module__.replace(".", "/") + ".py")
    return found


def settings_of_runners() -> dict[tuple[str | None, str], Message]:
    """Labels and helps of the forms for runners, which the tool editor makes from their settings."""
    from django.utils.translation import override

    from catalog.admin.editor import runner_forms
    from catalog.runners import registry

    found: dict[tuple[str | None, str], Message] = {}

    def walk(fields: Iterable[dict[str, Any]]) -> None:
        for one in fields:
            for text in (one.get("label"), one.get("help")):
                if text:
                    found.setdefault((None, text), Message(text, files={"catalog/runners"}))
            walk([*one.get("fields", ()), *one.get("variants", ()), *filter(None, [one.get("item")])])

    with override(None):
        for kind, described in registry.runners().items():
            walk(runner_forms.fields(registry.settings_schema(kind), described.form))
    return found


def theirs(language: str) -> dict[tuple[str | None, str], Message]:
    """What the admin's theme says and Django has no translation for."""
    import django
    import unfold
    from django.apps import apps

    known: set[tuple[str | None, str]] = set()
    folders = [Path(django.__file__).parent / "conf"]
    folders += [Path(app.path) for app in apps.get_app_configs() if app.name.startswith("django.")]
    for folder in folders:
        file = folder / "locale" / language / "LC_MESSAGES" / "django.po"
        if not file.exists():
            continue
        with file.open("rb") as source:
            known |= {(row.context, _first(row.id)) for row in read_po(source, locale=language) if row.string}
    folder = Path(unfold.__file__).parent
    found = collect(folder, folder.parent)
    # Parts of the theme that are not installed here, or shown on no page of ours.
    unused = ("unfold/contrib/import_export", "unfold/contrib/guardian", "unfold/contrib/constance")
    return {
        key: message
        for key, message in found.items()
        if key not in known and not all(name.startswith(unused) for name in message.files)
    }


def _first(id: str | list[str] | tuple[str, ...]) -> str:
    return id if isinstance(id, str) else id[0]


def languages() -> list[str]:
    return sorted(folder.name for folder in LOCALES.iterdir() if (folder / "LC_MESSAGES").is_dir())


def path_of(language: str) -> Path:
    return LOCALES / language / "LC_MESSAGES" / "django.po"


def catalogue(language: str) -> Catalog:
    """What is translated."""
    path = path_of(language)
    if not path.exists():
        return Catalog(locale=language, fuzzy=False)
    with path.open("rb") as source:
        return read_po(source, locale=language)


def updated(language: str) -> Catalog:
    """The catalogue as it should be: every text that is in use, with the translation that it has."""
    before = catalogue(language)
    wanted = theirs(language) | settings_of_runners() | names() | ours()
    after = Catalog(locale=language, fuzzy=False)
    for message in sorted(wanted.values(), key=lambda one: (one.singular.casefold(), one.singular, one.context or "")):
        old = before.get(message.id, context=message.context)
        string = (
            old.string if old is not None and not old.fuzzy and bool(old.pluralizable) == bool(message.plural) else ""
        )
        flags = ["python-brace-format"] if old is not None and "python-brace-format" in old.flags else []
        places = [(name, 0) for name in sorted(message.files)]
        after.add(message.id, string or None, places, flags=flags, context=message.context)
    return after


def untranslated(made: Catalog) -> list[str]:
    return [
        _first(row.id)
        for row in made
        if row.id and not (all(row.string) if isinstance(row.string, tuple) else row.string)
    ]


def written(made: Catalog) -> bytes:
    """As a file. Its header holds nothing that changes by itself, so that only translations make differences."""
    target = io.BytesIO(HEADER.format(language=made.locale, plural=made.plural_forms).encode())
    target.seek(0, io.SEEK_END)
    write_po(target, made, width=120, include_lineno=False, omit_header=True)
    return target.getvalue()


def compiled(made: Catalog) -> bytes:
    target = io.BytesIO()
    made.creation_date = made.revision_date = datetime(2026, 1, 1, tzinfo=UTC)  # a day that does not change the file
    write_mo(target, made)
    return target.getvalue()


def main() -> None:
    for language in languages():
        made = updated(language)
        path = path_of(language)
        path.write_bytes(written(made))
        path.with_suffix(".mo").write_bytes(compiled(catalogue(language)))
        empty = sum(
            1 for row in made if row.id and not (any(row.string) if isinstance(row.string, tuple) else row.string)
        )
        sys.stdout.write(f"{language}: {len(made)} texts, {empty} to translate in {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")
    django.setup()
    main()
