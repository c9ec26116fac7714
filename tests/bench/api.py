"""The HTTP API that the tool `remote_add` calls: `python -m tests.bench.api PORT`. Adds `a` and `b` of the query."""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit


class Api(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            target, self.buffer = self.buffer.split(b" ", 2)[1].decode(), self.buffer[end + 4 :]
            query = parse_qs(urlsplit(target).query)
            body = b'{"sum":%d}' % sum(int(query.get(name, ["0"])[0]) for name in ("a", "b"))
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self.transport.write(head + body)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Api, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
