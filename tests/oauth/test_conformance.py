"""The official conformance suite's scenarios for authorization servers: all of them, without a warning."""

from __future__ import annotations

import json
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.clients.report import clean_environment
from tests.conformance import suite
from tests.oauth import people
from tests.secure_hub import SecureHub

WAIT_SECONDS = 180


@pytest.fixture(scope="module")
def site() -> Iterator[SecureHub]:
    with SecureHub(seed=people.seed) as running:
        yield running


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def register(site: SecureHub, port: int) -> str:
    asked = {
        "client_name": "Conformance",
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
        "token_endpoint_auth_method": "none",
    }
    with httpx2.Client(verify=site.authority.trust(), trust_env=False) as http:
        answer = http.post(f"{site.url}/oauth/register", json=asked)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["client_id"])


@pytest.mark.node
def test_every_scenario_for_authorization_servers_is_green(site: SecureHub, tmp_path: Path) -> None:
    folder, port = suite.install(), find_free_port()
    node = folder / "node_modules" / "node" / "bin" / "node"
    entry = folder / "node_modules" / suite.PACKAGE / "dist" / "index.js"
    listed = subprocess.run(
        [node, entry, "list", "--authorization"], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
    )
    scenarios = {line.split()[1] for line in listed.stdout.splitlines() if line.strip().startswith("- ")}
    assert "authorization-code-grant" in scenarios, listed.stdout
    command = [node, entry, "authorization", "--url", site.url, "--client-id", register(site, port)]
    errors = tmp_path / "errors.log"
    with (
        errors.open("w") as log,
        subprocess.Popen(
            [*map(str, command), "--resource", site.mcp_url, "-p", str(port), "-o", str(tmp_path / "out")],
            cwd=tmp_path,
            env=clean_environment(tmp_path, NODE_EXTRA_CA_CERTS=str(site.authority.ca_file)),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as running,
    ):
        said = []
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line)
            if line.startswith(f"{site.url}/oauth/authorize?"):
                sent = people.answer(line.strip(), site.authority.trust())
                httpx2.get(sent, trust_env=False, timeout=WAIT_SECONDS)
        status = running.wait(WAIT_SECONDS)
    output = "".join(said) + errors.read_text()
    assert status == 0, output
    checks = [
        check for path in sorted((tmp_path / "out").rglob("checks.json")) for check in json.loads(path.read_text())
    ]
    assert Counter(check["status"] for check in checks) == {"SUCCESS": len(checks)}, output
    assert {
        name for name in scenarios if any(check["id"].startswith(name.removesuffix("-endpoint")) for check in checks)
    } == (scenarios), output
