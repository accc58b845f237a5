"""A scripted HTTP extender that records its requests.

Responses are scripts over the raw connection, so that they can be slow, missing or malformed.
"""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

PATIENCE_S = 20.0


@dataclass(slots=True)
class Exchange:
    """One request, and methods to respond."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: socket.socket = field(repr=False)
    is_over: threading.Event = field(repr=False)
    """Set when the server stops."""
    closes: bool = False
    """Whether the connection is closed after this exchange."""

    @property
    def json(self) -> Any:
        """Return the decoded body."""
        return json.loads(self.body)

    def answer(self, body: object, code: int = 200, **headers: str) -> None:
        """Send a whole response; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {code} x", "Content-Type: application/json"]
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
        lines.append(f"Content-Length: {len(data)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def send(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.connection.sendall(data)

    def stay_silent(self) -> None:
        """Send nothing until the client gives up, and close the connection."""
        self.closes = True
        self.connection.settimeout(PATIENCE_S)
        try:
            while self.connection.recv(1024) and not self.is_over.is_set():
                pass
        except OSError:
            pass  # The client closed the connection.

    def close(self) -> None:
        """Close the connection when the script ends."""
        self.closes = True

    def reset(self) -> None:
        """Reset the connection."""
        self.closes = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


Script: TypeAlias = Callable[[Exchange], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded request."""

    path: str
    method: str
    content_type: str
    body: bytes
    client: str = ""
    """The subject of the client certificate; empty without one."""

    @property
    def json(self) -> Any:
        """Return the decoded body."""
        return json.loads(self.body)


class ScriptedExtender(socketserver.ThreadingTCPServer):
    """Listens on loopback; a path without a script responds with 404."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.scripts: dict[str, Script] = {}
        self.tls = tls
        self.is_over = threading.Event()
        self._calls: list[Call] = []
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Connection)
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Return the URL."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> ScriptedExtender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: some scripts make the client close the connection."""

    def note(self, call: Call) -> None:
        """Record a call."""
        with self._lock:
            self._calls.append(call)

    def taken(self) -> list[Call]:
        """Return and forget the recorded calls."""
        with self._lock:
            calls, self._calls = self._calls, []
        return calls


class _Connection(socketserver.BaseRequestHandler):
    """One connection, open until a script closes it."""

    server: ScriptedExtender

    def handle(self) -> None:
        connection, client = self.request, ""
        if self.server.tls is not None:
            connection = self.server.tls.wrap_socket(connection, server_side=True)
            certificate = connection.getpeercert() or {}
            client = str(certificate.get("subject", ""))
        reader = connection.makefile("rb")
        while (exchange := self._next(connection, reader)) is not None:
            self.server.note(
                Call(
                    exchange.path,
                    exchange.method,
                    exchange.headers.get("content-type", ""),
                    exchange.body,
                    client,
                )
            )
            script = self.server.scripts.get(exchange.path)
            if script is None:
                exchange.answer(b"404 page not found\n", 404)
            else:
                script(exchange)
            if exchange.closes:
                break
        reader.close()
        connection.close()

    def _next(self, connection: socket.socket, reader: Any) -> Exchange | None:
        start = reader.readline()
        if not start:
            return None
        method, path, _ = start.decode("latin-1").split(" ", 2)
        headers: dict[str, str] = {}
        while (line := reader.readline()) not in (b"\r\n", b"\n", b""):
            key, _, value = line.decode("latin-1").partition(":")
            headers[key.strip().lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", "0")))
        return Exchange(method, path, headers, body, connection, self.server.is_over)
