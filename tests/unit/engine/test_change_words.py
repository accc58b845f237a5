"""Constraints and terms of a pod are told apart, with no more words than that takes."""

from typing import Any

import pytest

from kubesched.engine.pod_changes import affinity_changes, spread_changes
from tests.unit.builders import a_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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
            id="soft ones do not count",
        ),
        pytest.param(
            [spread("host", WEB), spread("zone", WEB), spread("zone", WEB)],
            ["host (maxSkew 1)"]
            + [f"zone (maxSkew 1, app=web, number {number})" for number in (2, 3)],
            id="by nothing but their place",
        ),
        pytest.param(
            [
                spread("zone", None),
                spread("zone", {}),
                spread("zone", labels(a="", b="", c="", d="")),
            ],
            [f"zone (maxSkew 1, {which})" for which in ("no pods", "all pods", "a=,b=,c=,...")],
            id="by selectors of nothing, of everything and of much",
        ),
    ],
)
def test_spread_constraints(constraints: list[Any], expected: list[str]) -> None:
    told = [one.text for one in spread_changes(a_pod(topologySpreadConstraints=constraints))]
    assert told == [f"without the spread constraint over {words}" for words in expected]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([term(WEB)], ["zone"], id="an only one"),
        pytest.param([term(WEB), term(DB)], ["zone (app=web)", "zone (app=db)"], id="by selectors"),
        pytest.param(
            [term(WEB), term(WEB, "shop", "blog"), term(DB, "shop")],
            ["zone (app=web)", "zone (app=web, in shop, blog)", "zone (app=db)"],
            id="by namespaces",
        ),
    ],
)
def test_affinity_terms(terms: list[Any], expected: list[str]) -> None:
    told = [
        one.text for one in affinity_changes(a_pod(affinity={"podAffinity": {REQUIRED: terms}}))
    ]
    assert told == [f"without the pod affinity term over {words}" for words in expected]
