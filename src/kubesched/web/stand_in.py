"""Answers in place of a loop that stands still.

Owns the few words that can be said without it: health pages fail, all others are not to be had. A
probe so hears at once what it would otherwise have to wait for in vain. Never authenticates anybody
and tells nobody why; the log does.
"""

from __future__ import annotations

import select
import socket
import ssl
from http import HTTPStatus
from typing import Final

from kubesched.web.answers import Answer, error_answer

PAGES: Final = ("/healthz", "/livez", "/readyz")
_WAIT_S: Final = 0.5
_CALLER_S_MAX: Final = 2.0
_HEAD_BYTES_MAX: Final = 16_384


class StandIn:
    """Serves on a server's socket, one caller after the other."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        # Of its own, so that nobody closes it meanwhile.
        self._listener = listener.dup()
        self._listener.setblocking(False)
        self._context = context

    def close(self) -> None:
        """Serve no more."""
        self._listener.close()

    def serve(self, problem: str) -> None:
        """Answer whoever calls within half a second; the problem is not for everybody."""
        del problem
        try:
            ready, _, _ = select.select([self._listener], [], [], _WAIT_S)
            if not ready:
                return
            caller, _ = self._listener.accept()
        except (OSError, ValueError):
            return  # The loop took the caller, or the server has ended.
        try:
            caller.settimeout(_CALLER_S_MAX)
            with self._context.wrap_socket(caller, server_side=True) as spoken:
                spoken.sendall(_response(_path(spoken)))
        except (OSError, ssl.SSLError):
            pass  # Whoever called hung up, or does not speak TLS.
        finally:
            caller.close()


def _path(caller: ssl.SSLSocket) -> str:
    """Return the path that is asked for; empty if it is no request."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES_MAX:
        more = caller.recv(4096)
        if not more:
            break
        head += more
    words = head.partition(b"\r\n")[0].split(b" ")
    return words[1].partition(b"?")[0].decode("latin-1") if len(words) == 3 else ""


def _response(path: str) -> bytes:
    answer = _answer(path)
    headers = {
        "Content-Type": answer.content_type,
        "Cache-Control": "no-cache, private",
        **answer.headers,
        "Content-Length": str(len(answer.body)),
        "Connection": "close",
    }
    status = HTTPStatus(answer.code)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + answer.body


def _answer(path: str) -> Answer:
    page = next((one for one in PAGES if path == one or path.startswith(f"{one}/")), None)
    if page is None:
        return error_answer("the scheduler stands still", HTTPStatus.SERVICE_UNAVAILABLE)
    lines = f"[-]ping failed: reason withheld\n{page.removeprefix('/')} check failed"
    return error_answer(lines, HTTPStatus.INTERNAL_SERVER_ERROR)
