"""VolumeBinding's PreFilter: claims that reject the pod."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.config.types import UtilizationShapePoint, VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, error, unresolvable
from kubesched.plugins.volume_binding.plugin import VolumeBinding
from tests.unit.plugins.builders import a_cluster, a_node, a_pod
from tests.unit.plugins.volume_objects import (
    SnapshotHandle,
    a_claim,
    a_class,
    a_volume,
    ephemeral,
    uses_claim,
)

IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")
OWNED = {"ownerReferences": [{"uid": "uid-default-pod", "controller": True}]}


@pytest.mark.parametrize(
    ("volume", "objects", "expected"),
    [
        pytest.param({"name": "v", "emptyDir": {}}, [], SKIP, id="no claim"),
        pytest.param(
            uses_claim("claim"),
            [],
            unresolvable('persistentvolumeclaim "claim" not found'),
            id="a missing claim",
        ),
        pytest.param(
            ephemeral("v"),
            [],
            unresolvable(
                "waiting for ephemeral volume controller to create the "
                'persistentvolumeclaim "pod-v"'
            ),
            id="an ephemeral volume's claim that does not exist yet",
        ),
        pytest.param(
            ephemeral("v"),
            [a_claim("pod-v")],
            unresolvable(
                "PVC default/pod-v was not created for pod default/pod (pod is not owner)"
            ),
            id="an ephemeral volume's claim of another owner",
        ),
        pytest.param(
            uses_claim("claim"),
            [a_claim(volume="pv", phase="Lost")],
            unresolvable(
                'persistentvolumeclaim "claim" bound to non-existent persistentvolume "pv"'
            ),
            id="a lost claim",
        ),
        pytest.param(
            uses_claim("claim"),
            [a_claim(metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})],
            unresolvable('persistentvolumeclaim "claim" is being deleted'),
            id="a terminating claim",
        ),
        pytest.param(uses_claim("claim"), [a_claim()], IMMEDIATE, id="a missing class"),
        pytest.param(uses_claim("claim"), [a_claim(storage_class=None)], IMMEDIATE, id="no class"),
        pytest.param(
            uses_claim("claim"),
            [a_claim(), a_class(mode="Immediate")],
            IMMEDIATE,
            id="a class that binds at once",
        ),
        pytest.param(
            uses_claim("claim"),
            [a_claim(volumeName="pv"), a_class()],
            IMMEDIATE,
            id="a volume is named but binding is not complete",
        ),
        pytest.param(
            uses_claim("claim"),
            [a_claim(), a_class(mode=None)],
            error('VolumeBindingMode not set for StorageClass "wait"'),
            id="a class without a mode",
        ),
        pytest.param(uses_claim("claim"), [a_claim(), a_class()], None, id="a class that waits"),
        pytest.param(
            uses_claim("claim"), [a_claim(volume="pv"), a_volume()], None, id="a bound claim"
        ),
        pytest.param(
            ephemeral("v"),
            [a_claim("pod-v", metadata=OWNED), a_class()],
            None,
            id="an ephemeral volume's own claim",
        ),
    ],
)
def test_claims_of_a_pod(volume: dict[str, Any], objects: list[Any], expected: object) -> None:
    view = a_cluster([a_node()], objects=objects)
    plugin = VolumeBinding(VolumeBindingArgs(), SnapshotHandle(view))
    pod = a_pod("pod", volumes=[volume])
    assert plugin.pre_filter(CycleState(), pod, view.all_nodes()) == expected


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param(
            VolumeBindingArgs(bind_timeout_seconds=-1),
            "bindTimeoutSeconds: Invalid value: -1: "
            "invalid BindTimeoutSeconds, should not be a negative value",
            id="a negative timeout",
        ),
        pytest.param(
            VolumeBindingArgs(shape=(UtilizationShapePoint(utilization=0, score=1),)),
            'shape: Invalid value: [{"Utilization":0,"Score":1}]: unexpected field `shape`, '
            "remove it or turn on the feature gate StorageCapacityScoring",
            id="a shape without its gate",
        ),
    ],
)
def test_arguments_are_validated(args: VolumeBindingArgs, text: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as raised:
        VolumeBinding(args, SnapshotHandle(a_cluster([])))
    assert str(raised.value) == text
