"""DaemonSets: placement on nodes and rolling updates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from tests.cluster.conftest import World

Document = dict[str, Any]

_APPS = "apps/v1"
_REVISION = "controller-revision-hash"
_OLD, _NEW = "registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10"


def _daemon_set(pod: Document | None = None, **spec: Any) -> Document:
    pod_spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": _OLD}],
        **(pod or {}),
    }
    return {
        "apiVersion": _APPS,
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pod_spec},
            **spec,
        },
    }


def _rolling(**limits: int | str) -> Document:
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def _path(world: World) -> str:
    return world.path("daemonsets", "agent", group=_APPS)


def _get(world: World) -> Document:
    return world.get(_path(world))


def _patch(world: World, spec: Document) -> None:
    world.api.patch(_path(world), {"spec": spec}, MERGE_PATCH).must(200)


def _set_image(world: World, image: str) -> None:
    _patch(world, {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}})


def _counts(daemon_set: Document) -> tuple[int, ...]:
    """Return desired, current, ready, up to date, available, misscheduled."""
    status = daemon_set.get("status", {})
    return tuple(
        status.get(name, 0)
        for name in (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberMisscheduled",
        )
    )


def _is_observed(daemon_set: Document) -> bool:
    status = daemon_set.get("status", {})
    return bool(status.get("observedGeneration") == daemon_set["metadata"]["generation"])


def _until_settled(world: World, count: int, misscheduled: int = 0) -> Document:
    expected = (count,) * 5 + (misscheduled,)
    world.until(
        lambda: _is_observed(_get(world)) and _counts(_get(world)) == expected,
        f"{count} daemons run, up to date",
    )
    return _get(world)


def _by_node(world: World) -> dict[str, Document]:
    """Return the pods that stay, by the node they are for."""
    return {
        pod["spec"].get("nodeName", pod["metadata"]["name"]): pod
        for pod in world.pods("app=agent")
        if "deletionTimestamp" not in pod["metadata"]
    }


def _images(world: World) -> list[str]:
    pods = _by_node(world).values()
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods)


@contextmanager
def _node_patched(world: World, node: str, patch: Document, back: Document) -> Iterator[None]:
    path = f"/api/v1/nodes/{node}"
    world.api.patch(path, patch, MERGE_PATCH).must(200)
    try:
        yield
    finally:
        world.api.patch(path, back, MERGE_PATCH).must(200)


def _labelled(world: World, node: str) -> Any:
    """Give a node a label that only this test's daemons select."""
    key = f"example.com/{world.namespace}"
    labels = {"metadata": {"labels": {key: "yes"}}}
    return _node_patched(world, node, labels, {"metadata": {"labels": {key: None}}})


def _tainted(world: World, node: str, effect: str) -> Any:
    taint = {"key": f"example.com/{world.namespace}", "effect": effect}
    return _node_patched(world, node, {"spec": {"taints": [taint]}}, {"spec": {"taints": None}})


def _selecting(world: World) -> Document:
    return {"nodeSelector": {f"example.com/{world.namespace}": "yes"}}


# -- where daemons are ----------------------------------------------------------------------------


def test_every_node_has_one_daemon_pod(world: World) -> None:
    world.create(_daemon_set())
    daemon_set = _until_settled(world, len(world.nodes))
    pods = _by_node(world)
    assert sorted(pods) == sorted(world.nodes)
    (revision,) = world.items(world.path("controllerrevisions", group=_APPS))
    hash_ = revision["metadata"]["labels"][_REVISION]
    assert revision["metadata"]["name"] == f"agent-{hash_}"
    for node, pod in pods.items():
        assert pod["metadata"]["generateName"] == "agent-"
        assert pod["metadata"]["labels"][_REVISION] == hash_
        assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("DaemonSet", daemon_set["metadata"]["uid"])
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        assert pod["spec"]["affinity"] == {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [field]}]
                }
            }
        }


def test_the_status_omits_zero_counts(world: World) -> None:
    world.create(_daemon_set())
    count = len(world.nodes)
    assert _until_settled(world, count)["status"] == {
        "observedGeneration": 1,
        "desiredNumberScheduled": count,
        "currentNumberScheduled": count,
        "numberMisscheduled": 0,
        "numberReady": count,
        "updatedNumberScheduled": count,
        "numberAvailable": count,
    }


def test_daemon_pods_tolerate_unhealthy_nodes(world: World) -> None:
    world.create(_daemon_set())
    _until_settled(world, len(world.nodes))
    pod = _by_node(world)[world.nodes[0]]
    assert pod["spec"]["tolerations"] == [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        for key, effect in (
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
        )
    ]


def test_node_labels_add_and_remove_daemon_pods(world: World) -> None:
    world.create(_daemon_set(_selecting(world)))
    _until_settled(world, 0)
    with _labelled(world, world.nodes[1]):
        _until_settled(world, 1)
        assert list(_by_node(world)) == [world.nodes[1]]
    _until_settled(world, 0)
    world.until(lambda: not world.pods("app=agent"), "the pod is gone")


