"""Requests: rate limit, credentials, retries, metrics."""

from __future__ import annotations

import msgspec
import pytest

from kubesched.client.auth.credentials import AccessError, Credential
from kubesched.client.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    ServiceUnavailableError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from kubesched.client.http.request import Query, encode_query
from kubesched.client.resources import LEASES, NODES, PODS
from kubesched.client.rest import MERGE_PATCH, Client, Lane
from kubesched.kit.tasks import Tasks
from tests.unit.client.election_world import settle
from tests.unit.client.request_world import (
    Script,
    ScriptedAnswer,
    cut,
    on_a_loop,
    rejected,
    rejection,
)

OK = ScriptedAnswer(200, b"{}")


async def outcome(script: Script, client: Client, method: str, seconds: float = 60) -> object:
    """Return the outcome of a request after some time."""
    body = None if method == "GET" else b"{}"
    task = Tasks().start(client.request(method, "/x", body=body), name="request")
    await script.clock.advance(seconds)
    assert task.done()
    return task.exception() or task.result()


@on_a_loop
async def test_the_parts_of_a_request() -> None:
    script = Script(OK)
    client = script.client(headers=(("Impersonate-Group", "a"), ("Impersonate-Group", "b")))
    query: Query = {"fieldSelector": "a=b,c!=d", "watch": True, "limit": 5}
    await client.get(NODES, query=query)
    await client.create(LEASES, {"a": 1}, namespace="ns")
    await client.patch(PODS, "p", b"{}", namespace="ns", subresource="status", timeout_s=7.5)
    await client.patch(PODS, "p", [1], namespace="ns", content_type=MERGE_PATCH)
    await client.delete(PODS, "p", namespace="ns")
    first, created, patched, merged, deleted = script.sent
    assert (first.method, first.body) == ("GET", None)
    assert first.target == "/api/v1/nodes?fieldSelector=a%3Db%2Cc%21%3Dd&watch=true&limit=5"
    assert first.headers.getall("Impersonate-Group") == ["a", "b"]
    assert first.headers["User-Agent"] == "test/1"
    assert first.headers["Accept"] == "application/json"
    assert first.headers["Accept-Encoding"] == "identity"
    assert "Content-Type" not in first.headers
    assert "Authorization" not in first.headers
    assert created.method == "POST"
    assert created.target == "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    assert (created.body, created.headers["Content-Type"]) == (b'{"a":1}', "application/json")
    assert patched.target == "/api/v1/namespaces/ns/pods/p/status?timeout=7.5s"
    assert patched.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert patched.limits.total == pytest.approx(7.5)
    assert (merged.body, merged.headers["Content-Type"]) == (b"[1]", MERGE_PATCH)
    assert (deleted.method, deleted.body) == ("DELETE", None)


def test_query_parameters_are_quoted() -> None:
    assert encode_query({"a": "x y&=/", "b": False}) == "a=x+y%26%3D%2F&b=false"


@on_a_loop
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize("code", [429, 500, 503])
async def test_retry_after_is_respected(method: str, code: int) -> None:
    script = Script(rejection(code, "TooManyRequests", Retry_After="3"), OK)
    assert await outcome(script, script.client(), method) == b"{}"
    assert script.sent_s == [0.0, 3.0]


@on_a_loop
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (rejection(429, "TooManyRequests"), TooManyRequestsError),
        (rejection(503, "ServiceUnavailable", Retry_After="soon"), ServiceUnavailableError),
        (rejection(403, "Forbidden", Retry_After="3"), ForbiddenError),
        (ScriptedAnswer(302, b"", {"Location": "/elsewhere"}), ApiError),
    ],
)
async def test_responses_that_are_not_retried(reply: ScriptedAnswer, kind: type[ApiError]) -> None:
    script = Script(reply)
    assert type(await outcome(script, script.client(), "GET")) is kind
    assert len(script.sent) == 1


