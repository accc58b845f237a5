"""The text of /metrics/resources."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.api.decode import decode_as
from kubesched.api.pod import Pod
from kubesched.metrics.pod_resources import resource_metrics
from kubesched.snapshot.pod_info import PodShapes
from tests.unit.builders import a_pod

RECORDED = Path(__file__).parent / "data" / "kube-scheduler-v1.36.4-resources.json.gz"
Wire = dict[str, Any]


def test_the_text_equals_kube_schedulers_for_the_same_pods() -> None:
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
    shapes = PodShapes()
    pods = [
        shapes.pod_info(decode_as(Pod, json.dumps(document).encode()))
        for document in recorded["pods"]
    ]
    assert "".join(resource_metrics(pods)) == recorded["text"]


def container(name: str, **limits: str) -> Wire:
    return {"name": name, "resources": {"limits": limits}}


def sidecar(name: str, **limits: str) -> Wire:
    return {**container(name, **limits), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container("a")]}, {}, id="no limit"),
        pytest.param(
            {"containers": [container("a", cpu="1"), container("b", cpu="500m", memory="1Ki")]},
            {"cpu": 1500, "memory": 1024},
            id="the sum of containers",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                "initContainers": [
                    sidecar("s", cpu="200m"),
                    container("i", cpu="2"),
                ],
            },
            {"cpu": 2200},
            id="an init container beside a sidecar",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                "overhead": {"cpu": "100m", "memory": "1Ki"},
            },
            {"cpu": 1100},
            id="overhead only on what is limited",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1", **{"example.com/gpu": "2"})],
                "resources": {"limits": {"cpu": "4", "example.com/gpu": "9"}},
            },
            {"cpu": 4000, "example.com/gpu": 2},
            id="limits of the whole pod replace those that a pod can have",
        ),
    ],
)
def test_limits(spec: Wire, expected: dict[str, int]) -> None:
    assert dict(a_pod(**spec).shape.limits) == expected


@pytest.mark.parametrize(
    ("resource", "quantity", "unit", "value"),
    [
        ("cpu", "700m", "cores", "0.7000000000000001"),
        ("cpu", "3", "cores", "3"),
        ("memory", "10Mi", "bytes", "1.048576e+07"),
        ("ephemeral-storage", "1000", "bytes", "1000"),
        ("hugepages-2Mi", "4Mi", "bytes", "4.194304e+06"),
        ("attachable-volumes-x", "2", "integer", "2"),
        ("example.com/gpu", "2", "", "2"),
    ],
)
def test_units_and_values(resource: str, quantity: str, unit: str, value: str) -> None:
    pod = a_pod("p", requests={resource: quantity}, nodeName="n", priority=7)
    assert (
        f'kube_pod_resource_request{{namespace="default",node="n",pod="p",priority="7",'
        f'resource="{resource}",scheduler="default-scheduler",unit="{unit}"}} {value}\n'
        in "".join(resource_metrics([pod]))
    )


def test_zero_requests_are_left_out_with_their_header() -> None:
    assert list(resource_metrics([a_pod("p", requests={"cpu": "0"})])) == []


def test_many_pods_are_rendered_in_parts_with_one_header_per_metric() -> None:
    pods = [a_pod(f"p{number:04d}", requests={"cpu": "1"}) for number in range(2500)]
    parts = list(resource_metrics(pods))
    assert len(parts) == 3
    assert [part.count("# HELP") for part in parts] == [1, 0, 0]
    assert "".join(parts).count("kube_pod_resource_request{") == 2500
