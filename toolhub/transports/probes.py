"""The probes /healthz (the process is up) and /readyz (it can take calls), answered without Django."""

from __future__ import annotations

import json

from audit import recorder
from toolhub.transports.asgi import JSON, TEXT, Receive, Scope, Send, respond


async def healthz(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, TEXT, b"ok\n")


async def readyz(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200, or 503 with the reason; a load balancer stops sending calls here."""
    reason = await recorder.ready()
    body = json.dumps({"ready": reason is None, "reason": reason or ""}).encode() + b"\n"
    await respond(send, 200 if reason is None else 503, JSON, body)
