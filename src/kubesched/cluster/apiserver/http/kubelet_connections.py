"""Proxies responses of kubelets to the client.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/rest/{streamer,proxy}.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go StreamObject
"""

from __future__ import annotations

from typing import Final

import aiohttp
from aiohttp import web

from kubesched.cluster.apiserver.errors import ApiError, bad_request
from kubesched.cluster.apiserver.http.kubelet_proxy import KubeletCall, rejected_log

_TEXT_BYTES_MAX: Final = 50_000
# A log that is followed may be silent for days.
_LIMITS: Final = aiohttp.ClientTimeout(total=None, sock_connect=30.0)
# Hop-by-hop headers and credentials, which are not forwarded.
_CARRIED: Final = (
    "Connection",
    "Upgrade",
    "X-Stream-Protocol-Version",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Version",
)
_CODE_SWITCHED: Final = 101


class KubeletConnections:
    """Connections from the API server to the kubelets of a cluster."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def carry(self, request: web.BaseRequest, call: KubeletCall) -> web.StreamResponse:
        """Proxy a request to a kubelet and stream its response."""
        try:
            if call.is_log:
                return await self._log(request, call)
            return await self._connect(request, call)
        except aiohttp.ClientError as error:
            prefix = f'Get "{call.url}"' if call.is_log else "error dialing backend"
            raise ApiError(500, "", f"{prefix}: {_dial_text(error)}") from None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _log(self, request: web.BaseRequest, call: KubeletCall) -> web.StreamResponse:
        async with self._opened().get(call.url, allow_redirects=False) as kubelet_response:
            if not 200 <= kubelet_response.status <= 206:
                text = (await kubelet_response.content.read(_TEXT_BYTES_MAX)).decode(
                    errors="replace"
                )
                raise rejected_log(kubelet_response.status, text, call.name)
            response = web.StreamResponse(
                headers={"Cache-Control": "no-cache, private", "Content-Type": "text/plain"}
            )
            response.enable_chunked_encoding()
            await response.prepare(request)
            async for data in kubelet_response.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    async def _connect(self, request: web.BaseRequest, call: KubeletCall) -> web.StreamResponse:
        if "upgrade" not in request.headers.get("Connection", "").lower():
            raise bad_request("Upgrade request required")
        headers = {name: request.headers[name] for name in _CARRIED if name in request.headers}
        call_to_kubelet = self._opened().request(
            request.method, call.url, headers=headers, allow_redirects=False
        )
        async with call_to_kubelet as kubelet_response:
            if kubelet_response.status == _CODE_SWITCHED:
                kubelet_response.close()
                # Differs: only our own kubelets are supported, and they reject connections.
                text = "this API server does not carry connections into pods"
                raise ApiError(501, "NotImplemented", text)
            body = await kubelet_response.read()
            response = web.Response(
                body=body,
                status=kubelet_response.status,
                headers={
                    "Cache-Control": "no-cache, private",
                    "Content-Type": kubelet_response.headers.get("Content-Type", "text/plain"),
                },
            )
            # The client expects to have switched protocols and sends no further request here.
            response.force_close()
            return response

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Parity: pkg/kubelet/client/kubelet_client.go MakeTransport, v1.36: without a
            # CA for kubelets, their certificates are not verified.
            connector = aiohttp.TCPConnector(ssl=False, limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=_LIMITS, auto_decompress=False
            )
        return self._session


def _dial_text(error: aiohttp.ClientError) -> str:
    """Return why dialing failed, with the texts of Go's net package where possible."""
    if isinstance(error, aiohttp.ClientConnectorError):
        place = f"dial tcp {error.host}:{error.port}"
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"{place}: connect: connection refused"
        return f"{place}: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__
