"""Nodes with nominated pods: count-based filters run there only if the pods matter to them."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.attempt.request import ScheduleResult, Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from tests.unit.builders import a_wire_node, a_wire_pod, built_with

NAME = "default-scheduler"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}
SPREAD = {
    "topologySpreadConstraints": [{**WEB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
}
APART = {"affinity": {"podAntiAffinity": {REQUIRED: [WEB]}}}


def attempts(nominated: dict[str, Any], parts: dict[str, Any]) -> list[ScheduleResult]:
    """Return three attempts at pods of one template; another pod is nominated to n1."""
    cache, built = Cache(), built_with()
    for name in ("n1", "n2", "n3"):
        cache.add_node(a_wire_node(name, labels={HOST: name}))
    nominated = {"priority": 10, **nominated}
    cache.nominate_pod(cache.pod_info(a_wire_pod("nominated", **nominated)), "n1")
    view = cache.snapshot()
    built.handles[NAME].view = view
    results = []
    for number in range(3):
        pod = cache.pod_info(a_wire_pod(f"p{number}", labels={"app": "web"}, **parts))
        run = schedule_pod(built.profiles[NAME], view, CycleState(), pod, Search(all_nodes=True))
        results.append(run_without_extenders(run))
    return results


@pytest.mark.parametrize(
    ("nominated", "parts", "plugins", "fit_count"),
    [
        pytest.param({}, SPREAD, set(), 3, id="spread does not count the pod"),
        pytest.param({}, APART, set(), 3, id="no term matches the pod"),
        pytest.param(
            {"labels": {"app": "web"}}, SPREAD, {"PodTopologySpread"}, 2, id="spread counts the pod"
        ),
        pytest.param(
            {"labels": {"app": "web"}}, APART, {"InterPodAffinity"}, 2, id="a term matches the pod"
        ),
    ],
)
def test_plugins_that_a_nominated_pod_concerns(
    nominated: dict[str, Any], parts: dict[str, Any], plugins: set[str], fit_count: int
) -> None:
    # From the second attempt on, verdicts are kept.
    for result in attempts(nominated, parts)[1:]:
        assert result.feasible_node_count == fit_count
        assert result.basis is not None
        assert set(result.basis.uncached_on_nominated) == plugins
