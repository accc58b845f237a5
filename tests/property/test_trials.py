"""A trial of many rows equals trials of one row each, and undoing a change undoes it."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kubesched.api.policy import PodDisruptionBudget
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Victims
from kubesched.framework.preemption.disruption_budgets import budgets_of
from kubesched.framework.preemption.dry_run import DryRun
from kubesched.framework.status import Status
from kubesched.snapshot.trial import NO_POD, Trial
from tests.property.changes import CHANGES, Change, World
from tests.property.facts import node_facts
from tests.property.random_cases import case_of, load, numbers_of


def comparable(outcome: Victims | Status) -> object:
    if isinstance(outcome, Status):
        return outcome
    keys = [pod.key for pod in outcome.pods]
    return outcome.node_name, keys, outcome.pdb_violation_count


@settings(max_examples=100)
@given(numbers_of("preemption", "mixed", "interpodaffinity", "topologyspread", "ports"))
def test_a_dry_run_in_lockstep_equals_dry_runs_row_by_row(number: int) -> None:
    loaded = load(case_of(number))
    state, nodes = CycleState(), loaded.view.all_nodes()
    outcome = loaded.profile.run_pre_filter_plugins(state, loaded.pod, nodes)
    assume(outcome.status is None)
    budgets = budgets_of(loaded.view.objects.store_of(PodDisruptionBudget))
    dry_run = DryRun(loaded.profile.filters, state, loaded.pod, budgets)
    together = dry_run.select(loaded.view, nodes.rows)
    alone = [dry_run.select(loaded.view, nodes.rows[[place]])[0] for place in range(len(nodes))]
    assert list(map(comparable, together)) == list(map(comparable, alone))
    backwards = list(dry_run.select(loaded.view, nodes.rows[::-1].copy()))[::-1]
    assert list(map(comparable, together)) == list(map(comparable, backwards))


@settings(max_examples=100)
@given(numbers_of("preemption", "mixed", "interpodaffinity", "volumes", "ports"))
def test_calling_only_pod_dependent_filters_equals_calling_all(number: int) -> None:
    loaded = load(case_of(number))
    state, nodes = CycleState(), loaded.view.all_nodes()
    outcome = loaded.profile.run_pre_filter_plugins(state, loaded.pod, nodes)
    assume(outcome.status is None)
    budgets = budgets_of(loaded.view.objects.store_of(PodDisruptionBudget))
    filters = loaded.profile.filters
    found = []
    for trusts_reads in (False, True):
        filters.trusts_reads = trusts_reads
        dry_run = DryRun(filters, state, loaded.pod, budgets)
        found.append(list(map(comparable, dry_run.select(loaded.view, nodes.rows))))
    assert found[0] == found[1]


@settings(max_examples=150)
@given(CHANGES, st.booleans())
def test_add_then_remove_is_the_identity(changes: list[Change], remove_first: bool) -> None:
    world = World()
    for change in changes:
        world.apply(change)
    view = world.cache.snapshot()
    rows = view.visiting_rows()
    assume(len(rows) > 0)
    trial = Trial(view, rows)
    before, live = node_facts(trial.nodes), node_facts(view.all_nodes())
    assert before == live
    if remove_first:
        pods = [view.pods_on(row)[0] if len(view.pods_on(row)) else NO_POD for row in rows]
    else:
        waiting = [view.pods.index_of[uid] for uid in sorted(view.pods.index_of)]
        waiting = [i for i in waiting if view.bound_pod(i).nominated] or [NO_POD]
        pods = [waiting[place % len(waiting)] for place in range(len(rows))]
    index = np.array(pods, dtype=np.int32)
    steps = (trial.remove, trial.add) if remove_first else (trial.add, trial.remove)
    steps[0](index)
    assert (node_facts(trial.nodes) == before) is not bool((index != NO_POD).any())
    steps[1](index)
    assert node_facts(trial.nodes) == before
    assert node_facts(view.all_nodes()) == live
