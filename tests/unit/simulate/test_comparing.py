from kubesched.simulate.report import compare, comparison_json
from tests.unit.simulate.small_clusters import node, places, pod, simulated

PACKED = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
    plugins:
      score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
"""
CLUSTER = [node("n", "4"), node("m", "4"), pod("x", on="n"), pod("p"), pod("q")]


def test_runs_differ_with_their_configurations() -> None:
    # Spread: m, then n or m at one each. Packed: both join x on n.
    spread, packed = simulated(*CLUSTER), simulated(*CLUSTER, config=PACKED)
    assert places(packed) == {"p": "n", "q": "n"}
    assert places(spread)["p"] == "m"
    compared = compare(("spread", "packed"), (spread, packed))
    assert not compared.is_same
    assert dict(compared.moved)["default/p"] == ("m", "n")
    measures = {measure.name: measure for measure in compared.measures}
    assert measures["pods placed"].values == (2, 2)
    assert measures["empty nodes"].difference == 1
    assert measures["cpu, fullest node"].values[1] == 75.0
    # 75% and 0%: each is 37.5 points from the middle.
    assert measures["cpu, deviation"].values[1] == 37.5


def test_a_run_does_not_differ_from_itself() -> None:
    compared = compare(("a", "b"), (simulated(*CLUSTER), simulated(*CLUSTER)))
    assert compared.is_same
    assert compared.moved == ()


def test_a_pod_placed_by_one_run_has_no_node_in_the_other() -> None:
    blind = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: other}]
"""
    compared = compare(("a", "b"), (simulated(*CLUSTER), simulated(*CLUSTER, config=blind)))
    moved = {
        move["pod"]: move["nodes"] for move in comparison_json(compared)["differences"]["moved"]
    }
    assert moved["default/p"] == ["m", None]
