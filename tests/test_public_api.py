"""The names plugin authors import, as a list: a change of it is a change for them."""

import kubesched

NAMES = [
    "SKIP",
    "SUCCESS",
    "ActionType",
    "AllReasons",
    "BoundPod",
    "ClusterEvent",
    "ClusterView",
    "Code",
    "CycleState",
    "EventRegistration",
    "EventResource",
    "Handle",
    "NodeStatuses",
    "NodeTable",
    "NodeView",
    "PodInfo",
    "PodRows",
    "PostFilterResult",
    "PreBindPreFlightResult",
    "PreFilterResult",
    "QueueingHint",
    "RawArgs",
    "Reads",
    "Rejected",
    "Scheduler",
    "Status",
    "StatusError",
    "Victims",
    "default_normalize",
    "error",
    "explain",
    "main",
    "pending",
    "unresolvable",
    "unschedulable",
    "wait",
]


def test_the_public_names_are_these() -> None:
    assert sorted(kubesched.__all__) == sorted(NAMES)


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in NAMES:
        assert getattr(kubesched, name).__doc__, name
