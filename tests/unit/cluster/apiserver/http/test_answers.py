"""Forms of answers: negotiation, headers, discovery, health, durations."""

from __future__ import annotations

import pytest

from kubesched.api.schema.load import named_schema
from kubesched.api.times import micro_time_text, time_text
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.http.connections import method_not_allowed
from kubesched.cluster.apiserver.http.discovery import Discovery, aggregated_version
from kubesched.cluster.apiserver.http.negotiation import Shape, negotiate
from kubesched.cluster.apiserver.http.pages import Health
from kubesched.cluster.apiserver.http.server import warning_header
from kubesched.cluster.apiserver.http.write_options import manager_from_user_agent
from kubesched.cluster.apiserver.patch.go_order import (
    go_ordered,
    opened_by_merge,
    opened_by_operations,
)
from kubesched.golang.time import duration_problem
from kubesched.golang.yaml_output import as_yaml
from tests.unit.cluster.apiserver.http.worlds import NOW, NOW_S, THINGS, World

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def shape(accept: str, verb: str = "get") -> tuple[str, Shape]:
    found = negotiate(accept, verb=verb, include_object="", type_name="core.Pod")
    return found.media_type, found.shape


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", ("application/json", Shape.WHOLE)),
        ("*/*", ("application/json", Shape.WHOLE)),
        ("application/yaml", ("application/yaml", Shape.WHOLE)),
        ("application/json;q=0.1,application/yaml", ("application/yaml", Shape.WHOLE)),
        (f"{TABLE},application/json", ("application/json", Shape.TABLE)),
        ("application/json;as=Foo;g=meta.k8s.io;v=v1,application/json",
         ("application/json", Shape.WHOLE)),
        ("application/vnd.kubernetes.protobuf,application/json",
         ("application/json", Shape.WHOLE)),
    ],
)  # fmt: skip
def test_the_best_form_wins(accept: str, expected: tuple[str, Shape]) -> None:
    assert shape(accept) == expected


@pytest.mark.parametrize(
    ("accept", "verb", "message"),
    [
        ("text/html", "get", ("406: Not Acceptable\n\nAvailable representations: application/json, "
         "application/yaml, application/vnd.kubernetes.protobuf")),
        ("application/vnd.kubernetes.protobuf", "get", ("only the following media types are "
         "accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf")),
        ("application/yaml", "watch", ("only the following media types are accepted: "
         "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "list",
         "you requested PartialObjectMetadata, but the requested object is a list (*core.PodList)"),
    ],
)  # fmt: skip
def test_unsupported_forms(accept: str, verb: str, message: str) -> None:
    with pytest.raises(ApiError) as rejected:
        shape(accept, verb)
    assert (rejected.value.code, rejected.value.message) == (406, message)


def test_warnings_are_quoted() -> None:
    assert warning_header('say "a\\b"\n') == '299 - "say \\"a\\\\b\\""'


@pytest.mark.parametrize(
    ("agent", "expected"),
    [("kubectl/v1.36 (linux)", "kubectl"), ("", ""), ("a\tb", "ab"), ("x" * 200, "x" * 128)],
)
def test_the_field_manager(agent: str, expected: str) -> None:
    assert manager_from_user_agent(agent) == expected


def test_times() -> None:
    assert time_text(NOW_S + 0.9) == NOW
    assert micro_time_text(NOW_S + 0.000_012) == "2023-11-14T22:13:20.000012Z"


def test_yaml_is_quoted_as_go_does() -> None:
    document = {
        "b": "1",
        "a": "true",
        "c": "plain",
        "d": {"e": "x\ny"},
        "f": "2020-01-01T00:00:00Z",
    }
    expected = (
        b'a: "true"\nb: "1"\nc: plain\nd:\n  e: |-\n    x\n    y\nf: "2020-01-01T00:00:00Z"\n'
    )
    assert as_yaml(document) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5s", ""), ("1h2m3.5s", ""), ("0", ""), ("-1.5h", ""),
        ("soon", 'time: invalid duration "soon"'), ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'), ("", 'time: invalid duration ""'),
    ],
)  # fmt: skip
def test_durations(text: str, expected: str) -> None:
    assert duration_problem(text) == expected


def test_health() -> None:
    is_ready = True
    health = Health(lambda: is_ready)
    assert health.respond(["readyz"], is_verbose=False, excluded=[]) == (200, "ok")
    code, text = health.respond(["livez"], is_verbose=True, excluded=["etcd"]) or (0, "")
    assert (code, text.splitlines()[-2:]) == (200, ["[+]etcd excluded: ok", "livez check passed"])
    assert health.respond(["healthz", "ping"], is_verbose=False, excluded=[]) == (200, "ok")
    assert health.respond(["healthz", "nothing"], is_verbose=False, excluded=[]) is None
    is_ready = False
    code, text = health.respond(["readyz"], is_verbose=False, excluded=[]) or (0, "")
    assert code == 500
    assert text.endswith("[-]shutdown failed: reason withheld\nreadyz check failed\n")


def test_discovery_of_a_group() -> None:
    discovery = Discovery(World().context.registry, "127.0.0.1:1")
    found = discovery.document(["apis", "example.com", "v1"], "")
    assert found is not None
    by_name = {resource["name"]: resource for resource in found[0]["resources"]}
    assert list(by_name) == ["leaves", "runs", "things", "things/status", "things/scale"]
    assert by_name["things"]["shortNames"] == ["th"]
    assert (by_name["things/scale"]["group"], by_name["things/scale"]["kind"]) == (
        "autoscaling", "Scale",
    )  # fmt: skip
    assert discovery.document(["apis", "none.example.com"], "") is None


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
         "v2"),
        ("application/json", ""), ("", ""),
        ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", ""),
    ],
)  # fmt: skip
def test_the_requested_version_of_discovery(accept: str, expected: str) -> None:
    assert aggregated_version(accept) == expected


def test_an_answer_as_yaml_and_as_metadata() -> None:
    world = World()
    world.make("a", spec={"x": 1})
    assert (
        world.answer("GET", f"{THINGS}/a", Accept="application/yaml").media_type
        == "application/yaml"
    )
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = world("GET", THINGS, Accept=accept)
    assert found["kind"] == "PartialObjectMetadataList"
    assert found["items"][0]["kind"] == "PartialObjectMetadata"
    nothing = world("GET", f"{THINGS}?labelSelector=no", Accept=accept)
    assert nothing["items"] is None


def test_a_status_with_no_details_shows_that() -> None:
    assert method_not_allowed().status["details"] == {}


def test_structs_keep_their_order_and_maps_are_sorted() -> None:
    of = named_schema("meta/v1.ObjectMeta")
    value = {"uid": "u", "labels": {"b": "", "a": ""}, "name": "n"}
    assert list(go_ordered(of, value)) == ["name", "uid", "labels"]
    assert list(go_ordered(of, value)["labels"]) == ["a", "b"]
    assert list(go_ordered(of, value, {})) == ["labels", "name", "uid"]
    assert opened_by_merge({"a": {"b": 1}, "c": 2}) == {"a": {}}
    assert opened_by_operations([{"op": "add", "path": "/a/b~1c/d"}]) == {"a": {"b/c": {}}}
