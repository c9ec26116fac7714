"""A hub as strangers meet it: behind nginx with TLS, at an address of its own, with a test authority for certificates.

with SecureHub(workers=2) as site:
    site.url                        https://localhost:PORT, which is also its TOOLHUB_PUBLIC_URL
    site.documents["/client.json"]  what the web server for client documents answers
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests import nginx
from tests.nginx import read_location
from tests.real_servers import Hub


class Authority:
    """An authority and a certificate for localhost, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.ca_file, self.certificate_file, self.key_file = (
            folder / name for name in ("ca.pem", "localhost.pem", "localhost.key")
        )
        ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        ca = self._start(ca_name, ca_name, ca_key).add_extension(x509.BasicConstraints(True, 0), True)
        ca_identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
        ca = ca.add_extension(ca_identifier, False).add_extension(
            x509.KeyUsage(False, False, False, False, False, True, True, False, False), True
        )
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        mine = self._start(name, ca_name, key).add_extension(names, False)
        mine = mine.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_identifier), False
        ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        pem = serialization.Encoding.PEM
        self.ca_file.write_bytes(ca.sign(ca_key, hashes.SHA256()).public_bytes(pem))
        self.certificate_file.write_bytes(mine.sign(ca_key, hashes.SHA256()).public_bytes(pem))
        self.key_file.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )

    def _start(self, name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    def trust(self) -> ssl.SSLContext:
        """What a client needs that trusts this authority alone."""
        return ssl.create_default_context(cafile=str(self.ca_file))


class Documents:
    """A web server with TLS that answers with what is put into it, and knows what it was asked for."""

    def __init__(self, authority: Authority) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                found = outer.answers.get(self.path)
                status, kind, body, more = 404, "text/plain", b"", {}
                if callable(found):
                    status, kind, body, more = found()
                elif found is not None:
                    status, kind, body = 200, "application/json", json.dumps(found).encode()
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.certificate_file, authority.key_file)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(30)

    def describe(self, path: str, redirect_uri: str, **changes: Any) -> str:
        """Put the document of a client there, and return its address, which is the client's id."""
        self.answers[path] = {
            "client_id": f"{self.url}{path}",
            "client_name": "Documented client",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            **changes,
        }
        return f"{self.url}{path}"


class SecureHub:
    def __init__(
        self, *, seed: Callable[..., Any] | None = None, env: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        self._seed, self._env, self._options = seed, dict(env or {}), options
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thub-tls-")))
            self.authority = Authority(self.folder)
            self.documents = Documents(self.authority)
            stack.callback(self.documents.close)
            listener = stack.enter_context(nginx.listen())
            self.port = int(listener.getsockname()[1])
            self.url = f"https://localhost:{self.port}"
            env = {
                "TOOLHUB_PUBLIC_URL": self.url,
                "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1",
                "TOOLHUB_CA_FILE": str(self.authority.ca_file),
                "TOOLHUB_CLIENT_NETWORKS": "127.0.0.0/8,::1/128",
                **self._env,
            }
            self.hub = stack.enter_context(Hub(env=env, seed=self._seed, **self._options))
            stack.enter_context(self._run_nginx(listener))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @property
    def mcp_url(self) -> str:
        return f"{self.url}/mcp"

    def _run_nginx(self, listener: Any) -> Any:
        location = read_location().replace(nginx.PASS, f"proxy_pass http://127.0.0.1:{self.hub.port};")
        content = (
            f"server {{ listen 127.0.0.1:{self.port} ssl; "
            f"ssl_certificate {self.authority.certificate_file}; ssl_certificate_key {self.authority.key_file}; "
            f"{location} }}"
        )
        folder = self.folder / "nginx"
        folder.mkdir()
        trust = self.authority.trust()
        return nginx.run(content, [listener], folder, lambda: nginx.answers(self.port, trust))
