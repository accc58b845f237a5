"""A server's state for tests of custom kinds, with requests without a socket."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from multidict import MultiDict

from kubesched.cluster.apiserver.assembly import SERVICE_IP, Parts, build_context
from kubesched.cluster.apiserver.bootstrap import documents, make_missing
from kubesched.cluster.apiserver.crd.custom_kinds import CustomKinds
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.http.discovery import Discovery
from kubesched.cluster.apiserver.http.dispatch import NoSuchPageError, run
from kubesched.cluster.apiserver.http.openapi import OpenApi
from kubesched.cluster.apiserver.http.request_info import request_info
from kubesched.cluster.apiserver.http.request_types import ResourceRequest, ResourceResponse
from kubesched.cluster.apiserver.strategy import User

CHANGING = {
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "time",
    "lastTransitionTime",
    "deletionTimestamp",
}


class FixedClock:
    """A clock that stands still."""

    def now_s(self) -> float:
        return 1_700_000_000.0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("custom kinds do not wait")


class Server:
    """Sends requests to a server's state as the server itself does."""

    def __init__(self) -> None:
        self.openapi = OpenApi()
        self.context = build_context(Parts(clock=FixedClock(), seed=7))
        self.custom_kinds = CustomKinds(self.context, self.openapi)
        make_missing(self.context, documents(SERVICE_IP, 6443))
        self.discovery = Discovery(self.context.registry, "127.0.0.1:6443")

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any, list[str]]:
        parts = urlsplit(path)
        query = MultiDict(parse_qsl(parts.query))
        info = request_info(method, parts.path, query)
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        headers = {"Content-Type": content_type, "User-Agent": "cmp"}
        user = User("admin", groups=("system:masters",))
        request = ResourceRequest(info, user, query, headers, (body or "").encode())
        try:
            answer = run(self.context, request)
        except NoSuchPageError:
            return 404, {}, []
        except ApiError as error:
            return error.code, error.status, sorted(request.warnings)
        assert isinstance(answer, ResourceResponse)
        return answer.code, json.loads(answer.data), sorted(request.warnings)


def comparable(value: Any) -> Any:
    """Return an answer without the parts that differ between servers, as the recorder does."""
    if isinstance(value, dict):
        return {
            key: "?" if key in CHANGING else comparable(part)
            for key, part in value.items()
            if key != "managedFields"
        }
    return [comparable(part) for part in value] if isinstance(value, list) else value
