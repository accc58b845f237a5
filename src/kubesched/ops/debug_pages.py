"""/debug: profiles, log verbosity, and explanations of decisions.

Owns these pages and the sampling profiler. Never explains a decision: the scheduler does.
Upstream: staging/src/k8s.io/apiserver/pkg/server/routes/{profiling,flags}.go, Go's net/http/pprof
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from types import FrameType

from kubesched.golang.strconv import go_quote, parse_uint
from kubesched.kit.log import Log
from kubesched.ops.http_messages import (
    HTML,
    JSON,
    NO_SNIFF,
    Handler,
    PathMux,
    Request,
    Response,
    error_response,
)

_DEFAULT_S = 30
_INDEX = """/debug/pprof/

kubesched is a Python program and has no Go profiler. It has these pages instead:

profile?seconds=30   the stacks of all threads, sampled a hundred times per second, with counts:
                     one line per stack, the format of flame graph tools
goroutine?debug=1    the current stacks of all threads and tasks
"""
_FLAGS = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""
_INT32_MAX = (1 << 31) - 1
_PERIOD_S = 0.01


class Profiles:
    """The pages below /debug/pprof."""

    def __init__(self) -> None:
        self._ended: threading.Event | None = None

    def install(self, mux: PathMux) -> None:
        """Add the pages."""
        mux.handle_unlisted("/debug/pprof", _redirect("/debug/pprof/"))
        mux.handle_unlisted_prefix("/debug/pprof/", self._serve)

    def stop(self) -> None:
        """Stop a running profile."""
        if self._ended is not None:
            self._ended.set()

    async def _serve(self, request: Request) -> Response:
        name = request.path.removeprefix("/debug/pprof/")
        if name == "":
            return Response(_INDEX.encode(), headers=dict(NO_SNIFF))
        if name == "goroutine":
            return Response(all_stacks().encode(), headers=dict(NO_SNIFF))
        if name == "profile":
            return await self._profile(request)
        return error_response("Unknown profile", 404)

    async def _profile(self, request: Request) -> Response:
        if self._ended is not None:
            text = "Could not enable CPU profiling: cpu profiling already in use"
            return error_response(text, 500)
        self._ended = threading.Event()
        try:
            value = request.query.get("seconds", [""])[0]
            seconds = int(value) if re.fullmatch(r"[0-9]{1,9}", value) else 0
            text = await asyncio.to_thread(sampled_stacks, seconds or _DEFAULT_S, self._ended)
        finally:
            # The client may have disconnected: stop the thread.
            self._ended.set()
            self._ended = None
        return Response(text.encode(), headers=dict(NO_SNIFF))


def install_flags(mux: PathMux, log: Log) -> None:
    """Add the pages of /debug/flags."""
    mux.handle_unlisted("/debug/flags", _flags_index)
    mux.handle_unlisted_prefix("/debug/flags/", _flags_index)
    mux.handle_unlisted("/debug/flags/v", _verbosity(log))


def explain_handler(explain: Callable[[str], bytes | None]) -> Handler:
    """Return the handler of /debug/explain?pod=namespace/name."""

    async def serve(request: Request) -> Response:
        key = request.query.get("pod", [""])[0]
        namespace, slash, name = key.partition("/")
        if not slash or not namespace or not name or "/" in name:
            return error_response("pod missing: request /debug/explain?pod=<namespace>/<name>", 400)
        report = explain(key)
        if report is None:
            return error_response(
                f"pod {go_quote(key)} is not known to this scheduler: it was bound before the "
                "scheduler started, was deleted, has a schedulerName without a profile here, or is "
                "handled by another replica (query the leader)",
                404,
            )
        return Response(report, content_type=JSON, headers=dict(NO_SNIFF))

    return serve


def _redirect(target: str) -> Handler:
    async def serve(request: Request) -> Response:
        # Parity: net/http Redirect.
        has_body = request.method in ("GET", "HEAD")
        body = f'<a href="{target}">Found</a>.\n\n' if has_body else ""
        return Response(body.encode(), 302, HTML if has_body else "", {"Location": target})

    return serve


async def _flags_index(request: Request) -> Response:
    del request
    return Response(_FLAGS.encode(), content_type=HTML)


def _verbosity(log: Log) -> Handler:
    async def serve(request: Request) -> Response:
        if request.method != "PUT":
            return _plain("unsupported http method", 406)
        body = (await request.read()).decode("utf-8", "replace")
        try:
            level = parse_uint(body, 32)
        except ValueError as problem:
            return _plain(str(problem), 400)
        if level > _INT32_MAX:
            # Parity: component-base/logs/logs.go GlogSetter, v1.36.
            reason = f"strconv.ParseInt: parsing {go_quote(body)}: value out of range"
            return _plain(f"failed set klog.logging.verbosity {body}: {reason}", 400)
        log.verbosity = level
        return _plain(f"successfully set klog.logging.verbosity to {body}", 200)

    return serve


def _plain(text: str, code: int) -> Response:
    return Response(f"{text}\n".encode(), code, "text/plain", dict(NO_SNIFF))


def sampled_stacks(seconds: float, ended: threading.Event) -> str:
    """Sample all threads a hundred times per second, and return the count of each stack.

    Blocks: run it in a thread. The text has one line per stack, outermost frame first: the format
    of flame graph tools.
    """
    own = threading.get_ident()
    seen: Counter[str] = Counter()
    for _ in range(max(1, round(seconds / _PERIOD_S))):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  # Documented for this purpose.
            if ident != own:
                seen[";".join([names.get(ident, str(ident)), *_frames(frame)])] += 1
        if ended.wait(_PERIOD_S):
            break
    return "".join(f"{stack} {count}\n" for stack, count in sorted(seen.items()))


def _frames(frame: FrameType | None) -> list[str]:
    names = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "?")
        names.append(f"{module}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


def all_stacks() -> str:
    """Return the stacks of all threads and of all tasks of the running loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001  # As above.
    parts = [f"threads: total {len(frames)}\n"]
    for ident, frame in frames.items():
        parts.append(f"\nthread {ident} [{names.get(ident, '?')}]:\n")
        parts += traceback.format_stack(frame)
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    parts.append(f"\ntasks: total {len(tasks)}\n")
    for task in tasks:
        parts.append(f"\ntask {task.get_name()}:\n")
        for frame in task.get_stack():
            parts += traceback.format_list(traceback.extract_stack(frame, limit=1))
    return "".join(parts)
