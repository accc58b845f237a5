"""Victims in arguments and results of extenders."""

import json
from typing import Any

import pytest

from kubesched.api.decode import decode_as
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.cache.cache import Cache
from kubesched.extender import wire
from kubesched.extender.client.http_extender import preemption_args, victims_of
from kubesched.framework.handle import ExtenderError
from kubesched.framework.interface import Victims
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_pod

URL = "http://extender"
NOT_THERE = (
    "extender: http://extender claims to preempt pod (UID: {}) on node: n1, "
    "but the pod is not found on that node"
)


def a_cache(*pods: tuple[str, str]) -> Cache:
    """Return two nodes with some whole pods."""
    cache = Cache(keep_whole_pods=True)
    for name in ("n1", "n2"):
        cache.add_node(decode_as(Node, {"metadata": {"name": name}, "spec": {}, "status": {}}))
    for name, node in pods:
        cache.add_pod(stored(cache, name, node))
    return cache


def stored(cache: Cache, name: str, node: str) -> PodInfo:
    document: dict[str, Any] = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "c"}], "dnsPolicy": "ClusterFirst"},
        "status": {"qosClass": "BestEffort"},
    }
    if not node:
        del document["spec"]["nodeName"]
    return cache.pod_info(decode_as(Pod, document), json.dumps(document).encode())


def on(view: ClusterView, node: str) -> Victims:
    pods = tuple(map(view.bound_pod, view.pods_on(view.row_of(node))))
    return Victims(node, pods, 3)


def args_as_json(view: ClusterView, *, by_name: bool) -> dict[str, Any]:
    args = preemption_args(a_pod("boss"), {"n1": on(view, "n1")}, by_name=by_name)
    found: dict[str, Any] = json.loads(wire.encode(args))
    return found


def test_victims_are_sent_by_uid_to_cache_capable_extenders() -> None:
    args = args_as_json(a_cache(("a", "n1"), ("b", "n1")).snapshot(), by_name=True)
    assert args["Pod"]["metadata"]["name"] == "boss"
    assert args["NodeNameToVictims"] is None
    assert args["NodeNameToMetaVictims"] == {
        "n1": {"Pods": [{"UID": "uid-a"}, {"UID": "uid-b"}], "NumPDBViolations": 3}
    }


def test_other_extenders_get_whole_victims() -> None:
    args = args_as_json(a_cache(("a", "n1")).snapshot(), by_name=False)
    assert args["NodeNameToMetaVictims"] is None
    assert args["NodeNameToVictims"] == {
        "n1": {
            "Pods": [
                {
                    "metadata": {"name": "a", "namespace": "ns", "uid": "uid-a"},
                    "spec": {
                        "nodeName": "n1",
                        "containers": [{"name": "c"}],
                        "dnsPolicy": "ClusterFirst",
                    },
                    "status": {"qosClass": "BestEffort"},
                }
            ],
            "NumPDBViolations": 3,
        }
    }


def test_an_assumed_victim_has_its_node_name() -> None:
    cache = a_cache()
    cache.assume_pod(stored(cache, "a", ""), "n1")
    args = args_as_json(cache.snapshot(), by_name=False)
    (shown,) = args["NodeNameToVictims"]["n1"]["Pods"]
    assert shown["spec"]["nodeName"] == "n1"


def answer(text: str) -> wire.ExtenderPreemptionResult:
    return wire.decode_preemption_result(text.encode())


def test_returned_victims_are_found_on_their_node() -> None:
    view = a_cache(("a", "n1"), ("b", "n1"), ("c", "n2")).snapshot()
    text = """{"NodeNameToMetaVictims": {
        "n1": {"Pods": [{"UID": "uid-b"}, {"UID": "uid-a"}], "NumPDBViolations": 1},
        "n2": {"Pods": null}
    }}"""
    found = victims_of(answer(text), view, URL)
    assert {name: [pod.name for pod in victims.pods] for name, victims in found.items()} == {
        "n1": ["b", "a"],
        "n2": [],
    }
    assert [victims.pdb_violation_count for victims in found.values()] == [1, 0]


@pytest.mark.parametrize("text", ["{}", "null", '{"NodeNameToMetaVictims": {}}'])
def test_no_victims_are_allowed(text: str) -> None:
    assert victims_of(answer(text), a_cache().snapshot(), URL) == {}


@pytest.mark.parametrize(
    ("named", "text"),
    [
        (
            '"n1": {"Pods": [{"UID": "uid-c"}]}',
            NOT_THERE.format("&{uid-c}"),
        ),
        ('"n9": {"Pods": []}', 'nodeinfo not found for node name "n9"'),
        ('"n1": null', f"extender: {URL} names no victims on node: n1"),
        (
            '"n1": {"Pods": [null]}',
            NOT_THERE.format("<nil>"),
        ),
    ],
    ids=["a pod of another node", "no such node", "nothing", "a null"],
)
def test_an_unknown_victim_is_an_error(named: str, text: str) -> None:
    view = a_cache(("a", "n1"), ("c", "n2")).snapshot()
    with pytest.raises(ExtenderError) as raised:
        victims_of(answer(f'{{"NodeNameToMetaVictims": {{{named}}}}}'), view, URL)
    assert str(raised.value) == text
