"""`preempt` of an extender: nodes on which the pod fits without the victims."""

from __future__ import annotations

import json

import pytest

from kubesched.extender.server.preemption import preempt
from kubesched.extender.server.service import ServiceError
from kubesched.extender.wire import (
    ExtenderPreemptionArgs,
    MetaPod,
    MetaVictims,
    decode_preemption_args,
)
from kubesched.golang.json_unmarshal import WireError
from kubesched.testing import a_pod
from tests.unit.extender.server_cases import (
    ByLabel,
    Choosy,
    Document,
    Extender,
    an_extender,
    as_served,
    some_nodes,
)

NEW = a_pod("new", labels={"app": "web"})


def args(pod: Document, **victims: object) -> ExtenderPreemptionArgs:
    body = {
        "Pod": as_served(pod, 7),
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": None,
        **victims,
    }
    return decode_preemption_args(json.dumps(body).encode())


def by_uid(**nodes: list[str]) -> Document:
    return {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1}
        for name, uids in nodes.items()
    }


@pytest.fixture
def extender() -> Extender:
    """Two nodes with a pod of the app; `double` has two of them."""
    made = an_extender(ByLabel)
    some_nodes(made, single={}, double={}, never={"never": ""}, bad={"raise": ""})
    made.put_pod(a_pod("one", labels={"app": "web"}, node="single"))
    made.put_pod(a_pod("two", labels={"app": "web"}, node="double"))
    made.put_pod(a_pod("three", labels={"app": "web"}, node="double"))
    return made


def kept(extender: Extender, args: ExtenderPreemptionArgs) -> dict[str, MetaVictims | None]:
    return preempt(extender.service, args).result.node_name_to_meta_victims or {}


def test_nodes_that_fit_without_the_victims_are_kept(extender: Extender) -> None:
    proposed = by_uid(single=["uid-one"], double=["uid-two"], never=[], unheard=["uid-x"])
    left = kept(extender, args(NEW, NodeNameToMetaVictims=proposed))
    expected = MetaVictims(pods=[MetaPod(uid="uid-one")], num_pdb_violations=1)
    assert left == {"single": expected}
    both = by_uid(double=["uid-two", "uid-three"])
    assert list(kept(extender, args(NEW, NodeNameToMetaVictims=both))) == ["double"]


def test_whole_victims_are_returned_by_uid(extender: Extender) -> None:
    victim = as_served(a_pod("one", labels={"app": "web"}), 3)
    proposed = {"single": {"Pods": [victim], "NumPDBViolations": 2}}
    left = kept(extender, args(NEW, NodeNameToVictims=proposed))
    expected = MetaVictims(pods=[MetaPod(uid="uid-one")], num_pdb_violations=2)
    assert left == {"single": expected}


def test_a_deleted_victim_is_ignored(extender: Extender) -> None:
    extender.put_pod(a_pod("one", node="single"), "DELETED")
    left = kept(extender, args(NEW, NodeNameToMetaVictims=by_uid(single=["uid-one"])))
    assert list(left) == ["single"]


def test_a_preempt_call_changes_nothing(extender: Extender) -> None:
    kept(extender, args(NEW, NodeNameToMetaVictims=by_uid(single=["uid-one"])))
    assert extender.service.filter(extender.names("single", pod=NEW)).kept == 0


def test_a_pod_rejected_on_all_nodes_gets_no_node() -> None:
    extender = an_extender(Choosy)
    some_nodes(extender, a={}, b={})
    proposed = by_uid(a=["uid-x"], b=["uid-y"])
    for node_names, left in (("none", []), ("b", ["b"]), ("a,b", ["a", "b"])):
        pod = a_pod("new", annotations={"nodes": node_names})
        assert list(kept(extender, args(pod, NodeNameToMetaVictims=proposed))) == left


def test_an_exception_of_a_plugin_is_the_error_of_the_call(extender: Extender) -> None:
    with pytest.raises(ServiceError, match="no such luck"):
        kept(extender, args(NEW, NodeNameToMetaVictims=by_uid(bad=[])))


def test_a_malformed_victim(extender: Extender) -> None:
    proposed = {"single": {"Pods": [{"metadata": {"uid": 7}}]}}
    with pytest.raises(WireError):
        kept(extender, args(NEW, NodeNameToVictims=proposed))
