"""A browser without a screen: it signs in, opens a page, fills in its form and sends it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any, Self

import httpx2

from tests.e2e.proofs import PASSWORD
from tests.real_servers import Hub


class Forms(HTMLParser):
    """The fields of every form, as a browser would send them."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[list[tuple[str, str]]] = []
        self._select = self._area = ""
        self._text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.forms.append([])
        if not self.forms:
            return
        name, form = given.get("name", ""), self.forms[-1]
        if tag == "input" and name:
            kind = given.get("type", "text")
            if kind in ("checkbox", "radio"):
                if "checked" in given:
                    form.append((name, given.get("value", "on")))
            elif kind not in ("submit", "button", "file", "image"):
                form.append((name, given.get("value", "")))
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and "selected" in given:
            form.append((self._select, given.get("value", "")))
        elif tag == "textarea":
            self._area, self._text = name, ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""
        elif tag == "textarea" and self._area:
            self.forms[-1].append((self._area, self._text.removeprefix("\n")))
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self._text += data


class Pages:
    """One person's browser, on one connection."""

    def __init__(self, hub: Hub, user: str) -> None:
        self.user = user
        limits = httpx2.Limits(max_connections=1, keepalive_expiry=600)
        self.http = httpx2.AsyncClient(base_url=hub.url, timeout=60, trust_env=False, limits=limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def get(self, path: str) -> str:
        response = await self.http.get(path)
        assert response.status_code == 200, (path, response.status_code, response.text[-2000:])
        return response.text

    async def sign_in(self) -> None:
        await self.send("/sign-in/", username=self.user, password=PASSWORD)

    async def send(self, path: str, /, to: str = "", **changes: Any) -> httpx2.Response:
        """Open the page, change these fields of its largest form, and send it; refused ones fail."""
        parser = Forms()
        parser.feed(await self.get(path))
        form = max(parser.forms, key=len)
        fields: dict[str, Any] = {}
        for name, value in form:
            fields.setdefault(name, []).append(value)
        for name, value in changes.items():
            fields.pop(name, None)
            if value is not None:
                fields[name] = value if isinstance(value, list) else [str(value)]
        response = await self.http.post(to or path, data=fields)
        assert response.status_code == 302, (path, response.status_code, errors(response.text))
        return response


def errors(page: str) -> str:
    at = page.find("error")
    return page[max(0, at - 500) : at + 2000]
