"""HTTPS server of the kubelets: container logs; exec, attach and port-forward are rejected.

Owns the paths that API servers request, and the self-signed serving certificate. The contents of
logs are logs'.
Upstream: pkg/kubelet/server/server.go, pkg/kubelet/kubelet_pods.go,
staging/src/k8s.io/client-go/util/cert GenerateSelfSignedCertKey
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubesched.api.times import parse_time
from kubesched.cluster.kubelet.containers import ContainerRun
from kubesched.cluster.kubelet.logs import ContainerLog, LogOptions, LogSource, read_log
from kubesched.cluster.kubelet.pod_runs import PodRun
from kubesched.kit.clock import Clock

_STOP_S_MAX: Final = 0.2
_TRUE: Final = ("true", "1")
_REJECTIONS: Final = {
    "exec": "there is no container to execute a command in",
    "attach": "there is no container to attach to",
    "portForward": "there is no container to forward a port to",
}
_CERTIFICATE_NAME: Final = "kubesched-kubelets"
_CERTIFICATE_LIFETIME: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class LogSources:
    """Lookups for the server."""

    run_of: Callable[[str, str], PodRun | None]
    """Returns the run of a pod by namespace and name."""
    static_log_of: Callable[[str, str], LogSource | None]
    """Returns the log of a static pod that another component writes."""


class _RejectedError(Exception):
    """A request that is rejected with a status code and a text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class KubeletServer:
    """One server for the kubelets of all nodes; the path names the pod."""

    def __init__(self, logs: LogSources, clock: Clock) -> None:
        self._logs = logs
        self._clock = clock
        self._runner: web.ServerRunner | None = None
        self._server: web.Server | None = None
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Start listening; port 0 selects a free one, which `port` then has."""
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._server = server
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_STOP_S_MAX)
        await self._runner.setup()
        tls = serving_context(address, self._clock.now_s())
        site = web.TCPSite(self._runner, address, port, ssl_context=tls, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is None or self._server is None:
            return
        transports = [
            connection.transport
            for connection in self._server.connections
            if connection.transport is not None
        ]
        await self._runner.cleanup()
        # A TLS shutdown waits for the peer, and the loop may be closed before.
        for transport in transports:
            transport.abort()
        await self._clock.sleep(0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        segments = request.path.strip("/").split("/")
        if segments == ["healthz"]:
            return web.Response(text="ok")
        if segments[0] in _REJECTIONS:
            return not_implemented(segments[0])
        if segments[0] != "containerLogs":
            return web.Response(status=404, text="404 page not found\n")
        if request.method != "GET":
            return web.Response(status=405, text="405: Method Not Allowed")
        try:
            source, options = self._log_request(segments[1:], request.query)
        except _RejectedError as rejected:
            return web.Response(status=rejected.code, text=rejected.text)
        return await self._stream(request, source, options)

    def _log_request(
        self, segments: list[str], query: Mapping[str, str]
    ) -> tuple[LogSource, LogOptions]:
        for index, missing in enumerate(("podNamespace", "podID", "container name")):
            if len(segments) <= index or not segments[index]:
                raise _RejectedError(400, f'{{"message": "Missing {missing}."}}')
        namespace, name, container = segments[:3]
        options = log_options(query, self._clock.now_s())
        run = self._logs.run_of(namespace, name)
        if run is None:
            raise _RejectedError(404, f'pod "{name}" does not exist')
        container_and_run = run.container(container)
        if container_and_run is None:
            raise _RejectedError(404, f'container "{container}" not found in pod "{name}"')
        is_previous = query.get("previous") in _TRUE
        run_index = _run_index(name, container_and_run[1], is_previous=is_previous)
        static_log = None if is_previous else self._logs.static_log_of(namespace, name)
        return static_log or ContainerLog(run, container_and_run[0], run_index), options

    async def _stream(
        self, request: web.BaseRequest, source: LogSource, options: LogOptions
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async for data in read_log(source, options, self._clock):
            await response.write(data)
        await response.write_eof()
        return response


def not_implemented(verb: str) -> web.Response:
    """Return the Status for a verb that needs a real container."""
    text = f"pods are simulated here: {_REJECTIONS[verb]}"
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": "NotImplemented",
        "code": 501,
    }
    return web.json_response(status, status=501)


def log_options(query: Mapping[str, str], now_s: float) -> LogOptions:
    """Parse the query of a log request.

    Parity: pkg/apis/core/validation/validation.go ValidatePodLogOptions, v1.36.
    """
    tail, limit = _number(query, "tailLines"), _number(query, "limitBytes")
    seconds, since = _number(query, "sinceSeconds"), query.get("sinceTime")
    is_bad = (
        (tail is not None and tail < 0)
        or (limit is not None and limit < 1)
        or (seconds is not None and (seconds < 1 or since))
    )
    if is_bad:
        raise _RejectedError(422, '{"message": "Invalid request."}')
    try:
        since_s = parse_time(since) if since else None if seconds is None else now_s - seconds
    except ValueError:
        raise _RejectedError(400, '{"message": "Unable to decode query."}') from None
    return LogOptions(
        follow=query.get("follow") in _TRUE,
        timestamps=query.get("timestamps") in _TRUE,
        tail_lines=tail,
        since_s=since_s,
        limit_bytes=limit,
    )


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise _RejectedError(400, '{"message": "Unable to decode query."}') from None


def _run_index(pod: str, run: ContainerRun, *, is_previous: bool) -> int:
    """Return the index of the requested run.

    Parity: pkg/kubelet/kubelet_pods.go validateContainerLogStatus, v1.36.
    """
    if is_previous:
        if run.terminated_run is None or run.is_terminated:
            text = f'previous terminated container "{run.name}" in pod "{pod}" not found'
            raise _RejectedError(400, text)
        return run.terminated_run.run_index
    if run.is_running:
        return run.restart_count
    if run.terminated_run is not None:
        return run.terminated_run.run_index
    text = f'container "{run.name}" in pod "{pod}" is waiting to start: {run.waiting_reason}'
    raise _RejectedError(400, text)


def serving_context(address: str, now_s: float) -> ssl.SSLContext:
    """Return a TLS server context with a self-signed certificate for an address."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(key, address, datetime.fromtimestamp(now_s, UTC))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # The standard library loads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="kubesched-") as directory:
        certificate_file, key_file = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.touch(mode=0o600)
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        context.load_cert_chain(certificate_file, key_file)
    return context


def _certificate(key: ec.EllipticCurvePrivateKey, address: str, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _CERTIFICATE_NAME)])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(address)))
    except ValueError:
        names.append(x509.DNSName(address))
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _CERTIFICATE_LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
