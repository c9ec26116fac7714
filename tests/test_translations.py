"""Every text of the pages is translated, whole and up to date; what a page says is never a bare English literal."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import django
import pytest
import unfold
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.utils.translation import override, to_locale

from catalog.admin.editor import runner_forms
from catalog.runners import registry
from tests import messages
from toolhub import theme_texts

CATALOGUES = [(language, domain) for language in messages.LANGUAGES for domain in messages.DOMAINS]
HOW = 'do as .github/CONTRIBUTING.md says under "Add a message":\n'
OURS = ("toolhub.", "catalog.", "audit.")
PLACEHOLDER = re.compile(r"%%|%\((\w+)\)[.\d]*[a-z]|%[.\d]*[sdif]|\{(\w*)\}|<[^>]+>")
LETTERS = re.compile(r"[A-Za-z]{2}")
TEMPLATES = messages.ROOT / "templates"
SAME_EVERYWHERE = {
    *("GitHub", "JSON", "MCP", "OpenID Connect", "SAML", "SHA-256", "UTC", "WebSocket"),
    *("toolhub", "toolhub · toolhub", "s"),
}
"""Names and units that no language translates."""
ATTRIBUTES = {"alt", "aria-label", "aria-description", "placeholder", "title"}


def placeholders(text: str) -> list[str]:
    return sorted(match[0] for match in PLACEHOLDER.finditer(text))


def test_every_configured_language_has_its_catalogue_and_the_other_way_round() -> None:
    assert {to_locale(code) for code, _name in settings.LANGUAGES} == {"en", *messages.LANGUAGES}


@pytest.mark.parametrize("domain", messages.DOMAINS)
def test_every_text_in_use_is_translated_and_no_other(domain: str, tmp_path: Path) -> None:
    wanted = messages.in_use(tmp_path / "copy", domain, *(messages.ROOT / name for name in messages.SOURCES))
    for language in messages.LANGUAGES:
        found = {message.source for message in messages.translated(language, domain)}
        untranslated, unused = sorted(wanted - found), sorted(found - wanted)
        assert not untranslated, HOW + "\n".join(map(repr, untranslated))
        assert not unused, HOW + "\n".join(map(repr, unused))


@pytest.mark.parametrize(("language", "domain"), CATALOGUES)
def test_compiled_catalogues_match_their_sources(language: str, domain: str) -> None:
    assert messages.translated(language, domain) == messages.compile_catalogue(messages.get_path(language, domain)), HOW


@pytest.mark.parametrize(("language", "domain"), CATALOGUES)
def test_no_translation_is_a_guess_empty_or_obsolete(language: str, domain: str) -> None:
    written = messages.get_path(language, domain).read_text(encoding="utf-8")
    assert re.findall(r"^#,.*fuzzy.*|^#~.*", written, re.MULTILINE) == []
    assert re.findall(r'^msgid.*\n(?:".*\n)*msgstr(?:\[\d\])? ""\n(?!")', written, re.MULTILINE) == []


@pytest.mark.parametrize(("language", "domain"), CATALOGUES)
def test_every_translation_has_the_placeholders_and_tags_of_its_text(language: str, domain: str) -> None:
    wrong = [
        f"{message.source} -> {translation!r}"
        for message in messages.translated(language, domain)
        for translation in message.translations
        if placeholders(message.plural or message.singular) != placeholders(translation)
    ]
    assert not wrong, "\n".join(wrong)


def test_chinese_has_no_half_width_punctuation_between_its_characters() -> None:
    odd = re.compile(r"[一-鿿][,;?!]|[,;?!][一-鿿]|[一-鿿]:(?!\d)|[一-鿿]\.(?:$|\s)|\([一-鿿]|[一-鿿]\)")
    written = [message for domain in messages.DOMAINS for message in messages.translated("zh_Hans", domain)]
    assert [text for message in written for text in message.translations if odd.search(text)] == []


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_the_list_of_the_themes_texts_is_that_of_the_installed_theme(language: str, tmp_path: Path) -> None:
    folders = [Path(django.__file__).parent / "conf"]
    folders += [Path(app.path) for app in apps.get_app_configs() if app.name.startswith("django.")]
    known = set()
    for folder in folders:
        for file in folder.glob(f"locale/{language}/LC_MESSAGES/django.mo"):
            known |= {(message.context, message.singular) for message in messages.read(file.read_bytes())}
    theme = Path(unfold.__file__).parent
    # Parts of the theme that are not installed here, or shown on no page of ours.
    unused = {"contrib/import_export", "contrib/guardian", "contrib/constance"}
    parts = [part for part in (*theme.iterdir(), *theme.glob("contrib/*")) if part.name not in {"contrib", "static"}]
    used = [part for part in parts if part.relative_to(theme).as_posix() not in unused and "__" not in part.name]
    said = {text for text in messages.in_use(tmp_path / "theme", "django", *used) if text[:2] not in known}
    assert said == messages.in_use(tmp_path / "list", "django", Path(theme_texts.__file__))


def test_forms_of_runners_say_nothing_that_is_not_translated() -> None:
    def said(fields: Iterable[dict[str, Any]]) -> Iterator[str]:
        for field in fields:
            yield from filter(None, (field.get("label"), field.get("help")))
            yield from said([*field.get("fields", ()), *field.get("variants", ()), *filter(None, [field.get("item")])])

    with override(None):
        forms = [
            runner_forms.fields(registry.settings_schema(kind), row.form) for kind, row in registry.runners().items()
        ]
    texts = {text for form in forms for text in said(form)}
    for language in messages.LANGUAGES:
        left = texts - {message.singular for message in messages.translated(language, "django")}
        assert not left, "mark these labels with gettext_lazy and descriptions with gettext_noop:\n" + "\n".join(left)


def test_names_of_models_fields_and_permissions_are_translated() -> None:
    texts = set()
    with override(None):
        for model in apps.get_models():
            meta = model._meta
            own = model in admin.site._registry
            # Others are named where somebody deletes what they belong to.
            hangs = any(row.related_model in admin.site._registry for row in meta.local_fields)
            if model.__module__.startswith(OURS) and not model.__name__.startswith("Historical"):
                texts |= {str(name) for _codename, name in meta.permissions}
                if own or hangs:
                    texts |= {str(meta.verbose_name), str(meta.verbose_name_plural)}
                if own:
                    texts |= {str(row.verbose_name) for row in (*meta.local_fields, *meta.local_many_to_many)}
    for language in messages.LANGUAGES:
        left = texts - {message.singular for message in messages.translated(language, "django")}
        assert not left, "mark these names with gettext_lazy or gettext_noop:\n" + "\n".join(left)


def test_texts_of_scripts_are_in_the_language_of_the_page_and_asked_for_anew(root: User) -> None:
    browser = Client(headers={"accept-language": "zh-hans"})
    browser.force_login(root)
    chinese: Any = browser.get("/admin/jsi18n/")
    translated = {message.singular: message.translations[0] for message in messages.translated("zh_Hans", "djangojs")}
    assert f'"Tool sections": {json.dumps(translated["Tool sections"])}' in chinese.content.decode()
    assert chinese.headers["Cache-Control"] == "private, no-cache"
    kept = {"if-none-match": chinese.headers["ETag"]}
    assert browser.get("/admin/jsi18n/", headers=kept).status_code == 304
    english = browser.get("/admin/jsi18n/", headers={**kept, "accept-language": "en"})
    assert english.status_code == 200 and "Tool sections" not in english.content.decode()
    assert Client().get("/admin/jsi18n/", headers=kept).status_code == 302


class Texts(HTMLParser):
    """What a template says outside of its tags and variables."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in {"code", "kbd", "pre", "script", "style"} or "material-symbols-outlined" in (
            given.get("class") or ""
        ):
            self.inside.append(tag)
        self.found += [value for name, value in attributes if value and name in ATTRIBUTES]

    def handle_endtag(self, tag: str) -> None:
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.found.append(" ".join(data.split()))


