from __future__ import annotations

import pytest

from kubesched.cluster.controllers.stateful_set.identity import (
    belongs_to_current,
    claims_of,
    identity_matches,
    is_in_range,
    new_pod,
    parent_and_ordinal,
    storage_matches,
)
from tests.unit.cluster.controllers.workload_documents import Document, a_pod, a_stateful_set

_CLAIM = {
    "metadata": {"name": "data", "labels": {"tier": "disk", "app": "other"}},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("web-0", ("web", 0), id="a name and an ordinal"),
        pytest.param("my-web-12", ("my-web", 12), id="a name with dashes"),
        pytest.param("web-2147483647", ("web", 2147483647), id="the greatest ordinal"),
        pytest.param("web-2147483648", ("web", -1), id="no ordinal beyond 32 bits"),
        pytest.param("web", ("", -1), id="no ordinal at all"),
        pytest.param("web-x", ("", -1), id="not a number"),
    ],
)
def test_a_pod_name_holds_parent_and_ordinal(name: str, expected: tuple[str, int]) -> None:
    assert parent_and_ordinal(a_pod(name)) == expected


def test_ordinals_may_start_anywhere() -> None:
    moved = a_stateful_set(2, ordinals={"start": 5})
    assert [is_in_range(a_pod(f"web-{n}"), moved) for n in (4, 5, 6, 7)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_pod_is_named_and_labelled_and_has_its_claims() -> None:
    pod = new_pod(a_stateful_set(volumeClaimTemplates=[_CLAIM]), 2, "web-abc")
    assert pod["metadata"]["name"] == "web-2"
    assert pod["metadata"]["generateName"] == "web-"
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "2",
        "controller-revision-hash": "web-abc",
        "statefulset.kubernetes.io/pod-name": "web-2",
    }
    assert pod["spec"]["hostname"] == "web-2"
    assert pod["spec"]["subdomain"] == "web-service"
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}}
    ]


def test_a_claim_replaces_a_volume_of_the_same_name() -> None:
    stateful_set = a_stateful_set(volumeClaimTemplates=[_CLAIM])
    stateful_set["spec"]["template"]["spec"]["volumes"] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "data", "emptyDir": {}},
    ]
    assert new_pod(stateful_set, 0, "r")["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    assert stateful_set["spec"]["template"]["spec"]["volumes"][1] == {
        "name": "data",
        "emptyDir": {},
    }


def test_the_selector_wins_over_the_labels_of_a_claim_template() -> None:
    (claim,) = claims_of(a_stateful_set(volumeClaimTemplates=[_CLAIM]), 1)
    assert claim["metadata"] == {
        "name": "data-web-1",
        "namespace": "shop",
        "labels": {"tier": "disk", "app": "web"},
    }


def test_missing_identity_and_storage_are_detected() -> None:
    stateful_set = a_stateful_set(volumeClaimTemplates=[_CLAIM])
    pod = new_pod(stateful_set, 1, "r")
    assert identity_matches(stateful_set, pod)
    assert storage_matches(stateful_set, pod)
    del pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    assert not identity_matches(stateful_set, pod)
    pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "data-web-0"
    assert not storage_matches(stateful_set, pod)


def test_an_ordinal_with_leading_zeros_does_not_match() -> None:
    pod = a_pod("web-01")
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = "web-01"
    assert not identity_matches(a_stateful_set(), pod)


@pytest.mark.parametrize(
    ("strategy", "status", "expected"),
    [
        pytest.param(
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
            {},
            [True, True, False],
            id="below the partition: the current revision",
        ),
        pytest.param(
            {"type": "RollingUpdate"},
            {"currentReplicas": 1},
            [True, False, False],
            id="no partition: the current replicas",
        ),
        pytest.param(
            {"type": "OnDelete"}, {"currentReplicas": 3}, [False] * 3, id="on delete: the update"
        ),
    ],
)
def test_the_revision_of_a_missing_pod(
    strategy: Document, status: Document, expected: list[bool]
) -> None:
    stateful_set = a_stateful_set(updateStrategy=strategy, status=status)
    assert [belongs_to_current(stateful_set, ordinal) for ordinal in range(3)] == expected
