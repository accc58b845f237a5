import inspect
import re
from pathlib import Path

import pytest

import kubesched
from kubesched.framework import interface
from kubesched.framework.runtime.registry import protocol_methods

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
METHODS = DOCUMENT.partition("<!-- methods: begin -->")[2].partition("<!-- methods: end -->")[0]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Attributes that an instance has and its class does not show.
INSTANCE_ATTRIBUTES = {"Handle": ("profile_name", "rng"), "NodeTable": ("view", "rows")}


def protocols() -> list[type]:
    return [
        cls
        for cls in vars(interface).values()
        if inspect.isclass(cls) and interface.Plugin in cls.__mro__ and cls is not interface.Plugin
    ]


def signatures() -> set[str]:
    return {
        f"def {name}{signature}".replace("'", "")
        for protocol in protocols()
        for name, signature in protocol_methods(protocol).items()
    }


def documented() -> list[str]:
    return [line for block in BLOCK.findall(METHODS) for line in block.splitlines()]


def reached() -> list[tuple[str, str]]:
    found = []
    for section in DOCUMENT.partition("## What a plugin can access")[2].split("\n### ")[1:]:
        title, _, text = section.partition("\n")
        cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
        found += [(title, name) for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    return found


def test_the_document_has_the_signature_of_every_method_and_no_other() -> None:
    assert len(signatures()) > 20
    assert sorted(documented()) == sorted(signatures())


@pytest.mark.parametrize("key", interface.EXTENSION_POINTS)
def test_every_extension_point_is_named(key: str) -> None:
    titles = " ".join(re.findall(r"^### (.*)$", METHODS, re.MULTILINE))
    assert re.search(rf"\b{key}\b", titles) or key.startswith("placement")


@pytest.mark.parametrize(("cls", "name"), reached())
def test_every_documented_attribute_exists(cls: str, name: str) -> None:
    known = getattr(kubesched, cls)
    assert (
        hasattr(known, name)
        or name in INSTANCE_ATTRIBUTES.get(cls, ())
        or (name in getattr(known, "__dataclass_fields__", {}))
    )


def test_all_seven_values_are_described() -> None:
    described = {cls for cls, _ in reached()}
    assert described == {
        "PodInfo",
        "NodeView",
        "NodeTable",
        "BoundPod",
        "Handle",
        "CycleState",
        "Status",
    }


def test_the_examples_are_those_that_run() -> None:
    sources = [
        path.read_text(encoding="utf-8") for path in (ROOT / "examples/plugins").glob("*.py")
    ]
    examples = BLOCK.findall(DOCUMENT.partition("<!-- methods: begin -->")[0])
    assert len(examples) == 5
    for example in examples:
        assert any(example in source for source in sources), example


def test_the_readme_shows_the_example_that_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source = (ROOT / "examples/plugins/spare_gpu.py").read_text(encoding="utf-8")
    examples = BLOCK.findall(readme)
    assert examples
    for example in examples:
        assert example in source
