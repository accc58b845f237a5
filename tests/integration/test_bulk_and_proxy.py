"""Many requests at once, and a way to the server that can be cut.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kubesched.testing import Api, ApiServer, Watch, usage_of
from kubesched.testing.bulk import BulkError, Request, send_all
from kubesched.testing.proxy import TcpProxy
from kubesched.testing.server import ADMIN

NODES = "/api/v1/nodes"


def creations(prefix: str, number: int) -> list[Request]:
    bodies = [{"metadata": {"name": f"{prefix}-{one}"}} for one in range(number)]
    return [Request("POST", NODES, json.dumps(body).encode()) for body in bodies]


def test_all_of_many_are_sent(api_server: ApiServer, api: Api) -> None:
    assert send_all(api_server, creations("many", 100), connections=7) == 100
    names = {one["metadata"]["name"] for one in api.get(NODES).must(200).json["items"]}
    assert {f"many-{one}" for one in range(100)} <= names


def test_a_refusal_is_an_error_unless_it_is_tolerated(api_server: ApiServer) -> None:
    send_all(api_server, creations("twice", 1))
    with pytest.raises(BulkError, match="409"):
        send_all(api_server, creations("twice", 1))
    assert send_all(api_server, creations("twice", 1), tolerated=[409]) == 1


def test_a_cut_breaks_what_is_open_and_lets_the_next_pass(
    api_server: ApiServer, tmp_path: Path
) -> None:
    with (
        TcpProxy(api_server) as way,
        Api(way.url, token=ADMIN.token, ca_file=_ca(api_server)) as api,
    ):
        kubeconfig = way.write_kubeconfig(ADMIN, tmp_path / "kubeconfig")
        assert way.url in kubeconfig.read_text()
        api.get("/version").must(200)
        with api.watch(NODES, query={"timeoutSeconds": 30}) as watch:
            assert way.cut() == 2
            assert is_over(watch)
        api.get("/version").must(200)
        way.refuse(yes=True)
        way.cut()
        with pytest.raises(OSError, match=r".*"):
            api.get("/version")


def test_usage_is_that_of_the_process() -> None:
    before = usage_of(os.getpid())
    assert 1 < before.resident_mb <= before.peak_mb
    assert usage_of(os.getpid()).cpu_s >= before.cpu_s


def is_over(watch: Watch) -> bool:
    """Return whether a watch that the server would keep ends before the client's patience does."""
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
