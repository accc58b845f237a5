"""The services that select a pod."""

from __future__ import annotations

import pytest

from kubesched.api.meta import ObjectMeta
from kubesched.api.workloads import Service, ServiceSpec
from kubesched.plugins.pod_topology_spread.constraints import ServicesByLabel
from tests.unit.plugins.builders import a_pod

LABELS = {"app": "web", "tier": "front", "track": "stable"}


def a_service(name: str, selector: dict[str, str], namespace: str = "default") -> Service:
    meta = ObjectMeta(name=name, namespace=namespace)
    return Service(metadata=meta, spec=ServiceSpec(selector=selector))


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        pytest.param([{"app": "web"}], {"app": "web"}, id="one label"),
        pytest.param(
            [{"app": "web"}, {"tier": "front", "app": "web"}],
            {"app": "web", "tier": "front"},
            id="several services together",
        ),
        pytest.param([{"app": "web", "tier": "back"}], {}, id="another value of a second label"),
        pytest.param([{"zone": "a", "app": "web"}], {}, id="a label that the pod lacks"),
        pytest.param([{}], {}, id="no selector selects no pod"),
    ],
)
def test_labels_by_which_services_select(
    services: list[dict[str, str]], expected: dict[str, str]
) -> None:
    known = ServicesByLabel(a_service(f"s{n}", selector) for n, selector in enumerate(services))
    assert known.selected_by(a_pod("p", labels=LABELS)) == expected


def test_a_service_selects_in_its_own_namespace() -> None:
    known = ServicesByLabel([a_service("s", {"app": "web"}, "defaul")])
    assert known.selected_by(a_pod("p", labels=LABELS)) == {}
