"""The README's table of clients is the list of what the tests here run."""

from __future__ import annotations

import itertools
from importlib.metadata import version
from pathlib import Path

from tests.clients.versions import ASKED, CLIENTS, PYTHON_2

HEAD = "| client | version | protocol | others decide | the client may answer | only the browser may |"
README = Path(__file__).resolve().parents[2] / "README.md"


def rows_under(heading: str, head: str) -> list[str]:
    """The rows of the table that begins with this line, in the section with this heading."""
    section = README.read_text(encoding="utf-8").split(f"# {heading}\n")[1].split("\n## ")[0]
    lines = section.splitlines()
    rows = iter(lines[lines.index(head) + 2 :])
    return list(itertools.takewhile(lambda line: line.startswith("| "), rows))


def test_the_readme_says_which_clients_are_run() -> None:
    table = rows_under("Connect a client", "| client | version | transports and protocol versions |")
    assert table == [client.row() for client in CLIENTS]


def test_the_readme_says_what_people_at_these_clients_see_of_a_call_that_waits() -> None:
    table = rows_under("Approvals", HEAD)
    assert table == [asked.row() for asked in ASKED]


def test_the_python_sdk_of_this_environment_is_the_one_in_the_table() -> None:
    least = tuple(int(part) for part in PYTHON_2.version.split()[0].split("."))
    assert least <= tuple(int(part) for part in version("mcp").split(".")[:2]) < (3, 0)
