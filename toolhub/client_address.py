"""The address, scheme and host of a client behind trusted proxies, and the network that its failures count for.

    client = TrustedProxies(networks).find_client("10.0.0.2", scope["headers"])

Each proxy appends the address that it received the request from to X-Forwarded-For, so only the right end can be
believed: from the peer of the connection leftwards, as long as each hop is a trusted proxy. The first hop that is none
is the client, whatever the list says further left. Without a trusted peer every such header is ignored.

Pure: no settings, no Django. `toolhub.routing` applies it to the scope of every connection, before any application
reads it, so that pages, /mcp, WebSockets, counters and the audit log have one answer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

MAX_HOPS = 32
"""Maximum number of entries that are read, from the right; a longer chain of trusted proxies ends there."""
MAX_ADDRESS_CHARACTERS = 45
SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
"""Schemes that proxies name, some of them by the protocol of a WebSocket."""
COUNTED_IPV6_PREFIX = 64
"""Bits of an IPv6 address that count as one client: one subscriber has at least so many addresses."""
SUBSCRIBER_IPV6_PREFIX = 48
"""Bits that one subscriber may have to itself (RFC 6177: a site gets a /48 to a /64)."""
HEADERS = frozenset(
    {
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    }
)
"""What proxies say about the client; removed from the scope once it is read."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a connection, as far as it can be believed."""

    address: str
    """Its IP address; "" when the peer has none."""
    scheme: str = ""
    """http or https, between the client and the first trusted proxy; "" when no trusted proxy says it."""
    host: str = ""
    """The host that the client asked for; "" when no trusted proxy says it."""


class TrustedProxies:
    """The networks of the proxies whose headers are believed."""

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self.networks = tuple(networks)

    def trusts(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.networks)

    def find_client(self, peer: str, headers: Headers) -> Client:
        """Return the client of a connection from `peer`; the names of the headers are in lower case."""
        address = parse_address(peer)
        if address is None or not self.trusts(address):
            return Client(peer if address is None else str(address))
        found = _join(headers)
        # Proxies that write `Forwarded` instead must remove an X-Forwarded-For that the client sent.
        standard = [_parse_forwarded(part) for part in _split(found.get(b"forwarded", ""))]
        use_standard = b"x-forwarded-for" not in found and bool(standard)
        hops = [hop.get("for", "") for hop in standard] if use_standard else _split(found.get(b"x-forwarded-for", ""))
        passed = 0
        for text in hops:
            passed += 1
            hop = parse_address(text)
            if hop is None:
                break
            address = hop
            if not self.trusts(hop):
                break
        if use_standard:
            schemes, hosts = ([hop.get(name, "") for hop in standard] for name in ("proto", "host"))
        else:
            schemes, hosts = (_split(found.get(name, "")) for name in (b"x-forwarded-proto", b"x-forwarded-host"))
        scheme = SCHEMES.get(_choose(schemes, passed).lower(), "")
        return Client(str(address), scheme, _choose(hosts, passed))

    def rewrite(self, scope: MutableMapping[str, Any]) -> None:
        """Give a connection the address, scheme and host of its client, and remove the headers that name them."""
        peer = scope.get("client")
        client = self.find_client(peer[0] if peer else "", scope["headers"])
        if peer and client.address != peer[0]:
            scope["client"] = [client.address, 0]
        if client.scheme:
            secure = client.scheme == "https"
            plain = "ws" if scope["type"] == "websocket" else "http"
            scope["scheme"] = f"{plain}s" if secure else plain
        kept = [(name, value) for name, value in scope["headers"] if name not in HEADERS]
        if client.host:
            kept = [(name, value) for name, value in kept if name != b"host"]
            kept.append((b"host", client.host.encode("latin-1")))
        scope["headers"] = kept


def parse_address(text: str) -> Address | None:
    """Return an IP address, with or without a port, brackets or quotes; None for anything else.

    An IPv4 address that is mapped into IPv6 is the IPv4 address.
    """
    host = text.strip().strip('"')
    if host.startswith("["):
        host, bracket, rest = host[1:].partition("]")
        if not bracket or (rest and not _is_port(rest)):
            return None
    elif host.count(":") == 1:
        host, _, rest = host.partition(":")
        if not _is_port(f":{rest}"):
            return None
    if not host or len(host) > MAX_ADDRESS_CHARACTERS or "%" in host:
        return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def parse_network(text: str) -> Network:
    """Return a network, such as 10.0.0.0/8, or a single address. Raises ValueError with the reason."""
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise ValueError(f"{text} is IPv4 written as IPv6: write it as IPv4")
    return network


def counted(address: str) -> str:
    """Return the text under which the failures of this address are counted: IPv6 counts by /64."""
    found = parse_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((found, COUNTED_IPV6_PREFIX), strict=False))
    return address if found is None else str(found)


@lru_cache(maxsize=4096)
def subscriber_network(counted_address: str) -> str:
    """Return the /48 network of an IPv6 address as `counted` returns it; "" for any other address."""
    if not counted_address.endswith(f"/{COUNTED_IPV6_PREFIX}"):
        return ""
    network = ipaddress.IPv6Network(counted_address)
    return str(network.supernet(new_prefix=SUBSCRIBER_IPV6_PREFIX))


def _join(headers: Headers) -> dict[bytes, str]:
    """Return the headers about the client; several lines of one name are one list."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in HEADERS:
            text = value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    return found


def _split(value: str) -> list[str]:
    """Return the last entries of a list, from the right, without empty ones."""
    parts = [part.strip() for part in value.rsplit(",", MAX_HOPS)[-MAX_HOPS:]]
    return [part for part in reversed(parts) if part]


def _choose(values: list[str], passed: int) -> str:
    """Return the value that the outermost trusted proxy wrote: one for each proxy, or a single one for all."""
    return values[min(max(passed, 1), len(values)) - 1] if values else ""


def _parse_forwarded(part: str) -> dict[str, str]:
    """Return the pairs of one hop in `Forwarded` (RFC 7239)."""
    pairs = (pair.partition("=") for pair in part.split(";"))
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _is_port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdecimal() and len(text) <= 6
