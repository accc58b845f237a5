from __future__ import annotations

import pytest

from kubesched.cluster.controllers.stateful_set.retention import (
    desired_owner_references,
    has_stale_owner,
    has_unexpected_controller,
    is_owner_up_to_date,
)
from tests.unit.cluster.controllers.workload_documents import Document, a_pod, a_stateful_set

_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "web",
    "uid": "set-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}
_OTHER = {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "x-uid", "controller": True}


def _pod_reference(name: str) -> Document:
    return {**_SET, "apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"{name}-uid"}


def _claim(*owners: Document) -> Document:
    return {"metadata": {"name": "data-web-0", "ownerReferences": list(owners)}}


def _set(when_scaled: str, when_deleted: str) -> Document:
    return a_stateful_set(
        2,
        persistentVolumeClaimRetentionPolicy={
            "whenScaled": when_scaled,
            "whenDeleted": when_deleted,
        },
    )


@pytest.mark.parametrize(
    ("when_scaled", "when_deleted", "pod", "owner"),
    [
        pytest.param("Retain", "Retain", "web-0", None, id="no owner"),
        pytest.param("Retain", "Retain", "web-2", None, id="no owner, scaled down"),
        pytest.param("Retain", "Delete", "web-0", "set", id="the set"),
        pytest.param("Retain", "Delete", "web-2", "set", id="the set, scaled down"),
        pytest.param("Delete", "Retain", "web-0", None, id="no owner while in range"),
        pytest.param("Delete", "Retain", "web-2", "pod", id="the pod once it is one too many"),
        pytest.param("Delete", "Delete", "web-0", "set", id="the set while in range"),
        pytest.param("Delete", "Delete", "web-2", "pod", id="the pod in place of the set"),
    ],
)
def test_the_owner_of_a_claim(
    when_scaled: str, when_deleted: str, pod: str, owner: str | None
) -> None:
    stateful_set, the_pod = _set(when_scaled, when_deleted), a_pod(pod)
    expected = {None: [], "set": [_SET], "pod": [_pod_reference(pod)]}[owner]
    for before in ([], [_SET], [_pod_reference(pod)], [_SET, _pod_reference(pod)]):
        claim = _claim(*before)
        assert desired_owner_references(claim, stateful_set, the_pod) == expected
        assert is_owner_up_to_date(claim, stateful_set, the_pod) == (before == expected)


def test_stale_owners_are_left_alone() -> None:
    claim = _claim({**_SET, "uid": "earlier"})
    stateful_set = _set("Retain", "Delete")
    assert has_stale_owner(claim, stateful_set)
    assert is_owner_up_to_date(claim, stateful_set, a_pod("web-0"))


def test_a_foreign_controller_keeps_the_claim() -> None:
    stateful_set, pod = _set("Retain", "Delete"), a_pod("web-0")
    assert has_unexpected_controller(_claim(_OTHER), stateful_set, pod)
    assert is_owner_up_to_date(_claim(_OTHER), stateful_set, pod)
    both = _claim(_OTHER, {**_SET, "controller": False})
    assert not is_owner_up_to_date(both, stateful_set, pod)
    assert desired_owner_references(both, stateful_set, pod) == [_OTHER]


def test_a_foreign_controller_is_fine_without_a_policy() -> None:
    assert not has_unexpected_controller(_claim(_OTHER), _set("Retain", "Retain"), a_pod("web-0"))


def test_an_owner_that_does_not_control_is_replaced_by_one_that_does() -> None:
    stateful_set, pod = _set("Retain", "Delete"), a_pod("web-0")
    claim = _claim({**_SET, "controller": False})
    assert not is_owner_up_to_date(claim, stateful_set, pod)
    assert desired_owner_references(claim, stateful_set, pod) == [_SET]
