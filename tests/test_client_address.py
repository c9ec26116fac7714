"""The client behind trusted proxies: what they say is believed, what the client says is not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from toolhub import env
from toolhub.client_address import MAX_HOPS, Client, TrustedProxies, counted, parse_address

ROOT = Path(__file__).resolve().parents[1]
PROXIES = TrustedProxies([ip_network("10.0.0.0/8"), ip_network("127.0.0.1"), ip_network("2001:db8:aaaa::/48")])
PEER, CLIENT = "10.0.0.1", "198.51.100.7"


def find(*lines: tuple[str, str], peer: str = PEER) -> Client:
    return PROXIES.find_client(peer, [(name.encode(), value.encode("latin-1")) for name, value in lines])


def find_address(*values: str, peer: str = PEER) -> str:
    return find(*(("x-forwarded-for", value) for value in values), peer=peer).address


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], PEER, id="nothing said"),
        pytest.param([""], PEER, id="an empty header"),
        pytest.param([CLIENT], CLIENT, id="one proxy"),
        pytest.param([f"{CLIENT}, 10.0.0.2, 127.0.0.1"], CLIENT, id="three proxies"),
        pytest.param([f"1.2.3.4, {CLIENT}"], CLIENT, id="a spoofed left part"),
        pytest.param([f"10.0.0.9, {CLIENT}, 10.0.0.2"], CLIENT, id="a spoofed trusted address"),
        pytest.param([f"<script>, {CLIENT}"], CLIENT, id="junk on the left"),
        pytest.param(["1.2.3.4", CLIENT], CLIENT, id="two lines"),
        pytest.param([CLIENT, "10.0.0.2"], CLIENT, id="two lines of two proxies"),
        pytest.param([f"{CLIENT},"], CLIENT, id="an empty entry"),
        pytest.param(["10.0.0.7"], "10.0.0.7", id="a client in the trusted network"),
        pytest.param([f"{CLIENT}:4711"], CLIENT, id="a port"),
        pytest.param(["2001:db8::1"], "2001:db8::1", id="IPv6"),
        pytest.param(["[2001:db8::1]"], "2001:db8::1", id="IPv6 in brackets"),
        pytest.param(["[2001:db8::1]:4711"], "2001:db8::1", id="IPv6 with a port"),
        pytest.param(["2001:0DB8:0::1"], "2001:db8::1", id="another spelling of IPv6"),
        pytest.param([f"::ffff:{CLIENT}"], CLIENT, id="IPv4 mapped into IPv6"),
        pytest.param([f"{CLIENT}, ::ffff:10.0.0.2"], CLIENT, id="a mapped proxy"),
        pytest.param([f"{CLIENT}, 2001:db8:aaaa::9"], CLIENT, id="a proxy with IPv6"),
        pytest.param(["unknown"], PEER, id="unknown"),
        pytest.param([f"{CLIENT}, unknown"], PEER, id="an unknown hop hides what is left of it"),
        pytest.param([f"{CLIENT}, _hidden, 10.0.0.2"], "10.0.0.2", id="the last hop that is known"),
        pytest.param([f"{CLIENT}:port"], PEER, id="a bad port"),
        pytest.param([f"{CLIENT}:123456"], PEER, id="a long port"),
        pytest.param(["[2001:db8::1"], PEER, id="an open bracket"),
        pytest.param(["[2001:db8::1]x"], PEER, id="something after the bracket"),
        pytest.param(["fe80::1%eth0"], PEER, id="a zone"),
        pytest.param(["198.51.100.07"], PEER, id="a leading zero"),
        pytest.param(["198.51.100.7/24"], PEER, id="a network"),
        pytest.param(["\xb2.1.1.1"], PEER, id="other digits"),
        pytest.param(["9" * 10_000], PEER, id="a long entry"),
    ],
)
def test_the_client_is_the_first_hop_from_the_right_that_is_no_trusted_proxy(values: list[str], expected: str) -> None:
    assert find_address(*values) == expected


@pytest.mark.parametrize("peer", ["198.51.100.9", "2001:db8::9", "", "unix"])
def test_a_peer_that_is_no_trusted_proxy_is_not_believed(peer: str) -> None:
    said = [("x-forwarded-for", "1.2.3.4"), ("forwarded", "for=1.2.3.4;proto=https"), ("x-forwarded-proto", "https")]
    assert find(*said, ("x-forwarded-host", "evil.example"), peer=peer) == Client(peer)


def test_a_mapped_peer_is_its_ipv4_address() -> None:
    assert find_address(CLIENT, peer="::ffff:10.0.0.1") == CLIENT
    assert find_address("1.2.3.4", peer="::ffff:198.51.100.9") == "198.51.100.9"


def test_a_chain_of_too_many_proxies_ends_where_reading_does() -> None:
    chain = ", ".join(["1.2.3.4", *(f"10.0.1.{number}" for number in range(MAX_HOPS + 5))])
    assert find_address(chain) == "10.0.1.5"
    long = ", ".join(["1.2.3.4"] * 100_000)
    assert find_address(f"{long}, {CLIENT}") == CLIENT


@pytest.mark.parametrize(
    ("value", "address", "scheme", "host"),
    [
        (f"for={CLIENT};proto=https;host=tools.example.com", CLIENT, "https", "tools.example.com"),
        ('For="[2001:db8::1]:4711";Proto="https", for=10.0.0.2;proto=http', "2001:db8::1", "https", ""),
        (f"for=1.2.3.4;proto=https, for={CLIENT};proto=http", CLIENT, "http", ""),
        ("for=unknown;proto=https", PEER, "https", ""),
        ("proto=https", PEER, "https", ""),
        ("nonsense", PEER, "", ""),
    ],
)
def test_the_standard_header_is_read_where_the_usual_one_is_missing(
    value: str, address: str, scheme: str, host: str
) -> None:
    assert find(("forwarded", value)) == Client(address, scheme, host)
    assert find(("forwarded", value), ("x-forwarded-for", "203.0.113.1")).address == "203.0.113.1"


@pytest.mark.parametrize(
    ("hops", "values", "expected"),
    [
        (CLIENT, ["https"], "https"),
        (CLIENT, ["HTTPS"], "https"),
        (CLIENT, ["wss"], "https"),
        (CLIENT, ["ws"], "http"),
        (CLIENT, ["http"], "http"),
        (CLIENT, ["https, http"], "http"),
        (CLIENT, ["https", "http"], "http"),
        (f"{CLIENT}, 10.0.0.2", ["https, http"], "https"),
        (f"{CLIENT}, 10.0.0.2", ["https"], "https"),
        (f"{CLIENT}, 10.0.0.2", ["https, http, http"], "http"),
        (CLIENT, ["javascript"], ""),
        (CLIENT, [""], ""),
        (CLIENT, [], ""),
    ],
)
def test_the_scheme_is_what_the_outermost_trusted_proxy_wrote(hops: str, values: list[str], expected: str) -> None:
    lines = [("x-forwarded-for", hops), *(("x-forwarded-proto", value) for value in values)]
    assert find(*lines).scheme == expected


def rewrite(peer: str, kind: str = "http", **headers: str) -> dict[str, Any]:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": kind, "client": [peer, 5], "scheme": "http", "headers": raw}
    PROXIES.rewrite(scope)
    return scope


@pytest.mark.parametrize(("kind", "scheme"), [("http", "https"), ("websocket", "wss")])
def test_a_connection_gets_the_address_scheme_and_host_of_its_client(kind: str, scheme: str) -> None:
    said = {"x_forwarded_for": CLIENT, "x_forwarded_proto": "https", "x_forwarded_host": "tools.example.com"}
    scope = rewrite(PEER, kind, host="10.0.0.5:8000", accept="*/*", **said)
    assert (scope["client"][0], scope["scheme"]) == (CLIENT, scheme)
    assert scope["headers"] == [(b"accept", b"*/*"), (b"host", b"tools.example.com")]


def test_what_others_say_about_themselves_reaches_no_application() -> None:
    said = {
        "x_forwarded_for": "1.2.3.4",
        "x_forwarded_proto": "https",
        "x_forwarded_host": "evil",
        "forwarded": "for=1",
    }
    scope = rewrite("198.51.100.9", host="localhost", x_real_ip="1.2.3.4", **said)
    assert (scope["client"], scope["scheme"]) == (["198.51.100.9", 5], "http")
    assert scope["headers"] == [(b"host", b"localhost")]


def test_a_connection_without_an_address_is_left_alone() -> None:
    scope: dict[str, Any] = {"type": "http", "client": None, "headers": [(b"x-forwarded-for", b"1.2.3.4")]}
    PROXIES.rewrite(scope)
    assert scope["client"] is None


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("", ""),
        ("testserver", "testserver"),
    ],
)
def test_failures_count_for_an_ipv4_address_or_a_network_of_ipv6(address: str, expected: str) -> None:
    assert counted(address) == expected


def test_only_an_address_is_one() -> None:
    assert parse_address("tools.example.com") is None
    assert str(parse_address('"[2001:db8::1]:80"')) == "2001:db8::1"


@pytest.mark.parametrize("value", ["10.0.0.1/8", "proxy.internal", "10.0.0.0/33", "*", "::ffff:10.0.0.0/104"])
def test_a_proxy_that_is_no_network_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_TRUSTED_PROXIES", f"127.0.0.1,{value}")
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_TRUSTED_PROXIES must list networks"):
        env.networks("TOOLHUB_TRUSTED_PROXIES")


def test_networks_and_addresses_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_TRUSTED_PROXIES", "127.0.0.1, 10.0.3.0/28,2001:db8::/64")
    found = [str(network) for network in env.networks("TOOLHUB_TRUSTED_PROXIES")]
    assert found == ["127.0.0.1/32", "10.0.3.0/28", "2001:db8::/64"]


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "DJANGO_SETTINGS_MODULE": "toolhub.settings", "TOOLHUB_DATA_DIR": folder, **environment}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("command", [("check",), ("serve", "--port", "0")])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TOOLHUB_TRUSTED_PROXIES", "127.0.0.1,0.0.0.0/0", "0.0.0.0/0 trusts clients, too"),
        ("TOOLHUB_TRUSTED_PROXIES", "proxy", "must list networks such as 10.0.0.0/8"),
        ("TOOLHUB_BEHIND_PROXY", "yes", "list the addresses of your reverse proxies in TOOLHUB_TRUSTED_PROXIES"),
    ],
)
def test_a_dangerous_setting_is_named_before_anything_is_served(
    command: tuple[str, ...], name: str, value: str, said: str
) -> None:
    done = manage("manage.py", *command, **{name: value})
    assert done.returncode != 0 and said in " ".join(done.stderr.split())


def test_the_proxy_options_of_daphne_are_refused() -> None:
    code = (
        "import django; django.setup()\n"
        "from toolhub.management.daphne_server import HubServer\n"
        "HubServer(None, on_start=None, on_stop=None, proxy_forwarded_address_header='X-Forwarded-For')"
    )
    done = manage("-c", code)
    assert done.returncode != 0 and "set TOOLHUB_TRUSTED_PROXIES instead" in done.stderr
