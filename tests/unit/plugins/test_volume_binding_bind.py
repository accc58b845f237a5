"""VolumeBinding's pre-bind: its writes, its wait, and the end of the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim
from kubesched.config.types import VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status, error
from kubesched.kit.log import NullLog
from kubesched.plugins.volume_binding.plugin import VolumeBinding
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, statuses_of
from tests.unit.plugins.volume_objects import (
    BOUND,
    HOSTNAME,
    a_claim,
    a_class,
    a_csi_node,
    a_volume,
    uses_claim,
)
from tests.unit.scripted_api import ScriptedApi, conflict, not_found

SELECTED = "volume.kubernetes.io/selected-node"
PROVISIONED = a_class(provisioner="csi.example.com")
TIMEOUT_S = 600
Later = Callable[["World"], None]


class TickingClock:
    """A clock that advances only in sleep; each second may have watch events."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._now_s = 1000.0
        self.slept: list[float] = []

    def now_s(self) -> float:
        return self._now_s

    def monotonic_s(self) -> float:
        return self._now_s

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self._now_s += delay_s
        self._world.second += 1
        for news in self._world.news.pop(self._world.second, ()):
            news(self._world)


class Counter:
    """A counter by label."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._label = ""

    def labels(self, label: str) -> Counter:
        self._label = label
        return self

    def inc(self, count: int = 1) -> None:
        self.counts[self._label] = self.counts.get(self._label, 0) + count


class Metrics:
    def __init__(self) -> None:
        self.volume_scheduling_stage_error_total = Counter()


class World:
    """A plugin over two nodes, a recording API server, and watch events by second."""

    def __init__(self, *objects: Any, timeout_s: int = TIMEOUT_S) -> None:
        nodes = [a_node(name, labels={HOSTNAME: name}) for name in "ab"]
        self.snapshot: ClusterView = a_cluster(nodes, objects=objects)
        self.client = ScriptedApi()
        self.log = NullLog()
        self.metrics = Metrics()
        self.clock = TickingClock(self)
        self.second = 0
        self.news: dict[int, list[Later]] = {}
        self.pods: dict[str, PodInfo] = {}
        self.plugin = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=timeout_s), self)  # type: ignore[arg-type]  # The used parts of a handle.

    def informer(self, resource: str) -> dict[str, PodInfo]:
        assert resource == "pods"
        return self.pods

    def at(self, second: int, *news: Later) -> World:
        self.news.setdefault(second, []).extend(news)
        return self

    def show(self, *objects: PersistentVolume | PersistentVolumeClaim) -> None:
        for obj in objects:
            self.snapshot.objects.store_of(type(obj)).put(obj.key, obj)

    def reserved(self, pod: PodInfo, node: str = "a") -> CycleState:
        state, nodes = CycleState(), self.snapshot.all_nodes()
        assert self.plugin.pre_filter(state, pod, nodes) is None
        self.plugin.filter_nodes(state, pod, nodes)
        assert self.plugin.reserve(state, pod, node) is None
        self.pods[pod.key] = pod
        return state

    def bind(self, *claims: str) -> Status | None:
        pod = using(*(claims or ("claim",)))
        return asyncio.run(self.plugin.pre_bind(self.reserved(pod), pod, "a"))

    def rejected(self, claim: str) -> str:
        """Return the nodes that are rejected for another pod of a claim."""
        state, nodes, pod = CycleState(), self.snapshot.all_nodes(), using(claim)
        assert self.plugin.pre_filter(state, pod, nodes) is None
        return "".join(statuses_of(self.plugin.filter_nodes(state, pod, nodes), nodes.names))


def using(*claims: str) -> PodInfo:
    return a_pod("p", volumes=[uses_claim(name, f"of-{name}") for name in claims])


def bound_claim(name: str = "claim", volume: str = "pv", **parts: Any) -> PersistentVolumeClaim:
    """Return a claim as the controller writes it, newer than our writes."""
    metadata = {"resourceVersion": "900", "annotations": BOUND} | parts.pop("metadata", {})
    return a_claim(name, volume=volume, metadata=metadata, **parts)


def bound_volume(name: str = "pv", claim: str = "claim", **parts: Any) -> PersistentVolume:
    """Return a volume as the API server shows it after it was written."""
    reference = {"namespace": "default", "name": claim, "uid": f"uid-default-{claim}"}
    metadata = {"resourceVersion": "900"} | parts.pop("metadata", {})
    return a_volume(name, metadata=metadata, **{"claimRef": reference} | parts)


def chosen(node: str = "a", **annotations: str) -> dict[str, Any]:
    return {"annotations": {SELECTED: node, **annotations}}


def showing(*objects: Any) -> Later:
    return lambda world: world.show(*objects)


def without(kind: type, key: str) -> Later:
    return lambda world: world.snapshot.objects.store_of(kind).remove(key)


# -- writes ---------------------------------------------------------------------------------------


def test_an_unchanged_volume_is_reserved_for_its_claim() -> None:
    world = World(a_claim(), a_class(), a_volume())
    world.at(1, showing(bound_volume(), bound_claim()))
    assert world.bind() is None
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "claim",
        "uid": "uid-default-claim",
        "apiVersion": "v1",
        "resourceVersion": "7",
        "fieldPath": None,
    }
    mark = {"pv.kubernetes.io/bound-by-controller": "yes"}
    patch = {
        "metadata": {"resourceVersion": "3", "annotations": mark},
        "spec": {"claimRef": reference},
    }
    assert world.client.requests == [("patch", "persistentvolumes pv", patch)]


def test_a_volume_that_its_owner_reserved_is_not_annotated() -> None:
    kept = a_volume(claimRef={"namespace": "default", "name": "claim"})
    world = World(a_claim(), a_class(), kept).at(1, showing(bound_volume(), bound_claim()))
    assert world.bind() is None
    [(_, _, patch)] = world.client.requests
    assert patch["metadata"] == {"resourceVersion": "3"}


def test_provisioning_is_requested_on_the_claim() -> None:
    world = World(a_claim(metadata={"annotations": {"mine": "1"}}), PROVISIONED)
    world.at(1, showing(bound_claim(volume="new", metadata=chosen(**BOUND)), bound_volume("new")))
    assert world.bind() is None
    patch = {"metadata": {"resourceVersion": "7", "annotations": {SELECTED: "a"}}}
    assert world.client.requests == [("patch", "persistentvolumeclaims default/claim", patch)]


def test_volumes_are_written_before_claims() -> None:
    world = World(
        a_claim("c1"), a_claim("c2", size="20Gi"), a_claim("c3"), a_volume("pv"), PROVISIONED
    )
    world.at(
        1,
        showing(
            bound_volume("pv", "c1"),
            bound_claim("c1", "pv"),
            *(bound_claim(c, f"{c}-pv", metadata=chosen(**BOUND)) for c in ("c2", "c3")),
            *(bound_volume(f"{c}-pv", c) for c in ("c2", "c3")),
        ),
    )
    assert world.bind("c2", "c1", "c3") is None
    assert world.client.verbs == [
        "patch persistentvolumes pv",
        "patch persistentvolumeclaims default/c3",
        "patch persistentvolumeclaims default/c2",
    ]


def test_the_servers_rejection_is_the_status_and_nothing_stays_assumed() -> None:
    world = World(a_claim(), a_claim("other"), a_class(), a_volume())
    world.client.failures["patch", "pv"] = conflict("pv", "persistentvolumes")
    assert world.bind() == error(
        'Operation cannot be fulfilled on persistentvolumes "pv": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert world.clock.slept == []
    assert world.rejected("other") == ""
    assert world.metrics.volume_scheduling_stage_error_total.counts == {"bind": 1}


def test_writes_before_a_rejection_stay_assumed() -> None:
    world = World(
        *(a_claim(name) for name in ("c1", "c3")),
        *(a_claim(name, size="2Gi") for name in ("c2", "c4")),
        a_class(),
        a_volume("pv1", size="1Gi"),
        a_volume("pv2", size="2Gi"),
    )
    world.client.failures["patch", "pv2"] = conflict("pv2", "persistentvolumes")
    pod = using("c1", "c2")
    state = world.reserved(pod)
    assert asyncio.run(world.plugin.pre_bind(state, pod, "a")) is not None
    world.plugin.unreserve(state, pod, "a")
    # The first is written: no other pod may use it until the watch shows it.
    assert world.client.verbs == ["patch persistentvolumes pv1", "patch persistentvolumes pv2"]
    world.snapshot.objects.store_of(PersistentVolume).remove("pv2")
    assert world.rejected("c3") == "ab"
    world.show(a_volume("pv2", size="2Gi"))
    assert world.rejected("c4") == ""


def test_a_written_claim_is_released_with_the_attempt() -> None:
    world = World(a_claim(), PROVISIONED, timeout_s=1)
    pod = using("claim")
    state = world.reserved(pod)
    assert asyncio.run(world.plugin.pre_bind(state, pod, "a")) is not None
    assert world.rejected("claim") == "b"
    world.plugin.unreserve(state, pod, "a")
    assert world.rejected("claim") == ""


def test_nothing_is_written_if_all_claims_are_bound() -> None:
    world = World(a_claim(volume="pv"), a_volume())
    assert world.bind() is None
    assert world.client.requests == []


def test_pre_bind_without_the_steps_before_it_fails() -> None:
    world = World()
    assert asyncio.run(world.plugin.pre_bind(CycleState(), a_pod(), "a")) == error("not found")


# -- duration of the wait -------------------------------------------------------------------------


def test_the_claim_is_checked_every_second_until_it_is_bound() -> None:
    world = World(a_claim(), a_class(), a_volume())
    world.at(2, showing(bound_volume())).at(4, showing(bound_claim()))
    assert world.bind() is None
    assert world.clock.slept == [1.0] * 4


@pytest.mark.parametrize(("timeout_s", "slept"), [(3, 3.0), (1, 1.0), (0, 0.0)])
def test_the_wait_times_out(timeout_s: int, slept: float) -> None:
    world = World(a_claim(), a_class(), a_volume(), timeout_s=timeout_s)
    # An event at the timeout is too late.
    world.at(max(timeout_s, 1), showing(bound_volume(), bound_claim()))
    assert world.bind() == error("binding volumes: context deadline exceeded")
    assert sum(world.clock.slept) == slept
    assert world.metrics.volume_scheduling_stage_error_total.counts == {"bind": 1}


def test_states_older_than_the_write_are_ignored() -> None:
    # The volume was written as version 101; the bound state of the claim is older.
    world = World(a_claim(), a_class(), a_volume())
    world.at(1, showing(bound_claim(), a_volume(metadata={"resourceVersion": "100"})))
    world.at(3, showing(bound_volume(metadata={"resourceVersion": "101"})))
    assert world.bind() is None
    assert world.second == 3


# -- end of the wait ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("news", "text"),
    [
        pytest.param(
            lambda world: world.pods.clear(),
            'pod does not exist any more: pod "p" not found',
            id="the pod is gone",
        ),
        pytest.param(
            without(PersistentVolume, "pv"),
            'failed to check binding: persistentvolumes "pv" not found',
            id="the volume is gone",
        ),
        pytest.param(
            without(PersistentVolumeClaim, "default/claim"),
            'failed to check binding: persistentvolumeclaims "default/claim" not found',
            id="the claim is gone",
        ),
        pytest.param(
            showing(a_volume(metadata={"resourceVersion": "900"})),
            'ClaimRef got reset for pv "pv"',
            id="the volume was released",
        ),
        pytest.param(
            showing(bound_volume(claimRef={"namespace": "default", "name": "claim"})),
            'ClaimRef got reset for pv "pv"',
            id="the volume is reserved for a claim of any uid",
        ),
        pytest.param(
            showing(bound_volume(hosts="b")),
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="the volume moved",
        ),
    ],
)
def test_events_that_end_the_wait_for_a_volume(news: Later, text: str) -> None:
    world = World(a_claim(), a_class(), a_volume()).at(2, news)
    assert world.bind() == error(f"binding volumes: {text}")
    assert world.second == 2


@pytest.mark.parametrize(
    ("news", "text"),
    [
        pytest.param(
            without(PersistentVolumeClaim, "default/claim"),
            'failed to check provisioning pvc: persistentvolumeclaims "default/claim" not found',
            id="the claim is gone",
        ),
        pytest.param(
            showing(a_claim(metadata={"resourceVersion": "900"})),
            'selectedNode annotation reset for PVC "claim"',
            id="the selected node was removed with all annotations",
        ),
        pytest.param(
            showing(a_claim(metadata={"resourceVersion": "900", "annotations": {"a": "b"}})),
            'provisioning failed for PVC "claim"',
            id="the selected node was removed",
        ),
        pytest.param(
            showing(a_claim(metadata={"resourceVersion": "900", **chosen("b")})),
            'provisioning failed for PVC "claim"',
            id="another node was selected",
        ),
        pytest.param(
            showing(
                bound_claim(volume="new", metadata=chosen(**BOUND)), bound_volume("new", hosts="b")
            ),
            'pv "new" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="the volume was provisioned on another node",
        ),
    ],
)
def test_events_that_end_the_wait_for_provisioning(news: Later, text: str) -> None:
    world = World(a_claim(), PROVISIONED).at(2, news)
    assert world.bind() == error(f"binding volumes: {text}")
    assert world.second == 2


def test_a_volume_that_appears_after_its_claim_is_awaited() -> None:
    world = World(a_claim(), PROVISIONED)
    world.at(1, showing(bound_claim(volume="new", metadata=chosen(**BOUND))))
    world.at(3, showing(bound_volume("new")))
    assert world.bind() is None
    assert world.second == 3


def test_a_deleted_node_ends_the_wait() -> None:
    world = World(a_claim(), a_class(), a_volume())
    pod = using("claim")
    state = world.reserved(pod)
    world.snapshot = a_cluster([a_node("b")], objects=[a_claim(), a_volume()])
    status = asyncio.run(world.plugin.pre_bind(state, pod, "a"))
    assert status == error('binding volumes: failed to get node "a": node "a" not found')


def test_rows_may_belong_to_other_nodes_after_the_wait() -> None:
    world = World(a_claim(), a_class(), a_volume(hosts="a"))
    pod = using("claim")
    state = world.reserved(pod)
    nodes = [a_node(name, labels={HOSTNAME: name}) for name in "zba"]
    world.snapshot = a_cluster(nodes, objects=[bound_claim(), bound_volume(hosts="a")])
    assert asyncio.run(world.plugin.pre_bind(state, pod, "a")) is None


MIGRATED = a_csi_node("a", migrated="kubernetes.io/aws-ebs")


def an_old_volume(disk: str = "vol-1", **parts: Any) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": disk, "partition": 1}, **parts}


def test_a_migrated_volume_is_translated_before_its_affinity_is_checked() -> None:
    world = World(a_claim(), a_class(), a_volume(), MIGRATED)
    world.at(2, showing(bound_volume(**an_old_volume("aws://zone"))))
    status = world.bind()
    assert status is not None
    assert status.message.startswith(
        "binding volumes: failed to translate pv to csi: could not translate pv: "
    )


def test_an_error_of_the_search_is_counted_for_each_node() -> None:
    world = World(a_claim(selector={"matchLabels": {"a": "-"}}), a_class())
    state, nodes, pod = CycleState(), world.snapshot.all_nodes(), using("claim")
    assert world.plugin.pre_filter(state, pod, nodes) is None
    statuses = statuses_of(world.plugin.filter_nodes(state, pod, nodes), nodes.names)
    assert {status.code.name for status in statuses.values()} == {"ERROR"}
    assert world.metrics.volume_scheduling_stage_error_total.counts == {"predicate": 2}


def test_a_volume_that_cannot_be_assumed_is_counted() -> None:
    world = World(a_claim(), a_class(), a_volume())
    state, nodes, pod = CycleState(), world.snapshot.all_nodes(), using("claim")
    world.plugin.pre_filter(state, pod, nodes)
    world.plugin.filter_nodes(state, pod, nodes)
    world.show(a_volume(metadata={"resourceVersion": "4"}))
    assert world.plugin.reserve(state, pod, "a") is not None
    assert world.metrics.volume_scheduling_stage_error_total.counts == {"assume": 1}


def test_a_cancelled_run_leaves_its_writes_assumed() -> None:
    world = World(a_claim(), a_claim("other"), a_class(), a_volume())
    pod = using("claim")
    state = world.reserved(pod)

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await world.plugin.pre_bind(state, pod, "a")

    def call_off(world: World) -> None:
        raise asyncio.CancelledError

    world.at(1, call_off)
    asyncio.run(main())
    world.plugin.unreserve(state, pod, "a")
    assert world.rejected("other") == "ab"
    world.show(a_volume(metadata={"resourceVersion": "900"}))
    assert world.rejected("other") == ""


def test_writing_a_deleted_claim_fails_with_the_servers_text() -> None:
    world = World(a_claim(), PROVISIONED)
    world.client.failures["patch", "claim"] = not_found("claim", "persistentvolumeclaims")
    assert world.bind() == error('persistentvolumeclaims "claim" not found')
