"""docs/from-go.md: every interface of the Go framework is there, and every Python name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kubesched
from kubesched.framework.handle import Nominator
from kubesched.framework.interface import EXTENSION_POINTS
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.runtime.filter_phase import FilterPhase
from kubesched.framework.runtime.registry import protocol_methods
from kubesched.framework.runtime.waiting_pods import WaitingPod
from tests.unit.framework.go_interfaces import GO_INTERFACES
from tests.unit.framework.test_plugins_doc import protocols

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "from-go.md").read_text()
# Attributes that an instance has and its class does not show.
INSTANCE_ATTRIBUTES = {
    ("ClusterView", "objects"),
    ("ClusterView", "pods"),
    ("Handle", "profile_name"),
    ("Handle", "rng"),
    ("WaitingPod", "pod"),
}
CLASSES = {"WaitingPod": WaitingPod}


def rows(part: str) -> list[list[str]]:
    """Return the cells of a table; repeat the name of an interface where a row omits it."""
    text = DOCUMENT.partition(f"<!-- {part}: begin -->")[2].partition(f"<!-- {part}: end -->")[0]
    found: list[list[str]] = []
    for line in text.strip().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.append([cells[0] or found[-1][0], *cells[1:]])
    return found


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def documented() -> dict[str, list[str]]:
    """Return the documented methods by interface."""
    found: dict[str, list[str]] = {}
    for part in ("points", "given", "handle"):
        for interface, methods, *_ in rows(part):
            for name in names(interface):
                found.setdefault(name, []).extend(names(methods))
    return found


def qualified() -> list[tuple[str, str]]:
    return sorted(set(re.findall(r"`([A-Z]\w+)\.([a-z_]+)`", DOCUMENT)))


def test_exactly_the_interfaces_of_go_are_documented() -> None:
    assert len(GO_INTERFACES) > 40
    assert set(documented()) == set(GO_INTERFACES)


def test_every_method_is_documented_with_its_interface() -> None:
    with_methods = {name: methods for name, methods in documented().items() if methods}
    assert len(with_methods) > 30
    without_csi = {
        name: methods for name, methods in with_methods.items() if not name.startswith("CSI")
    }
    for name, methods in without_csi.items():
        assert sorted(methods) == sorted(GO_INTERFACES[name]), name


def test_the_points_have_every_method_of_a_plugin() -> None:
    documented_names = {name for _, _, python, _ in rows("points") for name in names(python)}
    ours = {name for protocol in protocols() for name in protocol_methods(protocol)} - {
        "reads",
        "fragment",
    }
    assert documented_names == ours | {"name"}
    assert {
        method for point in EXTENSION_POINTS.values() for method in point.methods
    } <= documented_names


@pytest.mark.parametrize(("cls", "name"), qualified())
def test_every_documented_attribute_exists(cls: str, name: str) -> None:
    known = CLASSES.get(cls) or getattr(kubesched, cls)
    assert hasattr(known, name) or (cls, name) in INSTANCE_ATTRIBUTES


def test_documented_names_without_a_class_exist() -> None:
    by_interface = {interface: python for interface, _, python in rows("given")}
    queued = names(by_interface["`QueuedPodInfo`"])[:-1]
    assert len(queued) == len(GO_INTERFACES["QueuedPodInfo"])
    assert all(name in QueuedPodInfo.__slots__ for name in queued)
    for part, cls in (("PodNominator", Nominator), ("PluginsRunner", FilterPhase)):
        (cell, *_) = [python for interface, _, python in rows("handle") if part in interface]
        assert all(hasattr(cls, name) for name in names(cell)), cell
    assert hasattr(FilterPhase, "judge_with_nominated")


def test_the_python_of_the_page_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    scope: dict[str, type] = {}
    exec(code, scope)
    assert scope["CPULabel"].name == "CPULabel"  # type: ignore[attr-defined]
