"""The HTTPS server of the kubelets: logs, and a refusal of what needs a real container.

Owns the paths that API servers ask kubelets for, and their answers. Never decides what a log says:
logs does.
Upstream: pkg/kubelet/server/server.go, pkg/kubelet/kubelet_pods.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from kubesched.kit.clock import Clock
from kubesched.kubelet.certificate import serving_context
from kubesched.kubelet.containers import ContainerRun
from kubesched.kubelet.logs import ContainerLog, LogOptions, LogSource, read_log
from kubesched.kubelet.pod_runs import PodRun
from kubesched.objects.times import parse_time

_STOP_S_MAX: Final = 0.2
_TRUE: Final = ("true", "1")
_REFUSALS: Final = {
    "exec": "there is nothing to execute a command in",
    "attach": "there is nothing to attach to",
    "portForward": "there is nothing to forward a port to",
}


@dataclass(frozen=True, slots=True)
class Served:
    """What the server shows."""

    run_of: Callable[[str, str], PodRun | None]
    """The pod of a namespace and a name."""
    static_log_of: Callable[[str, str], LogSource | None]
    """The log of a static pod that somebody else keeps."""


class _RefusedError(Exception):
    """A request that gets a text instead of what it asked for."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class KubeletServer:
    """One server for the kubelets of all nodes: a path names the pod, and a pod has one node."""

    def __init__(self, served: Served, clock: Clock) -> None:
        self._served = served
        self._clock = clock
        self._runner: web.ServerRunner | None = None
        self._server: web.Server | None = None
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Listen from now on; port 0 takes any, `port` tells which."""
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._server = server
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_STOP_S_MAX)
        await self._runner.setup()
        tls = serving_context(address, self._clock.now_s())
        site = web.TCPSite(self._runner, address, port, ssl_context=tls, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """End every answer and close."""
        if self._runner is None or self._server is None:
            return
        kept = [one.transport for one in self._server.connections if one.transport is not None]
        await self._runner.cleanup()
        # Leaving over TLS waits for the other side, and the loop may end before.
        for transport in kept:
            transport.abort()
        await self._clock.sleep(0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts == ["healthz"]:
            return web.Response(text="ok")
        if parts[0] in _REFUSALS:
            return not_really(parts[0])
        if parts[0] != "containerLogs":
            return web.Response(status=404, text="404 page not found\n")
        if request.method != "GET":
            return web.Response(status=405, text="405: Method Not Allowed")
        try:
            source, options = self._asked(parts[1:], request.query)
        except _RefusedError as refused:
            return web.Response(status=refused.code, text=refused.text)
        return await self._stream(request, source, options)

    def _asked(self, parts: list[str], query: Mapping[str, str]) -> tuple[LogSource, LogOptions]:
        for index, missing in enumerate(("podNamespace", "podID", "container name")):
            if len(parts) <= index or not parts[index]:
                raise _RefusedError(400, f'{{"message": "Missing {missing}."}}')
        namespace, name, container = parts[:3]
        options = log_options(query, self._clock.now_s())
        run = self._served.run_of(namespace, name)
        if run is None:
            raise _RefusedError(404, f'pod "{name}" does not exist')
        found = run.container(container)
        if found is None:
            raise _RefusedError(404, f'container "{container}" not found in pod "{name}"')
        is_previous = query.get("previous") in _TRUE
        run_index = _run_index(name, found[1], is_previous=is_previous)
        static = None if is_previous else self._served.static_log_of(namespace, name)
        return static or ContainerLog(run, found[0], run_index), options

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


def not_really(what: str) -> web.Response:
    """Return the Status that says why there is nothing to connect to."""
    text = f"pods do not really run here, so {_REFUSALS[what]}"
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
    """Read what of a log is asked for.

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
        raise _RefusedError(422, '{"message": "Invalid request."}')
    try:
        since_s = parse_time(since) if since else None if seconds is None else now_s - seconds
    except ValueError:
        raise _RefusedError(400, '{"message": "Unable to decode query."}') from None
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
        raise _RefusedError(400, '{"message": "Unable to decode query."}') from None


def _run_index(pod: str, run: ContainerRun, *, is_previous: bool) -> int:
    """Return which run's log is meant.

    Parity: pkg/kubelet/kubelet_pods.go validateContainerLogStatus, v1.36.
    """
    if is_previous:
        if run.ended is None or run.is_over:
            text = f'previous terminated container "{run.name}" in pod "{pod}" not found'
            raise _RefusedError(400, text)
        return run.ended.run_index
    if run.is_running:
        return run.restart_count
    if run.ended is not None:
        return run.ended.run_index
    text = f'container "{run.name}" in pod "{pod}" is waiting to start: {run.waits_for}'
    raise _RefusedError(400, text)
