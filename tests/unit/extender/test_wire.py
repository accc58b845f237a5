"""Encoding and decoding of the messages of the extender protocol."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from kubesched.extender import wire
from kubesched.golang.json_unmarshal import WireError

RECORDED = Path(__file__).with_name("recorded_answers.jsonl")
READERS: dict[str, Callable[[bytes], Any]] = {
    "filter": wire.decode_filter_result,
    "scores": wire.decode_host_priorities,
    "bind": wire.decode_binding_result,
    "preempt": wire.decode_preemption_result,
    "bind args": wire.decode_binding_args,
}


def recorded() -> list[dict[str, Any]]:
    """Return texts with the results of Go's decoder (conformance/fuzz_extender.py --write)."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def comparable(message: Any) -> Any:
    value = json.loads(wire.encode(message))
    if isinstance(value, dict) and value.get("Nodes"):
        value["Nodes"] = len(value["Nodes"]["items"] or ())
    return value or None


def test_the_recording_has_valid_and_invalid_messages_of_every_kind() -> None:
    found = {(case["kind"], bool(case["error"])) for case in recorded()}
    assert found == {(kind, is_wrong) for kind in READERS for is_wrong in (False, True)}


@pytest.mark.parametrize("case", recorded(), ids=lambda case: f"{case['kind']}-{case['text'][:30]}")
def test_responses_are_decoded_as_in_go(case: dict[str, Any]) -> None:
    read = READERS[case["kind"]]
    if case["error"]:
        with pytest.raises(WireError) as raised:
            read(case["text"].encode())
        assert str(raised.value) == case["error"]
    else:
        assert comparable(read(case["text"].encode())) == case["value"]


def test_returned_nodes_pass_through_unchanged() -> None:
    text = b'{"Nodes":{"items":[ {"metadata": {"name":"n1"},"x":1.50} ]}}'
    nodes = wire.decode_filter_result(text).nodes
    assert nodes is not None
    assert [bytes(item) for item in nodes.items or ()] == [b'{"metadata": {"name":"n1"},"x":1.50}']


def test_keys_of_nodes_match_in_any_case() -> None:
    text = b'{"nodes":{"kind":"NodeList","ITEMS":[{"metadata":{"name":"n1"}}]}}'
    nodes = wire.decode_filter_result(text).nodes
    assert nodes is not None
    assert [json.loads(bytes(item)) for item in nodes.items or ()] == [{"metadata": {"name": "n1"}}]


@pytest.mark.parametrize(
    "text", [b'[{"host":"n1","score":7}]', b'[{"HOST":"n1","scorE":7,"x":{}}]']
)
def test_keys_of_scores_match_in_any_case(text: bytes) -> None:
    assert wire.decode_host_priorities(text) == [wire.HostPriority(host="n1", score=7)]


def test_the_last_of_two_matching_keys_counts() -> None:
    assert wire.decode_binding_result(b'{"Error":"a","error":"b"}').error == "b"
    assert wire.decode_binding_result(b'{"Error":"a","error":null}').error == "a"
    assert wire.decode_filter_result(b'{"NodeNames":["a"],"nodenames":null}').node_names is None


def test_an_incomplete_body_is_distinguished_from_a_malformed_one() -> None:
    for text, is_incomplete in ((b"", True), (b'{"Error":"a', True), (b"{]", False)):
        with pytest.raises(WireError) as raised:
            wire.decode_filter_result(text)
        assert raised.value.is_incomplete is is_incomplete


def test_a_body_nested_without_end_is_rejected() -> None:
    with pytest.raises(WireError, match="exceeded max depth"):
        wire.decode_filter_result(b'{"x":' + b"[" * 100_000)


POD = Raw(b'{"metadata":{"name":"p"}}')


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            wire.ExtenderArgs(pod=POD, node_names=["b", "a"]),
            '{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["b","a"]}',
        ),
        (
            wire.ExtenderArgs(pod=POD, nodes=wire.NodeList(items=[Raw(b'{"a":1}')])),
            (
                '{"Pod":{"metadata":{"name":"p"}},'
                '"Nodes":{"metadata":{},"items":[{"a":1}]},"NodeNames":null}'
            ),
        ),
        (
            wire.ExtenderBindingArgs(pod_name="p", pod_namespace="ns", pod_uid="u", node="n"),
            '{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}',
        ),
        (wire.ExtenderBindingResult(error="x"), '{"Error":"x"}'),
        ([wire.HostPriority(host="n", score=3)], '[{"Host":"n","Score":3}]'),
        (
            wire.ExtenderFilterResult(node_names=[], failed_nodes={"b": "x", "a": "y"}),
            (
                '{"Nodes":null,"NodeNames":[],"FailedNodes":{"a":"y","b":"x"},'
                '"FailedAndUnresolvableNodes":null,"Error":""}'
            ),
        ),
        (
            wire.ExtenderPreemptionArgs(
                pod=POD,
                node_name_to_meta_victims={
                    "n": wire.MetaVictims(pods=[wire.MetaPod(uid="u")], num_pdb_violations=1)
                },
            ),
            (
                '{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":null,'
                '"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}'
            ),
        ),
        (
            wire.ExtenderPreemptionArgs(
                pod=POD, node_name_to_victims={"n": wire.Victims(pods=[POD])}
            ),
            (
                '{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":'
                '{"n":{"Pods":[{"metadata":{"name":"p"}}],"NumPDBViolations":0}},'
                '"NodeNameToMetaVictims":null}'
            ),
        ),
    ],
)
def test_messages_are_encoded_as_in_go(message: object, text: str) -> None:
    assert wire.encode(message).decode() == text


def test_arguments_are_decoded() -> None:
    args = wire.decode_args(
        b'{"Pod":{"a":1},"Nodes":{"metadata":{},"items":[{"x":1}]},"NodeNames":null}'
    )
    assert bytes(args.pod) == b'{"a":1}'
    assert args.nodes is not None
    assert [bytes(item) for item in args.nodes.items or ()] == [b'{"x":1}']
    assert args.node_names is None
    decoded = wire.decode_preemption_args(
        b'{"Pod":null,"NodeNameToVictims":{"n":{"Pods":[{"b":2}],"NumPDBViolations":4}}}'
    )
    victims = (decoded.node_name_to_victims or {})["n"]
    assert victims is not None
    assert [bytes(pod) for pod in victims.pods or ()] == [b'{"b":2}']
    assert victims.num_pdb_violations == 4
    assert decoded.node_name_to_meta_victims is None