@on_a_loop
async def test_a_request_is_retried_ten_times() -> None:
    script = Script(rejection(429, "TooManyRequests", Retry_After="1"))
    error = await outcome(script, script.client(), "POST")
    assert isinstance(error, TooManyRequestsError)
    assert error.retry_after_s == 1.0
    assert len(script.sent) == 11


@on_a_loop
async def test_only_reads_are_retried_after_a_reset() -> None:
    script = Script(cut(), OK)
    assert await outcome(script, script.client(), "GET") == b"{}"
    assert script.sent_s == [0.0, 1.0]
    for method, reply in (("POST", cut()), ("PUT", cut()), ("GET", rejected())):
        script = Script(reply, OK)
        assert isinstance(await outcome(script, script.client(), method), TransportError)
        assert len(script.sent) == 1


@on_a_loop
async def test_a_deadline_ends_the_retries() -> None:
    script = Script(rejection(429, "TooManyRequests", Retry_After="2"))
    client = script.client()
    task = Tasks().start(client.request("GET", "/x", timeout_s=5), name="request")
    await script.clock.advance(60)
    assert isinstance(task.exception(), TooManyRequestsError)
    assert script.sent_s == [0.0, 2.0, 4.0]
    assert [request.limits.total for request in script.sent] == pytest.approx([5.0, 3.0, 1.0])


@on_a_loop
async def test_retries_are_rate_limited() -> None:
    script = Script(rejection(429, "TooManyRequests", Retry_After="0"), OK)
    client = script.client(qps=0.5, burst=1)
    assert await outcome(script, client, "GET") == b"{}"
    assert script.sent_s == [0.0, 2.0]


@on_a_loop
async def test_siblings_have_their_own_rate_limit_and_share_connections() -> None:
    script = Script(OK)
    client = script.client(qps=0.001, burst=1)
    sibling = client.sibling(user_agent="test/events")
    await client.request("GET", "/x")
    await sibling.request("GET", "/x")
    assert [request.headers["User-Agent"] for request in script.sent] == ["test/1", "test/events"]
    blocked = Tasks().start(sibling.request("GET", "/x"), name="blocked")
    await settle()
    assert len(script.sent) == 2
    await sibling.close()
    with pytest.raises(TransportError, match="closed"):
        await blocked
    assert script.closed == 0


class Tokens:
    """Numbered credentials."""

    def __init__(self, *, usable: int = 10) -> None:
        self.number = 0
        self.usable = usable
        self._credential: Credential | None = None

    def cached(self) -> Credential | None:
        return self._credential

    async def fetch(self) -> Credential:
        self.number += 1
        if self.number > self.usable:
            raise AccessError("exec: executable who not found")
        self._credential = Credential(f"Bearer {self.number}")
        return self._credential

    def reject(self, credential: Credential) -> None:
        if credential is self._credential:
            self._credential = None


@on_a_loop
async def test_a_rejected_credential_is_renewed_once() -> None:
    script = Script(rejection(401, "Unauthorized"), OK)
    client = script.client(credentials=Tokens())
    await client.request("POST", "/x", body=b"{}")
    assert [request.headers["Authorization"] for request in script.sent] == ["Bearer 1", "Bearer 2"]
    script = Script(rejection(401, "Unauthorized"))
    client = script.client(credentials=Tokens())
    with pytest.raises(UnauthorizedError):
        await client.request("POST", "/x", body=b"{}")
    assert len(script.sent) == 2


@on_a_loop
async def test_a_credential_that_cannot_be_renewed() -> None:
    script = Script(rejection(401, "Unauthorized"))
    with pytest.raises(UnauthorizedError):
        await script.client(credentials=Tokens(usable=1)).request("GET", "/x")
    with pytest.raises(TransportError, match="getting credentials: exec: executable who not found"):
        await script.client(credentials=Tokens(usable=0)).request("GET", "/x")
    assert len(script.sent) == 1


@on_a_loop
async def test_a_fixed_credential_is_not_retried() -> None:
    script = Script(rejection(401, "Unauthorized"))
    with pytest.raises(UnauthorizedError):
        await script.client().request("GET", "/x")
    assert len(script.sent) == 1


