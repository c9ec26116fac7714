"""The README's table of clients is the list of what the tests here run."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from tests.clients.versions import CLIENTS, PYTHON_2

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_readme_says_which_clients_are_run() -> None:
    section = README.read_text(encoding="utf-8").split("## Connect a client")[1].split("\n## ")[0]
    said = [line for line in section.splitlines() if line.startswith("| ")]
    table = said[said.index("| client | version | transports and protocol versions |") + 1 :]
    assert table == [client.row() for client in CLIENTS]


def test_the_python_sdk_of_this_environment_is_the_one_in_the_table() -> None:
    least = tuple(int(part) for part in PYTHON_2.version.split()[0].split("."))
    assert least <= tuple(int(part) for part in version("mcp").split(".")[:2]) < (3, 0)
