"""The responses of the ops server equal kube-scheduler's.

Recorded from kube-scheduler v1.36.4 on a real API server: `pytest --programs --record
tests/integration/test_ops_server_responses.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.real_cluster import RealCluster
from kubesched.cluster.launch.server import ADMIN, SCHEDULER
from kubesched.testing import ApiServer, Programs
from tests.integration.ops_requests import REQUESTS, TOKENS, Ask, recorded
from tests.integration.ops_world import Shown, ask, certificates, ops_world

ANSWERS = Path(__file__).parent / "answers" / "ops_server.json"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def answers() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    return found


@pytest.fixture(scope="module")
def ops_url(api_server: ApiServer) -> Iterator[str]:
    publish_authorities(api_server)
    with ops_world(api_server) as world:
        yield world.url


@pytest.fixture(scope="module")
def shown(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shown]:
    return certificates(api_server, tmp_path_factory.mktemp("certificates"))


def publish_authorities(cluster: ApiServer) -> None:
    """Enable the headers of a front proxy, as flags of kube-apiserver do."""
    assert cluster.ca_file is not None
    authority = cluster.ca_file.read_text()
    data = {
        "requestheader-allowed-names": '["front"]',
        "requestheader-client-ca-file": authority,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    with cluster.api(ADMIN) as api:
        assert api.get(TRUST).must(200).json["data"]["client-ca-file"] == authority
        api.patch(TRUST, {"data": data}, MERGE_PATCH).must(200)


def send(url: str, asked: Ask, shown: dict[str, Shown]) -> dict[str, Any]:
    for one in asked.before:
        send(url, one, shown)
    kind, _, name = asked.who.partition(" ")
    answer = ask(
        url,
        asked.path,
        method=asked.method,
        token=TOKENS.get(asked.who),
        shown=shown[name] if kind == "certificate" else None,
        headers=dict(asked.headers),
        body=None if asked.body is None else asked.body.encode(),
    )
    return recorded(asked, answer)


@pytest.mark.parametrize("asked", REQUESTS, ids=lambda one: one.name)
def test_responses_equal_kube_schedulers(
    asked: Ask, ops_url: str, shown: dict[str, Shown], request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--record"):
        pytest.skip("recording")
    assert send(ops_url, asked, shown) == answers()[asked.name]


def test_every_recorded_response_has_a_request() -> None:
    assert len({request.name for request in REQUESTS}) == len(REQUESTS)
    assert answers().keys() == {request.name for request in REQUESTS}


@pytest.mark.programs
def test_kube_scheduler_still_responds_so(
    bare_cluster: RealCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    programs = Programs.built()
    port = free_ports(1)[0]
    kubeconfig = bare_cluster.kubeconfigs[SCHEDULER.name]
    shown = certificates(bare_cluster, tmp_path)
    with ProcessGroup(tmp_path) as processes:
        flags = [
            *(
                f"--{one}kubeconfig={kubeconfig}"
                for one in ("", "authentication-", "authorization-")
            ),
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
        ]
        processes.start("kube-scheduler", [programs.path("kube-scheduler"), *flags])
        url = f"https://127.0.0.1:{port}"
        processes.wait_until(lambda: is_ready(url), "kube-scheduler", timeout_s=30)
        found = {request.name: send(url, request, shown) for request in REQUESTS}
    if request.config.getoption("--record"):
        ANSWERS.parent.mkdir(exist_ok=True)
        ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == answers()


def is_ready(url: str) -> bool:
    try:
        leads = ask(url, "/metrics/resources", token=ADMIN.token).headers["Content-Type"]
        return ask(url, "/readyz").code == 200 and leads is not None
    except OSError:
        return False