def _is_misscheduled_when_touched(world: World) -> bool:
    """Check the status, and touch the set: such a taint triggers no sync."""
    daemon_set = _get(world)
    touches = int(daemon_set["metadata"].get("annotations", {}).get("example.com/looks", "0")) + 1
    annotations = {"metadata": {"annotations": {"example.com/looks": str(touches)}}}
    world.api.patch(_path(world), annotations, MERGE_PATCH).must(200)
    return _counts(daemon_set) == (0, 0, 0, 0, 0, 1)


def test_a_no_schedule_taint_keeps_running_daemon_pods(world: World) -> None:
    node = world.nodes[0]
    with _labelled(world, node):
        world.create(_daemon_set(_selecting(world)))
        _until_settled(world, 1)
        uid = _by_node(world)[node]["metadata"]["uid"]
        with _tainted(world, node, "NoSchedule"):
            world.until(lambda: _is_misscheduled_when_touched(world), "it is misscheduled")
            assert _by_node(world)[node]["metadata"]["uid"] == uid
        _until_settled(world, 1)


def test_a_no_execute_taint_removes_daemon_pods(world: World) -> None:
    node = world.nodes[0]
    with _labelled(world, node):
        world.create(_daemon_set(_selecting(world)))
        _until_settled(world, 1)
        with _tainted(world, node, "NoExecute"):
            world.until(lambda: not _by_node(world), "the pod is gone")
            _until_settled(world, 0)
        _until_settled(world, 1)


@pytest.mark.programs
def test_a_cordoned_node_has_its_daemon_pod(world: World) -> None:
    node = world.nodes[2]
    world.kubectl("cordon", node)
    try:
        with _labelled(world, node):
            world.create(_daemon_set(_selecting(world)))
            _until_settled(world, 1)
    finally:
        world.kubectl("uncordon", node)


def test_daemon_pods_follow_added_and_deleted_nodes(world: World) -> None:
    name = f"late-{world.namespace}"
    label = f"example.com/{world.namespace}"
    world.create(_daemon_set(_selecting(world)))
    _until_settled(world, 0)
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    world.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {label: "yes", "kubernetes.io/hostname": name},
                "annotations": {"kubesched.dev/heartbeat": "on"},
            },
            "status": {"capacity": amounts, "allocatable": amounts},
        }
    )
    try:
        _until_settled(world, 1)
        assert list(_by_node(world)) == [name]
    finally:
        world.api.delete(f"/api/v1/nodes/{name}").must(200)


# -- daemons that end -----------------------------------------------------------------------------


def test_a_deleted_daemon_pod_is_recreated(world: World) -> None:
    world.create(_daemon_set())
    count = len(world.nodes)
    _until_settled(world, count)
    pod = _by_node(world)[world.nodes[0]]["metadata"]
    world.api.delete(world.path("pods", pod["name"])).must(200)
    world.until(
        lambda: (
            _by_node(world).get(world.nodes[0], {"metadata": pod})["metadata"]["uid"] != pod["uid"]
        ),
        "there is another",
    )
    _until_settled(world, count)


def test_a_failed_daemon_pod_is_replaced_with_an_event(world: World) -> None:
    world.create(_daemon_set())
    count = len(world.nodes)
    _until_settled(world, count)
    node = world.nodes[0]
    pod = _by_node(world)[node]["metadata"]
    path = f"{world.path('pods', pod['name'])}/status"
    world.api.patch(path, {"status": {"phase": "Failed"}}, MERGE_PATCH).must(200)
    world.until(
        lambda: _by_node(world).get(node, {"metadata": pod})["metadata"]["uid"] != pod["uid"],
        "there is another",
    )
    _until_settled(world, count)
    reported = {"FailedDaemonPod", "SuccessfulDelete"}
    world.until(lambda: reported <= set(world.reasons("agent")), "it is reported")
    notes = {
        one["reason"]: one["message"]
        for one in world.items(world.path("events"))
        if one["involvedObject"]["name"] == "agent"
    }
    name = f"{world.namespace}/{pod['name']}"
    assert notes["FailedDaemonPod"] == (
        f"Found failed daemon pod {name} on node {node}, will try to kill it"
    )
    assert notes["SuccessfulDelete"] == f"Deleted pod: {pod['name']}"
    assert notes["SuccessfulCreate"].startswith("Created pod: agent-")


def test_a_pod_that_no_longer_matches_is_released(world: World) -> None:
    world.create(_daemon_set())
    count = len(world.nodes)
    _until_settled(world, count)
    pod = _by_node(world)[world.nodes[0]]["metadata"]
    path = world.path("pods", pod["name"])
    world.api.patch(path, {"metadata": {"labels": {"app": "other"}}}, MERGE_PATCH).must(200)
    world.until(lambda: not world.get(path)["metadata"].get("ownerReferences"), "the pod is let go")
    _until_settled(world, count)
    assert pod["uid"] not in [one["metadata"]["uid"] for one in _by_node(world).values()]


