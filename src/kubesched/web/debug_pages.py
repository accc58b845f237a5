"""/debug: profiles, verbosity, and why a pod is where it is.

Owns these pages. Never profiles or explains itself: profiler and the scheduler do.
Upstream: staging/src/k8s.io/apiserver/pkg/server/routes/{profiling,flags}.go, Go's net/http/pprof
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable

from kubesched.kit.go_text import go_quote
from kubesched.kit.log import Log
from kubesched.web.answers import HTML, NO_SNIFF, Answer, Asked, Handler, error_answer
from kubesched.web.mux import PathMux
from kubesched.web.negotiation import JSON
from kubesched.web.profiler import all_stacks, sampled_stacks

_DEFAULT_S = 30
_INDEX = """/debug/pprof/

This is kubesched, a Python program: there is no Go profiler in it. There is instead:

profile?seconds=30   how often each stack of each thread was seen, a hundred looks a second;
                     one line a stack, as flame graph programs read it
goroutine?debug=1    the stacks of all threads and tasks, as they are now
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
_UINT32_MAX = (1 << 32) - 1
_INT32_MAX = (1 << 31) - 1
_DIGITS_MAX = 10


class Profiles:
    """The pages below /debug/pprof."""

    def __init__(self) -> None:
        self._ended: threading.Event | None = None

    def install(self, mux: PathMux) -> None:
        """Serve them."""
        mux.handle_unlisted("/debug/pprof", _redirect("/debug/pprof/"))
        mux.handle_unlisted_prefix("/debug/pprof/", self._serve)

    def stop(self) -> None:
        """End a profile that is being taken."""
        if self._ended is not None:
            self._ended.set()

    async def _serve(self, asked: Asked) -> Answer:
        name = asked.path.removeprefix("/debug/pprof/")
        if name == "":
            return Answer(_INDEX.encode(), headers=dict(NO_SNIFF))
        if name == "goroutine":
            return Answer(all_stacks().encode(), headers=dict(NO_SNIFF))
        if name == "profile":
            return await self._profile(asked)
        return error_answer("Unknown profile", 404)

    async def _profile(self, asked: Asked) -> Answer:
        if self._ended is not None:
            text = "Could not enable CPU profiling: cpu profiling already in use"
            return error_answer(text, 500)
        self._ended = threading.Event()
        try:
            given = asked.query.get("seconds", [""])[0]
            seconds = int(given) if re.fullmatch(r"[0-9]{1,9}", given) else 0
            text = await asyncio.to_thread(sampled_stacks, seconds or _DEFAULT_S, self._ended)
        finally:
            # Who asked may have gone: the thread must not go on looking.
            self._ended.set()
            self._ended = None
        return Answer(text.encode(), headers=dict(NO_SNIFF))


def install_flags(mux: PathMux, log: Log) -> None:
    """Serve /debug/flags."""
    mux.handle_unlisted("/debug/flags", _flags_index)
    mux.handle_unlisted_prefix("/debug/flags/", _flags_index)
    mux.handle_unlisted("/debug/flags/v", _verbosity(log))


def explain_handler(explain: Callable[[str], bytes | None]) -> Handler:
    """Return the handler of /debug/explain?pod=namespace/name."""

    async def serve(asked: Asked) -> Answer:
        key = asked.query.get("pod", [""])[0]
        namespace, slash, name = key.partition("/")
        if not slash or not namespace or not name or "/" in name:
            return error_answer("which pod? Ask for /debug/explain?pod=<namespace>/<name>", 400)
        found = explain(key)
        if found is None:
            return error_answer(
                f"pod {go_quote(key)} is not known to this scheduler: it may be bound since before "
                "the scheduler started, be deleted, have a schedulerName that no profile here "
                "has, or be another replica's (ask the leader)",
                404,
            )
        return Answer(found, content_type=JSON, headers=dict(NO_SNIFF))

    return serve


def _redirect(target: str) -> Handler:
    async def serve(asked: Asked) -> Answer:
        # Parity: net/http Redirect.
        has_body = asked.method in ("GET", "HEAD")
        body = f'<a href="{target}">Found</a>.\n\n' if has_body else ""
        return Answer(body.encode(), 302, HTML if has_body else "", {"Location": target})

    return serve


async def _flags_index(asked: Asked) -> Answer:
    del asked
    return Answer(_FLAGS.encode(), content_type=HTML)


def _verbosity(log: Log) -> Handler:
    async def serve(asked: Asked) -> Answer:
        if asked.method != "PUT":
            return _plain("unsupported http method", 406)
        given = (await asked.read()).decode("utf-8", "replace")
        if error := _refusal(given):
            return _plain(error, 400)
        log.verbosity = int(given.lstrip("0") or "0")
        return _plain(f"successfully set klog.logging.verbosity to {given}", 200)

    return serve


def _refusal(given: str) -> str:
    """Return what is wrong with a level.

    Parity: component-base/logs/logs.go GlogSetter, v1.36.
    """
    parsing = f"parsing {go_quote(given)}"
    if re.fullmatch(r"[0-9]+", given) is None:
        return f"strconv.ParseUint: {parsing}: invalid syntax"
    digits = given.lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX or int(digits) > _UINT32_MAX:
        return f"strconv.ParseUint: {parsing}: value out of range"
    if int(digits) > _INT32_MAX:
        return (
            f"failed set klog.logging.verbosity {given}: "
            f"strconv.ParseInt: {parsing}: value out of range"
        )
    return ""


def _plain(text: str, code: int) -> Answer:
    return Answer(f"{text}\n".encode(), code, "text/plain", dict(NO_SNIFF))
