"""Texts distinguish the constraints and terms of a pod with as few words as possible."""

from typing import Any

import pytest

from kubesched.plugins.in_tree import IN_TREE
from kubesched.plugins.pod_changes import RejectedPod
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_cluster, a_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def change_texts(plugin: str, pod: PodInfo) -> list[str]:
    changes = IN_TREE[plugin].pod_changes
    assert changes is not None
    return [change.text for change in changes(RejectedPod(None, pod, a_cluster([]).all_nodes()))]


def spread(key: str, selector: Any, skew: int = 1, policy: str = "DoNotSchedule") -> dict[str, Any]:
    return {
        "topologyKey": key,
        "labelSelector": selector,
        "maxSkew": skew,
        "whenUnsatisfiable": policy,
    }


def term(selector: Any, *namespaces: str) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": selector, "namespaces": list(namespaces)}


def labels(**pairs: str) -> dict[str, Any]:
    return {"matchLabels": pairs}


WEB, DB = labels(app="web"), labels(app="db")
NOT_OLD = {"matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["old"]}]}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        pytest.param(
            [spread("zone", WEB), spread("host", DB)],
            ["zone (maxSkew 1)", "host (maxSkew 1)"],
            id="by the key",
        ),
        pytest.param(
            [spread("zone", WEB), spread("zone", DB, skew=2)],
            ["zone (maxSkew 1)", "zone (maxSkew 2)"],
            id="by the skew",
        ),
        pytest.param(
            [spread("zone", WEB), spread("zone", NOT_OLD), spread("host", WEB)],
            [
                "zone (maxSkew 1, app=web)",
                "zone (maxSkew 1, track notin (old))",
                "host (maxSkew 1)",
            ],
            id="by the selector",
        ),
        pytest.param(
            [spread("zone", WEB), spread("zone", DB, policy="ScheduleAnyway")],
            ["zone (maxSkew 1)"],
            id="soft constraints do not count",
        ),
        pytest.param(
            [spread("host", WEB), spread("zone", WEB), spread("zone", WEB)],
            ["host (maxSkew 1)"]
            + [f"zone (maxSkew 1, app=web, number {number})" for number in (2, 3)],
            id="by their index only",
        ),
        pytest.param(
            [
                spread("zone", None),
                spread("zone", {}),
                spread("zone", labels(a="", b="", c="", d="")),
            ],
            [
                f"zone (maxSkew 1, {selection})"
                for selection in ("no pods", "all pods", "a=,b=,c=,...")
            ],
            id="by no, empty and long selectors",
        ),
    ],
)
def test_spread_constraints(constraints: list[Any], expected: list[str]) -> None:
    pod = a_pod(topologySpreadConstraints=constraints)
    assert change_texts("PodTopologySpread", pod) == [
        f"without the spread constraint over {words}" for words in expected
    ]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([term(WEB)], ["zone"], id="a single term"),
        pytest.param([term(WEB), term(DB)], ["zone (app=web)", "zone (app=db)"], id="by selectors"),
        pytest.param(
            [term(WEB), term(WEB, "shop", "blog"), term(DB, "shop")],
            ["zone (app=web)", "zone (app=web, in shop, blog)", "zone (app=db)"],
            id="by namespaces",
        ),
    ],
)
def test_affinity_terms(terms: list[Any], expected: list[str]) -> None:
    pod = a_pod(affinity={"podAffinity": {REQUIRED: terms}})
    assert change_texts("InterPodAffinity", pod) == [
        f"without the pod affinity term over {words}" for words in expected
    ]
