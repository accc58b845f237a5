"""The plugin registry, and the checks of signatures."""

from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.registry import (
    DuplicatePluginError,
    Registry,
    SignatureError,
    check_signatures,
)
from kubesched.framework.status import Status
from kubesched.snapshot.pod_info import PodInfo


class Plain:
    name = "Plain"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return None


class WithArgs(Plain):
    def __init__(self, args: object) -> None:
        self.args = args


class WithHandle(Plain):
    def __init__(self, handle: object) -> None:
        self.handle = handle


class WithBoth(Plain):
    def __init__(self, args: object, handle: object) -> None:
        self.args, self.handle = args, handle


class WithAnything(Plain):
    def __init__(self, **offered: object) -> None:
        self.offered = offered


class Nameless:
    name: str

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return None


def test_a_name_is_taken_once() -> None:
    registry = Registry({"Plain": Plain})
    with pytest.raises(DuplicatePluginError, match=r"^a plugin named Plain already exists$"):
        registry.register("Plain", Plain)


def test_merging_rejects_a_common_name_and_leaves_both_unchanged() -> None:
    first, second = Registry({"A": Plain}), Registry({"B": Plain})
    merged = first.merge(second)
    assert list(merged) == ["A", "B"]
    assert (list(first), list(second)) == (["A"], ["B"])
    with pytest.raises(DuplicatePluginError, match=r"^a plugin named A already exists$"):
        first.merge(Registry({"A": Plain}))


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        pytest.param(Plain, {}, id="a class without parameters"),
        pytest.param(WithArgs, {"args": "ARGS"}, id="a class that takes its arguments"),
        pytest.param(WithHandle, {"handle": "HANDLE"}, id="a class that takes the handle"),
        pytest.param(WithBoth, {"args": "ARGS", "handle": "HANDLE"}, id="a class that takes both"),
        pytest.param(
            WithAnything,
            {"offered": {"args": "ARGS", "handle": "HANDLE"}},
            id="a class that takes anything",
        ),
        pytest.param(
            lambda handle, args: WithBoth(args, handle),
            {"args": "ARGS", "handle": "HANDLE"},
            id="a function, in any order",
        ),
        pytest.param(lambda: Plain(), {}, id="a function without parameters"),  # noqa: PLW0108 - not a class
    ],
)
def test_a_factory_gets_the_arguments_that_it_takes(factory: Any, expected: dict[str, Any]) -> None:
    plugin = Registry({"X": factory}).make("X", "ARGS", "HANDLE")
    assert plugin.name == "X"
    assert {name: value for name, value in vars(plugin).items() if name != "name"} == expected


def test_a_plugin_without_a_name_gets_its_registered_name() -> None:
    assert Registry({"Registered": Nameless}).make("Registered", None, None).name == "Registered"


def test_the_plugin_of_a_function_is_checked_when_it_is_created() -> None:
    registry = Registry({"X": lambda: Nothing()})  # noqa: PLW0108 - not a class
    with pytest.raises(SignatureError, match="plugin X: Nothing extends no extension point"):
        registry.make("X", None, None)


class TooFew:
    def filter(self, state: CycleState, pod: PodInfo) -> None:
        return None


class TooMany:
    def filter(self, state: CycleState, pod: PodInfo, node: Any, extra: Any) -> None:
        return None


class WithDefault:
    def filter(self, state: CycleState, pod: PodInfo, node: Any, extra: Any = None) -> None:
        return None


class OtherNames:
    def filter(self, s: Any, p: Any, n: Any) -> None:
        return None


class Unbound:
    @staticmethod
    def filter(state: Any, pod: Any, node: Any) -> None:
        return None

    @classmethod
    def score(cls, state: Any, pod: Any, node: Any) -> int:
        return 0


class UnboundTooFew:
    @staticmethod
    def filter(state: Any, pod: Any) -> None:
        return None


class Both:
    def filter(self, state: Any, pod: Any, node: Any) -> None:
        return None

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
        return []


class BothScores:
    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return []


class AddOnly(Plain):
    def add_pod(self, state: Any, pod: Any, added: Any, node: Any) -> None:
        return None


class UnreserveOnly:
    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        return None


class ReserveOnly:
    def reserve(self, state: Any, pod: Any, node_name: str) -> None:
        return None


class Nothing:
    name = "Nothing"


@pytest.mark.parametrize(
    ("plugin", "texts"),
    [
        pytest.param(
            TooFew,
            [
                "plugin X: filter(",
                "cannot be called as the framework does",
                "expected: def filter(self, state: CycleState, pod: PodInfo, node: NodeView)",
            ],
            id="a parameter too few",
        ),
        pytest.param(
            UnboundTooFew, ["plugin X: filter(state: ", "too many"], id="too few, without self"
        ),
        pytest.param(
            TooMany,
            ["missing a required argument: 'extra'", "expected: def filter(self, "],
            id="a parameter too many",
        ),
        pytest.param(
            Both,
            ["plugin X: has both filter() and filter_nodes()"],
            id="one node and all nodes",
        ),
        pytest.param(BothScores, ["has both score() and score_nodes()"], id="two scores"),
        pytest.param(
            AddOnly,
            ["plugin X: remove_pod() is missing; expected: def remove_pod(self, "],
            id="add_pod without remove_pod",
        ),
        pytest.param(UnreserveOnly, ["reserve() is missing"], id="unreserve without reserve"),
        pytest.param(
            Nothing,
            ["Nothing extends no extension point; give it one of pre_enqueue(), ", "filter(), "],
            id="no extension point",
        ),
    ],
)
def test_a_wrong_signature_is_rejected_and_the_right_one_shown(
    plugin: type, texts: list[str]
) -> None:
    with pytest.raises(SignatureError) as rejected:
        Registry({"X": plugin})
    for text in texts:
        assert text in str(rejected.value)


@pytest.mark.parametrize("plugin", [WithDefault, OtherNames, Unbound, ReserveOnly, Plain])
def test_a_compatible_signature_is_accepted(plugin: type) -> None:
    check_signatures("X", plugin)
