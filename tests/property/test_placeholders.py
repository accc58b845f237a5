"""Placeholder rows for unknown nodes change nothing for other rows of a changing cluster."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.snapshot.node_info import NodeInfo
from tests.property.changes import CHANGES, NODES, Change, World, node
from tests.property.facts import facts_of, node_facts
from tests.property.test_columns_equal_rebuild import decisions
from tests.property.test_kept_verdicts import agreed, probes, profile_pair
from tests.unit.builders import a_cluster

RETURNED = st.lists(
    st.tuples(st.sampled_from((*NODES, "ghost")), st.integers(0, 59)), min_size=0, max_size=5
)
# What an extender returns after each change; None for rows that are dropped.
ANSWERS = st.lists(st.none() | RETURNED, min_size=1, max_size=6)


def add_placeholders(world: World, answer: list[tuple[str, int]] | None) -> None:
    """Add the nodes of an answer as placeholders, and check their facts."""
    if answer is None:
        world.cache.drop_placeholders()
        return
    infos = [NodeInfo(node(name, variant)) for name, variant in answer]
    nodes = world.cache.snapshot().nodes_at(world.cache.add_placeholders(infos))
    assert nodes.names == [info.name for info in infos]
    for position, info in enumerate(infos):
        table = nodes.take([position])  # type: ignore[arg-type]  # a list will do
        alone = a_cluster([info]).all_nodes()
        actual, expected = node_facts(table)[info.name], node_facts(alone)[info.name]
        assert actual == expected


@settings(max_examples=120)
@given(CHANGES, ANSWERS)
def test_facts_and_decisions_are_those_of_a_cluster_without_them(
    changes: list[Change], answers: list[list[tuple[str, int]] | None]
) -> None:
    world = World()
    for number, change in enumerate(changes):
        world.apply(change)
        add_placeholders(world, answers[number % len(answers)])
        if change.verb == "look":
            decisions(world.cache)
    assert facts_of(world.cache.snapshot()) == facts_of(world.rebuilt().snapshot())
    assert decisions(world.cache) == decisions(world.rebuilt())


@settings(max_examples=40)
@given(CHANGES, ANSWERS)
def test_kept_verdicts_stay_true_with_placeholders(
    changes: list[Change], answers: list[list[tuple[str, int]] | None]
) -> None:
    pair, world = profile_pair(), World()
    for number, change in enumerate(changes):
        world.apply(change)
        add_placeholders(world, answers[number % len(answers)])
        for pod in probes(world.cache):
            agreed(pair, world.cache, pod)
