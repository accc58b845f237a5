"""TaintToleration: the filter, the score, the hints."""

from typing import Any

import numpy as np
import pytest

from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Code, StatusError, unresolvable
from kubesched.plugins.taint_toleration import TaintToleration
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, made, statuses_of

PLUGIN = made(TaintToleration)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


DEDICATED = taint("dedicated", "db")
LEAVING = taint("leaving", effect="NoExecute")
AVOID_SPOT = taint("spot", effect="PreferNoSchedule")
AVOID_OLD = taint("old", "yes", "PreferNoSchedule")


@pytest.mark.parametrize(
    ("taints", "tolerations", "rejected"),
    [
        pytest.param([DEDICATED], [], True, id="NoSchedule rejects"),
        pytest.param([LEAVING], [], True, id="NoExecute rejects"),
        pytest.param([AVOID_SPOT], [], False, id="PreferNoSchedule does not"),
        pytest.param([taint("x", effect="Odd")], [], False, id="nor an unknown effect"),
        pytest.param([DEDICATED], [{"key": "dedicated", "value": "db"}], False, id="equal value"),
        pytest.param([DEDICATED], [{"key": "dedicated", "value": "web"}], True, id="other value"),
        pytest.param([DEDICATED], [{"key": "dedicated", "operator": "Exists"}], False, id="exists"),
        pytest.param(
            [DEDICATED], [{"operator": "Exists", "effect": "NoExecute"}], True, id="effect"
        ),
        pytest.param(
            [DEDICATED, LEAVING],
            [{"key": "dedicated", "operator": "Exists"}],
            True,
            id="every taint must be tolerated",
        ),
        pytest.param(
            [taint("size", "5")],
            [{"key": "size", "operator": "Gt", "value": "3"}],
            True,
            id="comparison is off by default",
        ),
    ],
)
def test_filter(taints: Any, tolerations: Any, rejected: Any) -> None:
    nodes = a_cluster([a_node("free"), a_node("tainted", taints=taints)]).all_nodes()
    pod = a_pod(tolerations=tolerations)
    found = statuses_of(PLUGIN.filter_nodes(CycleState(), pod, nodes), nodes.names)
    reason = unresolvable("node(s) had untolerated taint(s)")
    assert found == ({"tainted": reason} if rejected else {})


@pytest.mark.parametrize(
    ("tolerations", "raw", "normalised"),
    [
        pytest.param([], [0, 1, 2], [100, 50, 0], id="each such taint counts"),
        pytest.param(
            [{"key": "old", "operator": "Exists"}],
            [0, 1, 1],
            [100, 0, 0],
            id="tolerated, not counted",
        ),
        pytest.param(
            [{"operator": "Exists", "effect": "NoSchedule"}],
            [0, 1, 2],
            [100, 50, 0],
            id="a toleration of another effect does not count",
        ),
        pytest.param(
            [{"operator": "Exists"}], [0, 0, 0], [100, 100, 100], id="all alike, all best"
        ),
    ],
)
def test_score(tolerations: Any, raw: Any, normalised: Any) -> None:
    view = a_cluster(
        [
            a_node("n0", taints=[DEDICATED]),
            a_node("n1", taints=[AVOID_SPOT]),
            a_node("n2", taints=[AVOID_SPOT, AVOID_OLD]),
        ]
    )
    pod, state, nodes = a_pod(tolerations=tolerations), CycleState(), view.all_nodes()
    assert PLUGIN.pre_score(state, pod, nodes) is None
    scores = PLUGIN.score_nodes(state, pod, nodes)
    assert scores.dtype == np.int64
    assert scores.tolist() == raw
    assert PLUGIN.normalize_scores(state, pod, scores).tolist() == normalised


def test_score_fails_where_pre_score_is_disabled() -> None:
    nodes = a_cluster([a_node()]).all_nodes()
    with pytest.raises(StatusError) as caught:
        PLUGIN.score_nodes(CycleState(), a_pod(), nodes)
    assert caught.value.status.code is Code.ERROR
    assert (
        str(caught.value) == 'failed to read "PreScoreTaintToleration" from cycleState: not found'
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, [], QueueingHint.QUEUE, id="an untainted node came"),
        pytest.param(None, [DEDICATED], QueueingHint.QUEUE_SKIP, id="a tainted node came"),
        pytest.param([DEDICATED], [AVOID_OLD], QueueingHint.QUEUE, id="the taint went"),
        pytest.param(
            [DEDICATED], [LEAVING], QueueingHint.QUEUE_SKIP, id="another taint replaced it"
        ),
        pytest.param([AVOID_OLD], [], QueueingHint.QUEUE_SKIP, id="it rejected no pod before"),
    ],
)
def test_hint_after_a_node_change(old: Any, new: Any, expected: Any) -> None:
    registration, _ = PLUGIN.events_to_register()
    before = None if old is None else a_node(taints=old)
    assert registration.hint(a_pod(), before, a_node(taints=new)) is expected


def test_hint_after_a_toleration_change_is_for_the_pod_itself() -> None:
    _, registration = PLUGIN.events_to_register()
    pod, other = a_pod("a"), a_pod("b")
    assert registration.hint(pod, pod, pod) is QueueingHint.QUEUE
    assert registration.hint(pod, other, other) is QueueingHint.QUEUE_SKIP
