"""`filter` of an extender: kept nodes, their form, and reasons for the others."""

from __future__ import annotations

import msgspec
import pytest

from kubesched.api.errors import MalformedObject
from kubesched.extender.server.cluster_state import ClusterState
from kubesched.extender.server.service import UNKNOWN_NODE, ServiceError
from kubesched.extender.wire import ExtenderFilterResult
from kubesched.testing import a_node, a_pod
from tests.unit.extender.server_cases import (
    ByLabel,
    Choosy,
    Document,
    Extender,
    InColumns,
    an_extender,
    extender_args,
    some_nodes,
)


def rejections(result: ExtenderFilterResult) -> tuple[dict[str, str], dict[str, str]]:
    return result.failed_nodes or {}, result.failed_and_unresolvable_nodes or {}


def test_names_keep_their_order() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={}, b={"never": ""}, c={})
    outcome = extender.service.filter(extender.names("c", "b", "a"))
    assert outcome.result.node_names == ["c", "a"]
    assert outcome.result.nodes is None
    assert rejections(outcome.result) == ({}, {"b": "never here"})
    assert (outcome.node_count, outcome.kept) == (3, 2)


def test_whole_nodes_keep_unknown_fields() -> None:
    extender = an_extender(InColumns)
    kept, rejected = some_nodes(extender, kept={}, rejected={"spot": "yes"})
    kept["spec"] = {"fieldOfNextYear": {"deep": [1, 2]}}
    outcome = extender.service.filter(extender.whole(rejected, kept))
    assert outcome.result.node_names is None
    assert outcome.result.nodes is not None
    items = [msgspec.json.decode(raw) for raw in outcome.result.nodes.items or ()]
    assert items == [kept]
    assert rejections(outcome.result) == ({"rejected": "spot"}, {})


@pytest.mark.parametrize("is_whole", [False, True])
def test_plugins_see_the_pods_of_names_and_whole_nodes(is_whole: bool) -> None:
    extender = an_extender(ByLabel)
    first, second = some_nodes(extender, first={}, second={})
    extender.put_pod(a_pod("old", labels={"app": "web"}, node="first"))
    pod = a_pod("new", labels={"app": "web"})
    args = (
        extender.whole(first, second, pod=pod)
        if is_whole
        else extender.names("first", "second", pod=pod)
    )
    outcome = extender.service.filter(args)
    assert rejections(outcome.result) == ({"first": "the app is here already"}, {})
    assert outcome.kept == 1


def test_finished_and_deleted_pods_do_not_count() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={}, b={})
    ended = extender.put_pod(a_pod("ended", labels={"app": "web"}, node="a"))
    gone = a_pod("gone", labels={"app": "web"}, node="b")
    extender.put_pod(gone)
    args = extender.names("a", "b", pod=a_pod("new", labels={"app": "web"}))
    assert extender.service.filter(args).kept == 0
    extender.put_pod({**ended, "kind": "Pod", "status": {"phase": "Succeeded"}}, "MODIFIED")
    assert extender.service.filter(args).result.node_names == ["a"]
    extender.put_pod(gone, "DELETED")
    assert extender.service.filter(args).result.node_names == ["a", "b"]


def test_an_unwatched_node_is_rejected_by_name_and_filtered_as_a_whole_node() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={})
    outcome = extender.service.filter(extender.names("a", "new"))
    assert outcome.result.node_names == ["a"]
    assert rejections(outcome.result) == ({"new": UNKNOWN_NODE}, {})
    whole = {"metadata": {"name": "new", "labels": {"never": ""}, "resourceVersion": "7"}}
    outcome = extender.service.filter(extender.whole(whole))
    assert rejections(outcome.result) == ({}, {"new": "never here"})
    # It is not kept: no watch would show its deletion.
    outcome = extender.service.filter(extender.names("new"))
    assert rejections(outcome.result) == ({"new": UNKNOWN_NODE}, {})


def test_in_a_cluster_without_nodes_every_name_is_unknown() -> None:
    extender = an_extender(ByLabel, Choosy)
    outcome = extender.service.filter(extender.names("a", "b"))
    assert outcome.result.node_names == []
    assert rejections(outcome.result) == (dict.fromkeys("ab", UNKNOWN_NODE), {})
    assert extender.service.filter(extender.names()).result.node_names == []
    whole = {"metadata": {"name": "new"}}
    assert extender.service.filter(extender.whole(whole)).kept == 1


