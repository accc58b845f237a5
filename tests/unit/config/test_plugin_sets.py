"""Resolution of plugin sets; rows follow TestNewFrameworkMultiPointExpansion upstream."""

from typing import Any

import pytest

from kubesched.config.defaults import merge_plugins
from kubesched.config.errors import ConfigError
from kubesched.config.types import Plugins
from kubesched.framework.runtime.plugin_sets import (
    EXPANSION_ORDER,
    PluginSets,
    needed_plugins,
    resolve_plugin_sets,
)

IMPLEMENTED = {
    "Sort": frozenset({"queueSort"}),
    "Bind": frozenset({"bind"}),
    "A": frozenset({"filter", "score"}),
    "B": frozenset({"filter", "score"}),
    "C": frozenset({"filter", "score", "placementScore"}),
    "Place": frozenset({"placementGenerate"}),
    "Other": frozenset({"placementGenerate"}),
}


def listed(*names: str | tuple[str, int]) -> list[dict[str, Any]]:
    pairs = [name if isinstance(name, tuple) else (name, 0) for name in names]
    return [{"name": name, "weight": weight} for name, weight in pairs]


def resolved(**points: dict[str, Any]) -> PluginSets:
    return resolve_plugin_sets("s", merge_plugins(Plugins(), points), IMPLEMENTED)


def rejection(**points: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(**points)
    assert caught.value.stage == "build"
    return str(caught.value)


BASE = listed("Sort", "Bind")
ABC = {"enabled": [*BASE, *listed("A", "B", "C")]}


@pytest.mark.parametrize(
    ("filters", "order"),
    [
        pytest.param({}, ("A", "B", "C"), id="multiPoint alone gives its order"),
        pytest.param({"enabled": listed("C")}, ("C", "A", "B"), id="an override runs first"),
        pytest.param({"disabled": listed("A")}, ("B", "C"), id="disabled at the point"),
        pytest.param(
            {"enabled": listed("A"), "disabled": listed("A")},
            ("B", "C", "A"),
            id="disabled and enabled runs last",
        ),
        pytest.param(
            {"enabled": listed("B"), "disabled": listed("*")}, ("B",), id="a star stops expansion"
        ),
        pytest.param(
            {"enabled": listed("C", "B")}, ("C", "B", "A"), id="overrides keep their own order"
        ),
    ],
)
def test_multi_point_is_expanded(filters: dict[str, Any], order: tuple[str, ...]) -> None:
    assert resolved(multiPoint=ABC, filter=filters).points["filter"] == order


def test_every_point_is_listed() -> None:
    points = resolved(multiPoint=ABC).points
    assert set(points) == set(EXPANSION_ORDER)
    assert points["queueSort"] == ("Sort",)
    assert points["permit"] == ()


def test_weights_come_from_the_point_first_and_zero_is_one() -> None:
    sets = resolved(
        multiPoint={"enabled": [*BASE, *listed(("A", 3), "B", ("C", 5))]},
        score={"enabled": listed("A")},
    )
    assert sets.score_weights == {"A": 1, "B": 1, "C": 5}
    assert sets.placement_score_weights == {"C": 5}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        pytest.param(
            {"filter": {"enabled": listed("X")}}, 'FilterPlugin "X" does not exist', id="unknown"
        ),
        pytest.param(
            {"multiPoint": {"enabled": listed("X")}},
            'PreFilterPlugin "X" does not exist',
            id="unknown in multiPoint: the first point complains",
        ),
        pytest.param(
            {"permit": {"enabled": listed("A")}},
            'plugin "A" does not extend PermitPlugin plugin',
            id="not of that point",
        ),
        pytest.param(
            {"score": {"enabled": listed("A", "A")}},
            'plugin "A" already registered as "ScorePlugin"',
            id="twice at a point",
        ),
        pytest.param(
            {"multiPoint": {"enabled": listed("A", "A")}},
            'plugin "A" already registered as "FilterPlugin"',
            id="twice in multiPoint",
        ),
        pytest.param(
            {"multiPoint": {"enabled": listed("Bind")}},
            'only one queue sort plugin required for profile with scheduler name "s", but got 0',
            id="no queue sort",
        ),
        pytest.param(
            {"multiPoint": {"enabled": listed("Sort")}},
            'at least one bind plugin is needed for profile with scheduler name "s"',
            id="no bind",
        ),
        pytest.param(
            {"multiPoint": {"enabled": [*BASE, *listed("Place", "Other")]}},
            'at most one placement generate plugin is allowed for profile with scheduler name "s"',
            id="two placement generators",
        ),
        pytest.param(
            {"multiPoint": {"enabled": [*BASE, *listed(("A", -1), "B")]}},
            "score plugins: total score of Score plugins could overflow",
            id="a negative weight makes the room wrap",
        ),
    ],
)
def test_errors_have_upstreams_text(points: dict[str, Any], message: str) -> None:
    assert rejection(**points) == message


def test_a_negative_weight_passes_when_nothing_is_counted_after_it() -> None:
    sets = resolved(multiPoint={"enabled": [*BASE, *listed("B", ("A", -1))]})
    assert sets.score_weights == {"B": 1, "A": -1}


def test_needed_plugins_are_listed_once() -> None:
    plugins = merge_plugins(Plugins(), {"multiPoint": ABC, "filter": {"enabled": listed("A", "Z")}})
    assert needed_plugins(plugins) == ["A", "Z", "Sort", "Bind", "B", "C"]
