"""Rows get the same verdicts and scores one by one, in any batch and in any order."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.adapters import ColumnFilter
from kubesched.framework.runtime.score_phase import Scores
from kubesched.framework.status import SUCCESS, Status, StatusError
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.view import NodeTable
from tests.property.random_cases import NUMBERS, Loaded, case_of, load


def pre_filtered(loaded: Loaded) -> CycleState | None:
    """Return the state after PreFilter; None if it rejected the pod."""
    state = CycleState()
    outcome = loaded.profile.run_pre_filter_plugins(state, loaded.pod, loaded.view.all_nodes())
    return state if outcome.status is None else None


def verdicts(loaded: Loaded, state: CycleState, nodes: NodeTable, *, nominated: bool) -> Any:
    run = (
        loaded.profile.run_filter_plugins_with_nominated_pods
        if nominated
        else loaded.profile.filters.judge
    )
    found = run(state, loaded.pod, nodes)
    return {name: found[position] for position, name in enumerate(nodes.names)}


@settings(max_examples=80)
@given(NUMBERS, st.booleans(), st.randoms(use_true_random=False))
def test_filters_do_not_depend_on_the_batch(number: int, nominated: bool, chance: Any) -> None:
    loaded = load(case_of(number))
    state = pre_filtered(loaded)
    if state is None:
        return
    nodes = loaded.view.all_nodes()
    together = verdicts(loaded, state, nodes, nominated=nominated)
    alone: dict[str, Status] = {}
    for position in range(len(nodes)):
        row = nodes.take(np.array([position]))
        alone.update(verdicts(loaded, state, row, nominated=nominated))
    assert alone == together
    order = chance.sample(range(len(nodes)), chance.randint(1, len(nodes)))
    batch = verdicts(loaded, state, nodes.take(np.array(order)), nominated=nominated)
    assert batch == {name: together[name] for name in batch}


def scores(loaded: Loaded, state: CycleState, nodes: NodeTable) -> Any:
    """Return each node's scores by plugin, or the text of the failure."""
    state = state.clone()
    failure = loaded.profile.run_pre_score_plugins(state, loaded.pod, nodes)
    if failure is not None:
        return failure.message
    found = loaded.profile.run_score_plugins(state, loaded.pod, nodes)
    if not isinstance(found, Scores):
        return found.message
    return {
        name: {plugin: int(column[position]) for plugin, column in found.by_plugin.items()}
        for position, name in enumerate(nodes.names)
    }


@settings(max_examples=80)
@given(NUMBERS, st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order(number: int, chance: Any) -> None:
    loaded = load(case_of(number))
    state = pre_filtered(loaded)
    if state is None:
        return
    nodes = loaded.view.all_nodes()
    fits = loaded.profile.filters.judge(state, loaded.pod, nodes).fits
    fitting = nodes.take(fits)
    order = np.array(chance.sample(range(len(fitting)), len(fitting)), dtype=np.int64)
    assert scores(loaded, state, fitting.take(order)) == scores(loaded, state, fitting)


def raw_scores(loaded: Loaded, state: CycleState, name: str, nodes: NodeTable) -> list[int] | str:
    """Return a plugin's result for each node, or the reason why there is none."""
    try:
        found: list[int] = (
            loaded.profile.plugins[name].score_nodes(state, loaded.pod, nodes).tolist()
        )
    except StatusError as problem:
        return problem.status.message
    return found


@settings(max_examples=80)
@given(NUMBERS)
def test_raw_scores_do_not_depend_on_the_batch(number: int) -> None:
    loaded = load(case_of(number))
    state = pre_filtered(loaded)
    if state is None:
        return
    nodes = loaded.view.all_nodes()
    fitting = nodes.take(loaded.profile.filters.judge(state, loaded.pod, nodes).fits)
    if loaded.profile.run_pre_score_plugins(state, loaded.pod, fitting) is not None:
        return
    for name in loaded.profile.plugin_names("score"):
        if name in state.skip_score_plugins:
            continue
        together = raw_scores(loaded, state, name, fitting)
        alone = [
            raw_scores(loaded, state, name, fitting.take(np.array([position])))
            for position in range(len(fitting))
        ]
        # A text if its preScore is disabled: then every node gets it.
        each = [together] * len(alone) if isinstance(together, str) else [[s] for s in together]
        assert (name, alone) == (name, each)


@settings(max_examples=80)
@given(NUMBERS)
def test_filters_that_take_rows_give_the_same_verdicts(number: int) -> None:
    loaded = load(case_of(number))
    state = pre_filtered(loaded)
    if state is None:
        return
    view, nodes = loaded.view, loaded.view.all_nodes()
    for plugin in loaded.profile.filters.filters:
        if not isinstance(plugin, ColumnFilter) or plugin.name in state.skip_filter_plugins:
            continue
        together = Verdicts(len(nodes))
        plugin.judge(state, loaded.pod, nodes, together)
        if plugin.takes_rows:
            for position, row in enumerate(nodes.rows.tolist()):
                alone = plugin.judge_row(state, loaded.pod, view.row(row))
                assert (alone or SUCCESS) == together[position]