@pytest.mark.parametrize(
    ("version", "is_rejected"),
    [
        pytest.param("999", True, id="newer than ours: it counts"),
        pytest.param("1", False, id="older than ours: ours counts"),
        pytest.param("", True, id="of no known age: it counts"),
        pytest.param("101", False, id="the same as ours: it is not read"),
    ],
)
def test_the_newer_of_two_states_of_a_node_counts(version: str, is_rejected: bool) -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={})
    sent = {"metadata": {"name": "a", "resourceVersion": version, "labels": {"never": ""}}}
    outcome = extender.service.filter(extender.whole(sent))
    assert (outcome.kept == 0) is is_rejected
    # Nodes of a call are not kept after it.
    assert extender.service.filter(extender.names("a")).kept == 1


def test_a_newer_node_keeps_its_pods() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={})
    extender.put_pod(a_pod("old", labels={"app": "web"}, node="a"))
    sent = {"metadata": {"name": "a", "resourceVersion": "999"}}
    outcome = extender.service.filter(extender.whole(sent, pod=a_pod("new", labels={"app": "web"})))
    assert rejections(outcome.result) == ({"a": "the app is here already"}, {})


def test_a_nominated_pod_counts_for_pods_of_lower_priority() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={})
    nominated = a_pod("nominated", labels={"app": "web"}, priority=5)
    extender.put_pod({**nominated, "status": {"nominatedNodeName": "a"}})
    for priority, kept in ((5, 0), (6, 1)):
        pod = a_pod("new", labels={"app": "web"}, priority=priority)
        assert extender.service.filter(extender.names("a", pod=pod)).kept == kept
    # It does not count after the nomination is cleared, nor for itself.
    own = {**nominated, "status": {"nominatedNodeName": "a"}}
    assert extender.service.filter(extender.names("a", pod=own)).kept == 1
    extender.put_pod(nominated, "MODIFIED")
    pod = a_pod("new", labels={"app": "web"}, priority=5)
    assert extender.service.filter(extender.names("a", pod=pod)).kept == 1


def test_an_exception_of_a_plugin_is_the_error_of_the_call() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={}, b={"raise": ""})
    with pytest.raises(ServiceError) as raised:
        extender.service.filter(extender.names("a", "b"))
    assert str(raised.value) == 'running "ByLabel" filter plugin: RuntimeError: no such luck'


@pytest.mark.parametrize(
    ("node_names", "kept", "failed", "incurable"),
    [
        ("b", ["b"], {}, {"a": "node(s) didn't satisfy plugin(s) [Choosy]"}),
        ("none", [], {"a": "not today", "b": "not today"}, {}),
    ],
)
def test_pre_filter_sees_all_nodes(
    node_names: str, kept: list[str], failed: Document, incurable: Document
) -> None:
    extender = an_extender(Choosy)
    some_nodes(extender, a={}, b={}, c={})
    pod = a_pod("new", annotations={"nodes": node_names})
    outcome = extender.service.filter(extender.names("a", "b", pod=pod))
    assert outcome.result.node_names == kept
    assert rejections(outcome.result) == (failed, incurable)


def test_the_profile_is_chosen_by_scheduler_name_or_is_the_first() -> None:
    profiles = [
        {"schedulerName": name, "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}}}
        for name, plugin in (("first", "ByLabel"), ("second", "InColumns"))
    ]
    extender = an_extender(ByLabel, InColumns, config={"profiles": profiles})
    some_nodes(extender, a={"never": ""}, b={"spot": ""})
    for scheduler, kept in (("first", ["b"]), ("second", ["a"]), ("elsewhere", ["b"])):
        pod = a_pod("new", scheduler=scheduler)
        outcome = extender.service.filter(extender.names("a", "b", pod=pod))
        assert outcome.result.node_names == kept, scheduler


def test_in_tree_plugins_are_not_called() -> None:
    extender = an_extender(ByLabel)
    extender.put_node(a_node("full", capacity={"cpu": "1"}, taints=["gone:NoSchedule"]))
    pod = a_pod("new", requests={"cpu": "64"})
    assert extender.service.filter(extender.names("full", pod=pod)).kept == 1


def test_calls_fail_before_all_kinds_are_listed() -> None:
    extender = an_extender(ByLabel)
    world = extender.world
    world.__class__ = ClusterState
    with pytest.raises(ServiceError) as raised:
        extender.service.filter(extender.names("a"))
    assert str(raised.value) == "the extender has not read all namespaces, nodes, pods yet"


def test_a_malformed_pod_is_rejected() -> None:
    extender: Extender = an_extender(ByLabel)
    args = extender_args(a_pod("new"), NodeNames=[])
    args.pod = msgspec.Raw(b'{"spec": {"containers": "none"}}')
    with pytest.raises(MalformedObject):
        extender.service.filter(args)
