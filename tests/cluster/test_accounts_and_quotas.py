"""Default objects of namespaces, resource quotas, and aggregated roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import World
from tests.cluster.owned import MERGE_PATCH, Document, a_config_map

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ROOT_CA = "kube-root-ca.crt"
DESCRIPTION = "kubernetes.io/description"


def a_pod(name: str, resources: Document | None = None, **spec: Any) -> Document:
    container = {"name": "main", "image": "nginx", "resources": resources or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def a_quota(hard: dict[str, str], **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota"},
        "spec": {"hard": hard, **spec},
    }


def used(world: World) -> dict[str, str]:
    status = world.get(world.path("resourcequotas", "quota")).get("status", {})
    return dict(status.get("used", {}))


def until_used(world: World, **amounts: str) -> None:
    """Wait until a quota's usage has these values; in names, `__` is a slash and `_` a dot."""
    expected = {
        name.replace("__", "/").replace("_", "."): amount for name, amount in amounts.items()
    }
    world.until(lambda: expected.items() <= used(world).items(), f"{expected} is used")


def until_known(world: World, quota: Document) -> None:
    """Create a quota and wait for its status: before, the API server rejects pods."""
    world.create(quota)
    names = quota["spec"]["hard"].keys()
    world.until(lambda: names <= used(world).keys(), "the quota is counted")


# -- accounts and certificates --------------------------------------------------------------------


def test_the_default_service_account_is_recreated(world: World) -> None:
    path = world.path("serviceaccounts", "default")
    before = world.get(path)["metadata"]["uid"]
    world.api.delete(path).must(200)
    world.until(
        lambda: world.get(path).get("metadata", {}).get("uid", before) != before,
        "there is another account",
    )


