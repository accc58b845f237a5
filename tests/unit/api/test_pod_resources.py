"""Requests and limits of a pod, computed from its containers."""

from typing import Any

import pytest

from kubesched.api.resource_requests import is_counted_resource, is_extended_resource
from tests.unit.builders import a_pod

Wire = dict[str, Any]
MI = 1024 * 1024
WITH_GPU = {"cpu": "100m", "memory": "100Mi", "example.com/gpu": "1"}


def container(name: str = "main", *, sidecar: bool = False, **requests: str) -> Wire:
    made: Wire = {"name": name, "resources": {"requests": requests}}
    return {**made, "restartPolicy": "Always"} if sidecar else made


def milli_cpu(*containers: Wire, init: tuple[Wire, ...] = (), **spec: Any) -> int:
    pod = a_pod(containers=list(containers), initContainers=list(init), **spec)
    return pod.requests["cpu"]


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        pytest.param([container(cpu="100m"), container("b", cpu="200m")], (), 300, id="a sum"),
        pytest.param(
            [container(cpu="100m")],
            (container("i", cpu="300m"), container("j", cpu="200m")),
            300,
            id="init containers run in sequence: the largest counts if it is more",
        ),
        pytest.param(
            [container(cpu="400m")],
            (container("i", cpu="300m"),),
            400,
            id="init containers that request less do not count",
        ),
        pytest.param(
            [container(cpu="100m")],
            (container("s", sidecar=True, cpu="200m"),),
            300,
            id="a sidecar goes on running beside the containers",
        ),
        pytest.param(
            [container(cpu="100m")],
            (container("s", sidecar=True, cpu="200m"), container("i", cpu="300m")),
            500,
            id="an init container after a sidecar runs beside it",
        ),
        pytest.param(
            [container(cpu="100m")],
            (container("i", cpu="300m"), container("s", sidecar=True, cpu="200m")),
            300,
            id="an init container before a sidecar runs alone",
        ),
        pytest.param(
            [container(cpu="50m")],
            (
                container("s", sidecar=True, cpu="100m"),
                container("i", cpu="300m"),
                container("t", sidecar=True, cpu="200m"),
            ),
            400,
            id="only the sidecars started before count beside an init container",
        ),
    ],
)
def test_cpu_over_containers(containers: list[Wire], init: tuple[Wire, ...], expected: int) -> None:
    assert milli_cpu(*containers, init=init) == expected


def test_each_resource_has_its_own_peak() -> None:
    pod = a_pod(
        containers=[container(cpu="100m", memory="300Mi")],
        initContainers=[container("i", cpu="400m", memory="10Mi")],
    )
    assert (pod.requests["cpu"], pod.requests["memory"]) == (400, 300 * MI)


def test_overhead_is_added_to_the_peak() -> None:
    init = (container("i", cpu="300m"),)
    assert milli_cpu(container(cpu="100m"), init=init, overhead={"cpu": "50m"}) == 350


def test_a_missing_resource_is_zero() -> None:
    assert a_pod(requests={"cpu": "1"}).requests["example.com/gpu"] == 0


def test_uncounted_resources_are_omitted() -> None:
    pod = a_pod(requests={"cpu": "1", "bananas": "3", "example.com/gpu": "2"})
    assert dict(pod.requests) == {"cpu": 1000, "example.com/gpu": 2}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"cpu": "2"}, (2000, 100 * MI, 1), id="cpu replaces the sum, memory stays"),
        pytest.param({"cpu": "10m"}, (10, 100 * MI, 1), id="also where it is less than the sum"),
        pytest.param(
            {"cpu": "2", "example.com/gpu": "8"},
            (2000, 100 * MI, 1),
            id="an extended resource cannot be requested for a whole pod",
        ),
        pytest.param({"example.com/gpu": "8"}, (300, 100 * MI, 1), id="alone it changes nothing"),
    ],
)
def test_pod_level_requests(resources: dict[str, str], expected: tuple[int, int, int]) -> None:
    containers = [
        {"name": "main", "resources": {"requests": WITH_GPU}},
        container("b", cpu="200m"),
    ]
    pod = a_pod(containers=containers, resources={"requests": resources})
    found = (pod.requests["cpu"], pod.requests["memory"], pod.requests["example.com/gpu"])
    assert found == expected


