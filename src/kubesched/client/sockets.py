"""Sockets that notice when the other end is gone.

Owns the options that a connection to the API server has. Never opens one.
Upstream: Go's net/tcpsockopt_unix.go, golang.org/x/net/http2 ReadIdleTimeout
"""

from __future__ import annotations

import socket
from typing import Any, Final

# A connection whose other end went away without a word is given up after about 45 s, as long as
# client-go's HTTP/2 pings take to find out.
_KEEPALIVE_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 45_000),
)


def new_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket for an address that getaddrinfo gave."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    notice_silence(made)
    return made


def notice_silence(made: socket.socket) -> None:
    """Have a connection end when nothing comes back any more."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS:
        option = getattr(socket, name, None)  # not every system has each of them
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
