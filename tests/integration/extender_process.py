"""`kubesched extender` as a process, and a client of it.

Owns its command line, its log and the requests of a caller. Expected values are never computed
here.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.schedulers import scheduler_command
from kubesched.testing import ADMIN, ApiServer, Response

Document = dict[str, Any]

_PLUGINS = Path(__file__).with_name("extender_plugin.py")
PLUGIN = f"{_PLUGINS}:Labelled"
DECLARING = f"{_PLUGINS}:DeclaresReads"
_WAIT_S = 30.0
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class ExtenderProcess:
    """A running extender; its process group ends it at the latest."""

    label: str
    group: ProcessGroup = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    port: int
    tls: ssl.SSLContext | None = None
    """The TLS context of clients; plain HTTP if None."""

    @property
    def url(self) -> str:
        """Return its URL prefix for a scheduler's configuration."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """Return its log."""
        return self.group.log_path(self.label).read_text(errors="replace")

    def lines(self, message: str) -> list[str]:
        """Return the fields of the lines that have a message."""
        head = f'] "{message}" '
        return [line.partition(head)[2] for line in self.log.splitlines() if head in line]

    def until(self, predicate: Callable[[], bool], condition: str) -> None:
        """Wait for a condition; StartError with the end of the logs after the timeout."""
        self.group.wait_until(predicate, condition, timeout_s=_WAIT_S)

    def until_ready(self) -> None:
        """Wait until it has listed the cluster."""
        self.until(self._is_ready, f"{self.label} is ready")

    def _is_ready(self) -> bool:
        try:
            return self.send("GET", "/readyz").code == 200
        except OSError:
            return False

    def connect(self, timeout_s: float = _WAIT_S) -> http.client.HTTPConnection:
        """Open a connection."""
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=timeout_s, context=self.tls
        )

    def send(self, method: str, path: str, body: bytes | None = None) -> Response:
        """Send one request on a new connection."""
        connection = self.connect()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def call(self, verb: str, **body: Any) -> Any:
        """Call a verb; return the decoded response."""
        answer = self.send("POST", f"/{verb}", json.dumps(body).encode())
        assert answer.code == 200, answer.text
        assert answer.headers["Content-Type"] == "application/json"
        return json.loads(answer.body)

    def metric(self, line: str) -> float:
        """Return the value of a series of /metrics."""
        page = self.send("GET", "/metrics").text
        values = [
            splitline.rpartition(" ")[2]
            for splitline in page.splitlines()
            if splitline.startswith(f"{line} ")
        ]
        assert len(values) == 1, page
        return float(values[0])

    def terminate(self) -> int:
        """Terminate it, and return its exit status."""
        return self.group.terminate(self.label, _WAIT_S)


def start_extender(
    server: ApiServer,
    group: ProcessGroup,
    *flags: str,
    plugin: str = PLUGIN,
    kubeconfig: Path | None = None,
    tls: ssl.SSLContext | None = None,
) -> ExtenderProcess:
    """Start an extender.

    Args:
        server: The server of its nodes and pods.
        group: The group that ends it.
        flags: Further command-line flags.
        plugin: The plugin that it serves.
        kubeconfig: Its kubeconfig; the administrator's if None.
        tls: The TLS context of callers, if flags configure certificates.
    """
    (port,) = free_ports(1)
    label = f"extender-{next(_numbers)}"
    program = scheduler_command("kubesched")[0]
    command = [
        program,
        "extender",
        f"--plugin={plugin}",
        f"--listen=127.0.0.1:{port}",
        f"--kubeconfig={kubeconfig or server.kubeconfigs[ADMIN.name]}",
        *flags,
    ]
    return ExtenderProcess(label, group, group.start(label, command), port, tls)