def test_overhead_is_added_to_pod_level_requests() -> None:
    pod = a_pod(resources={"requests": {"cpu": "2"}}, overhead={"cpu": "100m"})
    assert pod.requests["cpu"] == 2100


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def resized(actuated: str, allocated: str, conditions: list[Wire] | None = None) -> Wire:
    status = {
        "name": "main",
        "resources": {"requests": {"cpu": actuated}},
        "allocatedResources": {"cpu": allocated},
    }
    return {"containerStatuses": [status], "conditions": conditions or []}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, 500, id="no status: the spec"),
        pytest.param(resized("300m", "300m"), 500, id="growing: the spec is more"),
        pytest.param(resized("800m", "600m"), 800, id="shrinking: the actuated amount is more"),
        pytest.param(resized("300m", "700m"), 700, id="the allocated amount is more"),
        pytest.param(resized("300m", "400m", DEFERRED), 500, id="deferred: the spec still counts"),
        pytest.param(
            resized("300m", "400m", INFEASIBLE), 400, id="infeasible: the spec no longer counts"
        ),
        pytest.param(
            {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "900m"}}]},
            500,
            id="a status without resources changes nothing",
        ),
    ],
)
def test_a_resize_in_progress_counts_on_the_node(status: Wire, expected: int) -> None:
    pod = a_pod(requests={"cpu": "500m"}, status=status)
    assert pod.shape.usage["cpu"] == expected


def test_a_resize_does_not_change_the_requests_of_a_pending_pod() -> None:
    pod = a_pod(requests={"cpu": "500m"}, status=resized("800m", "800m"))
    assert pod.requests["cpu"] == 500


def test_a_sidecar_can_be_resized_and_a_plain_init_container_cannot() -> None:
    statuses = [
        {"name": "s", "resources": {"requests": {"cpu": "700m"}}},
        {"name": "i", "resources": {"requests": {"cpu": "5"}}},
    ]
    pod = a_pod(
        containers=[container(cpu="100m")],
        initContainers=[container("s", sidecar=True, cpu="200m"), container("i", cpu="100m")],
        status={"initContainerStatuses": statuses},
    )
    assert pod.shape.usage["cpu"] == 800


def test_a_pod_level_resize_counts_on_the_node() -> None:
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1"}}
    pod = a_pod(resources={"requests": {"cpu": "2"}}, status=status)
    assert (pod.requests["cpu"], pod.shape.usage["cpu"]) == (2000, 3000)


def test_an_infeasible_pod_level_resize_hides_the_spec() -> None:
    status = {"resources": {"requests": {"memory": "1Mi"}}, "conditions": INFEASIBLE}
    pod = a_pod(resources={"requests": {"cpu": "2", "memory": "5Mi"}}, status=status)
    assert (pod.shape.usage["cpu"], pod.shape.usage["memory"]) == (0, MI)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container()]}, (100, 200 * MI), id="nothing named"),
        pytest.param(
            {"containers": [container(), container("b", cpu="1")]},
            (1100, 400 * MI),
            id="each container that names nothing weighs something",
        ),
        pytest.param(
            {"containers": [container(cpu="0", memory="0")]},
            (0, 0),
            id="a named zero is believed",
        ),
        pytest.param(
            {"containers": [container()], "resources": {"requests": {"cpu": "2"}}},
            (2000, 200 * MI),
            id="pod-level requests need no substitute",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("i", cpu="2"), container("s", sidecar=True)],
            },
            (2000, 400 * MI),
            id="init containers and sidecars weigh too",
        ),
    ],
)
def test_scoring_requests_are_never_zero(spec: Wire, expected: tuple[int, int]) -> None:
    assert a_pod(**spec).shape.nonzero_usage == expected


def test_fit_scores_by_container_requests_not_pod_level_requests() -> None:
    shape = a_pod(resources={"requests": {"cpu": "2"}}, overhead={"cpu": "10m"}).shape
    assert (shape.scoring_requests["cpu"], shape.scoring_requests["memory"]) == (110, 200 * MI)


@pytest.mark.parametrize(
    ("name", "extended", "counted"),
    [
        pytest.param("cpu", False, True, id="cpu"),
        pytest.param("ephemeral-storage", False, True, id="ephemeral storage"),
        pytest.param("pods", False, False, id="pods are counted elsewhere"),
        pytest.param("storage", False, False, id="a name without a domain"),
        pytest.param("hugepages-2Mi", False, True, id="huge pages"),
        pytest.param("attachable-volumes-csi-x", False, True, id="attachable volumes"),
        pytest.param("example.com/gpu", True, True, id="a vendor's domain"),
        pytest.param("kubernetes.io/thing", False, True, id="a native domain"),
        pytest.param("requests.example.com/gpu", False, False, id="a quota's name"),
        pytest.param("example.com/a/b", False, False, id="two slashes"),
        pytest.param("Example.com/gpu", False, False, id="a domain with a capital"),
        pytest.param(f"example.com/{'g' * 64}", False, False, id="a name of 64 characters"),
    ],
)
def test_resource_names(name: str, extended: bool, counted: bool) -> None:
    assert is_extended_resource(name) is extended
    assert is_counted_resource(name) is counted
