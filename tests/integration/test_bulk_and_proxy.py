"""Bulk requests, and the TCP proxy.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from conformance.bulk import BulkError, Request, send_all
from conformance.tcp_proxy import TcpProxy
from kubesched.cluster.launch.server import ADMIN
from kubesched.testing import Api, ApiServer, Watch, usage_of

NODES = "/api/v1/nodes"


def creations(prefix: str, number: int) -> list[Request]:
    bodies = [{"metadata": {"name": f"{prefix}-{one}"}} for one in range(number)]
    return [Request("POST", NODES, json.dumps(body).encode()) for body in bodies]


def test_send_all_sends_every_request(api_server: ApiServer, api: Api) -> None:
    assert send_all(api_server, creations("many", 100), connections=7) == 100
    names = {one["metadata"]["name"] for one in api.get(NODES).must(200).json["items"]}
    assert {f"many-{one}" for one in range(100)} <= names


def test_a_rejection_is_an_error_unless_it_is_tolerated(api_server: ApiServer) -> None:
    send_all(api_server, creations("twice", 1))
    with pytest.raises(BulkError, match="409"):
        send_all(api_server, creations("twice", 1))
    assert send_all(api_server, creations("twice", 1), tolerated=[409]) == 1


def test_cut_resets_open_connections_and_allows_new_ones(
    api_server: ApiServer, tmp_path: Path
) -> None:
    with (
        TcpProxy(api_server) as proxy,
        Api(proxy.url, token=ADMIN.token, ca_file=_ca(api_server)) as api,
    ):
        kubeconfig = proxy.write_kubeconfig(ADMIN, tmp_path / "kubeconfig")
        assert proxy.url in kubeconfig.read_text()
        api.get("/version").must(200)
        with api.watch(NODES, query={"timeoutSeconds": 30}) as watch:
            assert proxy.cut() == 2
            assert is_over(watch)
        api.get("/version").must(200)
        proxy.reject(yes=True)
        proxy.cut()
        with pytest.raises(OSError, match=r".*"):
            api.get("/version")


def test_usage_is_of_the_process() -> None:
    before = usage_of(os.getpid())
    assert 1 < before.resident_mb <= before.peak_mb
    assert usage_of(os.getpid()).cpu_s >= before.cpu_s


def is_over(watch: Watch) -> bool:
    """Return whether a watch ends before the client's timeout."""
    try:
        list(watch)
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def _ca(server: ApiServer) -> Path:
    assert server.ca_file is not None
    return server.ca_file
