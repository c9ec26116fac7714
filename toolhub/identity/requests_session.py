"""The session with which the library sends requests to identity providers: all of them go through `toolhub.egress`."""

from __future__ import annotations

from typing import Any

import requests
from asgiref.sync import async_to_sync
from django.conf import settings
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from toolhub import egress
from toolhub.parts import parts

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 1_000_000


class Session(requests.Session):
    """A session that reaches public addresses and TOOLHUB_SIGN_IN_NETWORKS, and follows no redirects."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.adapters.clear()
        for scheme in ("https://", "http://"):
            self.mount(scheme, _EgressAdapter())

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Send one request. Raises requests.RequestException."""
        return super().request(method, url, *args, **{**options, "allow_redirects": False})


class _EgressAdapter(BaseAdapter):
    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        body = request.body.encode() if isinstance(request.body, str) else request.body
        own = {"content-length", "connection", "accept-encoding", "host"}
        try:
            reply = async_to_sync(egress.fetch)(
                str(request.method),
                str(request.url),
                headers={name: str(value) for name, value in request.headers.items() if name.lower() not in own},
                content=body if isinstance(body, bytes) else None,
                timeout=TIMEOUT_SECONDS,
                max_bytes=MAX_ANSWER_BYTES,
                resolver=parts.get(egress.NameResolver).resolve,
                allowed=egress.parse_allowed(settings.SIGN_IN_NETWORKS),
            )
        except egress.EgressError as error:
            raise requests.ConnectionError(str(error), request=request) from error
        response = requests.Response()
        response.status_code = reply.status
        response._content = reply.body
        response.headers = CaseInsensitiveDict({"content-type": "", **reply.headers})
        response.url = str(request.url)
        response.encoding = "utf-8"
        response.request = request
        return response

    def close(self) -> None:
        """Close nothing: every request has its own connection."""
