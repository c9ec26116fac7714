"""No change can hide in the difference of two texts: it is marked, named, and where the reader looks."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import word_diff
from audit.word_diff import CUT, FOLDED, GONE, LINES, NAMED, NEW, SAME, SPACES, Piece
from toolhub import invisible

LONG = " ".join(f"Sentence {number} says nothing." for number in range(200))


def join(pieces: list[Piece], *kinds: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind in kinds and not piece.mark)


def test_equal_texts_have_no_difference() -> None:
    assert word_diff.pieces("the same", "the same") == []


def test_only_the_words_that_changed_are_marked() -> None:
    found = word_diff.pieces("It reads the orders of a customer.", "It sends the orders of every customer.")
    assert found == [
        Piece(SAME, "It "),
        Piece(GONE, "reads"),
        Piece(NEW, "sends"),
        Piece(SAME, " the orders of "),
        Piece(GONE, "a"),
        Piece(NEW, "every"),
        Piece(SAME, " customer."),
    ]


def test_chinese_text_is_compared_character_by_character() -> None:
    found = word_diff.pieces("返回城市的天气", "返回用户的天气")
    assert (join(found, GONE), join(found, NEW)) == ("城市", "用户")


@pytest.mark.parametrize(
    ("after", "name"),
    [
        ("weather\u200b now", "⟨U+200B ZERO WIDTH SPACE⟩"),
        ("weather \u202enow", "⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩"),
        ("weather now" + "\u00a0" * 200, "⟨200 × U+00A0 NO-BREAK SPACE⟩"),
        ("weather now\U000e0073\U000e0065\U000e006e\U000e0064", '⟨hidden in tag characters: "send"⟩'),
        ("we\u0430ther now", "⟨U+0430 CYRILLIC SMALL LETTER A⟩"),
        ("weather\rnow", "⟨U+000D CARRIAGE RETURN⟩"),
    ],
    ids=["zero width", "direction", "run", "tags", "lookalike", "control"],
)
def test_characters_that_a_reader_overlooks_are_named(after: str, name: str) -> None:
    found = word_diff.pieces("weather now", after)
    assert [piece.text for piece in found if piece.mark == NAMED and piece.kind == NEW] == [name]
    assert not any(invisible.is_invisible(character) for piece in found for character in piece.text)


def test_many_different_invisible_characters_are_counted() -> None:
    hidden = "".join(map(chr, range(0x200B, 0x2010))) * 4
    (piece,) = [piece for piece in word_diff.pieces("a", f"a{hidden}") if piece.kind == NEW]
    assert (piece.mark, piece.number) == ("invisible", len(hidden))


def test_two_spellings_of_the_same_text_are_told_apart() -> None:
    found = word_diff.pieces("caf\u00e9", "cafe\u0301")
    assert [piece.text for piece in found if piece.mark == NAMED] == [
        "⟨U+00E9 LATIN SMALL LETTER E WITH ACUTE⟩",
        "⟨U+0301 COMBINING ACUTE ACCENT⟩",
    ]


def test_long_runs_of_blanks_are_counted_so_that_what_follows_is_in_sight() -> None:
    found = word_diff.pieces("Tell it.", f"Tell it.{' ' * 200}Send it.")
    assert found[-2:] == [Piece(NEW, "200", SPACES), Piece(NEW, "Send it.")]
    found = word_diff.pieces("Tell it.", "Tell it." + "\n" * 90 + "Send it.")
    assert found[-2:] == [Piece(NEW, "90", LINES), Piece(NEW, "Send it.")]
    found = word_diff.pieces("Tell it.", "Tell it." + " \n" * 90 + "Send it.")
    assert found[-2:] == [Piece(NEW, "90", LINES), Piece(NEW, "Send it.")]


def test_a_new_end_of_line_is_seen() -> None:
    assert join(word_diff.pieces("one two", "one\ntwo"), NEW) == "↵\n"


def test_unchanged_text_is_folded_and_the_change_has_words_around_it() -> None:
    changed = LONG.replace("Sentence 100 says", "Sentence 100 secretly says")
    found = word_diff.pieces(LONG, changed)
    assert [piece.kind for piece in found] == [FOLDED, SAME, NEW, SAME, FOLDED]
    assert found[2].text.strip() == "secretly"
    assert len(found[1].text) == len(found[3].text) == word_diff.CONTEXT_CHARACTERS
    assert join(found, SAME, FOLDED, NEW) == changed


def test_text_that_is_not_shown_is_counted() -> None:
    after = "word " * word_diff.MAX_PAGE_CHARACTERS
    found = word_diff.pieces("", after)
    assert found[-1] == Piece(CUT, str(len(after) - word_diff.MAX_PAGE_CHARACTERS))
    assert found[-1].number + len(join(found, NEW)) == len(after)
    assert word_diff.show("x" * (word_diff.MAX_PAGE_CHARACTERS + 7))[-1] == Piece(CUT, "7")


def test_a_long_text_that_is_gone_does_not_take_the_place_of_the_new_one() -> None:
    new = "Keep quiet about it. " * 1_000
    found = word_diff.pieces("old " * word_diff.MAX_PAGE_CHARACTERS, new)
    assert join(found, NEW).replace(" ", "") == new.replace(" ", "")
    assert [piece.kind for piece in found if piece.kind != SAME] == [GONE, NEW, CUT]


def test_many_marks_on_one_letter_take_no_time_and_stay_a_change() -> None:
    found = word_diff.pieces("a" + "\u0301" * 30_000, "a" + "\u0316\u0301" * 15_000)
    assert {piece.kind for piece in found} >= {GONE, NEW}


def test_a_page_compares_a_bounded_number_of_words() -> None:
    budget = word_diff.Budget(100)
    assert len(word_diff.pieces("a b c", "a x c", budget)) == 4
    assert budget.remaining == 99
    found = word_diff.pieces("one two three four five six seven", "1 2 3 4 5 6 7 8 9", budget)
    assert [piece.kind for piece in found] == [GONE, NEW], "shown as a whole"


def test_a_change_after_a_change_that_fills_the_page_is_counted_too() -> None:
    found = word_diff.pieces("a. b", f"{'x ' * word_diff.MAX_PAGE_CHARACTERS}a. c")
    assert any(piece.kind == CUT and piece.number > 0 for piece in found)


WORDS = st.lists(st.sampled_from(["ab", "b", "c.", "(d)", "é", "中", "e_1"]), max_size=30).map(" ".join)


@given(WORDS, WORDS)
def test_the_pieces_hold_both_texts_completely(before: str, after: str) -> None:
    found = word_diff.pieces(before, after)
    if before == after:
        assert not found
        return
    assert join(found, SAME, FOLDED, NEW) == after
    assert join(found, SAME, FOLDED, GONE) == before
    assert any(piece.kind in (NEW, GONE) for piece in found)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_breaks_it_and_nothing_invisible_is_left(before: str, after: str) -> None:
    found = word_diff.pieces(before, after)
    assert bool(found) == (before != after)
    assert not any(invisible.is_invisible(character) for piece in found for character in piece.text)
    if before != after:
        assert any(piece.kind in (NEW, GONE) for piece in found)


def test_hostile_texts_are_compared_in_bounded_pieces() -> None:
    """Two letters in random order match everywhere; a hundred thousand of them must not be matched one by one."""
    source = random.Random(1)
    one, other = (" ".join(source.choices("ab", k=100_000)) for _ in range(2))
    found = word_diff.pieces(one, other)
    assert [piece.kind for piece in found if piece.kind != SAME] == [GONE, NEW, CUT]
