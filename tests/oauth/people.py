"""People in front of a browser: they sign in, read the question of the hub, and answer it."""

from __future__ import annotations

import contextlib
import html
import queue
import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

PASSWORD = "correct horse battery"
_FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
_ACTION = re.compile(r'<form method="post" action="([^"]+)" class="card consent"')


def seed() -> dict[str, str]:
    """alice and bob with passwords, and the examples of the end-to-end tests for them."""
    from django.contrib.auth.models import User

    from tests.e2e.seed import seed_examples

    tokens = seed_examples()
    for name in ("alice", "bob"):
        user = User.objects.get(username=name)
        user.set_password(PASSWORD)
        user.save()
    return tokens


def seed_read_only() -> dict[str, str]:
    """The same, with tools that all but `echo` need no `mcp:write` for."""
    from catalog.models import Tool

    tokens = seed()
    Tool.objects.exclude(name="echo").update(read_only=True)
    return tokens


class Callback:
    """The program on a person's computer that waits for the answer."""

    def __init__(self) -> None:
        self.answers: queue.Queue[dict[str, str]] = queue.Queue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = parse_qs(urlsplit(self.path).query)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<title>Connected</title>You can close this page.")
                if found:
                    outer.answers.put({name: values[0] for name, values in found.items()})

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/callback"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(30)


@contextlib.contextmanager
def callback() -> Iterator[Callback]:
    made = Callback()
    try:
        yield made
    finally:
        made.close()


def answer(url: str, trust: ssl.SSLContext, name: str = "alice", decision: str = "allow") -> str:
    """Open what the client opens, sign in, decide, and return the address that the browser is sent to."""
    sent = _decide(url, trust, name, decision)
    assert sent.status_code == 302, sent.text
    return str(sent.headers["location"])


def enter_code(url: str, trust: ssl.SSLContext, name: str = "alice", decision: str = "allow") -> str:
    """Open the address with the code of a program, sign in, decide, and return the page that says so."""
    sent = _decide(url, trust, name, decision)
    assert sent.status_code == 200, sent.text
    return str(sent.text)


def _decide(url: str, trust: ssl.SSLContext, name: str, decision: str) -> httpx2.Response:
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    with httpx2.Client(verify=trust, trust_env=False, timeout=60, follow_redirects=True) as browser:
        page = browser.get(url)
        assert "/sign-in/" in str(page.url), page.text
        fields = {name: html.unescape(value) for name, value in _FIELD.findall(page.text)}
        given = {**fields, "username": name, "password": PASSWORD}
        page = browser.post(page.url, data=given, headers={"Referer": str(page.url)})
        action = _ACTION.search(page.text)
        assert action is not None, page.text
        given = {**dict(_FIELD.findall(page.text)), "decision": decision, "access": "everything", "days": "30"}
        form = origin + html.unescape(action[1])
        return browser.post(form, data=given, headers={"Referer": str(page.url)}, follow_redirects=False)
