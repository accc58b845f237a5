"""A server's address may name a user; texts and metrics never show the password."""

from __future__ import annotations

import io

import pytest

from kubesched.client.auth import ClusterAccess, FixedCredential
from kubesched.client.resources import NODES
from kubesched.client.rest import Client
from kubesched.kit.log import make_log
from kubesched.kit.measures import Measures
from kubesched.model.process_metrics import ProcessMetrics
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
        pytest.param("", "Basic YWRhOnBAc3M=", id="it says who we are"),
        pytest.param("Bearer x", "Bearer x", id="a token goes before it"),
    ],
)
@on_a_loop
async def test_the_user_counts_where_nothing_else_says_who_we_are(
    authorization: str, sent: str
) -> None:
    script = Script(OK)
    client, _ = client_of(script, authorization, io.StringIO())
    await client.get(NODES)
    assert [one.headers["Authorization"] for one in script.sent] == [sent]


@on_a_loop
async def test_neither_lines_nor_metrics_show_the_password() -> None:
    script, stream = Script(LATER, OK), io.StringIO()
    client, measures = client_of(script, "", stream)
    await client.get(NODES)
    requests = measures.family("rest_client_requests_total")
    assert {labels[2] for labels, _ in requests.children()} == {"host:6443"}
    assert 'url="https://ada:***@host:6443/api/v1/nodes"' in stream.getvalue()
