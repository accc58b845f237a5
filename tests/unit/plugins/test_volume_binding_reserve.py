"""VolumeBinding's Reserve: assumed, released and unbound volumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim
from kubesched.config.types import VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreBindPreFlightResult
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.plugins.volume_binding.delayed_search import REASON_BIND_CONFLICT
from kubesched.plugins.volume_binding.matching import bound_volume
from kubesched.plugins.volume_binding.plugin import VolumeBinding
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, statuses_of
from tests.unit.plugins.volume_objects import (
    HOSTNAME,
    SnapshotHandle,
    a_claim,
    a_class,
    a_volume,
    uses_claim,
)

BIND = unresolvable(REASON_BIND_CONFLICT)
PROVISIONED = a_class(provisioner="csi.example.com")
BESIDE_OTHERS = PreBindPreFlightResult(allow_parallel=True)


class Attempts:
    """A plugin over two nodes, and attempts to place pods."""

    def __init__(self, *objects: Any) -> None:
        nodes = [a_node(name, labels={HOSTNAME: name}) for name in "ab"]
        self.view: ClusterView = a_cluster(nodes, objects=objects)
        self.plugin = VolumeBinding(VolumeBindingArgs(), SnapshotHandle(self.view))

    def filtered(self, pod: PodInfo) -> tuple[CycleState, dict[str, Status]]:
        state, nodes = CycleState(), self.view.all_nodes()
        assert self.plugin.pre_filter(state, pod, nodes) is None
        return state, statuses_of(self.plugin.filter_nodes(state, pod, nodes), nodes.names)

    def rejected(self, claim: str) -> str:
        return "".join(self.filtered(using(claim))[1])

    def reserved(self, claim: str, node: str) -> CycleState:
        state, _ = self.filtered(using(claim))
        assert self.plugin.reserve(state, using(claim), node) is None
        return state


def using(claim: str) -> PodInfo:
    return a_pod(f"of-{claim}", volumes=[uses_claim(claim)])


def test_an_assumed_volume_is_unavailable_until_it_is_released() -> None:
    attempts = Attempts(a_claim("c1"), a_claim("c2"), a_class(), a_volume())
    state = attempts.reserved("c1", "a")
    assert attempts.rejected("c2") == "ab"
    assert attempts.rejected("c1") == ""
    attempts.plugin.unreserve(state, using("c1"), "a")
    assert attempts.rejected("c2") == ""


def test_a_claim_to_be_provisioned_keeps_its_node_until_it_is_released() -> None:
    attempts = Attempts(a_claim("c1"), PROVISIONED)
    state = attempts.reserved("c1", "a")
    assert attempts.rejected("c1") == "b"
    attempts.plugin.unreserve(state, using("c1"), "a")
    attempts.plugin.unreserve(state, using("c1"), "a")
    assert attempts.rejected("c1") == ""


def test_a_later_state_from_the_api_server_replaces_an_assumed_one() -> None:
    attempts = Attempts(a_claim("c1"), PROVISIONED)
    attempts.reserved("c1", "a")
    newer = a_claim("c1", metadata={"resourceVersion": "8"})
    attempts.view.objects.store_of(PersistentVolumeClaim).put("default/c1", newer)
    assert attempts.rejected("c1") == ""


def test_a_volume_that_changed_meanwhile_cannot_be_assumed() -> None:
    attempts = Attempts(a_claim("c1"), a_class(), a_volume())
    state, _ = attempts.filtered(using("c1"))
    newer = a_volume(metadata={"resourceVersion": "4"})
    attempts.view.objects.store_of(PersistentVolume).put("pv", newer)
    status = attempts.plugin.reserve(state, using("c1"), "a")
    assert status == error('"pv" is out of sync (stored: 4, assume: 3)')


def test_nothing_stays_assumed_if_one_of_several_cannot_be_assumed() -> None:
    attempts = Attempts(
        a_claim("c1"), a_claim("c2", size="2Gi"), a_claim("c3"), a_class(), a_volume()
    )
    for name, size in (("pv1", "1Gi"), ("pv2", "2Gi")):
        attempts.view.objects.store_of(PersistentVolume).put(name, a_volume(name, size=size))
    attempts.view.objects.store_of(PersistentVolume).remove("pv")
    pod = a_pod(volumes=[uses_claim("c1", "v1"), uses_claim("c2", "v2")])
    state, _ = attempts.filtered(pod)
    attempts.view.objects.store_of(PersistentVolume).remove("pv2")
    status = attempts.plugin.reserve(state, pod, "a")
    assert status == error('persistentvolumes "pv2" not found')
    assert attempts.rejected("c3") == ""


def test_the_chosen_node_determines_the_assumed_volume() -> None:
    volumes = [a_volume(f"pv-{name}", hosts=name) for name in "ab"]
    attempts = Attempts(a_claim("c1"), a_claim("c2"), a_class(), *volumes)
    attempts.reserved("c1", "b")
    assert attempts.rejected("c2") == "b"


@pytest.mark.parametrize(
    ("objects", "verdict"),
    [
        pytest.param([a_claim(volume="pv"), a_volume()], SKIP, id="all was bound before"),
        pytest.param([a_claim(), a_class(), a_volume()], None, id="a volume is to be bound"),
        pytest.param([a_claim(), PROVISIONED], None, id="a volume is to be provisioned"),
    ],
)
def test_unbound_volumes(objects: list[Any], verdict: object) -> None:
    attempts = Attempts(*objects)
    state = attempts.reserved("claim", "a")
    flight = attempts.plugin.pre_bind_pre_flight(state, using("claim"), "a")
    assert flight == (BESIDE_OTHERS, verdict)


def test_an_unknown_node_has_nothing_to_bind() -> None:
    attempts = Attempts(a_claim(), a_class(), a_volume(hosts="a"))
    state, _ = attempts.filtered(using("claim"))
    missing = error('no pod volume found for node "b"')
    flight = attempts.plugin.pre_bind_pre_flight
    assert flight(state, using("claim"), "b") == (BESIDE_OTHERS, missing)
    assert attempts.plugin.reserve(state, using("claim"), "b") is None
    assert flight(state, using("claim"), "b") == (BESIDE_OTHERS, SKIP)


def test_a_pod_without_claims_has_nothing_to_bind() -> None:
    attempts, state = Attempts(), CycleState()
    assert attempts.plugin.pre_filter(state, a_pod(), attempts.view.all_nodes()) == SKIP
    assert attempts.plugin.reserve(state, a_pod(), "a") is None
    flight = attempts.plugin.pre_bind_pre_flight(state, a_pod(), "a")
    assert flight == (BESIDE_OTHERS, SKIP)


def test_without_pre_filter_reserving_fails() -> None:
    assert Attempts().plugin.reserve(CycleState(), a_pod(), "a") == error("not found")


def test_binding_names_the_claim_and_annotates_the_binder() -> None:
    claim, volume = a_claim(), a_volume()
    bound, changed = bound_volume(volume, claim)
    assert changed
    assert msgspec.to_builtins(bound.spec.claim_ref) == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "claim",
        "uid": "uid-default-claim",
        "resourceVersion": "7",
    }
    assert bound.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert bound_volume(bound, claim) == (bound, False)


def test_a_volume_that_its_owner_reserved_is_not_annotated() -> None:
    kept = a_volume(claimRef={"namespace": "default", "name": "claim"})
    bound, changed = bound_volume(kept, a_claim())
    assert changed
    assert bound.spec.claim_ref is not None
    assert bound.spec.claim_ref.uid == "uid-default-claim"
    assert bound.metadata.annotations == {}