@on_a_loop
async def test_the_lane_is_always_left() -> None:
    script = Script(cut(), OK)
    client = script.client(credentials=Tokens(usable=1))
    with pytest.raises(TransportError):
        await client.request("POST", "/x", lane=Lane.EVENT)
    await client.request("POST", "/x", lane=Lane.EVENT)
    assert client._lanes._active == [0, 0, 0, 0]


class RecordingMetrics:
    """Records metrics of requests."""

    def __init__(self) -> None:
        self.observed: list[tuple[object, ...]] = []

    def observe_request(self, verb: str, host: str, code: str, seconds: float) -> None:
        self.observed.append(("request", verb, host, code, seconds))

    def count_answer(self, verb: str, host: str, code: str) -> None:
        self.observed.append(("answer", code))

    def observe_retry(self, verb: str, host: str, code: str) -> None:
        self.observed.append(("retry", code))

    def observe_rate_limiter(self, verb: str, host: str, seconds: float) -> None:
        self.observed.append(("turn", seconds))

    def observe_sizes(self, verb: str, host: str, sent: int, received: int) -> None:
        self.observed.append(("sizes", sent, received))


@on_a_loop
async def test_metrics_of_a_request_that_was_sent_three_times() -> None:
    metrics = RecordingMetrics()
    script = Script(rejection(429, "TooManyRequests", Retry_After="2"), cut(), OK)
    await outcome(script, script.client(metrics=metrics), "GET")
    assert metrics.observed == [
        ("answer", "429"),
        ("answer", "<error>"),
        ("retry", "<error>"),
        ("request", "GET", "cluster.test:6443", "200", 3.0),
        ("turn", 0.0),
        ("sizes", 0, 2),
        ("retry", "200"),
    ]


@on_a_loop
async def test_a_watch_is_not_rate_limited_and_is_closed_on_exit() -> None:
    answer = ScriptedAnswer(200, b"{}\n")
    script = Script(answer)
    client = script.client(qps=0.001, burst=1)
    for _ in range(3):
        async with client.stream("/x", query={"watch": True}, idle_timeout_s=30) as chunks:
            assert [chunk async for chunk in chunks] == [b"{}\n"]
        assert answer.is_closed
    assert script.sent[0].limits.sock_read == 30
    assert script.sent[0].limits.total is None


@on_a_loop
async def test_a_watch_that_is_rejected() -> None:
    answer = rejection(410, "Expired", "too old resource version: 1 (2)", Retry_After="1")
    script = Script(answer)
    with pytest.raises(GoneError, match="too old"):
        async with script.client().stream("/x"):
            raise AssertionError("it was opened")
    assert answer.is_closed
    assert len(script.sent) == 1


@on_a_loop
async def test_a_watch_renews_its_credential() -> None:
    script = Script(rejection(401, "Unauthorized"), ScriptedAnswer(200, b"x"))
    async with script.client(credentials=Tokens()).stream("/x") as chunks:
        assert [chunk async for chunk in chunks] == [b"x"]
    assert [request.headers["Authorization"] for request in script.sent] == ["Bearer 1", "Bearer 2"]


@on_a_loop
async def test_discovery_lists_the_served_resources() -> None:
    served = msgspec.json.encode({"resources": [{"name": "pods"}, {"name": "pods/binding"}]})
    core, none = ScriptedAnswer(200, served), rejection(404, "NotFound")
    script = Script(core, core, none)
    client = script.client()
    resources = (PODS, NODES, LEASES)
    assert [await client.serves(resource) for resource in resources] == [True, False, False]
    assert [request.target for request in script.sent] == [
        "/api/v1",
        "/api/v1",
        "/apis/coordination.k8s.io/v1",
    ]


@on_a_loop
async def test_the_version_of_the_server() -> None:
    script = Script(ScriptedAnswer(200, b'{"major":"1","minor":"36","gitVersion":"v1.36.4"}'))
    assert await script.client().version() == "v1.36.4"
