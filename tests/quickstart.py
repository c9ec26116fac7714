"""What `manage.py quickstart` sets up and serves, in an empty data folder, with what it says on the console."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.e2e.pages import Pages
from tests.real_servers import Hub

ELSEWHERE = """
import runpy, sys
from catalog.processes import allowlist
allowlist.PATH = sys.argv.pop(1)
runpy.run_path("manage.py", run_name="__main__")
"""
"""manage.py of a machine that has its programs in one folder, and no others."""


class Quickstart(Hub):
    def __init__(self, *, programs: Path | None = None, **options: Any) -> None:
        super().__init__(**options, tables=False)
        self.extra = {"TOOLHUB_PUBLIC_URL": "http://localhost", "TOOLHUB_COMMANDS": "npx", **self.extra}
        self.programs = programs
        self.wanted_port = 0

    def prepare(self) -> None:
        """Nothing but an empty database on PostgreSQL: the rest is what the command is for."""
        if self.postgres:
            super().prepare()

    def command(self) -> list[str]:
        start = ["manage.py"] if self.programs is None else ["-c", ELSEWHERE, str(self.programs)]
        return [*start, "quickstart", "--port", str(self.wanted_port)]

    def find_in_output(self, pattern: str) -> str:
        found = re.search(pattern, self.log())
        assert found is not None, self.log()
        return found[1]

    @property
    def token(self) -> str:
        return self.find_in_output(r"with the token +(thp_\S+)")

    def find_password(self, name: str = "admin") -> str:
        return self.find_in_output(rf"as +{name} / (\S+)")

    async def sign_in(self, name: str = "admin") -> Pages:
        pages = Pages(self, name)
        await pages.send("/sign-in/", username=name, password=self.find_password(name))
        return pages
