"""The fields of a parsed node."""

import pytest

from kubesched.api.tolerations import Taint
from tests.unit.builders import a_node

BETA = "failure-domain.beta.kubernetes.io/"
GA = "topology.kubernetes.io/"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, "", id="neither region nor zone"),
        pytest.param({GA + "zone": "a"}, ":\x00:a", id="a zone alone"),
        pytest.param({GA + "region": "r"}, "r:\x00:", id="a region alone"),
        pytest.param({GA + "region": "r", GA + "zone": "a"}, "r:\x00:a", id="both"),
        pytest.param(
            {GA + "zone": "new", BETA + "zone": "old"}, ":\x00:old", id="the old label wins"
        ),
        pytest.param(
            {GA + "region": "r", BETA + "zone": "a"}, "r:\x00:a", id="each label by itself"
        ),
    ],
)
def test_zone_key(labels: dict[str, str], expected: str) -> None:
    assert a_node(labels=labels).zone_key == expected


def test_the_first_entry_of_an_image_name_determines_its_size() -> None:
    images = [
        {"names": ["app:1", "app:latest"], "sizeBytes": 10},
        {"names": ["app:latest"], "sizeBytes": 20},
    ]
    assert a_node(status={"images": images}).images == {"app:1": 10, "app:latest": 10}


def test_taints_exclude_their_time() -> None:
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": "2024-05-01T00:00:00Z"}
    assert a_node(taints=[taint]).taints == (Taint("k", "", "NoExecute"),)


def test_allocatable_amounts_are_integers_and_pods_are_separate() -> None:
    node = a_node(allocatable={"cpu": "1500m", "memory": "1Gi", "pods": "7", "what": "1"})
    assert dict(node.allocatable) == {"cpu": 1500, "memory": 1 << 30}
    assert node.allowed_pods == 7


def test_declared_features_are_distinct_and_sorted() -> None:
    assert a_node(status={"declaredFeatures": ["B", "A", "B"]}).declared_features == ("A", "B")
