"""StatefulSets: identity, order, updates and claims of pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from tests.cluster.conftest import World

Document = dict[str, Any]

_APPS = "apps/v1"
_REVISION = "controller-revision-hash"
_POD_NAME = "statefulset.kubernetes.io/pod-name"


def _stateful_set(replicas: int = 3, pod: Document | None = None, **spec: Any) -> Document:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.9"}
    pod_spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **(pod or {})}
    return {
        "apiVersion": _APPS,
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec},
            **spec,
        },
    }


def _path(world: World, name: str = "web") -> str:
    return world.path("statefulsets", name, group=_APPS)


def _get(world: World) -> Document:
    return world.get(_path(world))


def _patch(world: World, spec: Document) -> None:
    world.api.patch(_path(world), {"spec": spec}, MERGE_PATCH).must(200)


def _set_image(world: World, image: str) -> None:
    containers = [{"name": "main", "image": image}]
    _patch(world, {"template": {"spec": {"containers": containers}}})


def _by_name(world: World) -> dict[str, Document]:
    return {pod["metadata"]["name"]: pod for pod in world.pods("app=web")}


def _images(world: World) -> dict[str, str]:
    return {
        name: pod["spec"]["containers"][0]["image"]
        for name, pod in sorted(_by_name(world).items())
        if "deletionTimestamp" not in pod["metadata"]
    }


def _is_settled(stateful_set: Document, replicas: int) -> bool:
    status = stateful_set.get("status", {})
    # As kubectl checks. kube-controller-manager may write the status of a set that is gone, its
    # generation included, to the next one of that name: its update is rejected, the cache by then
    # has the new set, and the same status goes there. Generation 2 stays in the status of a 1.
    return bool(
        status.get("observedGeneration", 0) >= stateful_set["metadata"]["generation"]
        and status.get("replicas") == status.get("readyReplicas", 0) == replicas
        and status.get("availableReplicas") == replicas
    )


def _is_updated(stateful_set: Document, replicas: int) -> bool:
    status = stateful_set.get("status", {})
    return bool(
        _is_settled(stateful_set, replicas)
        and status.get("updatedReplicas") == replicas
        and status.get("currentRevision") == status.get("updateRevision")
    )


def _until_settled(world: World, replicas: int) -> Document:
    world.until(lambda: _is_settled(_get(world), replicas), f"{replicas} replicas are ready")
    return _get(world)


def _until_updated(world: World, replicas: int) -> Document:
    world.until(lambda: _is_updated(_get(world), replicas), "every replica is up to date")
    return _get(world)


def _ready_since(pod: Document) -> str:
    conditions = {condition["type"]: condition for condition in pod["status"]["conditions"]}
    return str(conditions["Ready"]["lastTransitionTime"])


def _deletions(world: World, number: int, since: str) -> list[str]:
    """Return the names of the next deleted pods, in the order of their deletion."""
    query = {"resourceVersion": since, "labelSelector": "app=web"}
    gone: list[str] = []
    with world.api.watch(world.path("pods"), query=query, timeout_s=30.0) as watch:
        for event in watch:
            if event["type"] == "DELETED":
                gone.append(event["object"]["metadata"]["name"])
                if len(gone) == number:
                    return gone
    raise AssertionError(f"the watch ended after {gone}")


def _ungate(world: World, name: str) -> None:
    world.until(lambda: name in _by_name(world), f"{name} is created")
    path = world.path("pods", name)
    world.api.patch(path, {"spec": {"schedulingGates": []}}, MERGE_PATCH).must(200)


_GATED = {"schedulingGates": [{"name": "example.com/wait"}]}


# -- pods come and go -----------------------------------------------------------------------------


def test_pods_have_names_labels_and_an_order(world: World) -> None:
    world.create(_stateful_set(3))
    status = _until_settled(world, 3)["status"]
    pods = _by_name(world)
    assert sorted(pods) == ["web-0", "web-1", "web-2"]
    for number in range(3):
        pod = pods[f"web-{number}"]
        labels = {
            "app": "web",
            "apps.kubernetes.io/pod-index": str(number),
            _REVISION: status["currentRevision"],
            _POD_NAME: f"web-{number}",
        }
        # A pod that is bound has the topology labels of its node, too.
        assert labels.items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["generateName"] == "web-"
        assert pod["spec"]["hostname"] == f"web-{number}"
        assert pod["spec"]["subdomain"] == "web"
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("StatefulSet", "web", True)
    for before, after in (("web-0", "web-1"), ("web-1", "web-2")):
        assert pods[after]["metadata"]["creationTimestamp"] >= _ready_since(pods[before])


def test_the_status_reports_the_progress(world: World) -> None:
    world.create(_stateful_set(2))
    status = _until_updated(world, 2)["status"]
    revision = status["currentRevision"]
    assert status == {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
    }


def test_a_revision_has_the_template_and_upstreams_name(world: World) -> None:
    world.create(_stateful_set(1))
    revision = _until_updated(world, 1)["status"]["currentRevision"]
    found = world.get(world.path("controllerrevisions", revision, group=_APPS))
    # kube-controller-manager's name for this template: a hash of the bytes that Go writes.
    assert revision == "web-99dd8bc4c"
    assert found["revision"] == 1
    assert found["data"]["spec"]["template"]["$patch"] == "replace"
    assert found["metadata"]["labels"] == {
        "app": "web",
        "controller.kubernetes.io/hash": revision.removeprefix("web-"),
    }


def test_pods_are_reported_by_events(world: World) -> None:
    world.create(_stateful_set(1))
    _until_settled(world, 1)
    _patch(world, {"replicas": 0})

    def notes() -> dict[str, str]:
        return {
            one["reason"]: one["message"]
            for one in world.items(world.path("events"))
            if one["involvedObject"]["name"] == "web"
        }

    world.until(lambda: "SuccessfulDelete" in notes(), "the deletion is reported")
    assert notes() == {
        "SuccessfulCreate": "Create Pod web-0 in StatefulSet web successful",
        "SuccessfulDelete": "Delete Pod web-0 in StatefulSet web successful",
    }


def test_each_pod_waits_for_the_previous_one(world: World) -> None:
    world.create(_stateful_set(3, _GATED))
    for number in range(3):
        _ungate(world, f"web-{number}")
        names = sorted(_by_name(world))
        assert names[0] == "web-0"
        assert len(names) <= number + 2
    _until_settled(world, 3)
    pods = _by_name(world)
    assert pods["web-2"]["metadata"]["creationTimestamp"] >= _ready_since(pods["web-1"])


def test_parallel_pods_do_not_wait(world: World) -> None:
    world.create(_stateful_set(3, _GATED, podManagementPolicy="Parallel"))
    world.until(lambda: len(_by_name(world)) == 3, "all are created, and none is ready")
    _patch(world, {"replicas": 1})
    world.until(lambda: sorted(_by_name(world)) == ["web-0"], "the others are gone, unready")


def test_scaling_down_starts_with_the_last_ordinal(world: World) -> None:
    world.create(_stateful_set(3))
    _until_settled(world, 3)
    since = world.api.get(world.path("pods")).must(200).json["metadata"]["resourceVersion"]
    _patch(world, {"replicas": 0})
    assert _deletions(world, 3, since) == ["web-2", "web-1", "web-0"]
    _until_settled(world, 0)


def test_a_deleted_pod_is_recreated_with_its_name(world: World) -> None:
    world.create(_stateful_set(2))
    _until_settled(world, 2)
    uid = _by_name(world)["web-0"]["metadata"]["uid"]
    world.api.delete(world.path("pods", "web-0")).must(200)
    world.until(
        lambda: _by_name(world).get("web-0", {}).get("metadata", {}).get("uid", uid) != uid,
        "web-0 is another pod",
    )
    _until_settled(world, 2)


def test_a_failed_pod_is_replaced(world: World) -> None:
    world.create(_stateful_set(1))
    _until_settled(world, 1)
    uid = _by_name(world)["web-0"]["metadata"]["uid"]
    path = f"{world.path('pods', 'web-0')}/status"
    world.api.patch(path, {"status": {"phase": "Failed"}}, MERGE_PATCH).must(200)
    world.until(
        lambda: _by_name(world).get("web-0", {}).get("metadata", {}).get("uid", uid) != uid,
        "web-0 is another pod",
    )
    _until_settled(world, 1)


def test_ordinals_may_start_later(world: World) -> None:
    world.create(_stateful_set(2, ordinals={"start": 3}))
    _until_settled(world, 2)
    assert sorted(_by_name(world)) == ["web-3", "web-4"]
    _patch(world, {"ordinals": {"start": 2}})
    world.until(lambda: sorted(_by_name(world)) == ["web-2", "web-3"], "the ordinals moved")


def test_orphans_are_adopted_and_mismatches_released(world: World) -> None:
    world.create(_stateful_set(1))
    uid = _until_settled(world, 1)["metadata"]["uid"]
    path = world.path("pods", "web-0")
    first = world.get(path)["metadata"]["uid"]
    world.api.delete(
        _path(world), {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    ).must(200)
    world.until(lambda: not _get(world), "the set is gone")
    assert not world.get(path)["metadata"].get("ownerReferences")
    world.create(_stateful_set(1))

    def owner() -> Any:
        references = world.get(path)["metadata"].get("ownerReferences") or [{}]
        return references[0].get("uid")

    world.until(lambda: owner() == _get(world)["metadata"]["uid"] != uid, "web-0 is adopted")
    assert world.get(path)["metadata"]["uid"] == first
    _until_settled(world, 1)
    world.api.patch(path, {"metadata": {"labels": {"app": "stranger"}}}, MERGE_PATCH).must(200)
    world.until(lambda: owner() is None, "web-0 is let go")
    world.api.delete(path).must(200)
    _until_settled(world, 1)


def test_pods_become_available_after_min_ready_seconds(world: World) -> None:
    world.create(_stateful_set(2, minReadySeconds=1))
    _until_settled(world, 2)
    pods = _by_name(world)
    assert pods["web-1"]["metadata"]["creationTimestamp"] > _ready_since(pods["web-0"])


# -- updates --------------------------------------------------------------------------------------


def test_an_update_replaces_the_last_first(world: World) -> None:
    world.create(_stateful_set(3))
    before = _until_updated(world, 3)["status"]["currentRevision"]
    since = world.api.get(world.path("pods")).must(200).json["metadata"]["resourceVersion"]
    _set_image(world, "registry.k8s.io/pause:3.10")
    assert _deletions(world, 3, since) == ["web-2", "web-1", "web-0"]
    status = _until_updated(world, 3)["status"]
    assert status["currentRevision"] != before
    assert status["currentReplicas"] == 3
    assert set(_images(world).values()) == {"registry.k8s.io/pause:3.10"}


def test_a_partition_protects_lower_ordinals(world: World) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    world.create(_stateful_set(3, updateStrategy=rolling))
    _until_updated(world, 3)
    _set_image(world, "registry.k8s.io/pause:3.10")
    old, new = "registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10"

    def counts() -> tuple[Any, ...]:
        status = _get(world)["status"]
        names = ("readyReplicas", "updatedReplicas", "currentReplicas")
        return tuple(status.get(name) for name in names)

    world.until(lambda: counts() == (3, 1, 2), "the one behind the partition is updated")
    assert _images(world) == {"web-0": old, "web-1": old, "web-2": new}
    world.api.delete(world.path("pods", "web-0")).must(200)
    world.until(lambda: counts() == (3, 1, 2) and len(_images(world)) == 3, "web-0 is back")
    assert _images(world)["web-0"] == old
    _patch(world, {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    _until_updated(world, 3)
    assert set(_images(world).values()) == {new}


def test_on_delete_replaces_only_deleted_pods(world: World) -> None:
    world.create(_stateful_set(2, updateStrategy={"type": "OnDelete"}))
    _until_settled(world, 2)
    old, new = "registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10"
    _set_image(world, new)
    world.until(
        lambda: _get(world)["status"]["updateRevision"] != _get(world)["status"]["currentRevision"],
        "there is a new revision",
    )
    world.api.delete(world.path("pods", "web-0")).must(200)
    world.until(lambda: _images(world) == {"web-0": new, "web-1": old}, "only web-0 is new")
    _until_settled(world, 2)


def test_a_rollback_reuses_the_earlier_revision(world: World) -> None:
    world.create(_stateful_set(1))
    first = _until_updated(world, 1)["status"]["currentRevision"]
    _set_image(world, "registry.k8s.io/pause:3.10")
    world.until(
        lambda: _is_updated(_get(world), 1) and _get(world)["status"]["currentRevision"] != first,
        "the update is done",
    )
    _set_image(world, "registry.k8s.io/pause:3.9")
    world.until(
        lambda: _is_updated(_get(world), 1) and _get(world)["status"]["currentRevision"] == first,
        "it is back at the first revision",
    )
    found = world.items(world.path("controllerrevisions", group=_APPS))
    assert sorted(one["revision"] for one in found) == [2, 3]


def test_old_revisions_are_deleted(world: World) -> None:
    def is_seen() -> bool:
        found = _get(world)
        return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])

    world.create(_stateful_set(0, revisionHistoryLimit=1))
    world.until(is_seen, "the set is seen")
    for number in range(4):
        _set_image(world, f"registry.k8s.io/pause:{number}")
        world.until(is_seen, "the template is seen")

    def numbers() -> list[int]:
        found = world.items(world.path("controllerrevisions", group=_APPS))
        return sorted(one["revision"] for one in found)

    # The newest is in use, and one is kept.
    world.until(lambda: numbers() == [4, 5], "only two are left")


@pytest.mark.programs
def test_kubectl_rolls_out_and_back(world: World) -> None:
    world.create(_stateful_set(2))
    _until_updated(world, 2)
    world.kubectl("set", "image", "statefulset/web", "main=registry.k8s.io/pause:3.10")
    output = world.kubectl("rollout", "status", "statefulset/web", "--timeout=30s")
    assert "partitioned roll out complete: 2 new pods have been updated..." in output
    assert set(_images(world).values()) == {"registry.k8s.io/pause:3.10"}
    history = world.kubectl("rollout", "history", "statefulset/web")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
    assert "pause:3.9" in world.kubectl("rollout", "history", "statefulset/web", "--revision=1")
    assert "statefulset.apps/web rolled back" in world.kubectl("rollout", "undo", "statefulset/web")
    world.kubectl("rollout", "status", "statefulset/web", "--timeout=30s")
    assert set(_images(world).values()) == {"registry.k8s.io/pause:3.9"}
    output = world.kubectl("rollout", "undo", "statefulset/web", "--to-revision=3")
    assert "skipped rollback (current template already matches revision 3)" in output


@pytest.mark.programs
def test_kubectl_restarts(world: World) -> None:
    world.create(_stateful_set(2))
    _until_updated(world, 2)
    uids = {name: pod["metadata"]["uid"] for name, pod in _by_name(world).items()}
    world.kubectl("rollout", "restart", "statefulset/web")
    world.kubectl("rollout", "status", "statefulset/web", "--timeout=30s")
    now = {name: pod["metadata"]["uid"] for name, pod in _by_name(world).items()}
    assert sorted(now) == ["web-0", "web-1"]
    assert not set(now.values()) & set(uids.values())


# -- claims ---------------------------------------------------------------------------------------


_CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def _with_claims(replicas: int, **policy: str) -> Document:
    spec: Document = {"volumeClaimTemplates": [_CLAIM], "podManagementPolicy": "Parallel"}
    if policy:
        spec["persistentVolumeClaimRetentionPolicy"] = policy
    # Nothing binds the claims, so the pods wait: only the claims are tested.
    return _stateful_set(replicas, _GATED, **spec)


def _claims(world: World) -> dict[str, Document]:
    found = world.items(world.path("persistentvolumeclaims"))
    return {
        one["metadata"]["name"]: one for one in found if "deletionTimestamp" not in one["metadata"]
    }


def _owners(world: World, claim: str) -> list[tuple[str, str]]:
    references = _claims(world).get(claim, {}).get("metadata", {}).get("ownerReferences") or ()
    return [(reference["kind"], reference["name"]) for reference in references]


def test_every_pod_has_its_claim_and_claims_are_retained(world: World) -> None:
    world.create(_with_claims(2))
    world.until(lambda: len(_by_name(world)) == 2, "the pods are created")
    claims = _claims(world)
    assert sorted(claims) == ["data-web-0", "data-web-1"]
    assert claims["data-web-0"]["metadata"]["labels"] == {"app": "web"}
    volumes = {volume["name"]: volume for volume in _by_name(world)["web-1"]["spec"]["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "data-web-1"}
    _patch(world, {"replicas": 1})
    world.until(lambda: len(_by_name(world)) == 1, "web-1 is gone")
    assert sorted(_claims(world)) == ["data-web-0", "data-web-1"]
    world.api.delete(_path(world)).must(200)
    world.until(lambda: not _by_name(world), "all pods are gone")
    assert sorted(_claims(world)) == ["data-web-0", "data-web-1"]


def test_a_deleted_claim_is_recreated(world: World) -> None:
    world.create(_with_claims(1))
    world.until(lambda: "web-0" in _by_name(world), "the pod is created")
    uid = _claims(world)["data-web-0"]["metadata"]["uid"]
    path = world.path("persistentvolumeclaims", "data-web-0")
    world.api.patch(path, {"metadata": {"finalizers": None}}, MERGE_PATCH).must(200)
    world.api.delete(path).must(200)
    # Claims are not watched: the next change of the pod brings it back.
    annotations = {"metadata": {"annotations": {"example.com/touched": "1"}}}

    def is_back() -> bool:
        claim = _claims(world).get("data-web-0")
        if claim is not None and claim["metadata"]["uid"] != uid:
            return True
        world.api.patch(world.path("pods", "web-0"), annotations, MERGE_PATCH).must(200)
        annotations["metadata"]["annotations"]["example.com/touched"] += "1"
        return False

    world.until(is_back, "the claim is back")


def test_claims_are_deleted_with_the_set(world: World) -> None:
    world.create(_with_claims(2, whenDeleted="Delete", whenScaled="Retain"))
    world.until(
        lambda: all(
            _owners(world, name) == [("StatefulSet", "web")]
            for name in ("data-web-0", "data-web-1")
        ),
        "the set owns its claims",
    )
    world.api.delete(_path(world)).must(200)
    world.until(lambda: not _claims(world), "the claims are gone")


def test_claims_are_deleted_when_scaled_down(world: World) -> None:
    world.create(_with_claims(2, whenDeleted="Retain", whenScaled="Delete"))
    world.until(lambda: len(_by_name(world)) == 2, "the pods are created")
    _patch(world, {"replicas": 1})
    world.until(lambda: sorted(_claims(world)) == ["data-web-0"], "the second claim is gone")
    assert _owners(world, "data-web-0") == []
    _patch(world, {"replicas": 2})
    world.until(lambda: "data-web-1" in _claims(world), "there is a new claim")


def test_the_retention_policy_can_change(world: World) -> None:
    world.create(_with_claims(1))
    world.until(lambda: "web-0" in _by_name(world), "the pod is created")
    assert _owners(world, "data-web-0") == []
    _patch(world, {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}})
    world.until(
        lambda: _owners(world, "data-web-0") == [("StatefulSet", "web")], "the set owns its claim"
    )
    _patch(world, {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}})
    world.until(lambda: _owners(world, "data-web-0") == [], "it has no owner")
