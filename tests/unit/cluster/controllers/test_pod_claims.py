"""Claims used by pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.controllers.pod_claims import (
    claim_keys,
    ephemeral_volumes,
    has_ended,
    is_made_for,
    uses_claim,
)
from tests.unit.cluster.controllers.volume_documents import Document, a_claim

CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}


def a_pod(*volumes: Document, node: str = "n1", **metadata: Any) -> Document:
    return {
        "metadata": {"name": "web", "namespace": "ns", "uid": "uid-web", **metadata},
        "spec": {"nodeName": node, "volumes": list(volumes)},
        "status": {},
    }


def owned_claim(name: str, uid: str = "uid-web") -> Document:
    claim = a_claim(name)
    claim["metadata"]["ownerReferences"] = [{"uid": uid, "controller": True}]
    return claim


def test_ephemeral_volumes_have_claims_named_after_their_pod() -> None:
    pod = a_pod(CLAIM, SCRATCH, {"name": "c", "configMap": {"name": "x"}})
    assert claim_keys(pod) == ["ns/data", "ns/web-scratch"]
    assert list(ephemeral_volumes(pod)) == [SCRATCH]


def test_a_claim_is_in_use_once_its_pod_has_a_node() -> None:
    assert uses_claim(a_pod(CLAIM), a_claim())
    assert not uses_claim(a_pod(CLAIM, node=""), a_claim())
    assert not uses_claim(a_pod(CLAIM), a_claim("other"))


def test_an_ephemeral_claim_is_used_by_its_own_pod() -> None:
    pod = a_pod(SCRATCH)
    assert uses_claim(pod, owned_claim("web-scratch"))
    assert not uses_claim(pod, owned_claim("web-scratch", uid="older"))
    assert not is_made_for(a_claim("web-scratch"), pod)


def test_an_ephemeral_claim_is_unused_once_its_pod_is_shut_down() -> None:
    shut_down: Document = {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
    }
    assert not uses_claim(a_pod(SCRATCH, **shut_down), owned_claim("web-scratch"))
    assert uses_claim(a_pod(CLAIM, **shut_down), a_claim())


@pytest.mark.parametrize(
    ("status", "deleted", "expected"),
    [
        pytest.param({"phase": "Running"}, False, False, id="it runs"),
        pytest.param({"phase": "Succeeded"}, False, True, id="it is done"),
        pytest.param({"phase": "Failed"}, False, True, id="it failed"),
        pytest.param({"phase": "Pending"}, True, True, id="deleted before a container ran"),
        pytest.param(
            {"containerStatuses": [{"state": {"running": {}}}]}, True, False, id="still ending"
        ),
        pytest.param(
            {"containerStatuses": [{"state": {"terminated": {}}}, {"state": {"waiting": {}}}]},
            True,
            True,
            id="no container runs any longer",
        ),
    ],
)
def test_whether_a_pod_has_terminated(status: Document, deleted: bool, expected: bool) -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    assert has_ended({**a_pod(**metadata), "status": status}) is expected
