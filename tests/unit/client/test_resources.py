"""Paths of API resources."""

from __future__ import annotations

import pytest

from kubesched.client import resources
from kubesched.client.resources import EVENTS, LEASES, NODES, PODS, Resource


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path("ns", "p", "binding"), "/api/v1/namespaces/ns/pods/p/binding"),
        (NODES.path("", "n"), "/api/v1/nodes/n"),
        (NODES.path("ignored", "n"), "/api/v1/nodes/n"),
        (
            LEASES.path("kube-system", "x"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x",
        ),
        (EVENTS.path("ns"), "/apis/events.k8s.io/v1/namespaces/ns/events"),
        (
            Resource("example.com", "v1alpha1", "widgets", "Widget", namespaced=False).path(),
            "/apis/example.com/v1alpha1/widgets",
        ),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


def test_names_of_versions_and_groups() -> None:
    assert (PODS.api_version, PODS.group_resource) == ("v1", "pods")
    assert (LEASES.api_version, LEASES.group_resource) == (
        "coordination.k8s.io/v1",
        "leases.coordination.k8s.io",
    )


def test_no_two_constants_are_the_same_kind() -> None:
    constants = [value for value in vars(resources).values() if isinstance(value, Resource)]
    assert len(constants) > 20
    assert len({(resource.group, resource.plural) for resource in constants}) == len(constants)
