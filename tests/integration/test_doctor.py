"""`kubesched doctor` on a server: its findings, and that its printed rights are enough.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.server import SCHEDULER, TokenUser
from kubesched.kit.clock import SystemClock
from kubesched.testing import ADMIN, PLAIN, Api, ApiServer, a_pod
from tests.unit.cli.running import Run, kubesched

RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def doctor(server: ApiServer, user: TokenUser, *arguments: str) -> Run:
    (port,) = free_ports(1)
    return kubesched(
        "doctor",
        f"--kubeconfig={server.kubeconfigs[user.name]}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        *arguments,
    )


def findings(completed: Run, check: str) -> list[dict[str, str]]:
    return [
        finding for finding in json.loads(completed.out)["findings"] if finding["check"] == check
    ]


def verdicts(completed: Run, check: str) -> list[str]:
    return [finding["verdict"] for finding in findings(completed, check)]


@pytest.fixture(autouse=True)
def nobody_waits(api: Api) -> None:
    """Remove the pods of other tests: the doctor counts pending pods."""
    for pod in api.get("/api/v1/pods").must(200).json["items"]:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        api.delete(path, {"gracePeriodSeconds": 0})


def test_extenders_that_cannot_be_reached_are_named(api_server: ApiServer, tmp_path: Path) -> None:
    (gone,) = free_ports(1)
    config = tmp_path / "config.yaml"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        extenders = [
            {"urlPrefix": f"http://127.0.0.1:{port}/a", "filterVerb": "filter"},
            {"urlPrefix": f"http://me:secret@127.0.0.1:{gone}", "filterVerb": "filter"},
            {"urlPrefix": f"http://127.0.0.1:{gone}/b", "prioritizeVerb": "p", "weight": 1},
        ]
        config.write_text(V1 + yaml.safe_dump({"extenders": extenders}))
        completed = doctor(api_server, ADMIN, f"--config={config}", "--output=json")
    found = findings(completed, "extenders")
    assert [one["verdict"] for one in found] == ["ok", "warn", "warn"]
    assert "secret" not in completed.out
    assert found[1]["text"].startswith("http://me:")
    assert "cannot be placed" in found[1]["advice"]
    assert "are placed without it" in found[2]["advice"]


@pytest.fixture
def lease(api: Api) -> Iterator[Any]:
    """Return a function that creates the lease; the lease is deleted afterwards."""
    created: list[str] = []

    def hold(name: str, age_s: float, holder: str = "them") -> None:
        renewed = datetime.fromtimestamp(SystemClock().now_s() - age_s, UTC)
        text = renewed.isoformat(timespec="microseconds").replace("+00:00", "Z")
        body = {
            "metadata": {"name": name},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": text},
        }
        api.post(LEASES, body).must(201)
        created.append(name)

    yield hold
    for name in created:
        api.delete(f"{LEASES}/{name}").must(200)


@pytest.fixture
def pods(api: Api) -> Iterator[Any]:
    created: list[str] = []

    def create(name: str, scheduler: str) -> None:
        body = a_pod(name, scheduler=scheduler)
        api.post("/api/v1/namespaces/default/pods", body).must(201)
        created.append(name)

    yield create
    for name in created:
        api.delete(f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0}).must(200)


@pytest.mark.parametrize("user", [ADMIN, SCHEDULER], ids=["administrator", "kube-scheduler"])
def test_no_problems_for_a_user_with_all_rights(api_server: ApiServer, user: TokenUser) -> None:
    completed = doctor(api_server, user)
    assert (completed.status, completed.err) == (0, ""), completed.out
    assert "responds, Kubernetes v1.36" in " ".join(completed.out.split())
    assert completed.out.endswith("\nAll checks passed.\n")


def test_every_missing_right_is_reported(api_server: ApiServer) -> None:
    completed = doctor(api_server, PLAIN, "-o", "json")
    assert completed.status == 1
    reported = {finding["text"]: finding for finding in findings(completed, "rights")}
    bind = reported["plain may not create pods/binding: binding pods to nodes"]
    assert bind["verdict"] == "fail"
    assert "doctor --rbac" in bind["advice"]
    read = reported[
        "plain may not get, list, watch poddisruptionbudgets.policy: read by DefaultPreemption"
    ]
    assert read["verdict"] == "fail"
    lookup = (
        "plain may not get configmaps kube-system/extension-apiserver-authentication: "
        "authorities of clients' certificates"
    )
    assert reported[lookup]["verdict"] == "warn"


def test_the_printed_rights_are_enough(api_server: ApiServer, api: Api) -> None:
    printed = kubesched("doctor", "--rbac", "--user=plain")
    assert (printed.status, printed.err) == (0, "")
    paths = []
    for document in yaml.safe_load_all(printed.out):
        namespace = document["metadata"].get("namespace")
        group_path = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
        plural = f"{group_path}/{document['kind'].lower()}s"
        api.post(plural, document).must(201)
        paths.append(f"{plural}/{document['metadata']['name']}")
    try:
        completed = doctor(api_server, PLAIN, "-o", "json")
        assert verdicts(completed, "rights") == ["ok"], findings(completed, "rights")
        assert completed.status == 0
    finally:
        for path in paths:
            api.delete(path).must(200)
    assert len(paths) == 5


def test_rbac_for_a_service_account_creates_the_account() -> None:
    printed = kubesched("doctor", "--rbac", "--service-account=team/mine")
    kinds = [document["kind"] for document in yaml.safe_load_all(printed.out)]
    assert kinds == [
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "RoleBinding",
    ]  # fmt: skip


def test_a_held_lease_is_reported_with_its_holder(api_server: ApiServer, lease: Any) -> None:
    lease("kube-scheduler", 3)
    completed = doctor(api_server, ADMIN, "-o", "json")
    (found,) = findings(completed, "lease")
    assert (completed.status, found["verdict"]) == (0, "warn")
    assert found["text"].startswith("lease kube-system/kube-scheduler is held by them, renewed ")


def test_an_expired_lease_is_no_problem(api_server: ApiServer, lease: Any) -> None:
    lease("kube-scheduler", 100)
    (found,) = findings(doctor(api_server, ADMIN, "-o", "json"), "lease")
    assert found["verdict"] == "ok"
    assert found["text"].endswith("it has expired")


@pytest.mark.parametrize(
    ("spec", "host", "verdict"),
    [
        ({"command": ["kubesched", "run"]}, "holder", "ok"),
        ({"image": "registry.example/kubesched:1"}, "holder", "ok"),
        ({"args": ["--config=/etc/kubesched/scheduler.yaml"]}, "holder", "ok"),
        ({"command": ["kube-scheduler"]}, "holder", "warn"),
        ({"command": ["kubesched", "run"]}, "another", "warn"),
        ({"command": ["kubesched", "run"], "hostNetwork": True}, "its-node", "ok"),
        ({"command": ["kube-scheduler"], "hostNetwork": True}, "its-node", "warn"),
        ({"command": ["kubesched", "run"]}, "its-node", "warn"),
    ],
)
def test_a_lease_held_by_kubesched_is_no_problem(
    api_server: ApiServer, api: Api, lease: Any, spec: dict[str, Any], host: str, verdict: str
) -> None:
    is_on_host = spec.get("hostNetwork", False)
    container = {"name": "c", "image": "i", **spec}
    container.pop("hostNetwork", None)
    body = {
        "metadata": {"name": "holder"},
        "spec": {"containers": [container], "hostNetwork": is_on_host, "nodeName": "its-node"},
    }
    api.post("/api/v1/namespaces/default/pods", body).must(201)
    lease("kube-scheduler", 1, f"{host}_0a1b-2c3d")
    (found,) = findings(doctor(api_server, ADMIN, "-o", "json"), "lease")
    assert found["verdict"] == verdict
    by = "a kubesched, pod default/holder" if verdict == "ok" else f"{host}_0a1b-2c3d"
    assert found["text"].startswith(f"lease kube-system/kube-scheduler is held by {by}, renewed ")


def test_the_rights_of_another_user_are_checked_by_impersonation(api_server: ApiServer) -> None:
    completed = doctor(api_server, ADMIN, "-o", "json", f"--as={PLAIN.name}")
    assert completed.status == 1
    texts = [finding["text"] for finding in findings(completed, "rights")]
    assert "plain may not create pods/binding: binding pods to nodes" in texts
    rejected = doctor(api_server, PLAIN, "-o", "json", f"--as={ADMIN.name}")
    (found,) = findings(rejected, "server")
    assert "cannot impersonate" in found["text"]


def test_two_schedulers_for_the_same_pods_clash(
    api_server: ApiServer, lease: Any, tmp_path: Path
) -> None:
    lease("kube-scheduler", 1)
    alone = doctor(api_server, ADMIN, "-o", "json", "--leader-elect=false")
    other = doctor(api_server, ADMIN, "-o", "json", "--leader-elect-resource-name=mine")
    for completed in (alone, other):
        assert completed.status == 1
        assert (
            "both would place pods of default-scheduler" in findings(completed, "names")[0]["text"]
        )
    config = tmp_path / "config.yaml"
    config.write_text(V1 + "profiles: [{schedulerName: mine}]\n")
    named = doctor(
        api_server,
        ADMIN,
        "-o",
        "json",
        f"--config={config}",
        "--leader-elect-resource-name=mine",
    )
    assert (named.status, verdicts(named, "names")) == (0, ["ok"])
    assert doctor(api_server, ADMIN, "--leader-elect=false", "--shadow").status == 0


def test_pods_without_a_scheduler_are_counted(api_server: ApiServer, pods: Any) -> None:
    pods("ours", "default-scheduler")
    pods("a", "typo")
    pods("b", "typo")
    own, typo = findings(doctor(api_server, ADMIN, "-o", "json"), "names")
    assert own["text"] == "profiles default-scheduler: 1 pod waiting for them now"
    assert typo["verdict"] == "warn"
    assert typo["text"] == "2 pods waiting for scheduler typo, but no profile has that name"


def test_a_port_in_use_is_reported(api_server: ApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        completed = doctor(api_server, ADMIN, "-o", "json", f"--secure-port={port}")
    assert completed.status == 1
    (found,) = findings(completed, "port")
    assert found["text"] == f"cannot serve on 127.0.0.1:{port}: Address already in use"


def test_rejected_credentials_are_reported(api_server: ApiServer, tmp_path: Path) -> None:
    known = api_server.kubeconfigs[PLAIN.name].read_text()
    bad = tmp_path / "kubeconfig"
    bad.write_text(known.replace(PLAIN.token, "nobody"))
    completed = kubesched("doctor", f"--kubeconfig={bad}", "--secure-port=0", "-o", "json")
    assert (completed.status, verdicts(completed, "server")) == (1, ["fail"])
    assert findings(completed, "rights") == []


def test_clocks_of_one_machine_agree(api_server: ApiServer) -> None:
    assert verdicts(doctor(api_server, ADMIN, "-o", "json"), "clocks") == ["ok"]
