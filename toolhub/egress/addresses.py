"""The addresses that connections may go to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias

from django.utils.translation import gettext_noop as _

from .errors import DeniedAddress, InvalidNetwork, PrivateAddress


@dataclass(frozen=True, slots=True)
class AllowedNetwork:
    """A network outside the public internet that an administrator listed, on one port or on all."""

    network: str
    port: int | None = None

    def __str__(self) -> str:
        if self.port is None:
            return self.network
        return f"[{self.network}]:{self.port}" if ":" in self.network else f"{self.network}:{self.port}"

    def covers(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        return (self.port is None or self.port == port) and address in ip_network(self.network)

    def is_within(self, others: Iterable[AllowedNetwork]) -> bool:
        """Return whether one of the others covers all of this one."""
        return any(_common_part(self, other) == self for other in others)


AllowList: TypeAlias = tuple[AllowedNetwork, ...]

# Addresses that `is_global` accepts although they lead into a private network, or nowhere.
_DENIED_NETWORKS: Final = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/3"),
        *("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16"),
        *("3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
)


def parse_allowed(entries: Iterable[str]) -> AllowList:
    """Parse networks such as `10.0.0.0/8`, `10.1.2.3:8080`, `127.0.0.0/8:8000`, `fd00::/8` or `[fd00::/8]:443`.

    Raises InvalidNetwork. The same entries are parsed once: requests ask for those of the settings again and again.
    """
    return _parse(tuple(entries))


@lru_cache(maxsize=64)
def _parse(entries: tuple[str, ...]) -> AllowList:
    allowed: list[AllowedNetwork] = []
    for entry in entries:
        text, port = entry.strip(), ""
        if match := re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text) or re.fullmatch(r"([^:]*):([^:]*)", text):
            text, port = match[1], match[2] or ""
            if not port and entry.strip().endswith(":"):
                raise InvalidNetwork(_("%(entry)s: a port must follow the last colon"), entry=repr(entry))
        try:
            network = ip_network(text)
        except ValueError as error:
            if "host bits" in str(error):
                wrong = _("%(entry)s has host bits set. Write a network such as 10.0.0.0/8 or 10.0.0.0/8:8080")
            else:
                wrong = _("%(entry)s is not a network such as 10.0.0.0/8 or 10.0.0.0/8:8080")
            raise InvalidNetwork(wrong, entry=repr(entry)) from None
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            raise InvalidNetwork(_("%(entry)s: the port must be a number from 1 to 65535"), entry=repr(entry))
        allowed.append(AllowedNetwork(str(network), int(port) if port else None))
    return tuple(allowed)


def intersect(first: AllowList, second: AllowList) -> AllowList:
    """Return the networks and ports that both lists cover."""
    found = (_common_part(one, other) for one in first for other in second)
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _common_part(one: AllowedNetwork, other: AllowedNetwork) -> AllowedNetwork | None:
    first, second = ip_network(one.network), ip_network(other.network)
    if not first.overlaps(second) or (one.port != other.port and None not in (one.port, other.port)):
        return None
    # Two networks that overlap are one inside of the other.
    smaller = first if first.prefixlen >= second.prefixlen else second
    return AllowedNetwork(str(smaller), other.port if one.port is None else one.port)


def check_address(ip: str, port: int, allowed: AllowList = ()) -> None:
    """Raise DeniedAddress for an address that is neither public nor in a listed network.

    It is a PrivateAddress where listing the network would help.
    """
    try:
        address = ip_address(ip)
    except ValueError:
        raise DeniedAddress(_("%(address)s is not an IP address"), address=ip) from None
    if isinstance(address, IPv6Address):
        if address.scope_id:
            raise DeniedAddress(_("%(address)s is limited to one network interface"), address=ip)
        address = address.ipv4_mapped or address
    if any(one.covers(address, port) for one in allowed):
        return
    if (
        not address.is_global
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or any(address.version == network.version and address in network for network in _DENIED_NETWORKS)
    ):
        outside = _(
            "%(address)s is not a public address. Add its network to TOOLHUB_ALLOW_PRIVATE_NETWORKS (for "
            "example 10.1.2.0/24:8080) and restart"
        )
        raise PrivateAddress(outside, address=ip)


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
