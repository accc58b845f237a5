from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.simulate.report import simulation_json
from kubesched.simulate.simulation import Simulation
from kubesched.simulate.world import ResultKind, World
from kubesched.snapshot.pod_columns import BoundPod
from tests.unit.simulate.small_clusters import Document, node, pod, simulated, workload, world

SMALL = st.integers(1, 4)


@st.composite
def clusters(draw: st.DrawFn) -> list[Document]:
    documents = [
        node(f"n{i}", str(draw(SMALL)), zone=draw(st.sampled_from(["", "a", "b"])), pods="6")
        for i in range(draw(st.integers(0, 4)))
    ]
    names = [document["metadata"]["name"] for document in documents]
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
    return [bound for bound in pods if not bound.nominated]


@settings(deadline=None, max_examples=40)
@given(clusters())
def test_every_pod_ends_bound_unschedulable_or_evicted(documents: list[Document]) -> None:
    made = world(*documents)
    uids = Counter([*(pod.uid for pod in counted(made)), *(pod.uid for pod in made.pending)])
    run = Simulation(made).run()
    uids.update(victim.successor.uid for victim in run.evicted if victim.successor is not None)
    ended = Counter(pod.uid for pod in counted(made))
    ended.update(leftover.pod.uid for leftover in run.left)
    ended.update(victim.pod.uid for victim in run.evicted)
    assert ended == uids
    assert set(uids.values()) <= {1}
    nodes = {pod.uid: pod.node_name for pod in counted(made)}
    assert all(nodes[placed.pod.uid] == placed.node for placed in run.placements)


@settings(deadline=None, max_examples=40)
@given(clusters())
def test_no_node_is_overcommitted(documents: list[Document]) -> None:
    run = simulated(*documents)
    for place, name in enumerate(run.after.names):
        for resource in run.after.resources:
            before, after = (usage.of_node(place, resource) for usage in (run.before, run.after))
            assert after.requested <= max(after.allocatable, before.requested), (name, resource)
    # The report of a node is the sum over its pods.
    used = Counter(dict.fromkeys(run.after.names, 0))
    for bound in counted(run.world):
        used[bound.node_name] += bound.requests["cpu"]
    reported = run.after.requested["cpu"].tolist()
    assert dict(zip(run.after.names, reported, strict=True)) == used


@settings(deadline=None, max_examples=40)
@given(clusters())
def test_no_unschedulable_pod_fits_at_the_end(documents: list[Document]) -> None:
    run = simulated(*documents)
    for leftover in run.left:
        outcome = leftover.outcome
        if outcome.kind is not ResultKind.UNSCHEDULABLE or not run.after.names:
            continue
        retried = run.world.attempt(run.world.waiting_pod(leftover.pod.uid))
        assert (retried.kind, retried.message) == (outcome.kind, outcome.message)


@settings(deadline=None, max_examples=12)
@given(clusters(), st.integers(0, 3))
def test_the_same_seed_gives_the_same_run(documents: list[Document], seed: int) -> None:
    first, second = (simulation_json(simulated(*documents, seed=seed)) for _ in range(2))
    assert first == second