# -- updates --------------------------------------------------------------------------------------


def test_an_update_replaces_every_daemon(world: World) -> None:
    world.create(_daemon_set(updateStrategy=_rolling(maxUnavailable=1)))
    count = len(world.nodes)
    _until_settled(world, count)
    _set_image(world, _NEW)
    _until_settled(world, count)
    assert _images(world) == [_NEW] * count
    assert {
        pod["metadata"]["labels"]["pod-template-generation"] for pod in _by_node(world).values()
    } == {"2"}
    revisions = world.items(world.path("controllerrevisions", group=_APPS))
    assert sorted(one["revision"] for one in revisions) == [1, 2]


def test_an_update_with_surge_creates_new_pods_first(world: World) -> None:
    world.create(_daemon_set(updateStrategy=_rolling(maxSurge=1, maxUnavailable=0)))
    count = len(world.nodes)
    _until_settled(world, count)
    with world.api.watch(_path(world).rsplit("/", 1)[0], timeout_s=30.0) as watch:
        _set_image(world, _NEW)
        for event in watch:
            status = event["object"].get("status", {})
            # With surge nothing is ever missing.
            assert status.get("numberAvailable") == count
            if _is_observed(event["object"]) and status.get("updatedNumberScheduled") == count:
                break
    _until_settled(world, count)
    world.until(lambda: _images(world) == [_NEW] * count, "the old ones are gone")


def test_on_delete_replaces_only_deleted_pods(world: World) -> None:
    world.create(_daemon_set(updateStrategy={"type": "OnDelete"}))
    count = len(world.nodes)
    _until_settled(world, count)
    _set_image(world, _NEW)
    world.until(
        lambda: _is_observed(_get(world)) and _counts(_get(world))[3] == 0, "none is up to date"
    )
    assert _images(world) == [_OLD] * count
    pod = _by_node(world)[world.nodes[0]]["metadata"]
    world.api.delete(world.path("pods", pod["name"])).must(200)
    world.until(lambda: _counts(_get(world)) == (3, 3, 3, 1, 3, 0), "one is up to date")
    assert _images(world) == sorted([_OLD] * (count - 1) + [_NEW])


def test_a_rollback_reuses_the_earlier_revision(world: World) -> None:
    world.create(_daemon_set(_selecting(world)))
    _until_settled(world, 0)
    for image in (_NEW, _OLD):
        _set_image(world, image)
        _until_settled(world, 0)

    def numbers() -> list[int]:
        revisions = world.items(world.path("controllerrevisions", group=_APPS))
        return sorted(one["revision"] for one in revisions)

    world.until(lambda: numbers() == [2, 3], "the first revision is the third now")


def test_old_revisions_are_deleted(world: World) -> None:
    world.create(_daemon_set(_selecting(world), revisionHistoryLimit=1))
    _until_settled(world, 0)
    for number in range(4):
        _set_image(world, f"registry.k8s.io/pause:{number}")
        _until_settled(world, 0)

    def numbers() -> list[int]:
        revisions = world.items(world.path("controllerrevisions", group=_APPS))
        return sorted(one["revision"] for one in revisions)

    world.until(lambda: numbers() == [4, 5], "only two are left")


@pytest.mark.programs
def test_kubectl_rolls_out_and_back(world: World) -> None:
    world.create(_daemon_set())
    count = len(world.nodes)
    _until_settled(world, count)
    world.kubectl("set", "image", "daemonset/agent", f"main={_NEW}")
    output = world.kubectl("rollout", "status", "daemonset/agent", "--timeout=30s")
    assert 'daemon set "agent" successfully rolled out' in output
    assert _images(world) == [_NEW] * count
    history = world.kubectl("rollout", "history", "daemonset/agent")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
    assert _OLD in world.kubectl("rollout", "history", "daemonset/agent", "--revision=1")
    assert "daemonset.apps/agent rolled back" in world.kubectl("rollout", "undo", "daemonset/agent")
    world.kubectl("rollout", "status", "daemonset/agent", "--timeout=30s")
    assert _images(world) == [_OLD] * count
    output = world.kubectl("rollout", "undo", "daemonset/agent", "--to-revision=3")
    assert "skipped rollback (current template already matches revision 3)" in output


@pytest.mark.programs
def test_kubectl_restarts(world: World) -> None:
    world.create(_daemon_set(updateStrategy=_rolling(maxUnavailable="100%")))
    count = len(world.nodes)
    _until_settled(world, count)
    uids = {pod["metadata"]["uid"] for pod in _by_node(world).values()}
    world.kubectl("rollout", "restart", "daemonset/agent")
    world.kubectl("rollout", "status", "daemonset/agent", "--timeout=30s")
    now = {pod["metadata"]["uid"] for pod in _by_node(world).values()}
    assert len(now) == count
    assert not now & uids
