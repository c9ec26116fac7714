"""Services that example tools use: a weather API in the form of Open-Meteo's, and a mail server that keeps its mail."""

from __future__ import annotations

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PLACES = [
    {"name": "New York", "country": "United States", "latitude": 40.71, "longitude": -74.0},
    {"name": "New York", "admin1": "Texas", "country": "United States", "latitude": 32.17, "longitude": -95.67},
]
NOW = {"time": "2026-01-01T12:00", "temperature_2m": 12.5, "wind_speed_10m": 7.0, "precipitation": 0.2}


class WeatherService:
    """`asked` has the query of every request; `broken` is "status", "text" or "empty"."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken = ""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address = urlsplit(self.path)
                service.asked.append(address.query)
                name = parse_qs(address.query).get("name", [""])[0]
                found: Any = {"current": NOW}
                if address.path == "/search":
                    found = {"results": PLACES} if name == "New York" else {}
                body = json.dumps({} if service.broken == "empty" else found).encode()
                self.send_response(503 if service.broken == "status" else 200)
                self.end_headers()
                self.wfile.write(b"<html>" if service.broken == "text" else body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> WeatherService:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class MailSink:
    """A mail server (RFC 5321, as far as one client needs it) that refuses nobody@example.com."""

    def __init__(self) -> None:
        self.mails: list[dict[str, Any]] = []
        sink = self

        class Handler(socketserver.StreamRequestHandler):
            def say(self, line: str) -> None:
                self.wfile.write(f"{line}\r\n".encode())

            def handle(self) -> None:
                self.say("220 sink")
                mail: dict[str, Any] = {"sender": "", "recipients": []}
                while line := self.rfile.readline().decode().strip():
                    word = line[:4].upper()
                    address = line.partition("<")[2].partition(">")[0]
                    if word == "MAIL":
                        mail = {"sender": address, "recipients": []}
                    elif word == "RCPT" and address == "nobody@example.com":
                        self.say("550 no such user")
                        continue
                    elif word == "RCPT":
                        mail["recipients"].append(address)
                    elif word == "DATA":
                        self.say("354 go on")
                        lines = []
                        while (text := self.rfile.readline().decode()) not in (".\r\n", ""):
                            lines.append(text.removeprefix("."))
                        sink.mails.append({**mail, "data": "".join(lines)})
                    elif word == "QUIT":
                        self.say("221 bye")
                        return
                    self.say("250 ok")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> MailSink:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __exit__(self, *error: object) -> None:
        self.stop()
