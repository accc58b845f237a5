"""Records which modules of kubesched an operation enters, in the order of their first calls.

`python tests/tracing.py PATH` runs one of `PATHS` and prints the modules as JSON. It is a process
of its own: a profile function in a process with other tests would see their threads, too.
"""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Trace:
    """The modules that were entered while recording, by thread."""

    recording: bool = False
    calls: dict[str, dict[str, None]] = field(default_factory=dict)
    """By the name of a thread, modules in the order of their first calls."""

    def modules(self, thread: str) -> list[str]:
        """Return the modules that a thread entered, without the name of the root package."""
        (name,) = [name for name in self.calls if thread in name]
        return list(self.calls[name])

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Handle an event of the interpreter (`sys.setprofile`)."""
        if not self.recording or event != "call" or frame.f_code.co_name == "<module>":
            return  # An import is no step of a path.
        root, _, module = frame.f_globals.get("__name__", "").partition(".")
        if root == "kubesched" and module:
            self.calls.setdefault(threading.current_thread().name, {}).setdefault(module)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the calls in the block."""
        self.recording = True
        try:
            yield
        finally:
            self.recording = False


def trace_binding(trace: Trace) -> list[str]:
    """Bind a pod on a small cluster: the second pod of its template, the common case."""
    from kubesched.cluster.playground.in_process import playground  # noqa: PLC0415
    from kubesched.testing import a_pod  # noqa: PLC0415

    with playground(nodes=3) as cluster:
        cluster.create(a_pod("first"))
        cluster.until_bound("default/first")
        with trace.recorded():
            cluster.create(a_pod("second"))
            cluster.until_bound("default/second")
    return trace.modules("scheduler")


def trace_explain(trace: Trace, *options: str) -> list[str]:
    """Explain a pod; the second time, since imports run code of their own."""
    from kubesched.cli.main import run  # noqa: PLC0415

    command = ["explain", "-f", str(ROOT / "examples" / "cluster"), *options, "default/web-7"]
    with redirect_stdout(io.StringIO()):
        run(command)
        with trace.recorded():
            assert run(command) == 0
    return trace.modules("MainThread")


def trace_plugin(trace: Trace) -> list[str]:
    """Explain a pod with a plugin from a file."""
    return trace_explain(trace, "--plugin", f"{ROOT}/examples/plugins/spare_gpu.py:SpareGpu")


def trace_request(trace: Trace) -> list[str]:
    """Create a pod on the embedded API server."""
    from kubesched.cluster.launch.embedded import embedded_server  # noqa: PLC0415
    from kubesched.testing import a_pod  # noqa: PLC0415

    with embedded_server() as server, server.api() as api, trace.recorded():
        api.post("/api/v1/namespaces/default/pods", a_pod("web")).must(201)
    return trace.modules("api-server")


PATHS: dict[str, Callable[[Trace], list[str]]] = {
    "binding": trace_binding,
    "explain": trace_explain,
    "request": trace_request,
    "plugin": trace_plugin,
}


if __name__ == "__main__":
    profile = Trace()
    threading.setprofile(profile)
    sys.setprofile(profile)
    modules = PATHS[sys.argv[1]](profile)
    sys.setprofile(None)
    sys.stdout.write(json.dumps(modules) + "\n")
