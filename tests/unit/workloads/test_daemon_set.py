from __future__ import annotations

from typing import Any

import pytest

from kubesched.workloads.daemon_set import DaemonPlacement, daemon_tolerations
from tests.unit.cluster.controllers.workload_documents import (
    Document,
    a_daemon_set,
    a_node,
    a_template,
)


def _verdict(node: Document, **spec: Any) -> tuple[bool, bool]:
    return DaemonPlacement(a_daemon_set(a_template(**spec))).verdict(node)


def _required(*expressions: Document, field: str = "matchExpressions") -> Document:
    terms = [{field: list(expressions)}]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        (("own", "NoSchedule"), (False, True)),
        (("own", "NoExecute"), (False, False)),
        (("own", "PreferNoSchedule"), (True, True)),
        (("node.kubernetes.io/unschedulable", "NoSchedule"), (True, True)),
        (("node.kubernetes.io/not-ready", "NoExecute"), (True, True)),
        (("node.kubernetes.io/not-ready", "NoSchedule"), (False, True)),
        (("node.kubernetes.io/unreachable", "NoExecute"), (True, True)),
        (("node.kubernetes.io/disk-pressure", "NoSchedule"), (True, True)),
        (("node.kubernetes.io/memory-pressure", "NoSchedule"), (True, True)),
        (("node.kubernetes.io/pid-pressure", "NoSchedule"), (True, True)),
        (("node.kubernetes.io/network-unavailable", "NoSchedule"), (False, True)),
    ],
)
def test_taints_exclude_or_evict_daemon_pods(
    taint: tuple[str, str], expected: tuple[bool, bool]
) -> None:
    assert _verdict(a_node("one", taint)) == expected


def test_daemons_on_the_host_network_tolerate_a_missing_network() -> None:
    node = a_node("one", ("node.kubernetes.io/network-unavailable", "NoSchedule"))
    assert _verdict(node, hostNetwork=True) == (True, True)


def test_a_template_may_tolerate_all_taints() -> None:
    tolerate_all = [{"operator": "Exists"}]
    assert _verdict(a_node("one", ("own", "NoExecute")), tolerations=tolerate_all) == (True, True)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"nodeName": "one"}, True, id="the named node"),
        pytest.param({"nodeName": "two"}, False, id="another named node"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, True, id="selected"),
        pytest.param({"nodeSelector": {"disk": "hdd"}}, False, id="not selected"),
        pytest.param({"nodeSelector": {"gpu": ""}}, False, id="no such label"),
        pytest.param(
            {"affinity": _required({"key": "disk", "operator": "In", "values": ["ssd"]})},
            True,
            id="required by label",
        ),
        pytest.param(
            {"affinity": _required({"key": "disk", "operator": "DoesNotExist"})},
            False,
            id="rejected by label",
        ),
        pytest.param(
            {
                "affinity": _required(
                    {"key": "metadata.name", "operator": "NotIn", "values": ["one"]},
                    field="matchFields",
                )
            },
            False,
            id="rejected by name",
        ),
        pytest.param(
            {
                "nodeSelector": {"disk": "ssd"},
                "affinity": _required({"key": "zone", "operator": "Exists"}),
            },
            False,
            id="both must hold",
        ),
    ],
)
def test_selectors_and_affinity_choose_the_nodes(spec: Document, expected: bool) -> None:
    assert _verdict(a_node("one", disk="ssd"), **spec) == (expected, expected)


def test_preferred_affinity_is_ignored() -> None:
    preference = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    term = {"weight": 1, "preference": preference}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert _verdict(a_node("one"), affinity=affinity) == (True, True)


def test_a_changed_node_gets_a_new_verdict() -> None:
    placement = DaemonPlacement(a_daemon_set(a_template(nodeSelector={"disk": "ssd"})))
    assert not placement.verdict(a_node("one")).should_run
    assert placement.verdict(a_node("one", disk="ssd")).should_run


def test_a_toleration_with_seconds_is_replaced_by_an_unlimited_one() -> None:
    ending = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    own = {"key": "own", "operator": "Equal", "value": "x"}
    tolerations = daemon_tolerations({"tolerations": [own, ending]})
    assert tolerations == [
        own,
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]
