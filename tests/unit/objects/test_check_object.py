"""What check_object finds in an object that decodes."""

from typing import Any

import pytest

from kubesched.objects.decode import check_object, decode_object
from kubesched.objects.errors import MalformedObject
from kubesched.objects.quantity import FORMAT_WRONG, SUFFIX_WRONG


def an_object(kind: str, **parts: Any) -> dict[str, Any]:
    version = {"PersistentVolume": "v1", "PodDisruptionBudget": "policy/v1"}.get(kind, "v1")
    version = "storage.k8s.io/v1" if kind.startswith("CSI") else version
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **parts}


NODE_OPERATORS = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'


@pytest.mark.parametrize(
    ("document", "field", "problem"),
    [
        pytest.param(
            an_object("Pod", metadata={}), "metadata.name", "Required value: name is required",
            id="no name",
        ),
        pytest.param(
            an_object("Pod", spec={"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}),
            "spec.containers[0].resources.requests.cpu",
            FORMAT_WRONG,
            id="a quantity",
        ),
        pytest.param(
            an_object("Node", status={"allocatable": {"memory": "1mi", "cpu": "1"}}),
            "status.allocatable.memory",
            SUFFIX_WRONG,
            id="a quantity's suffix",
        ),
        pytest.param(
            an_object("CSIStorageCapacity", capacity="many"), "capacity", FORMAT_WRONG,
            id="a single quantity",
        ),
        pytest.param(
            an_object("Pod", status={"startTime": "noon"}),
            "status.startTime",
            "'noon' is not an RFC 3339 time such as 2006-01-02T15:04:05Z",
            id="a time",
        ),
        pytest.param(
            an_object("PodDisruptionBudget", status={"disruptedPods": {"p": "noon"}}),
            "status.disruptedPods.p",
            "'noon' is not an RFC 3339 time such as 2006-01-02T15:04:05Z",
            id="a time in a map",
        ),
        pytest.param(
            an_object(
                "PodDisruptionBudget",
                spec={"selector": {"matchExpressions": [{"key": "a", "operator": "in"}]}},
            ),
            "spec.selector.matchExpressions[0].operator",
            'Unsupported value: supported values: "In", "NotIn", "Exists", "DoesNotExist"',
            id="an operator of a label selector",
        ),
        pytest.param(
            an_object(
                "PersistentVolume",
                spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "Equals"}]}]}}},
            ),
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator",
            f"Unsupported value: supported values: {NODE_OPERATORS}",
            id="an operator of a node selector",
        ),
        pytest.param(
            an_object(
                "PersistentVolume",
                spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "Gt"}]}]}}},
            ),
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchFields[0].operator",
            'Unsupported value: supported values: "In", "NotIn"',
            id="an operator of a field",
        ),
    ],
)  # fmt: skip
def test_field_is_named(document: dict[str, Any], field: str, problem: str) -> None:
    obj = decode_object(document)
    with pytest.raises(MalformedObject) as caught:
        check_object(obj)
    assert (caught.value.kind, caught.value.key) == (obj.kind, obj.key)
    assert (caught.value.field, caught.value.problem) == (field, problem)


def test_a_sound_object_passes() -> None:
    # The API server stores a bound that is no number, so it must pass here.
    bound = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [bound]}}
    document = an_object(
        "Pod",
        metadata={"name": "x", "creationTimestamp": "2024-05-02T08:00:00Z"},
        spec={
            "overhead": {"cpu": "1e3", "memory": 5},
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
            "affinity": {"nodeAffinity": required},
        },
    )
    check_object(decode_object(document))
