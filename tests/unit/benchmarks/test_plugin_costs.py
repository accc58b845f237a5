"""The benchmark of users' plugins, at a size that takes little time."""

from __future__ import annotations

import pytest
from msgspec import json

from benchmarks import user_plugins
from benchmarks.drain import Limits, drain, load
from benchmarks.generate import Maker
from benchmarks.plugin_costs import VARIANTS, Cost, table, with_plugin
from benchmarks.workload import load_workload
from kubesched.cache.cache import Cache
from kubesched.testing.plugin_checks import check_plugin

NODES = 20


@pytest.mark.parametrize("plugin", VARIANTS)
def test_every_pod_is_placed_with_each_plugin(plugin: str) -> None:
    workload = with_plugin(load_workload("one-template"), plugin)
    maker, cache = Maker(NODES, seed=1), Cache()
    load(cache, maker.cluster(workload.cluster))
    result = drain(cache, workload, maker.workload(workload), Limits(50))
    assert result.placed == result.burst == 2 * NODES


@pytest.mark.parametrize(
    ("one_node", "columns"),
    [
        (user_plugins.NotOnSpot, user_plugins.NotOnSpotColumns),
        (user_plugins.PreferLarge, user_plugins.PreferLargeColumns),
    ],
)
def test_both_forms_are_the_same_plugin(one_node: type, columns: type) -> None:
    workload = load_workload("one-template")
    maker = Maker(NODES, seed=1)
    nodes = [line for line in maker.cluster(workload.cluster) if line.kind == "Node"]
    lines = [*nodes, *maker.workload(workload, 1)]
    documents = [
        {"kind": line.kind, "apiVersion": "v1", **json.decode(line.data)} for line in lines
    ]
    report = check_plugin(one_node, columns, clusters={"plain": documents})
    assert report.rejected_count or report.score_range


def test_a_plugin_that_adds_too_much_is_marked() -> None:
    none = Cost("", 0.05, 0.06)
    costs = [
        none,
        Cost("NotOnSpot", 9.0, 15.07, none),
        Cost("PreferLarge", 99.0, 15.05, none),
        Cost("PreferLargeColumns", 0.2, 0.37, none),
    ]
    assert [cost.is_over for cost in costs] == [False, True, False, True]
    assert table(costs, 5_000).splitlines()[3] == (
        "| a filter, one node at a time | 9.000 | 15.070 | 8.950 | 15.010 | 15 ✗ |"
    )
