"""Prediction of the `prioritize` call after `filter`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubesched.extender.server.service import PrioritizeOutcome
from kubesched.extender.wire import decode_args
from kubesched.testing import a_node, a_pod
from tests.unit.extender.server_cases import Extender, InColumns, an_extender, as_served, some_nodes


def body(names: list[str], *, pod: dict[str, Any] | None = None, end: str = "") -> bytes:
    """Return the body of a call by kube-scheduler."""
    served = as_served(pod or a_pod("new"), 7)
    document = {"Pod": served, "Nodes": None, "NodeNames": names}
    return (json.dumps(document, separators=(",", ":")) + end).encode()


def filtered(extender: Extender, data: bytes) -> list[str] | None:
    return extender.service.filter(decode_args(data), data).result.node_names


def scores(outcome: PrioritizeOutcome | None) -> dict[str, int] | None:
    return (
        None if outcome is None else dict(zip(outcome.hosts, outcome.scores.tolist(), strict=True))
    )


@pytest.fixture
def extender() -> Extender:
    """Return an extender that rejects `b`."""
    made = an_extender(InColumns)
    some_nodes(made, a={}, b={"spot": "yes"}, c={})
    return made


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_predicted_call_is_scored_like_a_decoded_one(extender: Extender, end: str) -> None:
    assert filtered(extender, body(["c", "b", "a"], end=end)) == ["c", "a"]
    follows = body(["c", "a"], end=end)
    outcome = extender.service.prioritize_next(follows)
    assert outcome is not None
    read = extender.service.prioritize(decode_args(follows))
    assert scores(outcome) == scores(read)
    assert (outcome.hosts, outcome.node_count, outcome.best) == (
        read.hosts,
        read.node_count,
        read.best,
    )
    assert outcome.pod.key == read.pod.key


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(body(["a", "c"]), id="another order"),
        pytest.param(body(["c"]), id="another extender rejected more"),
        pytest.param(body(["c", "b", "a"]), id="the same nodes as before"),
        pytest.param(body(["c", "a"], pod=a_pod("other")), id="another pod"),
        pytest.param(body(["c", "a"], end="\n"), id="encoded differently"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_any_other_call_is_decoded(extender: Extender, other: bytes) -> None:
    filtered(extender, body(["c", "b", "a"]))
    assert extender.service.prioritize_next(other) is None


def test_nothing_is_predicted_before_the_first_call(extender: Extender) -> None:
    assert extender.service.prioritize_next(body(["c", "a"])) is None


def test_changed_nodes_invalidate_the_prediction(extender: Extender) -> None:
    filtered(extender, body(["c", "b", "a"]))
    extender.put_node(a_node("c"), "DELETED")
    follows = body(["c", "a"])
    assert extender.service.prioritize_next(follows) is None
    extender.put_node(a_node("new"))
    assert extender.service.prioritize_next(follows) is None
    outcome = extender.service.prioritize(decode_args(follows))
    assert outcome.hosts == ["a"]


def test_pods_bound_in_between_count(extender: Extender) -> None:
    filtered(extender, body(["c", "b", "a"]))
    extender.put_pod(a_pod("bound", node="a", requests={"cpu": "1"}))
    outcome = extender.service.prioritize_next(body(["c", "a"]))
    assert scores(outcome) == scores(extender.service.prioritize(decode_args(body(["c", "a"]))))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            b'{"NodeNames":["c","b","a"],"Pod":{"metadata":{"name":"new","uid":"u"}}}',
            id="the pod comes last",
        ),
        pytest.param(
            b'{"Pod":{"metadata":{"name":"new","uid":"u"}},"NodeNames" :["c","b","a"]}',
            id="spaces",
        ),
        pytest.param(
            b'{"Pod":{"metadata":{"name":"new","uid":"u"}},"NodeNames":["c","b","a"],"Nodes":null}',
            id="something follows",
        ),
        pytest.param(
            b'{"Pod":{"metadata":{"name":"new","uid":"u","NodeNames":[]},"x":1,"NodeNames":["z"]},'
            b'"NodeNames":["c","b","a"]}',
            id="names in the pod",
        ),
        pytest.param(
            b'{"NodeNames":["c","b","a"],"Pod":{"metadata":{"name":"new","uid":"u"},'
            b'"NodeNames":["c","b","a"]}}',
            id="names in the pod alone",
        ),
        pytest.param(
            b'{"Pod":{"metadata":{"name":"new","uid":"u"}},"nodenames":["c","b","a"]}', id="case"
        ),
    ],
)
def test_bodies_in_another_form_are_not_predicted(extender: Extender, data: bytes) -> None:
    assert filtered(extender, data) == ["c", "a"]
    follows = data.replace(b'"b",', b"").replace(b'"b", ', b"")
    assert extender.service.prioritize_next(follows) is None
    assert scores(extender.service.prioritize(decode_args(follows))) is not None


def test_text_in_the_pod_is_not_mistaken_for_names(extender: Extender) -> None:
    pod = a_pod("new")
    pod["metadata"]["annotations"] = {"note": ',"NodeNames":["c","b","a"]}'}
    data = b'{"NodeNames":["c","b","a"],"Pod":' + json.dumps(as_served(pod, 7)).encode() + b"}"
    assert filtered(extender, data) == ["c", "a"]
    assert extender.service.prioritize_next(data.replace(b'\\"b\\",', b"")) is None
    assert extender.service.prioritize_next(data.replace(b'"b",', b"")) is None
