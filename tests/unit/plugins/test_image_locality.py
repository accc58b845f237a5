"""ImageLocality: sizes, spread, names."""

from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.plugins.image_locality import ImageLocality, normalized_image_name
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, made

MIB = 1024 * 1024
PLUGIN = made(ImageLocality)


def holding(name: str, **images_mib: int) -> Any:
    images = [
        {"names": [f"{image}:latest", f"{image}@sha256:0"], "sizeBytes": mib * MIB}
        for image, mib in images_mib.items()
    ]
    return a_node(name, status={"images": images})


def scores(pod: Any, *nodes: Any) -> Any:
    return PLUGIN.score_nodes(CycleState(), pod, a_cluster(nodes).all_nodes()).tolist()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        # Half of the nodes have it: 500 MiB count half. 100 * (250 - 23) / (1000 - 23) = 23.
        pytest.param("web", [23, 0], id="size times spread, above the lower threshold"),
        pytest.param("web:latest", [23, 0], id="no tag is the latest"),
        pytest.param("web@sha256:0", [23, 0], id="by digest"),
        pytest.param("web:1", [0, 0], id="another tag"),
        pytest.param("tiny", [0, 0], id="too small to count"),
        pytest.param("huge", [0, 100], id="never above 100"),
    ],
)
def test_score(image: Any, expected: Any) -> None:
    nodes = holding("a", web=500, tiny=30), holding("b", huge=5000)
    assert scores(a_pod(image=image), *nodes) == expected


def test_spread_counts_every_node_of_the_cluster() -> None:
    everywhere = [holding(name, web=500) for name in "abcd"]
    # All four have it: 100 * (500 - 23) / 977 = 48.
    assert scores(a_pod(image="web"), *everywhere) == [48] * 4


def test_images_of_init_containers_and_volumes_add_up() -> None:
    pod = a_pod(
        image="web",
        initContainers=[{"name": "i", "image": "setup"}],
        volumes=[{"name": "v", "image": {"reference": "data"}}],
    )
    # Two containers, so 2000 MiB are the most: 100 * (300 + 300 + 400 - 23) / (2000 - 23) = 49.
    assert scores(pod, holding("a", web=300, setup=300, data=400)) == [49]


def test_only_the_passed_nodes_are_scored_but_all_count() -> None:
    view = a_cluster([holding("a", web=500), holding("b"), holding("c", web=500)])
    some = view.all_nodes().take(view.all_nodes().rows == view.row_of("c"))
    # Two of three: int(500 MiB * (2/3)); 100 * (333.3 - 23) / 977 = 31.
    assert PLUGIN.score_nodes(CycleState(), a_pod(image="web"), some).tolist() == [31]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("nginx", "nginx:latest", id="bare"),
        pytest.param("nginx:1", "nginx:1", id="with a tag"),
        pytest.param("host:5000/app", "host:5000/app:latest", id="a port is no tag"),
        pytest.param("host:5000/app:2", "host:5000/app:2", id="a port and a tag"),
        pytest.param("app@sha256:ab", "app@sha256:ab", id="a digest"),
    ],
)
def test_normalized_image_name(name: Any, expected: Any) -> None:
    assert normalized_image_name(name) == expected
