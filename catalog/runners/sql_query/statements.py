"""Checks of a statement with named parameters: their positions, that it is one statement, and that it reads. Pure.

These checks catch mistakes when a tool is saved. The read-only connection is the protection against writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_noop as _

from catalog.runners.settings_errors import SettingsProblem

_TOKEN = re.compile(
    r"(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[A-Za-z_][\w ]*\]"
    r"|(?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)"
    r"|--[^\n]*|/\*.*?\*/)"
    r"|(?P<cast>::)"
    r"|:(?P<name>[A-Za-z_]\w*)"
    r"|(?P<end>;)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<open>['\"]|/\*)",
    re.DOTALL,
)
READ_KEYWORDS = frozenset({"select", "with", "values"})
WRITE_KEYWORDS = frozenset(
    {"insert", "update", "delete", "replace", "merge", "truncate", "create", "alter", "drop", "grant"}
)
WRITE_KEYWORDS |= {
    "revoke",
    "attach",
    "detach",
    "vacuum",
    "reindex",
    "pragma",
    "copy",
    "call",
    "do",
    "lock",
    "begin",
    "into",
}
WRITE_KEYWORDS |= {"commit", "rollback", "savepoint", "set", "reset"}
_FUNCTIONS = frozenset({"replace", "truncate", "insert"})
"""Words of writes that are function names too: `replace(x, 'a', 'b')`."""


class StatementError(SettingsProblem):
    """A statement that cannot be used, with the reason."""


def names(statement: str) -> list[str]:
    """Return the parameters, each once, in order. Raises StatementError."""
    found: dict[str, None] = {}
    first = ""
    ended = False
    for match in _TOKEN.finditer(statement):
        if match["open"]:
            raise StatementError(_("a quote or comment is not closed"))
        if match["text"] and match["text"].startswith(("--", "/*")):
            continue
        if ended:
            raise StatementError(_("there is more than one statement"))
        if match["end"]:
            ended = True
        if match["name"]:
            found[match["name"]] = None
        if match["word"]:
            word = match["word"].lower()
            first = first or word
            if word in WRITE_KEYWORDS and not _is_name(statement, match, word):
                raise StatementError(
                    _("the statement must only read. %(word)s is not allowed"), word=match["word"].upper()
                )
    if first not in READ_KEYWORDS:
        raise StatementError(_("the statement must begin with SELECT, WITH or VALUES"))
    return list(found)


def _is_name(statement: str, match: re.Match[str], word: str) -> bool:
    """Return whether a write keyword is in fact a column (`t.set`) or a function (`replace(...)`)."""
    before = statement[: match.start()].rstrip()[-1:]
    after = statement[match.end() :].lstrip()[:1]
    return before == "." or after == "." or (word in _FUNCTIONS and after == "(")


def convert_for_psycopg(statement: str) -> str:
    """Return the statement with %(name)s in the place of :name, and without a final semicolon."""
    return "".join(_pieces(statement)).rstrip()


def _pieces(statement: str) -> Iterator[str]:
    at = 0
    for match in _TOKEN.finditer(statement):
        yield statement[at : match.start()].replace("%", "%%")
        if match["name"]:
            yield f"%({match['name']})s"
        elif not match["end"]:
            yield match[0].replace("%", "%%")
        at = match.end()
    yield statement[at:].replace("%", "%%")
