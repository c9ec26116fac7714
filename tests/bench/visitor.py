"""A visitor of the benchmarks: HTTP/1.1 with cookies, a new connection for each page, and the time of each."""

from __future__ import annotations

import http.client
import json
import re
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

TIMEOUT_SECONDS = 120.0
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
PASSWORD = "correct horse battery"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    location: str
    text: str
    seconds: float


class Visitor:
    def __init__(self, port: int, host: str = "") -> None:
        self.port, self.host = port, host or f"127.0.0.1:{port}"
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> Answer:
        headers = {"Host": self.host, "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        body = None
        if form is not None:
            body = urlencode(form)
            headers |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{self.host}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        began = time.perf_counter()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
        took = time.perf_counter() - began
        for name, value in response.getheaders():
            if name.lower() == "set-cookie":
                cookie, _, content = value.partition(";")[0].partition("=")
                self.cookies[cookie] = content
        return Answer(response.status, response.getheader("Location") or "", text, took)

    def get(self, path: str) -> Answer:
        answer = self.ask("GET", path)
        if answer.status != 200:
            raise SystemExit(f"{path} answered {answer.status} {answer.location}")
        return answer

    def get_json(self, path: str) -> Any:
        return json.loads(self.get(path).text)

    def post(self, path: str, form: dict[str, str]) -> Answer:
        """Send the form of a page, which is opened first."""
        token = TOKEN.search(self.get(path).text)
        assert token is not None, f"{path} has no form"
        answer = self.ask("POST", path, {"csrfmiddlewaretoken": token[1], **form})
        if answer.status != 200:
            raise SystemExit(f"{path} answered {answer.status}")
        return answer

    def sign_in(self, username: str, page: Answer | None = None) -> Answer:
        """Send the form of the sign-in page, which is opened first unless it is given."""
        token = TOKEN.search((page or self.get("/sign-in/")).text)
        assert token is not None, "the sign-in page has no form"
        form = {"csrfmiddlewaretoken": token[1], "username": username, "password": PASSWORD}
        answer = self.ask("POST", "/sign-in/", form)
        if answer.status != 302:
            raise SystemExit(f"The sign-in answered {answer.status}")
        return answer
