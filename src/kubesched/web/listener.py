"""The socket that the ops server listens on.

Owns taking the port, and saying in upstream's words why it cannot be had. Never accepts.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/serving.go CreateListener
"""

from __future__ import annotations

import ipaddress
import os
import socket

from kubesched.web.settings import ServingError, ServingSettings


def listen(settings: ServingSettings) -> socket.socket:
    """Take the port of the settings; ServingError names the address if it cannot be had."""
    address = settings.bind_address or "::"
    shown = f"[{address}]" if ":" in address else address
    where = f"{shown}:{settings.port}"
    try:
        host = ipaddress.ip_address(address)
    except ValueError as error:
        raise ServingError(f"failed to parse IP: {address!r}") from error
    try:
        if host.is_unspecified:
            return _on_all(settings)
        family = socket.AF_INET6 if host.version == 6 else socket.AF_INET
        return _bound(family, address, settings)
    except OSError as error:
        # Go's words for errors of the system are the system's own, in lower case.
        reason = os.strerror(error.errno or 0)
        reason = reason[:1].lower() + reason[1:]
        raise ServingError(
            f"failed to create listener: failed to listen on {where}: "
            f"listen tcp {where}: bind: {reason}"
        ) from error


def address_of(listener: socket.socket) -> str:
    """Return where a socket listens, as Go writes it."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _on_all(settings: ServingSettings) -> socket.socket:
    # As Go: any address of either family means all of both, where there are both.
    if socket.has_dualstack_ipv6():
        return _bound(socket.AF_INET6, "::", settings, is_dual=True)
    return _bound(socket.AF_INET, "0.0.0.0", settings)


def _bound(
    family: socket.AddressFamily, address: str, settings: ServingSettings, *, is_dual: bool = False
) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Go sets it for every listener; --permit-address-sharing asks for nothing more.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.permit_port_sharing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if is_dual else 1)
        listener.bind((address, settings.port))
        # At once, since a port that is only bound can be bound by somebody else as well.
        listener.listen(1024)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
