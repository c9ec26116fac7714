"""Whoever reads a page by its headings finds one name of the page, and below it no level left out."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from tests import census
from tests.test_census import address_values as address_values


class Headings(HTMLParser):
    """The headings of a page in their order, as (level, text); those that a script puts in later are not there yet."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []
        self.open = self.templates = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.templates += tag == "template"
        if is_heading(tag) and not self.templates:
            self.open = int(tag[1])
            self.found.append((self.open, ""))

    def handle_endtag(self, tag: str) -> None:
        self.templates -= tag == "template"
        if is_heading(tag):
            self.open = 0

    def handle_data(self, data: str) -> None:
        if self.open:
            level, text = self.found[-1]
            self.found[-1] = (level, " ".join(f"{text} {data}".split()))


def is_heading(tag: str) -> bool:
    return len(tag) == 2 and tag[0] == "h" and tag[1].isdigit()


def find_problems(page: str) -> list[str]:
    headings = Headings(page).found
    names = [text for level, text in headings if level == 1]
    problems = [] if len(names) == 1 else [f"{len(names)} headings of level 1: {names}"]
    problems += [f"an empty heading of level {level}" for level, text in headings if not text]
    for (before, above), (level, text) in pairwise(headings):
        if level > before + 1:
            problems.append(f"level {level} ({text!r}) follows level {before} ({above!r})")
    return problems


def test_the_check_finds_what_it_looks_for() -> None:
    assert find_problems("<h1>A</h1><h2>B</h2><h3>C</h3><h2>D</h2><template><h1>E</h1></template>") == []
    assert find_problems("<h2>A</h2>") == ["0 headings of level 1: []"]
    assert find_problems("<h1>A</h1><h3>B</h3>") == ["level 3 ('B') follows level 1 ('A')"]
    assert find_problems("<h1>A</h1><h2> <b></b></h2>") == ["an empty heading of level 2"]


def test_every_page_has_one_name_and_leaves_no_level_out(
    address_values: dict[str, Any], alice: User, root: User
) -> None:
    clients = {"": Client(), "alice": Client(), "root": Client()}
    clients["alice"].force_login(alice)
    clients["root"].force_login(root)
    wrong, pages = [], 0
    for rule in census.every_rule():
        if "GET" not in rule.methods.split() or rule.who is census.MACHINE:
            continue
        whose = "root" if rule.who.is_staff else "" if rule.who is census.ANYONE else "alice"
        clients[whose].raise_request_exception = False
        response: Any = clients[whose].get(rule.path(address_values))
        if response.status_code in {301, 302} or not response.headers.get("Content-Type", "").startswith("text/html"):
            continue
        text = b"".join(response.streaming_content).decode() if response.streaming else response.content.decode()
        pages += 1
        wrong += [f"{rule.path(address_values)}: {problem}" for problem in find_problems(text)]
    assert not wrong, "\n".join(wrong)
    assert pages > 150
