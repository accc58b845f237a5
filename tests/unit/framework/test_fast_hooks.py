"""The contract of optional hooks, its reader, its page and in-tree plugins name the same hooks."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from kubesched.framework import fast
from kubesched.framework.runtime import adapters
from kubesched.plugins.in_tree import IN_TREE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kept-verdicts.md"
CONTRACTS = (
    fast.FastFilter,
    fast.FastScore,
    fast.IncrementalFilterPlugin,
    fast.IncrementalScorePlugin,
    fast.FastReserve,
    fast.FastBind,
)
METHODS = {
    name: method
    for contract in CONTRACTS
    for name, method in vars(contract).items()
    if inspect.isfunction(method) and name[0] != "_"
}
FLAGS = {name for contract in CONTRACTS for name in inspect.get_annotations(contract)}
HOOKS = METHODS.keys() | FLAGS


def test_the_reader_of_hooks_looks_for_each() -> None:
    tree = ast.parse(inspect.getsource(adapters))
    literals = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert HOOKS - literals == set()


def test_the_page_lists_each() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## Optional hooks of plugins")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", "".join(cells))) == HOOKS


@pytest.mark.parametrize("name", IN_TREE)
def test_a_plugin_has_the_parameters_of_the_contract(name: str) -> None:
    plugin = IN_TREE[name].plugin
    for hook, contract in METHODS.items():
        method = getattr(plugin, hook, None)
        if method is not None:
            expected = list(inspect.signature(contract).parameters)
            assert list(inspect.signature(method).parameters) == expected, hook


def test_every_method_is_implemented_by_a_plugin() -> None:
    plugins = [record.plugin for record in IN_TREE.values()]
    unused = [hook for hook in METHODS if not any(hasattr(plugin, hook) for plugin in plugins)]
    assert unused == []
