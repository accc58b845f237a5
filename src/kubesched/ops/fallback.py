"""Responses while the event loop is blocked.

Owns the few responses that are possible then: health pages fail, all other pages are unavailable,
so that a probe gets its result at once. Never authenticates and never gives the reason; the log
does.
"""

from __future__ import annotations

import select
import socket
import ssl
from http import HTTPStatus
from typing import Final

from kubesched.ops.http_messages import Response, error_response

PAGES: Final = ("/healthz", "/livez", "/readyz")
_WAIT_S: Final = 0.5
_CLIENT_S_MAX: Final = 2.0
_HEAD_BYTES_MAX: Final = 16_384


class FallbackResponder:
    """Serves on the server's socket, one connection at a time."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        # A duplicate, so that closing the original does not interrupt a response.
        self._listener = listener.dup()
        self._listener.setblocking(False)
        self._context = context

    def close(self) -> None:
        """Stop serving."""
        self._listener.close()

    def serve(self, problem: str) -> None:
        """Respond to a client that connects within half a second; never show the problem."""
        del problem
        try:
            ready, _, _ = select.select([self._listener], [], [], _WAIT_S)
            if not ready:
                return
            client, _ = self._listener.accept()
        except (OSError, ValueError):
            return  # The loop accepted the connection, or the server was closed.
        try:
            client.settimeout(_CLIENT_S_MAX)
            with self._context.wrap_socket(client, server_side=True) as secured:
                secured.sendall(_encode(_response_to(_path(secured))))
        except (OSError, ssl.SSLError):
            pass  # The client hung up, or does not speak TLS.
        finally:
            client.close()


def _path(client: ssl.SSLSocket) -> str:
    """Return the path of the request; empty if it is malformed."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES_MAX:
        more = client.recv(4096)
        if not more:
            break
        head += more
    words = head.partition(b"\r\n")[0].split(b" ")
    return words[1].partition(b"?")[0].decode("latin-1") if len(words) == 3 else ""


def _encode(response: Response) -> bytes:
    headers = {
        "Content-Type": response.content_type,
        "Cache-Control": "no-cache, private",
        **response.headers,
        "Content-Length": str(len(response.body)),
        "Connection": "close",
    }
    status = HTTPStatus(response.code)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + response.body


def _response_to(path: str) -> Response:
    page = next((p for p in PAGES if path == p or path.startswith(f"{p}/")), None)
    if page is None:
        return error_response(
            "the event loop of the scheduler is blocked", HTTPStatus.SERVICE_UNAVAILABLE
        )
    lines = f"[-]ping failed: reason withheld\n{page.removeprefix('/')} check failed"
    return error_response(lines, HTTPStatus.INTERNAL_SERVER_ERROR)
