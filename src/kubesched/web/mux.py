"""Which page a path leads to.

Owns the table of paths. Never looks at a request beyond its path.
Upstream: staging/src/k8s.io/apiserver/pkg/server/mux/pathrecorder.go
"""

from __future__ import annotations

from kubesched.kit.go_text import go_quote
from kubesched.kit.log import Log
from kubesched.web.answers import Answer, Asked, Handler, not_found


class PathMux:
    """Paths and their handlers: exact ones first, then the longest prefix."""

    def __init__(self, name: str, log: Log) -> None:
        self._name = name
        self._log = log
        self._exact: dict[str, Handler] = {}
        self._prefixes: dict[str, Handler] = {}
        self._listed: list[str] = []

    @property
    def listed_paths(self) -> list[str]:
        """Return the paths that are told to people."""
        return sorted(self._listed)

    def handle(self, path: str, handler: Handler) -> None:
        """Serve a path, and tell people of it."""
        self._listed.append(path)
        self._exact[path] = handler

    def handle_unlisted(self, path: str, handler: Handler) -> None:
        """Serve a path."""
        self._exact[path] = handler

    def handle_unlisted_prefix(self, prefix: str, handler: Handler) -> None:
        """Serve everything below a path."""
        self._prefixes[prefix] = handler
        ordered = sorted(self._prefixes, key=lambda one: (-one.count("/"), -len(one), one))
        self._prefixes = {one: self._prefixes[one] for one in ordered}

    async def serve(self, asked: Asked) -> Answer:
        """Answer a request."""
        if handler := self._exact.get(asked.path):
            self._say(asked.path, "exact match")
            return await handler(asked)
        for prefix, handler in self._prefixes.items():
            if asked.path.startswith(prefix):
                self._say(asked.path, f"prefix {prefix}")
                return await handler(asked)
        self._say(asked.path, "NotFoundHandler")
        return not_found()

    def _say(self, path: str, by_what: str) -> None:
        if self._log.enabled(5):
            self._log.line(f"{self._name}: {go_quote(path)} satisfied by {by_what}", level=5)