def test_every_namespace_gets_the_root_ca_config_map(world: World) -> None:
    path = world.path("configmaps", ROOT_CA)
    world.until(lambda: world.get(path), "it is there")
    own = world.get(path)
    assert own["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    assert own["metadata"]["annotations"][DESCRIPTION].startswith("Contains a CA bundle that")
    system = world.get(f"/api/v1/namespaces/kube-system/configmaps/{ROOT_CA}")
    assert system["data"] == own["data"]


def test_changes_of_the_root_ca_config_map_are_reverted(world: World) -> None:
    path = world.path("configmaps", ROOT_CA)
    world.until(lambda: world.get(path), "it is there")
    data = world.get(path)["data"]
    patch = {
        "data": {"ca.crt": "none", "more": "x"},
        "metadata": {"annotations": {DESCRIPTION: None}},
    }
    world.api.patch(path, patch, MERGE_PATCH).must(200)
    world.until(lambda: world.get(path).get("data") == data, "it is put right")
    assert world.get(path)["metadata"]["annotations"][DESCRIPTION]
    world.api.delete(path).must(200)
    world.until(lambda: world.get(path).get("data") == data, "it is recreated")


# -- quotas ---------------------------------------------------------------------------------------


def test_a_quota_counts_existing_objects(world: World) -> None:
    world.create(
        a_pod("one", {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1"}}),
        a_pod("two", {"requests": {"cpu": "250m"}}),
    )
    # Upstream counts the objects of its watch, and does not recount.
    world.until(
        lambda: [pod["status"].get("phase") for pod in world.pods()] == ["Running"] * 2,
        "the pods are known everywhere",
    )
    until_known(
        world, a_quota({"pods": "5", "requests.cpu": "2", "memory": "1Gi", "limits.cpu": "9"})
    )
    until_used(world, pods="2", requests_cpu="350m", memory="64Mi", limits_cpu="1")
    assert world.get(world.path("resourcequotas", "quota"))["status"]["hard"] == {
        "pods": "5",
        "requests.cpu": "2",
        "memory": "1Gi",
        "limits.cpu": "9",
    }


def test_a_deleted_pod_releases_its_quota(world: World) -> None:
    until_known(world, a_quota({"pods": "1", "requests.cpu": "1", "count/pods": "3"}))
    resources = {"requests": {"cpu": "700m"}}
    world.create(a_pod("first", resources))
    until_used(world, pods="1", requests_cpu="700m", count__pods="1")
    rejected = world.api.post(world.path("pods"), a_pod("second", resources)).must(403)
    assert "exceeded quota: quota" in rejected.message
    world.api.delete(world.path("pods", "first"), {"gracePeriodSeconds": 0}).must(200)
    until_used(world, pods="0", requests_cpu="0", count__pods="0")
    world.create(a_pod("second", resources))
    until_used(world, pods="1", requests_cpu="700m")


def test_a_finished_pod_only_counts_as_an_object(world: World) -> None:
    until_known(world, a_quota({"pods": "2", "cpu": "1", "count/pods": "5"}))
    # No kubelet runs it, so that only the test changes its phase.
    gate = [{"name": "example.com/never"}]
    world.create(a_pod("ends", {"requests": {"cpu": "1"}}, schedulingGates=gate))
    until_used(world, pods="1", cpu="1", count__pods="1")
    path = world.path("pods", "ends") + "/status"
    world.api.patch(path, {"status": {"phase": "Failed"}}, MERGE_PATCH).must(200)
    until_used(world, pods="0", cpu="0", count__pods="1")


def test_services_and_claims_are_counted_by_their_requests(world: World) -> None:
    until_known(
        world,
        a_quota(
            {
                "services": "5",
                "services.nodeports": "5",
                "persistentvolumeclaims": "5",
                "requests.storage": "10Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "5Gi",
                "silver.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            }
        ),
    )
    world.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "ports"},
            "spec": {
                "type": "NodePort",
                "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "claim"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gold",
                "resources": {"requests": {"storage": "3Gi"}},
            },
        },
    )
    expected = {
        "services": "1",
        "services.nodeports": "2",
        "persistentvolumeclaims": "1",
        "requests.storage": "3Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "3Gi",
        "silver.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
    }
    world.until(lambda: used(world) == expected, "all of it is counted")
    patch = {"spec": {"type": "ClusterIP"}}
    world.api.patch(world.path("services", "ports"), patch, MERGE_PATCH).must(200)
    world.until(lambda: used(world)["services.nodeports"] == "0", "the ports are given back")
    world.api.delete(world.path("services", "ports")).must(200)
    world.until(lambda: used(world)["services"] == "0", "the service is given back")


def test_objects_of_any_kind_are_counted(world: World) -> None:
    hard = {"count/configmaps": "9", "configmaps": "9", "count/deployments.apps": "1"}
    world.until(lambda: world.get(world.path("configmaps", ROOT_CA)), "the namespace is complete")
    until_known(world, a_quota(hard))
    until_used(world, count__configmaps="1", configmaps="1", count__deployments_apps="0")
    world.create(a_config_map("one"), a_config_map("two"))
    until_used(world, count__configmaps="3", configmaps="3")
    world.api.delete(world.path("configmaps", "one")).must(200)
    until_used(world, count__configmaps="2", configmaps="2")


def test_scopes_select_the_pods_that_count(world: World) -> None:
    until_known(world, a_quota({"pods": "5"}, scopes=["BestEffort", "NotTerminating"]))
    world.create(
        a_pod("best-effort"),
        a_pod("burstable", {"requests": {"cpu": "100m"}}),
        a_pod("with-a-deadline", activeDeadlineSeconds=3600),
    )
    until_used(world, pods="1")
    world.api.delete(world.path("pods", "best-effort"), {"gracePeriodSeconds": 0}).must(200)
    until_used(world, pods="0")


def test_new_limits_in_the_spec_appear_in_the_status(world: World) -> None:
    until_known(world, a_quota({"pods": "1"}))
    path = world.path("resourcequotas", "quota")
    patch = {"spec": {"hard": {"pods": "2", "secrets": "3"}}}
    world.api.patch(path, patch, MERGE_PATCH).must(200)
    world.until(
        lambda: (
            world.get(path)["status"]
            == {"hard": {"pods": "2", "secrets": "3"}, "used": {"pods": "0", "secrets": "0"}}
        ),
        "the status follows",
    )


# -- roles ----------------------------------------------------------------------------------------


@pytest.fixture
def role_names(world: World) -> Iterator[list[str]]:
    """Return names of roles that are deleted afterwards."""
    names = [f"{world.namespace}-{part}" for part in ("whole", "part-1", "part-2")]
    yield names
    for name in names:
        world.api.delete(f"{ROLES}/{name}").must(200, 404)


def test_an_aggregated_role_has_the_rules_of_the_selected_roles(
    world: World, role_names: list[str]
) -> None:
    whole, first, second = role_names
    label = {f"example.com/{world.namespace}": "true"}

    def a_role(name: str, **more: Any) -> Document:
        kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        return {**kind, "metadata": {"name": name}, **more}

    def a_rule(plural: str) -> Document:
        return {"verbs": ["get"], "apiGroups": [""], "resources": [plural]}

    def rules() -> list[Document]:
        return list(world.get(f"{ROLES}/{whole}").get("rules") or [])

    selectors = [{"matchLabels": label}]
    rule = {"clusterRoleSelectors": selectors}
    world.api.post(ROLES, a_role(whole, aggregationRule=rule)).must(201)
    for name, plural in ((second, "pods"), (first, "nodes")):
        role = a_role(name, rules=[a_rule(plural)])
        role["metadata"]["labels"] = label
        world.api.post(ROLES, role).must(201)
    world.until(lambda: rules() == [a_rule("nodes"), a_rule("pods")], "it has both rules")
    world.api.delete(f"{ROLES}/{first}").must(200)
    world.until(lambda: rules() == [a_rule("pods")], "it has one rule less")
    patch = {"metadata": {"labels": None}}
    world.api.patch(f"{ROLES}/{second}", patch, MERGE_PATCH).must(200)
    world.until(lambda: rules() == [], "it has no rules")


def test_default_roles_are_aggregated(world: World) -> None:
    def without_rules() -> list[str]:
        names = ("admin", "edit", "view")
        return [name for name in names if not world.get(f"{ROLES}/{name}").get("rules")]

    world.until(lambda: not without_rules(), "all of them have rules")
