"""A server's state for tests of kinds: what a bare cluster has, and requests without a socket."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from multidict import MultiDict

from kubesched.apiserver.asked import Answer, Asked
from kubesched.apiserver.bootstrap import documents, make_missing
from kubesched.apiserver.errors import ApiError
from kubesched.apiserver.requests import request_info
from kubesched.apiserver.resource_requests import run
from kubesched.apiserver.serving import SERVICE_IP, Parts, build_context
from kubesched.apiserver.strategy import User
from kubesched.apiserver.verbs.context import Context

_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class FixedClock:
    """A clock that stands."""

    def now_s(self) -> float:
        return 1_700_000_000.0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("no kind waits")


@dataclass
class Reply:
    """What a client would get."""

    code: int
    body: dict[str, Any]
    warnings: list[str]


class Cluster:
    """Asks a server's state as the server itself does."""

    def __init__(self) -> None:
        self.context: Context = build_context(Parts(clock=FixedClock(), seed=7))
        make_missing(self.context, documents(SERVICE_IP, 6443))

    def ask(self, method: str, url: str, body: Any = None) -> Reply:
        parts = urlsplit(url)
        query = MultiDict(parse_qsl(parts.query))
        info = request_info(method, parts.path, query)
        data = b"" if body is None else json.dumps(body).encode()
        asked = Asked(info, User("admin", groups=("system:masters",)), query, _JSON, data)
        try:
            answer = run(self.context, asked)
        except ApiError as error:
            return Reply(error.code, error.status, sorted(asked.warnings))
        assert isinstance(answer, Answer)
        return Reply(answer.code, json.loads(answer.data), sorted(asked.warnings))

    def make(self, url: str, document: Any) -> dict[str, Any]:
        reply = self.ask("POST", url, document)
        assert reply.code == 201, reply.body
        return reply.body


def a_pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "a", "image": "x:1", "resources": {"requests": {"cpu": "100m"}}}]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": containers, **spec},
    }
