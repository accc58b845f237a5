"""An ops server with an API server, and clients with tokens and certificates."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.cluster.launch.http import Response
from kubesched.cluster.launch.loop_thread import LoopThread
from kubesched.cluster.launch.server import SCHEDULER, ApiServer, TokenUser
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.metrics.process import SliMetrics
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.ops.server import OpsServer
from kubesched.ops.serving import ServingSettings
from kubesched.ops.sources import OpsSources, StatuszInfo

START_S = 1_794_802_508.86
_WAIT_S = 30


@dataclass
class World:
    """A running server and its sources."""

    server: OpsServer
    thread: LoopThread
    url: str
    log: Log
    failing: dict[str, str] = field(default_factory=dict)
    """The problems of checks by name."""

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine on the server's loop."""
        return self.thread.run(coroutine)


@contextmanager
def ops_world(
    cluster: ApiServer | None,
    *,
    settings: ServingSettings | None = None,
    user: TokenUser = SCHEDULER,
    log: Log | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
    **parts: Any,
) -> Iterator[World]:
    """Run an ops server that creates reviews as a user; without an API server if None."""
    lines = log or NullLog()
    failing: dict[str, str] = {}
    clients: list[Client] = []

    async def start() -> OpsServer:
        sources = {**default_sources(lines, failing), **parts}
        if cluster is not None:
            access = load_access(kubeconfig=str(cluster.kubeconfigs[user.name]))
            clock = SystemClock()
            client = Client(access, user_agent="test", clock=clock, log=NullLog())
            clients.append(client)
            sources |= {"authentication_client": client, "authorization_client": client}
        serving = settings or ServingSettings()
        if serving.port == 10259:
            serving = replace(serving, port=0, bind_address="127.0.0.1")
        server = OpsServer(serving, OpsSources(**sources))
        await server.start()
        return server

    async def stop(server: OpsServer | None) -> None:
        if server is not None:
            await server.stop()
        for client in clients:
            await client.close()

    server = None
    with LoopThread("ops-server", loop or asyncio.new_event_loop()) as thread:
        try:
            server = thread.run(start())
            yield World(server, thread, server.url, lines, failing)
        finally:
            thread.run(stop(server))


def default_sources(log: Log, failing: Mapping[str, str]) -> dict[str, Any]:
    def check(name: str) -> Any:
        return lambda: failing.get(name)

    return {
        "log": log,
        "clock": SystemClock(),
        "metrics": SchedulerMetrics(),
        "slis": SliMetrics(),
        "configz": lambda: {"kind": "KubeSchedulerConfiguration", "parallelism": 16},
        "statusz": StatuszInfo(START_S),
        "healthz": {"leaderElection": check("leaderElection")},
        "readyz": {
            name: check(name) for name in ("leaderElection", "shutdown", "sched-handler-sync")
        },
        "resource_metrics": lambda: "",
        "flagz": lambda: {"v": "2", "leader-elect": "true", "bind-address": "0.0.0.0"},
        "explain": lambda key: b'{"pod":"a/b"}' if key == "a/b" else None,
    }


@dataclass(frozen=True)
class ClientCertificate:
    """A client certificate."""

    certificate: Path
    key: Path


def certificates(cluster: ApiServer, directory: Path) -> dict[str, ClientCertificate]:
    """Return client certificates by name, signed by the cluster's authority or by others."""
    assert cluster.authority_key is not None
    assert cluster.ca_file is not None
    key = serialization.load_pem_private_key(cluster.authority_key.read_bytes(), None)
    authority = x509.load_pem_x509_certificate(cluster.ca_file.read_bytes())
    client = ExtendedKeyUsageOID.CLIENT_AUTH
    return {
        "admin": signed(directory, "boss", ["system:masters"], authority.subject, key, client),
        "user": signed(directory, "jane", ["dev", "ops"], authority.subject, key, client),
        "front": signed(directory, "front", [], authority.subject, key, client),
        "nameless": signed(directory, "", ["dev"], authority.subject, key, client),
    }


def signed(
    directory: Path,
    name: str,
    groups: list[str],
    issuer: x509.Name | None = None,
    issuer_key: Any = None,
    usage: Any = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> ClientCertificate:
    """Return a new certificate; self-signed without an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if name:
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    start = datetime(2020, 1, 1, tzinfo=UTC)
    subject = x509.Name(parts)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36_500))
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name or "nameless")]), critical=False
        )
        .sign(issuer_key or key, hashes.SHA256())
    )
    pair = ClientCertificate(
        directory / f"{name or 'nameless'}.crt", directory / f"{name or 'nameless'}.key"
    )
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pair


def send_request(
    url: str,
    path: str,
    *,
    method: str = "GET",
    token: str | None = None,
    certificate: ClientCertificate | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Response:
    """Send one request on a new connection, with no other headers than these."""
    with connected(url, certificate) as connection:
        connection.putrequest(method, path, skip_accept_encoding=True)
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None:
            sent["Content-Length"] = str(len(body))
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return Response(response.status, response.headers, response.read())


@contextmanager
def connected(
    url: str, certificate: ClientCertificate | None = None
) -> Iterator[http.client.HTTPSConnection]:
    """Open a connection that trusts any server."""
    place = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    connection = http.client.HTTPSConnection(
        place.hostname or "", place.port, timeout=_WAIT_S, context=context
    )
    try:
        yield connection
    finally:
        connection.close()
