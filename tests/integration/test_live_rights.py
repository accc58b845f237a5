"""The rights of `kubesched run`: what a ServiceAccount needs, and reports of missing rights.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.server import kubeconfig_text
from kubesched.testing import Api, ApiServer, TokenUser
from tests.integration.live_processes import LEASE, Document, Place, Scheduler, start

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "live-account"
CONFIG_MAP = "extension-apiserver-authentication"


def bind(api: Api, role: str) -> str:
    """Bind the account to a ClusterRole; return the binding's path."""
    name = f"{ACCOUNT}-{role.replace(':', '-')}"
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    body: Document = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
    api.post(f"{RBAC}/clusterrolebindings", body).must(201)
    return f"{RBAC}/clusterrolebindings/{name}"


@pytest.fixture
def account(api_server: ApiServer, api: Api, tmp_path: Path) -> Iterator[Path]:
    """Create a ServiceAccount without rights; yield its kubeconfig."""
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    api.post(accounts, {"metadata": {"name": ACCOUNT}}).must(201)
    answer = api.post(f"{accounts}/{ACCOUNT}/token", {"spec": {}}).must(201)
    user = TokenUser(ACCOUNT, answer.json["status"]["token"])
    path = tmp_path / "account.kubeconfig"
    path.write_text(kubeconfig_text(api_server.url, api_server.ca_file, user))
    api.delete(LEASE).must(200, 404)
    yield path
    api.delete(f"{accounts}/{ACCOUNT}").must(200)
    api.delete(LEASE).must(200, 404)


def without_deleting_pods(rule: dict[str, Any]) -> dict[str, Any]:
    if "pods" not in rule["resources"]:
        return rule
    return {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "delete"]}


@pytest.mark.slow
def test_a_service_account_with_the_schedulers_roles_and_with_one_right_less(
    api_server: ApiServer, api: Api, account: Path, tmp_path: Path
) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": "live-high"}, "value": 9}).must(201, 409)
    role = bind(api, "system:kube-scheduler")
    volumes = bind(api, "system:volume-scheduler")
    flags = [f"--{option}-kubeconfig={account}" for option in ("authentication", "authorization")]
    leads = {"leaseDuration": "15s"}
    with ProcessGroup(tmp_path) as group, Place(api) as place, Place(api) as other:
        scheduler = start(api_server, group, *flags, "-v=2", kubeconfig=account, leads=leads)
        schedules_with_two_roles(scheduler, place)
        # A right is revoked while it runs.
        rules = api.get(f"{RBAC}/clusterroles/system:kube-scheduler").json["rules"]
        fewer = {
            "metadata": {"name": "live-fewer"},
            "rules": [without_deleting_pods(rule) for rule in rules],
        }
        api.post(f"{RBAC}/clusterroles", fewer).must(201)
        lesser = bind(api, "live-fewer")
        api.delete(role).must(200)
        reports_a_missing_right(scheduler, other)
    for path in (lesser, volumes, f"{RBAC}/clusterroles/live-fewer"):
        api.delete(path).must(200)


def schedules_with_two_roles(scheduler: Scheduler, place: Place) -> None:
    """Check that it leads, binds and evicts without being forbidden."""
    node = place.node(cpu="1")
    place.pod("low", cpu="800m")
    scheduler.until(lambda: place.node_of("low") == node, "low is bound")
    place.pod("high", cpu="800m", priorityClassName="live-high")
    scheduler.until(lambda: place.node_of("high") == node, "high is bound")
    assert place.read("low") == {}
    assert scheduler.page("/healthz") == (200, "ok")
    assert scheduler.page("/readyz") == (200, "ok")
    assert scheduler.lines("Missing permission") == []
    rejected = [line for line in scheduler.log.splitlines() if "orbidden" in line]
    assert rejected != []
    assert all(CONFIG_MAP in line for line in rejected), rejected
    in_vain = scheduler.metric("rest_client_requests_total", code="403")
    assert in_vain > 0
    assert in_vain == scheduler.metric("rest_client_requests_total", code="403", method="GET")


def reports_a_missing_right(scheduler: Scheduler, place: Place) -> None:
    """Check that it logs a missing right once, is not ready, and still places other pods."""
    node = place.node(cpu="1", labels={"full": "yes"})
    for name in ("one", "two"):
        place.pod(name, cpu="400m", nodeName=node)
    place.pod("high", cpu="800m", priorityClassName="live-high", nodeSelector={"full": "yes"})
    scheduler.until_logged("Missing permission")
    scheduler.until(lambda: scheduler.page("/readyz")[0] == 500, "it is not ready")
    assert scheduler.page("/healthz") == (200, "ok")

    def rejections() -> float:
        return scheduler.metric("rest_client_requests_total", code="403", method="DELETE")

    # It is retried and forbidden again, but not logged again.
    before = rejections()
    assert before >= 1
    scheduler.until(lambda: rejections() > before, "the eviction is tried again")
    log = scheduler.log
    assert log.count("Missing permission; add this rule to the scheduler's role") == 1
    _, _, line = log.partition("Missing permission")
    for part in ('- apiGroups: [""]', 'resources: ["pods"]', "verbs: [delete]"):
        assert part in line
    assert place.node_of("one") == place.node_of("two") == node
    place.node("roomy")
    place.pod("next", nodeSelector={})
    scheduler.until(lambda: bool(place.node_of("next")), "next is bound")
