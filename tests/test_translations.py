"""Every text of the pages is translated, whole and up to date; what a page says is never a bare English literal."""

from __future__ import annotations

import ast
import gettext
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from django.conf import settings
from django.utils.translation import to_locale

from tests import messages

LANGUAGES = messages.languages()
PLACEHOLDER = re.compile(r"%%|%\((\w+)\)[.\d]*[a-z]|%[.\d]*[sdif]|\{(\w*)\}|<[^>]+>")
LETTERS = re.compile(r"[A-Za-z]{2}")
TEMPLATES = messages.ROOT / "templates"
SAME_EVERYWHERE = {"MCP", "UTC", "JSON", "WebSocket", "toolhub", "toolhub · toolhub", "SHA-256", "s"}
"""Names and units that no language translates."""
ATTRIBUTES = {"alt", "aria-label", "aria-description", "placeholder", "title"}


@pytest.fixture(scope="module")
def catalogues() -> dict[str, tuple[Catalog, Catalog]]:
    """Of each language: what is written, and what should be."""
    return {name: (messages.catalogue(name), messages.updated(name)) for name in LANGUAGES}


def strings(row: Any) -> Iterator[tuple[str, str]]:
    """Every form of the translation with the text that it translates."""
    if row.pluralizable:
        yield from ((row.id[-1], string) for string in row.string)
    else:
        yield row.id, row.string


def placeholders(text: str) -> list[str]:
    return sorted(match[0] for match in PLACEHOLDER.finditer(text))


def test_every_language_on_offer_has_its_catalogue_and_the_other_way_round() -> None:
    assert {to_locale(code) for code, _name in settings.LANGUAGES} == {"en", *LANGUAGES}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_in_use_is_in_the_catalogue_and_translated(language: str, catalogues: Any) -> None:
    _written, wanted = catalogues[language]
    left = messages.untranslated(wanted)
    assert not left, "run `python -m tests.messages` and translate:\n" + "\n".join(left)


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_in_the_catalogue_that_no_page_says(language: str, catalogues: Any) -> None:
    written, wanted = catalogues[language]
    gone = {repr(row.id) for row in written if row.id} - {repr(row.id) for row in wanted if row.id}
    assert not gone, "run `python -m tests.messages`:\n" + "\n".join(sorted(gone))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_translation_is_a_guess(language: str, catalogues: Any) -> None:
    assert [row.id for row in catalogues[language][0] if row.id and row.fuzzy] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_translation_has_the_placeholders_and_tags_of_its_text(language: str, catalogues: Any) -> None:
    wrong = [
        f"{text!r} -> {string!r}"
        for row in catalogues[language][0]
        if row.id
        for text, string in strings(row)
        if placeholders(text) != placeholders(string)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_compiled_is_what_is_written(language: str, catalogues: Any) -> None:
    path = messages.path_of(language).with_suffix(".mo")
    with path.open("rb") as compiled:
        found: Any = gettext.GNUTranslations(compiled)
    expected: Any = gettext.GNUTranslations(io.BytesIO(messages.compiled(catalogues[language][0])))
    texts = [{key: text for key, text in one._catalog.items() if key} for one in (found, expected)]
    assert texts[0] == texts[1], "run `python -m tests.messages`"


def test_chinese_has_no_half_width_punctuation_between_its_characters() -> None:
    written = messages.catalogue("zh_Hans")
    odd = re.compile(r"[一-鿿][,;?!]|[,;?!][一-鿿]|[一-鿿]:(?!\d)|[一-鿿]\.(?:$|\s)|\([一-鿿]|[一-鿿]\)")
    assert [string for row in written if row.id for _, string in strings(row) if odd.search(string)] == []


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


def bare_in_template(text: str) -> list[str]:
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


def test_no_template_says_anything_that_cannot_be_translated() -> None:
    wrong = [
        f"{file.relative_to(TEMPLATES)}: {found}"
        for file in sorted(TEMPLATES.rglob("*.html"))
        for found in bare_in_template(file.read_text(encoding="utf-8"))
    ]
    assert not wrong, "use {% translate %} or {% blocktranslate %}:\n" + "\n".join(wrong)


SAID = {"description", "help_text", "verbose_name", "verbose_name_plural", "search_help_text", "empty_label"}
"""Keywords and class attributes whose text is on a page."""


def is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return any(is_text(value) for value in node.values)
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (bool(LETTERS.search(node.value)) and node.value not in SAME_EVERYWHERE)
    )


def bare_in_python(tree: ast.AST) -> Iterator[ast.expr]:
    """Texts that are on a page by where they stand: labels, help, messages, errors of forms, titles of fieldsets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            if last == "Field":  # of pydantic: settings of a runner, read by programs as well
                continue
            yield from (word.value for word in node.keywords if word.arg in SAID and is_text(word.value))
            if name.startswith(("messages.", "self.message_user")) or last in {"add_error", "message_user"}:
                yield from (value for value in node.args[1:2] if is_text(value))
            if last == "ValidationError":
                for value in node.args[:1]:
                    parts = value.values if isinstance(value, ast.Dict) else getattr(value, "elts", [value])
                    yield from (part for part in parts if is_text(part))
        elif isinstance(node, ast.Assign):
            names = {getattr(target, "id", "") for target in node.targets}
            if names & SAID and is_text(node.value):
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
    "toolhub/wire/",
    "toolhub/server/",
)
"""What tools, clients and commands read stays English."""


def test_no_page_gets_a_text_from_python_that_cannot_be_translated() -> None:
    wrong = []
    for name in ("toolhub", "catalog", "audit"):
        for file in messages.files(messages.ROOT / name):
            place = file.relative_to(messages.ROOT).as_posix()
            if file.suffix != ".py" or "/management/" in place or place.startswith(FOR_PROGRAMS):
                continue
            for node in bare_in_python(ast.parse(file.read_text(encoding="utf-8"))):
                wrong.append(f"{place}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong, "pass it to gettext:\n" + "\n".join(wrong)


def test_the_tool_finds_what_python_and_templates_say(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from django.utils.translation import gettext as _\n"
        '_("a text")\nngettext("%d a", "%d b", 2)\npgettext("x", "c")\n'
    )
    (tmp_path / "two.html").write_text(
        '{% translate "of a template" %}{% blocktranslate count n=3 %}{{ n }} one{% plural %}{{ n }} more'
        '{% endblocktranslate %}<p title="{% translate "it\'s" %}">{{ _("in a variable") }}</p>'
    )
    found = {(message.context, message.id) for message in messages.collect(tmp_path, tmp_path).values()}
    assert found == {
        (None, "a text"),
        (None, ("%d a", "%d b")),
        ("x", "c"),
        (None, "of a template"),
        (None, ("%(n)s one", "%(n)s more")),
        (None, "it's"),
        (None, "in a variable"),
    }
