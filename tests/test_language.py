"""Pages in Chinese: whatever is not data is Chinese, on every page that the census knows."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.test import Client

from catalog.models.rules import LIMITED_METHODS
from tests import census, factories
from tests.browser.demo import addresses

WORDS = re.compile(r"[A-Za-z]{2,}")
CHINESE = re.compile(r"[一-鿿]")
NAMES = frozenset(
    {
        "ai",
        "api",
        "apis",
        "app",
        "assistant",
        "base64",
        "bytes",
        "chatgpt",
        "claude",
        "cli",
        "cline",
        "code",
        "codex",
        "csv",
        "curl",
        "cursor",
        "desktop",
        "english",
        "gemini",
        "github",
        "goose",
        "http",
        "id",
        "inspector",
        "jetbrains",
        "json",
        "kb",
        "lines",
        "lm",
        "mb",
        "mcp",
        "mime",
        "ms",
        "oauth",
        "openid",
        "connect",
        "openapi",
        "python",
        "saml",
        "remote",
        "rfc",
        "sdk",
        "sha",
        "sql",
        "sse",
        "stdio",
        "streamable",
        "studio",
        "toolhub",
        "typescript",
        "url",
        "utc",
        "vs",
        "websocket",
        "windsurf",
        "yaml",
        "zed",
    }
)
"""Words that are the same in every language."""
PROTOCOL = (*LIMITED_METHODS, "tools/call", "http", "websocket", "stdio", "md5", "None")
"""What the audit log says as it was on the wire, the password hash of tests, and the theme where no reason is given."""
PARTS = re.compile(r"[()\[\];·→|]|, |: | object |[0-9a-f]{8}-[0-9a-f-]{27}|\S+\*{4,}")
"""Between these are the pieces of a text that is put together from data: punctuation, ids, masked hashes."""
NO_TEXT = {"code", "kbd", "pre", "script", "style", "textarea", "svg", "template"}
ATTRIBUTES = {"alt", "aria-label", "aria-description", "placeholder", "title"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """What a person reads or hears of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.stack: list[tuple[str, bool]] = []

    @property
    def hidden(self) -> bool:
        return any(silent for _tag, silent in self.stack)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        silent = tag in NO_TEXT or "material-symbols" in given.get("class", "") or given.get("lang") == "en"
        if not self.hidden and not silent:
            self.texts += [value for name, value in given.items() if name in ATTRIBUTES]
        if tag not in VOID:
            self.stack.append((tag, silent))

    def handle_endtag(self, tag: str) -> None:
        if any(tag == open for open, _silent in self.stack):
            while self.stack and self.stack.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.hidden and data.strip():
            self.texts.append(" ".join(data.split()))


def read_database_texts() -> str:
    """Every text in the database: whatever a page says in English may be one of these."""
    found = [*zoneinfo.available_timezones(), settings.ENVIRONMENT, *PROTOCOL]
    for model in apps.get_models():
        columns = [
            column.attname
            for column in model._meta.concrete_fields
            if isinstance(column, models.CharField | models.TextField | models.UUIDField)
        ]
        for row in model._base_manager.values_list(*columns) if columns else ():
            found.append(" ".join(str(value) for value in row if value))
    return "\n".join(found).replace("_", " ").casefold()


def find_english(page: str, data: str) -> Iterator[str]:
    parser = Page()
    parser.feed(page)
    for said in parser.texts:
        if CHINESE.search(said):
            continue
        for part in PARTS.split(said.replace("_", " ").casefold()):
            if any(word not in NAMES for word in WORDS.findall(part)) and part.strip(" …") not in data:
                yield said
                break


@pytest.mark.django_db
def test_in_chinese_every_page_is_chinese_but_for_its_data(alice: User, root: User) -> None:
    address_values = census.create_address_values(alice)
    factories.load()
    clients = {name: Client(headers={"accept-language": "zh-hans"}) for name in ("", "alice", "root")}
    clients["alice"].force_login(alice)
    clients["root"].force_login(root)
    pages: list[tuple[str, str]] = []
    for whose, address in addresses():
        response: Any = clients[whose].get(address.format(**address_values))
        if response.status_code not in {200, 404} or not response.headers["Content-Type"].startswith("text/html"):
            continue
        pages.append((address, response.content.decode()))
    data = read_database_texts()  # afterwards: signing in is logged, too
    wrong = {said: address for address, page in reversed(pages) for said in find_english(page, data)}
    assert not wrong, "\n".join(f"{address}: {said}" for said, address in wrong.items())
