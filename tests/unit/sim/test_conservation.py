from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.columns.pod_columns import BoundPod
from kubesched.sim.report import simulation_json
from kubesched.sim.simulation import Simulation
from kubesched.sim.world import Verdict, World
from tests.unit.sim.small_clusters import Document, node, pod, simulated, workload, world

SMALL = st.integers(1, 4)


@st.composite
def clusters(draw: st.DrawFn) -> list[Document]:
    documents = [
        node(f"n{i}", str(draw(SMALL)), zone=draw(st.sampled_from(["", "a", "b"])), pods="6")
        for i in range(draw(st.integers(0, 4)))
    ]
    names = [one["metadata"]["name"] for one in documents]
    for i in range(draw(st.integers(0, 8))):
        parts: dict[str, Any] = {
            "priority": draw(st.sampled_from([-1, 0, 5, 9])),
            "labels": {"app": draw(st.sampled_from("xyz"))},
            "owner": draw(st.sampled_from(["", "ReplicaSet/r", "StatefulSet/s"])),
        }
        is_bound: bool = draw(st.booleans())
        if names and is_bound:
            parts["on"] = draw(st.sampled_from(names))
        elif draw(st.booleans()):
            parts["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "x"}},
                }
            ]
        documents.append(pod(f"p{i}", str(draw(SMALL)), **parts))
    if draw(st.booleans()):
        documents.append(workload("Deployment", "d", replicas=draw(st.integers(0, 5))))
    return documents


def counted(world: World) -> list[BoundPod]:
    """Return the pods that count on a node."""
    pods = map(world.view.bound_pod, world.view.pods.index_of.values())
    return [one for one in pods if not one.nominated]


@settings(deadline=None, max_examples=40)
@given(clusters())
def test_every_pod_ends_bound_or_left_or_evicted(documents: list[Document]) -> None:
    made = world(*documents)
    at_first = Counter([*(one.uid for one in counted(made)), *(one.uid for one in made.pending)])
    run = Simulation(made).run()
    everyone = at_first + Counter(one.recreated_uid for one in run.evicted if one.recreated_uid)
    ended = Counter(one.uid for one in counted(made))
    ended.update(one.uid for one in run.left)
    ended.update(one.uid for one in run.evicted)
    assert ended == everyone
    assert set(everyone.values()) <= {1}
    nodes = {one.uid: one.node_name for one in counted(made)}
    assert all(nodes[one.uid] == one.node for one in run.placements)


@settings(deadline=None, max_examples=40)
@given(clusters())
def test_no_node_is_filled_beyond_what_it_offers(documents: list[Document]) -> None:
    run = simulated(*documents)
    for place, name in enumerate(run.after.names):
        for resource in run.after.resources:
            before, after = (usage.of_node(place, resource) for usage in (run.before, run.after))
            assert after.requested <= max(after.allocatable, before.requested), (name, resource)
    # What is reported of a node is the sum over the pods on it.
    taken = Counter(dict.fromkeys(run.after.names, 0))
    for one in counted(run.world):
        taken[one.node_name] += one.requests["cpu"]
    reported = run.after.requested["cpu"].tolist()
    assert dict(zip(run.after.names, reported, strict=True)) == taken


@settings(deadline=None, max_examples=40)
@given(clusters())
def test_nobody_who_is_left_fits(documents: list[Document]) -> None:
    run = simulated(*documents)
    for one in run.left:
        if one.outcome.verdict is not Verdict.UNSCHEDULABLE or not run.after.names:
            continue
        queued = run.world.waiting_pod(one.uid)
        again = run.world.attempt(queued)
        assert (again.verdict, again.message) == (one.outcome.verdict, one.outcome.message)


@settings(deadline=None, max_examples=12)
@given(clusters(), st.integers(0, 3))
def test_the_same_seed_gives_the_same_run(documents: list[Document], seed: int) -> None:
    first, second = (simulation_json(simulated(*documents, seed=seed)) for _ in range(2))
    assert first == second
