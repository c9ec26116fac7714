"""Somebody at the pages of Try it, without a screen: signs in, sends forms as the page's script does, looks."""

from __future__ import annotations

import re
from typing import Any, Self

import httpx2

from tests.pages.try_seed import PASSWORD
from tests.polling import wait_until
from tests.real_servers import Hub

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
JSON = {"Accept": "application/json"}


class Person:
    def __init__(self, hub: Hub, name: str) -> None:
        limits = httpx2.Limits(max_connections=1, keepalive_expiry=600)
        self.http = httpx2.Client(base_url=hub.url, timeout=60, trust_env=False, limits=limits)
        self._csrf = TOKEN.findall(self.http.get("/sign-in/").text)[0]
        form = {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": self._csrf}
        assert self.http.post("/sign-in/?next=/admin/", data=form).status_code == 302

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def post(self, path: str, /, **fields: Any) -> httpx2.Response:
        """As the script of the page does: answered with JSON."""
        csrf = self.http.cookies.get("toolhub_csrf")
        return self.http.post(path, data={**fields, "csrfmiddlewaretoken": csrf}, headers=JSON)

    def try_tool(self, tool: int, user: str = "alice", **arguments: Any) -> dict[str, Any]:
        fields = {f"argument.{name}": str(value) for name, value in arguments.items()}
        answer = self.post(f"/admin/catalog/tool/{tool}/try/", user=user, **fields)
        assert answer.status_code == 200, (answer.status_code, answer.text[-2000:])
        found: dict[str, Any] = answer.json()
        return found

    def look(self, state: dict[str, Any]) -> dict[str, Any]:
        answer = self.http.get(state["addresses"]["state"], headers=JSON)
        assert answer.status_code == 200, answer.status_code
        found: dict[str, Any] = answer.json()
        return found

    def outcome(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state once it has ended."""
        seen = [state]

        def ended() -> bool:
            seen.append(self.look(state))
            return bool(seen[-1]["ended"])

        wait_until(ended, what="the end of a try")
        return seen[-1]
