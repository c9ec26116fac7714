"""One table of invisible characters: every place that shows text shows each, and results pass none that mislead."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command

from audit import display, text_diff, word_diff
from audit.actions import diff_display
from catalog.admin.editor import preview, versions
from catalog.canonical import dumps
from catalog.functions.sanitise import sanitise_text
from catalog.models import Tool
from catalog.openapi.schemas import plain_text
from catalog.reviews import changes
from catalog.runners.http_api.response import excerpt
from catalog.runners.upstream_mcp.failures import one_line
from catalog.templatetags import catalog_definitions
from toolhub import invisible


@functools.cache
def every() -> list[str]:
    """Every invisible character of Unicode; a million are asked, so not while the tests are collected."""
    return [chr(number) for number in range(0x110000) if invisible.is_invisible(chr(number))]


@functools.cache
def sample() -> list[str]:
    """Characters of every category, and those that attacks are known for."""
    by_category: dict[str, list[str]] = {}
    for character in every():
        by_category.setdefault(unicodedata.category(character), []).append(character)
    return sorted(
        {character for found in by_category.values() for character in (*found[:150], *found[-20:])}
        | set("\u00a0\u00ad\u061c\u180e\u200b\u200d\u200e\u202e\u2066\u3000\u3164\ufe0f\ufeff\U000e0041\U000e0101")
    )


def test_the_table_holds_what_the_places_had_before() -> None:
    former = "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
    ranges = [
        *invisible.MISLEADING_CHARACTERS.replace("-", ""),
        *former.strip("[]").replace("-", ""),
        *"\ufff9\ufffb\U000e007f",
    ]
    assert [character for character in ranges if not invisible.is_invisible(character)] == []
    assert not any(map(invisible.is_invisible, " \n\taé漢ก한あΩя"))


def test_each_is_shown_by_its_number_and_nothing_else_is_changed() -> None:
    for character in every():
        shown = invisible.show(f"a{character}b")
        assert shown.startswith(f"a⟨U+{ord(character):04X}") and shown.endswith("⟩b"), hex(ord(character))
        assert invisible.remove(f"a{character}b") in ("ab", "a b")
    assert invisible.show("é 漢字 👩 ก\n\t") == "é 漢字 👩 ก\n\t"


def difference_of_quarantine(text: str) -> str:
    tool = Tool(approved='{"description": "Before."}')
    tool.proposed = dumps({"description": text})
    (change,) = changes.find_changes(tool)
    return "".join(piece.text for piece in word_diff.pieces(change.before or "", change.after or ""))


PLACES: dict[str, Callable[[str], str]] = {
    "a body of a call": lambda text: display.body(text).text,
    "a text difference": lambda text: "\n".join(line.text for line in text_diff.lines(text, "other")),
    "a changed field": lambda text: diff_display.diff_fields("", dumps({"name": text}))[0].after,
    "a change in short": lambda text: diff_display.format_summary("", dumps({"name": text})),
    "two versions of a tool": lambda text: versions._build_change("Name", "Before", text).after,
    "a review in quarantine": difference_of_quarantine,
    "the preview of a tool": lambda text: preview.preview_shapes({"name": "a", "description": text})[0].text,
    "the preview of a document": catalog_definitions.visible,
    "a description out of a document": plain_text,
    "an error of an API": excerpt,
    "an error of an upstream server": one_line,
}


@pytest.mark.parametrize("place", PLACES)
def test_no_place_passes_on_an_invisible_character(place: str) -> None:
    for character in sample():
        if 0xD800 <= ord(character) < 0xE000 and place == "the preview of a tool":
            continue  # no definition can hold half a character
        shown = PLACES[place](f"left{character}right")
        assert character not in shown, hex(ord(character))
        assert "left" in shown and "right" in shown


@pytest.mark.django_db
def test_a_plan_shows_each_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = "".join(character for character in sample() if not 0xD800 <= ord(character) < 0xE000 and ord(character))
    (tmp_path / "x.json").write_text(
        dumps({"toolhub": 1, "toolsets": [{"name": "a", "description": f"left{names}right"}]})
    )
    call_command("importtools", str(tmp_path / "x.json"))
    (tmp_path / "x.json").write_text(dumps({"toolhub": 1, "toolsets": [{"name": "a", "description": "x"}]}))
    capsys.readouterr()
    call_command("importtools", str(tmp_path / "x.json"), "--plan")
    said = capsys.readouterr().out
    assert "left" in said and not set(names) & set(said)


def test_results_pass_none_that_misleads_and_keep_those_of_words_and_emoji() -> None:
    for character in every():
        kept, changed = sanitise_text(f"a{character}b")
        assert bool(changed) == (character not in kept)
    assert sanitise_text("a\u202eb")[1] == sanitise_text("a\U000e0041b")[1] == 1
    assert sanitise_text("👩\u200d🚀 می\u200cخواهم ❤\ufe0f")[1] == 0
