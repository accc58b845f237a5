"""Toleration of NoExecute taints, with cases of upstream's taint_eviction_test.go."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.controllers.taint_eviction.controller import toleration_s

Document = dict[str, Any]


def taint(key: str, value: str = "") -> Document:
    return {"key": key, "value": value, "effect": "NoExecute"}


def tolerates(key: str = "", seconds: int | None = None, **fields: str) -> Document:
    found: Document = {"operator": "Exists", **fields}
    if key:
        found["key"] = key
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param([taint("a")], [], 0.0, id="nothing is tolerated"),
        pytest.param([taint("a")], [tolerates("b")], 0.0, id="something else is tolerated"),
        pytest.param([taint("a")], [tolerates("a")], None, id="without end"),
        pytest.param([taint("a")], [tolerates("a", 30)], 30.0, id="for some seconds"),
        pytest.param([taint("a")], [tolerates("a", -5)], 0.0, id="a negative time is zero"),
        pytest.param([taint("a")], [tolerates()], None, id="everything is tolerated"),
        pytest.param(
            [taint("a"), taint("b")],
            [tolerates("a", 30), tolerates("b", 10)],
            10.0,
            id="the first to run out counts",
        ),
        pytest.param(
            [taint("a"), taint("b")],
            [tolerates("a"), tolerates("b", 10)],
            10.0,
            id="a limited toleration ends before an unlimited one",
        ),
        pytest.param(
            [taint("a"), taint("b")], [tolerates("a", 30)], 0.0, id="one of two is not enough"
        ),
        pytest.param(
            [taint("a")],
            [tolerates("a", 30), tolerates("a")],
            30.0,
            id="of two tolerations of a taint the first counts",
        ),
        pytest.param(
            [taint("a", "x")],
            [{"key": "a", "operator": "Equal", "value": "y"}, {"key": "a", "value": "x"}],
            None,
            id="values are compared",
        ),
        pytest.param(
            [taint("a")], [tolerates("a", effect="NoSchedule")], 0.0, id="effects are compared"
        ),
        pytest.param([taint("a")], [tolerates("a", effect="NoExecute")], None, id="same effect"),
    ],
)
def test_toleration_seconds_of_taints(
    taints: list[Document], tolerations: list[Document], expected: float | None
) -> None:
    assert toleration_s(taints, tolerations) == expected
