"""Matching of volumes to claims; cases are from upstream's index_test.go and binder_test.go."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubesched.cluster.controllers.persistent_volume.binding import unbound_volume
from kubesched.workloads.volume_matching import (
    best_match,
    bound_claim,
    bound_volume,
    claim_status,
    class_of,
    is_bound_to,
    volume_mismatch,
)
from tests.unit.cluster.controllers.volume_documents import (
    Document,
    a_claim,
    a_volume,
    reserved_for,
)


def chosen(claim: Document, *volumes: Document, delays: bool = False) -> str | None:
    found = best_match(claim, volumes, delays=delays)
    return None if found is None else found["metadata"]["name"]


def test_the_smallest_volume_that_is_large_enough() -> None:
    volumes = [a_volume("xl", "100Gi"), a_volume("s", "1Gi"), a_volume("m", "5Gi")]
    assert chosen(a_claim(request="2Gi"), *volumes) == "m"
    assert chosen(a_claim(request="200Gi"), *volumes) is None


def test_units_are_compared_by_value() -> None:
    assert chosen(a_claim(request="1Gi"), a_volume("less", "1G")) is None
    assert chosen(a_claim(request="1G"), a_volume("more", "1Gi")) == "more"


def test_fewer_access_modes_are_preferred_to_a_smaller_size() -> None:
    double = a_volume("both", "1Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"])
    single = a_volume("one", "9Gi", accessModes=["ReadWriteOnce"])
    assert chosen(a_claim(), double, single) == "one"
    assert chosen(a_claim(accessModes=["ReadOnlyMany"]), double, single) == "both"
    assert chosen(a_claim(accessModes=["ReadWriteMany"]), double, single) is None


def test_a_reserved_volume_is_preferred_to_a_smaller_one() -> None:
    claim = a_claim()
    mine = a_volume("mine", "9Gi", claimRef=reserved_for(claim), phase="Pending")
    assert chosen(claim, a_volume("small", "1Gi"), mine) == "mine"


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param(a_volume(phase="Pending"), id="it is not yet available"),
        pytest.param(a_volume(phase="Released"), id="it was released"),
        pytest.param(a_volume(volumeMode="Block"), id="it has no file system"),
        pytest.param(a_volume(storageClassName="gold"), id="it is of another class"),
        pytest.param(a_volume(volumeAttributesClassName="fast"), id="it has other attributes"),
        pytest.param(
            a_volume(claimRef={"namespace": "ns", "name": "other"}), id="it is reserved for another"
        ),
        pytest.param(
            a_volume(claimRef=reserved_for(a_claim(), uid="older")),
            id="it is bound to a claim of that name that is gone",
        ),
    ],
)
def test_volumes_that_do_not_match(volume: Document) -> None:
    assert chosen(a_claim(), volume) is None


def test_a_terminating_volume_does_not_match() -> None:
    claim = a_claim()
    volume = a_volume(claimRef=reserved_for(claim))
    volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert chosen(claim, volume) is None


def test_a_selector_matches_labels_of_volumes() -> None:
    claim = a_claim(selector={"matchLabels": {"disk": "ssd"}})
    assert chosen(claim, a_volume("plain"), a_volume("ssd", labels={"disk": "ssd"})) == "ssd"
    assert chosen(claim, a_volume("plain")) is None


def test_a_claim_that_waits_for_a_consumer_matches_only_reserved_volumes() -> None:
    claim = a_claim()
    assert chosen(claim, a_volume(), delays=True) is None
    mine = a_volume("mine", claimRef=reserved_for(claim, uid=""))
    assert chosen(claim, a_volume(), mine, delays=True) == "mine"


def test_the_class_annotation_overrides_the_field() -> None:
    beta = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert class_of(a_claim(annotations=beta, storageClassName="new")) == "old"
    assert class_of(a_volume(storageClassName="new")) == "new"
    assert class_of(a_claim()) == ""


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        pytest.param(a_volume(), None, id="it fits"),
        pytest.param(a_volume(capacity="1Mi"), "requested PV is too small", id="too small"),
        pytest.param(
            a_volume(storageClassName="gold"), "storageClassName does not match", id="class"
        ),
        pytest.param(a_volume(volumeMode="Block"), "incompatible volumeMode", id="mode"),
        pytest.param(
            a_volume(accessModes=["ReadOnlyMany"]), "incompatible accessMode", id="access"
        ),
        pytest.param(
            a_volume(volumeAttributesClassName="x"),
            "volumeAttributesClassName does not match",
            id="attributes",
        ),
    ],
)
def test_reasons_why_a_named_volume_does_not_satisfy_its_claim(
    volume: Document, problem: str | None
) -> None:
    assert volume_mismatch(volume, a_claim()) == problem


def test_binding_a_free_volume_annotates_it() -> None:
    claim, volume = a_claim(), a_volume()
    before = copy.deepcopy(volume)
    bound = bound_volume(volume, claim)
    assert bound is not None
    assert bound["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "ns",
        "name": "data",
        "uid": "uid-data",
        "resourceVersion": "7",
    }
    assert bound["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert volume == before, "objects of an informer must not be changed"
    assert bound_volume(bound, claim) is None
    assert unbound_volume(bound)["spec"].get("claimRef") is None


def test_a_prebound_volume_keeps_its_reservation() -> None:
    claim = a_claim()
    volume = a_volume(claimRef=reserved_for(claim, uid=""))
    bound = bound_volume(volume, claim)
    assert bound is not None
    assert bound["spec"]["claimRef"]["uid"] == "uid-data"
    assert bound["metadata"]["annotations"] == {}
    assert is_bound_to(bound, claim)
    left = unbound_volume(bound)["spec"]["claimRef"]
    assert (left["name"], left.get("uid")) == ("data", None)


def test_a_prebound_claim_is_not_annotated_as_bound_by_the_controller() -> None:
    volume = a_volume()
    ours, theirs = bound_claim(a_claim(), volume), bound_claim(a_claim(volumeName="disk"), volume)
    assert ours is not None
    assert theirs is not None
    assert ours["spec"]["volumeName"] == "disk"
    assert set(ours["metadata"]["annotations"]) == {
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
    }
    assert set(theirs["metadata"]["annotations"]) == {"pv.kubernetes.io/bind-completed"}
    assert bound_claim(ours, volume) is None


def status_of(claim: Document, phase: str, volume: Document | None) -> Any:
    return claim_status(claim, phase, volume)


def test_a_bound_claim_reports_the_capacity_of_its_volume() -> None:
    volume = a_volume(capacity="5Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"])
    status = status_of(a_claim(), "Bound", volume)
    assert status == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": "5Gi"},
    }
    claim = {**a_claim(), "status": status}
    assert status_of(claim, "Bound", volume) is None
    assert status_of(claim, "Lost", None) == {"phase": "Lost"}


def test_a_bound_claim_keeps_its_own_capacity() -> None:
    claim = a_claim()
    claim["status"] = {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "3Gi"},
    }
    assert status_of(claim, "Bound", a_volume(capacity="5Gi")) is None


def test_a_volume_in_resize_reports_its_previous_capacity() -> None:
    volume = a_volume(annotations={"volume.alpha.kubernetes.io/pre-resize-capacity": "2Gi"})
    assert status_of(a_claim(), "Bound", volume)["capacity"] == {"storage": "2Gi"}
