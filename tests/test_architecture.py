"""The diagram of docs/architecture.md shows the layers of the import contract."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def contracted() -> list[str]:
    """Return the lines of the layers contract, as the page writes packages."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [layer.replace(".", "/") for layer in layers]


def documented() -> list[str]:
    """Return the packages of each line of the diagram."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = text.partition("## The packages")[2].split("```")[1]
    return [re.split(r"\s{2,}", line.strip())[0] for line in diagram.strip().splitlines()]


def test_the_diagram_has_the_layers_in_the_order_of_the_contract() -> None:
    assert documented() == contracted()
