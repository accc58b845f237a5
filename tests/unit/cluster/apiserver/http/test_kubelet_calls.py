"""Addresses and paths of an API server's calls to a kubelet."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict, MultiDict

from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.http.dispatch import run
from kubesched.cluster.apiserver.http.kubelet_proxy import KubeletCall, rejected_log
from kubesched.cluster.apiserver.http.request_info import request_info
from kubesched.cluster.apiserver.http.request_types import ResourceRequest
from kubesched.cluster.apiserver.strategy import User
from tests.unit.cluster.apiserver.kinds.cluster import Cluster, a_pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def make_node(cluster: Cluster, *addresses: tuple[str, str], port: int = 0) -> None:
    endpoints = {"kubeletEndpoint": {"Port": port}} if port else {}
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "daemonEndpoints": endpoints,
    }
    cluster.make("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})


def call(cluster: Cluster, below: str, *query: tuple[str, str], method: str = "GET") -> KubeletCall:
    parameters: MultiDict[str] = MultiDict(query)
    info = request_info(method, f"{PODS}/p/{below}", parameters)
    request = ResourceRequest(
        info, User("admin", groups=("system:masters",)), parameters, CIMultiDict()
    )
    answer = run(cluster.context, request)
    assert isinstance(answer, KubeletCall)
    return answer


@pytest.mark.parametrize(
    ("addresses", "port", "host"),
    [
        pytest.param([("InternalIP", "10.0.0.7")], 10255, "10.0.0.7:10255", id="its own port"),
        pytest.param([("InternalIP", "10.0.0.7")], 0, "10.0.0.7:10250", id="the usual port"),
        pytest.param(
            [("ExternalIP", "203.0.113.9"), ("InternalIP", "10.0.0.7"), ("Hostname", "host")],
            0,
            "host:10250",
            id="by its name first",
        ),
        pytest.param([("InternalIP", "fd00::7")], 0, "[fd00::7]:10250", id="in brackets"),
    ],
)
def test_the_host_of_a_call(
    cluster: Cluster, addresses: list[tuple[str, str]], port: int, host: str
) -> None:
    make_node(cluster, *addresses, port=port)
    cluster.make(PODS, a_pod(nodeName="n1"))
    found = call(cluster, "log")
    assert found == KubeletCall(f"https://{host}/containerLogs/default/p/a", True, "p")


@pytest.mark.parametrize(
    ("below", "query", "path"),
    [
        pytest.param(
            "log",
            [("follow", "true"), ("tailLines", "5"), ("timestamps", "false")],
            "containerLogs/default/p/a?follow=true&tailLines=5",
            id="options of a log",
        ),
        pytest.param(
            "log",
            [("sinceTime", "2026-01-02T03:04:05.678Z")],
            "containerLogs/default/p/a?sinceTime=2026-01-02T03%3A04%3A05Z",
            id="whole seconds",
        ),
        pytest.param(
            "exec",
            [("command", "ls"), ("command", "-l"), ("stdin", "true"), ("stderr", "false")],
            "exec/default/p/a?command=ls&command=-l&input=1&output=1",
            id="a command and its streams",
        ),
        pytest.param(
            "attach", [("tty", "1")], "attach/default/p/a?error=1&output=1&tty=1", id="a terminal"
        ),
        pytest.param(
            "portforward", [("ports", "80")], "portForward/default/p?port=80", id="a port"
        ),
    ],
)
def test_the_path_of_a_call(
    cluster: Cluster, below: str, query: list[tuple[str, str]], path: str
) -> None:
    make_node(cluster, ("InternalIP", "10.0.0.7"))
    cluster.make(PODS, a_pod(nodeName="n1"))
    method = "GET" if below == "log" else "POST"
    assert call(cluster, below, *query, method=method).url == f"https://10.0.0.7:10250/{path}"


def test_a_node_without_an_address_is_unreachable(cluster: Cluster) -> None:
    make_node(cluster)
    cluster.make(PODS, a_pod(nodeName="n1"))
    with pytest.raises(ApiError, match="no preferred addresses found") as caught:
        call(cluster, "log")
    assert caught.value.code == 500


def test_a_deleted_node_is_unreachable(cluster: Cluster) -> None:
    cluster.make(PODS, a_pod(nodeName="n1"))
    with pytest.raises(ApiError, match='nodes "n1" not found'):
        call(cluster, "log")


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (400, "no log yet", {"code": 400, "reason": "BadRequest", "message": "no log yet"}),
        (
            404,
            'pod "p" does not exist',
            {
                "code": 404,
                "reason": "NotFound",
                "message": "the server could not find the requested resource ( pods/log p)",
            },
        ),
        (
            500,
            "broken",
            {
                "code": 500,
                "reason": "InternalError",
                "message": "Internal error occurred: broken",
            },
        ),
    ],
)
def test_a_rejection_is_passed_on(code: int, text: str, expected: dict[str, Any]) -> None:
    status = rejected_log(code, text, "p").status
    assert {key: status[key] for key in expected} == expected
