"""The only way out over HTTP: no unlisted private addresses, no redirects, no proxies, no unlimited answers."""

from __future__ import annotations

from .addresses import AllowedNetwork, AllowList, check_address, intersect, parse_allowed
from .client import Reply, fetch
from .connections import ConnectionPools, Resolver
from .errors import DeadlineExceeded, Denied, DeniedAddress, EgressError, PrivateAddress, TooLarge, Unreachable
from .names import NameResolver
from .transport import EgressTransportError, checked_client
from .urls import ensure_below, origin_of, parse_url, safe_path_value

__all__ = [
    "AllowList",
    "AllowedNetwork",
    "ConnectionPools",
    "DeadlineExceeded",
    "Denied",
    "DeniedAddress",
    "EgressError",
    "EgressTransportError",
    "NameResolver",
    "PrivateAddress",
    "Reply",
    "Resolver",
    "TooLarge",
    "Unreachable",
    "check_address",
    "checked_client",
    "ensure_below",
    "fetch",
    "intersect",
    "origin_of",
    "parse_allowed",
    "parse_url",
    "safe_path_value",
]
