"""What the bounds did: counted, and in the log once per address and minute."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

from tests.messages import ROOT
from toolhub.refusals import SENTENCES, Refusals

ALICE, BOB = "203.0.113.5", "198.51.100.7"


def reasons_in_use(folder: Path) -> set[str]:
    """The reasons that the code gives where a bound acts, as far as they are written there."""
    found = set[str]()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if ast.unparse(node.func).endswith(("refusals.add", ".refuse", "TooManyRequests")):
                constants = (one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant))
                found |= {value for value in constants if isinstance(value, str)}
    return found


def test_every_reason_that_the_code_gives_has_a_sentence_and_the_other_way_round() -> None:
    # The channel gives the limit that a connection is over by its name.
    assert reasons_in_use(ROOT / "toolhub") | {"per_address", "total"} == set(SENTENCES)


def test_every_setting_in_a_sentence_is_one() -> None:
    known = (ROOT / "toolhub" / "settings.py").read_text()
    words = {word.strip("(,)") for sentence in SENTENCES.values() for word in sentence.split() if "TOOLHUB_" in word}
    assert words and all(f'"{word}"' in known for word in words)


def test_one_line_names_everything_that_an_address_did_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="toolhub.edge")
    refusals = Refusals()
    refusals.add("headers", ALICE)
    for _ in range(3):
        refusals.add("frames", ALICE)
    refusals.add("headers", ALICE)
    refusals.add("pings", "")
    refusals.write_due(10.0)
    refusals.write_due(70.5)
    assert caplog.messages == [
        f"Limit reached by {ALICE}: {SENTENCES['headers']}",
        f"Limit reached by an unknown address: {SENTENCES['pings']}",
        f"Limits reached 4 times more by {ALICE}: {SENTENCES['frames']} (3 times), {SENTENCES['headers']} (once)",
    ]
    assert refusals.counts == {"headers": 2, "frames": 3, "pings": 1}


def test_the_bound_of_a_user_names_the_user_at_each_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="toolhub.edge")
    refusals = Refusals()
    for user in ("alice", "alice", "bob"):
        refusals.add("calls", ALICE, user)
    refusals.add("per_address", ALICE)
    refusals.write_due(10.0)
    refusals.write_due(70.5)
    assert caplog.messages == [
        f"Limit reached by alice ({ALICE}): {SENTENCES['calls']}",
        f"Limit reached by bob ({ALICE}): {SENTENCES['calls']}",
        f"Limit reached by {ALICE}: {SENTENCES['per_address']}",
        f"Limits reached once more by alice ({ALICE}): {SENTENCES['calls']} (once)",
    ]


def test_what_honest_browsers_do_is_counted_and_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="toolhub.edge")
    refusals = Refusals()
    for _ in range(3):
        refusals.add("silent", ALICE)
    refusals.write_due(10.0)
    refusals.write_due(70.5)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("INFO", f"Limit reached by {ALICE}: {SENTENCES['silent']}"),
        ("INFO", f"Limits reached 2 times more by {ALICE}: {SENTENCES['silent']} (2 times)"),
    ]
    caplog.clear()
    caplog.set_level(logging.WARNING, logger="toolhub.edge")
    refusals.add("pages", BOB)
    refusals.add("large", BOB)
    assert caplog.messages == [f"Limit reached by {BOB}: {SENTENCES['large']}"], "the warning is not held back"
    assert refusals.counts == {"silent": 3, "pages": 1, "large": 1}


def test_a_new_minute_begins_with_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="toolhub.edge")
    refusals = Refusals()
    refusals.add("headers", BOB)
    refusals.write_due(10.0)
    refusals.write_due(71.0)
    refusals.add("headers", BOB)
    assert len(caplog.messages) == 2
