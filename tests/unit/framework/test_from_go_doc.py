"""docs/from-go.md: every interface of the Go framework is there, and every Python name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kubesched
from kubesched.framework.filter_phase import FilterPhase
from kubesched.framework.handle import Nominator, WaitingPod
from kubesched.framework.interface import EXTENSION_POINTS
from kubesched.framework.registry import protocol_methods
from kubesched.model.queued_pod import QueuedPodInfo
from tests.unit.framework.go_interfaces import GO_INTERFACES
from tests.unit.framework.test_plugins_doc import protocols

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "from-go.md").read_text()
# Attributes that an instance has and its class does not show.
INSTANCE_ATTRIBUTES = {("ClusterView", "objects")}
CLASSES = {"WaitingPod": WaitingPod}


def rows(part: str) -> list[list[str]]:
    """Return the cells of a table, the name of an interface repeated where it is left out."""
    text = DOCUMENT.partition(f"<!-- {part}: begin -->")[2].partition(f"<!-- {part}: end -->")[0]
    found: list[list[str]] = []
    for line in text.strip().splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.append([cells[0] or found[-1][0], *cells[1:]])
    return found


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def documented() -> dict[str, list[str]]:
    """Return the methods by interface, as the page has them."""
    found: dict[str, list[str]] = {}
    for part in ("points", "given", "handle"):
        for interface, methods, *_ in rows(part):
            for name in names(interface):
                found.setdefault(name, []).extend(names(methods))
    return found


def qualified() -> list[tuple[str, str]]:
    return sorted(set(re.findall(r"`([A-Z]\w+)\.([a-z_]+)`", DOCUMENT)))


def test_every_interface_is_there_and_no_other() -> None:
    assert len(GO_INTERFACES) > 40
    assert set(documented()) == set(GO_INTERFACES)


def test_every_method_stands_beside_its_interface() -> None:
    whole = {name: methods for name, methods in documented().items() if methods}
    assert len(whole) > 30
    alone = {name: methods for name, methods in whole.items() if not name.startswith("CSI")}
    for name, methods in alone.items():
        assert sorted(methods) == sorted(GO_INTERFACES[name]), name


def test_the_points_have_every_method_of_a_plugin() -> None:
    told = {name for _, _, python, _ in rows("points") for name in names(python)}
    ours = {name for one in protocols() for name in protocol_methods(one)} - {"reads", "fragment"}
    assert told == ours | {"name"}
    assert {method for one in EXTENSION_POINTS.values() for method in one.methods} <= told


@pytest.mark.parametrize(("cls", "name"), qualified())
def test_what_is_said_to_be_there_is(cls: str, name: str) -> None:
    known = CLASSES.get(cls) or getattr(kubesched, cls)
    assert hasattr(known, name) or (cls, name) in INSTANCE_ATTRIBUTES


def test_names_of_parts_without_a_class_in_front_are_there() -> None:
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
