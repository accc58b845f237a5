"""A server's state for tests of kinds: a new cluster, and requests without a socket."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from multidict import MultiDict

from kubesched.cluster.apiserver.assembly import SERVICE_IP, Parts, build_context
from kubesched.cluster.apiserver.bootstrap import documents, make_missing
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.http.dispatch import run
from kubesched.cluster.apiserver.http.request_info import request_info
from kubesched.cluster.apiserver.http.request_types import ResourceRequest, ResourceResponse
from kubesched.cluster.apiserver.strategy import User
from kubesched.cluster.apiserver.verbs.context import Context

_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class FixedClock:
    """A clock that stands still."""

    def now_s(self) -> float:
        return 1_700_000_000.0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("no kind waits")


@dataclass
class Reply:
    """The reply that a client would get."""

    code: int
    body: dict[str, Any]
    warnings: list[str]


class Cluster:
    """Sends requests to a server's state as the server itself does."""

    def __init__(self) -> None:
        self.context: Context = build_context(Parts(clock=FixedClock(), seed=7))
        make_missing(self.context, documents(SERVICE_IP, 6443))

    def request(self, method: str, url: str, body: Any = None) -> Reply:
        parts = urlsplit(url)
        query = MultiDict(parse_qsl(parts.query))
        info = request_info(method, parts.path, query)
        data = b"" if body is None else json.dumps(body).encode()
        request = ResourceRequest(
            info, User("admin", groups=("system:masters",)), query, _JSON, data
        )
        try:
            answer = run(self.context, request)
        except ApiError as error:
            return Reply(error.code, error.status, sorted(request.warnings))
        assert isinstance(answer, ResourceResponse)
        return Reply(answer.code, json.loads(answer.data), sorted(request.warnings))

    def make(self, url: str, document: Any) -> dict[str, Any]:
        reply = self.request("POST", url, document)
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
