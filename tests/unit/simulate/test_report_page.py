import re
from xml.etree import ElementTree

import pytest

from kubesched.simulate.html import comparison_page, simulation_page
from kubesched.simulate.report import compare
from tests.unit.simulate.small_clusters import Document, node, pod, simulated, workload

SVG = "{http://www.w3.org/2000/svg}"
HTML = "{http://www.w3.org/1999/xhtml}"
HOSTILE = '<script>alert("x")</script>&\x1b[31m'


def cluster(node_count: int) -> list[Document]:
    return [
        *(node(f"n{i}", "2", zone="ab"[i % 2]) for i in range(node_count)),
        pod("low", on="n0", owner="ReplicaSet/low"),
        pod("gone", on="n0"),
        pod("big", "2", priority=9, nodeSelector={"kubernetes.io/hostname": "n0"}),
        pod("never", "9"),
        workload("Deployment", "web", replicas=3),
    ]


@pytest.mark.parametrize("node_count", [2, 60])
def test_a_page_is_well_formed_and_self_contained(node_count: int) -> None:
    page = simulation_page(simulated(*cluster(node_count)))
    root = ElementTree.fromstring(page)
    tags = {element.tag.removeprefix(HTML) for element in root.iter()}
    assert f"{SVG}svg" in tags
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not {"src", "href", "srcset", "action", "data"} & attributes
    style = "".join(root.itertext())
    assert "url(" not in style
    assert "@import" not in style
    # The only URLs are the two namespaces.
    assert set(re.findall(r"https?://[^\"'< ]+", page)) == {
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/2000/svg",
    }


def test_a_page_supports_light_and_dark_mode() -> None:
    assert "prefers-color-scheme: dark" in simulation_page(simulated(node("n"), pod("p")))


def test_a_page_has_placements_and_preemptions() -> None:
    text = "".join(ElementTree.fromstring(simulation_page(simulated(*cluster(2)))).itertext())
    assert "default/big" in text
    assert "recreated as default/low-again-1" in text
    assert "Insufficient cpu" in text


def test_names_are_escaped() -> None:
    run = simulated(node("n"), pod("p", schedulerName=HOSTILE, metadata={"name": HOSTILE}))
    page = simulation_page(run)
    ElementTree.fromstring(page)
    assert "<script" not in page
    assert "\x1b" not in page


def test_two_runs_are_shown_side_by_side() -> None:
    runs = (simulated(*cluster(2)), simulated(*cluster(2)))
    page = comparison_page(compare(("first.yaml", HOSTILE), runs))
    root = ElementTree.fromstring(page)
    assert len(root.findall(f".//{HTML}section")) == 2
    assert "Every pod is on the same node." in "".join(root.itertext())


def test_a_page_without_nodes() -> None:
    ElementTree.fromstring(simulation_page(simulated(pod("p"))))


def rows_of(page: str) -> list[str]:
    """Return the first cell of each row of the page's last table."""
    *_, table = ElementTree.fromstring(page).iter(f"{HTML}tbody")
    return [row[0].text or "" for row in table]


@pytest.mark.parametrize(
    ("top", "count", "rest"),
    [
        pytest.param(2, 2, "and 3 more (--top, or -o json)", id="a number"),
        pytest.param(5, 5, "", id="just enough"),
        pytest.param(None, 5, "", id="all"),
    ],
)
def test_top_limits_the_rows_of_a_table(top: int | None, count: int, rest: str) -> None:
    page = simulation_page(simulated(node("n", "9"), *(pod(f"p{i}") for i in range(5))), top)
    assert rows_of(page) == [f"default/p{i}" for i in range(count)]
    assert ("more (--top" in page) == bool(rest)
    assert rest in page


def test_a_comparison_has_all_measures() -> None:
    runs = (simulated(*cluster(2)), simulated(*cluster(2)))
    page = comparison_page(compare(("a", "b"), runs), 1)
    assert "memory, deviation" in page
