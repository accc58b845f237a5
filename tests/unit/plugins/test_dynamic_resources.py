"""DynamicResources: pods without claims pass, others are rejected."""

from typing import Any

import pytest

from kubesched.config.types import DynamicResourcesArgs
from kubesched.framework.cluster_event import EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, Code, StatusError, error, unschedulable
from kubesched.plugins.dynamic_resources import DynamicResources
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, made, statuses_of

PLUGIN = made(DynamicResources, DynamicResourcesArgs())
CLAIMING = a_pod(resourceClaims=[{"name": "gpu"}, {"name": "nic"}])
TEXT = 'resource claims are not supported yet, pod has "gpu", "nic"'


def after_pre_filter(pod: Any) -> Any:
    state, nodes = CycleState(), a_cluster([a_node("n")]).all_nodes()
    return PLUGIN.pre_filter(state, pod, nodes), state, nodes


def test_a_pod_without_claims_passes_everywhere() -> None:
    status, state, nodes = after_pre_filter(a_pod())
    assert status is SKIP
    assert list(PLUGIN.filter_nodes(state, a_pod(), nodes)) == []
    assert PLUGIN.score_nodes(state, a_pod(), nodes).tolist() == [0]
    assert PLUGIN.reserve(state, a_pod(), "n") is None
    assert PLUGIN.pre_bind_pre_flight(state, a_pod(), "n") is SKIP
    assert PLUGIN.pre_bind(state, a_pod(), "n") is None
    assert PLUGIN.pre_enqueue(a_pod()) is None


def test_post_filter_finds_nothing_to_deallocate() -> None:
    _, state, _ = after_pre_filter(a_pod())
    found = PLUGIN.post_filter(state, a_pod(), None)
    assert found == (None, unschedulable("no new claims to deallocate"))


def test_without_pre_filter_everything_fails_as_upstream() -> None:
    state, nodes = CycleState(), a_cluster([a_node("n")]).all_nodes()
    missing = error("not found")
    assert PLUGIN.post_filter(state, a_pod(), None) == (None, missing)
    verdict = PLUGIN.filter_nodes(state, a_pod(), nodes)
    assert statuses_of(verdict, nodes.names) == {"n": missing}
    assert PLUGIN.reserve(state, a_pod(), "n") == missing
    assert PLUGIN.pre_bind_pre_flight(state, a_pod(), "n") == missing
    assert PLUGIN.pre_bind(state, a_pod(), "n") == missing
    with pytest.raises(StatusError, match=r"^not found$"):
        PLUGIN.score_nodes(state, a_pod(), nodes)


def test_a_pod_with_claims_is_rejected_with_a_reason() -> None:
    for status in (PLUGIN.pre_enqueue(CLAIMING), after_pre_filter(CLAIMING)[0]):
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == (TEXT,)


def test_events_are_upstreams() -> None:
    resources = [registration.event.resource for registration in PLUGIN.events_to_register()]
    assert resources == [
        EventResource.NODE,
        EventResource.RESOURCE_CLAIM,
        EventResource.POD,
        EventResource.DEVICE_CLASS,
        EventResource.RESOURCE_SLICE,
    ]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(a_pod(), QueueingHint.QUEUE, id="the pod no longer has claims"),
        pytest.param(CLAIMING, QueueingHint.QUEUE_SKIP, id="it still has them"),
        pytest.param(a_pod("other"), QueueingHint.QUEUE_SKIP, id="another pod changed"),
    ],
)
def test_hint_after_a_pod_change(new: Any, expected: Any) -> None:
    registration = PLUGIN.events_to_register()[2]
    assert registration.hint(CLAIMING, CLAIMING, new) is expected


def test_arguments_are_validated() -> None:
    with pytest.raises(ValueError, match=r"^bindingTimeout: .*must be at least 1 second$"):
        made(DynamicResources, DynamicResourcesArgs(binding_timeout_ns=1))