def find_bare_in_template(text: str) -> list[str]:
    for pattern in (
        r"{#.*?#}",
        r"{% comment.*?{% endcomment %}",
        r"{% block width %}.*?{% endblock %}",
        r"{% blocktranslate\b.*?{% endblocktranslate %}",
        r"{%.*?%}",
        r"{{.*?}}",
    ):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    parser = Texts()
    parser.feed(text)
    parser.close()
    return [found for found in parser.found if LETTERS.search(found) and found not in SAME_EVERYWHERE]


def test_no_template_has_a_text_that_cannot_be_translated() -> None:
    wrong = [
        f"{file.relative_to(TEMPLATES)}: {found}"
        for file in sorted(TEMPLATES.rglob("*.html"))
        for found in find_bare_in_template(file.read_text(encoding="utf-8"))
    ]
    assert not wrong, "use {% translate %} or {% blocktranslate %}:\n" + "\n".join(wrong)


TEXT_NAMES = {"description", "help_text", "verbose_name", "verbose_name_plural", "search_help_text", "empty_label"}
"""Keywords and class attributes whose text is on a page."""


def is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return any(is_text(value) for value in node.values)
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (bool(LETTERS.search(node.value)) and node.value not in SAME_EVERYWHERE)
    )


def find_bare_in_python(tree: ast.AST) -> Iterator[ast.expr]:
    """Texts that are on a page by where they stand: labels, help, messages, errors of forms, titles of fieldsets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            if last == "Field":  # of pydantic: settings of a runner, read by programs as well
                continue
            yield from (word.value for word in node.keywords if word.arg in TEXT_NAMES and is_text(word.value))
            if name.startswith(("messages.", "self.message_user")) or last in {"add_error", "message_user"}:
                yield from (value for value in node.args[1:2] if is_text(value))
            if last == "ValidationError":
                for value in node.args[:1]:
                    parts = value.values if isinstance(value, ast.Dict) else getattr(value, "elts", [value])
                    yield from (part for part in parts if is_text(part))
        elif isinstance(node, ast.Assign):
            names = {getattr(target, "id", "") for target in node.targets}
            if names & TEXT_NAMES and is_text(node.value):
                yield node.value
            if names & {"fieldsets", "add_fieldsets"}:
                rows = getattr(node.value, "elts", [])
                yield from (row.elts[0] for row in rows if isinstance(row, ast.Tuple) and is_text(row.elts[0]))
        elif isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Choices") for base in node.bases):
            for line in node.body:
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Tuple) and is_text(line.value.elts[-1]):
                    yield line.value.elts[-1]


FOR_PROGRAMS = (
    "catalog/examples/",
    "catalog/policy/loader.py",
    "catalog/schemas/",
    "toolhub/oauth/assertions.py",
    "toolhub/oauth/server.py",
    "toolhub/scim/endpoint.py",
    "toolhub/scim/memberships.py",
    "toolhub/scim/people.py",
    "toolhub/oauth/validator.py",
    "toolhub/wire/",
    "toolhub/server/",
)
"""What tools, clients and commands read stays English."""


def test_no_page_gets_a_text_from_python_that_cannot_be_translated() -> None:
    wrong = []
    for name in ("toolhub", "catalog", "audit"):
        for file in sorted((messages.ROOT / name).rglob("*.py")):
            place = file.relative_to(messages.ROOT).as_posix()
            if "/management/" in place or "/migrations/" in place or place.startswith(FOR_PROGRAMS):
                continue
            for node in find_bare_in_python(ast.parse(file.read_text(encoding="utf-8"))):
                wrong.append(f"{place}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong, "pass it to gettext:\n" + "\n".join(wrong)
