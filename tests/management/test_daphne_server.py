"""How many new connections are taken before those that are there get their turn."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from twisted.internet.protocol import Factory
from twisted.internet.tcp import Port

from toolhub.management.daphne_server import MAX_ACCEPTS, HubServer

WAITING = 3 * MAX_ACCEPTS


class Reactor:
    """Calls nothing by itself."""

    def addReader(self, reader: Any) -> None:
        pass


class CountingFactory(Factory):
    count = 0

    def buildProtocol(self, addr: Any) -> None:
        self.count += 1


def test_a_crowd_of_new_connections_comes_in_bounded_groups() -> None:
    server = HubServer(None, endpoints=["tcp:0"], on_start=None, on_stop=None)
    server.ws_factory = Factory()
    factory: Any = CountingFactory()
    port = Port(0, factory, backlog=WAITING, interface="127.0.0.1", reactor=Reactor())
    port.startListening()
    server.listen_success(port)
    port.factory = counting = CountingFactory()
    with contextlib.ExitStack() as stack:
        stack.callback(port.socket.close)
        for _ in range(WAITING):
            stack.enter_context(socket.create_connection(port.socket.getsockname()))
        taken = []
        for _ in range(3):
            before = counting.count
            port.doRead()
            taken.append(counting.count - before)
    assert taken == [MAX_ACCEPTS] * 3
