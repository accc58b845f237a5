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
from tests.integration.ops_requests import REQUESTS, TOKENS, Request, recorded
from tests.integration.ops_world import ClientCertificate, certificates, ops_world, send_request

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
def client_certificates(
    api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, ClientCertificate]:
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


def send(
    url: str, ops_request: Request, client_certificates: dict[str, ClientCertificate]
) -> dict[str, Any]:
    for one in ops_request.before:
        send(url, one, client_certificates)
    kind, _, name = ops_request.client.partition(" ")
    answer = send_request(
        url,
        ops_request.path,
        method=ops_request.method,
        token=TOKENS.get(ops_request.client),
        certificate=client_certificates[name] if kind == "certificate" else None,
        headers=dict(ops_request.headers),
        body=None if ops_request.body is None else ops_request.body.encode(),
    )
    return recorded(ops_request, answer)


@pytest.mark.parametrize("ops_request", REQUESTS, ids=lambda one: one.name)
def test_responses_equal_kube_schedulers(
    ops_request: Request,
    ops_url: str,
    client_certificates: dict[str, ClientCertificate],
    request: pytest.FixtureRequest,
) -> None:
    if request.config.getoption("--record"):
        pytest.skip("recording")
    assert send(ops_url, ops_request, client_certificates) == answers()[ops_request.name]


def test_every_recorded_response_has_a_request() -> None:
    assert len({request.name for request in REQUESTS}) == len(REQUESTS)
    assert answers().keys() == {request.name for request in REQUESTS}


@pytest.mark.programs
def test_kube_scheduler_still_gives_the_recorded_responses(
    bare_cluster: RealCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    programs = Programs.built()
    port = free_ports(1)[0]
    kubeconfig = bare_cluster.kubeconfigs[SCHEDULER.name]
    client_certificates = certificates(bare_cluster, tmp_path)
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
        responses = {request.name: send(url, request, client_certificates) for request in REQUESTS}
    if request.config.getoption("--record"):
        ANSWERS.parent.mkdir(exist_ok=True)
        ANSWERS.write_text(json.dumps(responses, indent=1, sort_keys=True) + "\n")
    assert responses == answers()


def is_ready(url: str) -> bool:
    try:
        leads = send_request(url, "/metrics/resources", token=ADMIN.token).headers["Content-Type"]
        return send_request(url, "/readyz").code == 200 and leads is not None
    except OSError:
        return False
