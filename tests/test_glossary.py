"""The glossary: phrases that pages, documents and commands no longer use, and what they say instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from tests import messages

ROOT = Path(__file__).resolve().parent.parent
APPS = {
    "toolhub",
    "toolhub.access",
    "toolhub.identity",
    "toolhub.people",
    "toolhub.scim",
    "toolhub.oauth",
    "catalog",
    "audit",
}
RETIRED = {
    # What is in the audit log, and what it is called.
    "on record": "logged",
    "the record": "the audit log; call or entry for one row of it",
    "whole record": "all calls",
    "unrecorded": "unlogged",
    "links whole": "Audit log verified",
    "whole chain": "the whole audit log",
    "chain of the record": "the hash chain of the audit log",
    "kept elsewhere": "external checkpoint",
    "kept outside": "external checkpoint",
    "outside head": "external checkpoint",
    "head elsewhere": "external checkpoint",
    "no link in the chain": "The hash chain has no entry for this call",
    "no link of any chain": "Added outside the log: the hash chain has no entry for this call",
    "check without findings": "a clean verification",
    # How a call ended.
    "turned away": "rejected, denied",
    "one outcome": "one status",
    "by outcome": "by status",
    "limits hit": "Rate limited",
    "no such tool": "Unknown tool",
    "told to end": "Cancellation requested",
    "came over": "Transport",
    "calls itself": "client (self-reported)",
    "around it, by": "Nearby calls",
    "further back": "older",
    "not looked at": "not searched",
    # Who may use what, and how often.
    "who may use it": "Access",
    "speaks against": "overrides",
    "deny beats": "Deny always overrides allow",
    "beats every allow": "Deny always overrides allow",
    "whatever the grants say": "hidden from everyone",
    "nobody sees": "hidden from everyone; no one has access",
    "seen by nobody": "hidden from everyone",
    "does not see this tool": "does not have access to this tool",
    "nobody has granted you": "You don't have access to any tools yet",
    "whole again": "resets in",
    "the door": "the call pipeline; the sign-in page",
    "one door": "the call pipeline",
    # People.
    "whoever runs": "your administrator",
    "runs this server": "your administrator",
    # Credentials.
    "ended token": "expired or revoked token",
    "token has ended": "token is expired",
    "make a token": "Create token",
    "no token of this server": "an invalid token",
    "an own token": "everyone sets their own token",
    "encrypted anew": "re-encrypted",
    "secret anew": "re-encrypt every secret",
    # Time.
    "from this moment": "Start",
    "until this moment": "End",
    "at this moment": "now",
    "at that moment": "at that time",
    "is not a moment": "is not a valid date and time",
    # Numbers.
    "95 of 100": "p95 latency",
    "pieces of advice": "suggestions",
    "piece of advice": "suggestion",
    # Forms and buttons.
    "to mend": "fix",
    "is not spelt": "Choose a secret",
    "spelt nearly": "almost the same name",
    "this is needed": "required",
    "look at it": "view, preview",
    "look at what": "Review changes",
    "what to call it with": "Arguments",
    "what comes back": "Result",
    "that are ticked": "selected",
    "what the filter finds": "filtered calls",
    "is looked for in": "Search arguments, ...",
    "was too old": "This page expired",
    "kind of thing": "tool type",
    "does the work": "tool type",
    "advice never": "Suggestions never block saving",
    "hold results to": "Validate responses against",
    "in its path, never": "Use {argument} placeholders in the path; the host is fixed",
    # Models and clients.
    "a model's mind": "context window",
    "say something else than": "do not match",
    "not yours to see": "you don't have access",
    "filled in below": "added to the snippet below",
    "waits to be looked at": "needs review",
    "the hub sends no requests": "toolhub blocks requests to this address",
}
"""Retired phrase: what to say instead."""
PATTERN = re.compile("|".join(rf"\b{re.escape(phrase)}\b" for phrase in RETIRED), re.IGNORECASE)
RETIRED_NAME = re.compile(
    r"(?:^|_)(?:on_record|turned_away|whole_again|last_rites|in_words|(?:un)?veil(?:ed|ing)?|mend|doors?|moments?|waking"
    r"|harmless|whoever|told|said|unsaid|news|offers?|LONGEST|SHORTEST|MOST|LEAST|MANY)(?:_|$)"
)
"""Words that no name holds any more. Constants say MAX or MIN."""
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
"""Names of settings, options, commands and tests stay as they are: documents write them as code."""
NAMES = re.compile(r"TOOLHUB_[A-Z_]+|--[a-z-]+")


def find_retired(text: str) -> list[str]:
    """The retired phrases of a text, whatever its line breaks."""
    plain = " ".join(NAMES.sub(" ", text).split()).replace("’", "'")
    return [f"{found.group()!r}: say {RETIRED[found.group().lower()]!r}" for found in PATTERN.finditer(plain)]


def collect_texts() -> Iterator[tuple[str, str]]:
    """Everything that people read, with where it is."""
    for domain in messages.DOMAINS:
        for message in messages.translated("zh_Hans", domain):
            yield f"{domain}.po", f"{message.singular} {message.plural}"
    yield from literals()
    for path in sorted((ROOT / "templates").rglob("*.html")):
        yield str(path.relative_to(ROOT)), re.sub(r"\{#.*?#\}", " ", path.read_text(encoding="utf-8"))
    for name in ("README.md", "CHANGELOG.md"):
        yield name, CODE.sub(" ", (ROOT / name).read_text(encoding="utf-8"))
    for name, app in sorted(get_commands().items()):
        if str(app) in APPS:
            command = load_command_class(str(app), name)
            yield f"manage.py {name} --help", command.create_parser("manage.py", name).format_help()


def literals() -> Iterator[tuple[str, str]]:
    """Every string of the product that holds a blank: what clients, logs and commands say, and all docstrings."""
    for app in ("audit", "catalog", "toolhub"):
        for path in sorted((ROOT / app).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", CODE.sub(" ", node.value)


def names() -> Iterator[tuple[str, str]]:
    """Every name that the product defines: of functions, classes, parameters, variables and attributes."""
    for app in ("audit", "catalog", "toolhub"):
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_bytes())):
                where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield where, node.name
                elif isinstance(node, ast.arg):
                    yield where, node.arg
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield where, node.id
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    yield where, node.attr


def test_no_name_is_of_the_retired_vocabulary() -> None:
    found = list(names())
    assert len(found) > 10_000
    assert [place for place in found if RETIRED_NAME.search(place[1])] == []


@pytest.mark.parametrize(
    ("name", "retired"),
    [
        *((name, True) for name in ("on_record", "_veiled", "MOST_ROWS", "LONGEST", "the_door")),
        *((name, False) for name in ("recorder", "indoors", "most_frequent", "_UTMOST")),
    ],
)
def test_a_retired_name_is_found_as_a_word_and_not_inside_one(name: str, retired: bool) -> None:
    assert (RETIRED_NAME.search(name) is not None) == retired


def test_no_text_has_a_retired_phrase() -> None:
    places = list(collect_texts())
    assert len(places) > 3_000
    assert {where for where, _text in places} >= {"README.md", "CHANGELOG.md", "manage.py verifycalls --help"}
    assert any(where.startswith("audit/recorder.py:") for where, _text in places)
    found = [f"{where}: {problem}" for where, text in places for problem in find_retired(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("It is on\n  record.", ["on record"]),
        ("Ask Whoever runs this server.", ["Whoever runs"]),
        ("Recorded on recordings; a record of the doors.", []),
        ("Set TOOLHUB_RECORD_KEY, or --record the record.", ["the record"]),
    ],
)
def test_a_phrase_is_found_across_lines_and_in_any_case_and_not_inside_words(text: str, phrases: list[str]) -> None:
    assert [problem.split("'")[1] for problem in find_retired(text)] == phrases
