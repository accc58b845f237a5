"""A minimal client of API servers.

Owns the connection and the reading of a kubeconfig. Never interprets a response.
"""

from __future__ import annotations

import json
import ssl
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPSConnection, RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

Document = dict[str, Any]


class Server:
    """A connection to an API server."""

    def __init__(self, url: str, token: str, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._token = token
        self.date = ""
        """The date of the last response."""
        self._connection: HTTPConnection = (
            HTTPSConnection(parts.hostname or "", parts.port, context=context)
            if parts.scheme == "https"
            else HTTPConnection(parts.hostname or "", parts.port)
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, Document]:
        """Send a request; return the code and the decoded response."""
        headers = {"Content-Type": content_type, "Accept": accept}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None and method in {"GET", "DELETE"} else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data, headers)
            return self._answer()
        except RemoteDisconnected:  # the real server ended the connection because it panicked
            self._connection.close()
            return 0, {}

    def _answer(self) -> tuple[int, Document]:
        with self._connection.getresponse() as answer:
            text = answer.read()
            when = parsedate_to_datetime(answer.headers["Date"])
            self.date = when.strftime("%Y-%m-%dT%H:%M:%SZ")
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, json.loads(text) if is_json else {"text": text.decode()}


def server_of(kubeconfig: str | None, url: str | None) -> Server:
    """Return the server of a kubeconfig file, or at an address."""
    if kubeconfig is None:
        return Server(url or "", "", None)
    config = yaml.safe_load(Path(kubeconfig).read_text())
    cluster = config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    token = config["users"][0]["user"].get("token", "")
    return Server(url or cluster["server"], token, context)
