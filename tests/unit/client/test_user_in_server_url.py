"""A user in the server URL; logs and metrics hide the password."""

from __future__ import annotations

import io

import pytest

from kubesched.client.auth.credentials import ClusterAccess, FixedCredential
from kubesched.client.resources import NODES
from kubesched.client.rest import Client
from kubesched.kit.log import make_log
from kubesched.metrics.instruments import Measures
from kubesched.metrics.process import ProcessMetrics
from tests.unit.client.request_world import Script, ScriptedAnswer, on_a_loop

OK = ScriptedAnswer(200, b"{}")
LATER = ScriptedAnswer(429, b"later", {"Retry-After": "0"})
SERVER = "https://ada:p%40ss@host:6443"


def client_of(script: Script, authorization: str, stream: io.StringIO) -> tuple[Client, Measures]:
    measures = Measures()
    made = Client(
        ClusterAccess(SERVER, FixedCredential(authorization)),
        qps=-1,
        burst=0,
        user_agent="test/1",
        clock=script.clock,
        log=make_log(stream, verbosity=10, clock=script.clock, buffer_bytes=0),
        metrics=ProcessMetrics(measures, version="v1.36.4"),
        transport=script,
    )
    return made, measures


@pytest.mark.parametrize(
    ("authorization", "sent"),
    [
        pytest.param("", "Basic YWRhOnBAc3M=", id="user of the URL"),
        pytest.param("Bearer x", "Bearer x", id="token first"),
    ],
)
@on_a_loop
async def test_the_user_is_the_credential_without_another_one(
    authorization: str, sent: str
) -> None:
    script = Script(OK)
    client, _ = client_of(script, authorization, io.StringIO())
    await client.get(NODES)
    assert [request.headers["Authorization"] for request in script.sent] == [sent]


@on_a_loop
async def test_logs_and_metrics_hide_the_password() -> None:
    script, stream = Script(LATER, OK), io.StringIO()
    client, measures = client_of(script, "", stream)
    await client.get(NODES)
    requests = measures.family("rest_client_requests_total")
    assert {labels[2] for labels, _ in requests.children()} == {"host:6443"}
    assert 'url="https://ada:***@host:6443/api/v1/nodes"' in stream.getvalue()
