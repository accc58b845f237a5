"""Errors that check_object finds in decoded objects."""

from typing import Any

import pytest

from kubesched.api.check import check_object
from kubesched.api.decode import decode_object
from kubesched.api.errors import MalformedObject
from kubesched.api.quantity import FORMAT_WRONG, SUFFIX_WRONG


def an_object(kind: str, **parts: Any) -> dict[str, Any]:
    version = {"PersistentVolume": "v1", "PodDisruptionBudget": "policy/v1"}.get(kind, "v1")
    version = "storage.k8s.io/v1" if kind.startswith("CSI") else version
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **parts}


NO_TIME = 'parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"'
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
            NO_TIME,
            id="a time",
        ),
        pytest.param(
            an_object("PodDisruptionBudget", status={"disruptedPods": {"p": "noon"}}),
            "status.disruptedPods.p",
            NO_TIME,
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


SPREAD = {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}
EFFECTS = '"NoSchedule", "PreferNoSchedule", "NoExecute"'
PREEMPTION = '"PreemptLowerPriority", "Never"'


@pytest.mark.parametrize(
    ("document", "field", "known"),
    [
        pytest.param(
            an_object(
                "Pod",
                spec={
                    "topologySpreadConstraints": [
                        SPREAD, {**SPREAD, "whenUnsatisfiable": "DoNotschedule"}
                    ]
                },
            ),
            "spec.topologySpreadConstraints[1].whenUnsatisfiable",
            '"DoNotSchedule", "ScheduleAnyway"',
            id="whenUnsatisfiable",
        ),
        pytest.param(
            an_object(
                "Pod",
                spec={"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k"}]},
            ),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            '"DoNotSchedule", "ScheduleAnyway"',
            id="no whenUnsatisfiable",
        ),
        pytest.param(
            an_object(
                "Pod",
                spec={"topologySpreadConstraints": [{**SPREAD, "nodeAffinityPolicy": "honor"}]},
            ),
            "spec.topologySpreadConstraints[0].nodeAffinityPolicy",
            '"Honor", "Ignore"',
            id="which nodes it counts",
        ),
        pytest.param(
            an_object(
                "Pod", spec={"topologySpreadConstraints": [{**SPREAD, "nodeTaintsPolicy": "No"}]}
            ),
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
            '"Honor", "Ignore"',
            id="whether it counts tainted nodes",
        ),
        pytest.param(
            an_object("Node", spec={"taints": [{"key": "a", "effect": "Noschedule"}]}),
            "spec.taints[0].effect",
            EFFECTS,
            id="the effect of a taint",
        ),
        pytest.param(
            an_object("Node", spec={"taints": [{"key": "a"}]}),
            "spec.taints[0].effect",
            EFFECTS,
            id="a taint without effect",
        ),
        pytest.param(
            an_object("Pod", spec={"tolerations": [{"key": "a", "operator": "exists"}]}),
            "spec.tolerations[0].operator",
            '"Equal", "Exists", "Lt", "Gt"',
            id="the operator of a toleration",
        ),
        pytest.param(
            an_object("Pod", spec={"tolerations": [{"key": "a", "effect": "noExecute"}]}),
            "spec.tolerations[0].effect",
            EFFECTS,
            id="the effect of a toleration",
        ),
        pytest.param(
            an_object("Pod", spec={"preemptionPolicy": "never"}),
            "spec.preemptionPolicy",
            PREEMPTION,
            id="whether a pod preempts",
        ),
        pytest.param(
            {**an_object("PriorityClass"), "apiVersion": "scheduling.k8s.io/v1",
             "preemptionPolicy": "never"},
            "preemptionPolicy",
            PREEMPTION,
            id="whether the pods of a class preempt",
        ),
        pytest.param(
            {**an_object("StorageClass"), "apiVersion": "storage.k8s.io/v1",
             "volumeBindingMode": "waitForFirstConsumer"},
            "volumeBindingMode",
            '"Immediate", "WaitForFirstConsumer"',
            id="when volumes are bound",
        ),
        pytest.param(
            an_object("Pod", spec={"initContainers": [{"name": "c", "restartPolicy": "always"}]}),
            "spec.initContainers[0].restartPolicy",
            '"Always", "OnFailure", "Never"',
            id="whether an init container is a sidecar",
        ),
        pytest.param(
            an_object(
                "Pod",
                spec={"containers": [{"name": "c", "ports": [{"hostPort": 1, "protocol": "tcp"}]}]},
            ),
            "spec.containers[0].ports[0].protocol",
            '"TCP", "UDP", "SCTP"',
            id="the protocol of a port",
        ),
    ],
)  # fmt: skip
def test_an_unsupported_enumeration_value_is_rejected(
    document: dict[str, Any], field: str, known: str
) -> None:
    with pytest.raises(MalformedObject) as caught:
        check_object(decode_object(document))
    problem = f"Unsupported value: supported values: {known}"
    assert (caught.value.field, caught.value.problem) == (field, problem)


@pytest.mark.parametrize("skew", [0, -1])
def test_a_zero_skew_is_rejected(skew: int) -> None:
    spec = {"topologySpreadConstraints": [{**SPREAD, "maxSkew": skew}]}
    with pytest.raises(MalformedObject) as caught:
        check_object(decode_object(an_object("Pod", spec=spec)))
    assert caught.value.field == "spec.topologySpreadConstraints[0].maxSkew"
    assert caught.value.problem == "must be greater than zero"


def test_an_unknown_value_in_a_stored_object_is_accepted() -> None:
    taint = {"key": "a", "effect": "NoScheduleOnTuesdays"}
    check_object(decode_object(an_object("Node", spec={"taints": [taint]})), is_stored=True)


def test_enumerations_may_be_unset() -> None:
    container = {"name": "c", "ports": [{"containerPort": 80}]}
    spec = {"containers": [container], "tolerations": [{}], "topologySpreadConstraints": [SPREAD]}
    check_object(decode_object(an_object("Pod", spec=spec)))


def test_a_valid_object_passes() -> None:
    # The API server stores a bound that is not a number, so it must pass here.
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
