from __future__ import annotations

import pytest

from kubesched.config.feature_gates import GateError, known_gates, resolve_gates
from kubesched.config.gate_support import (
    ALWAYS_ON,
    HONORED,
    LACKING,
    check_support,
    emulation_differences,
)


def rejection(*settings: str, emulated: str = "") -> str:
    with pytest.raises(GateError) as raised:
        resolve_gates({"": list(settings)}, emulated_version=[emulated] if emulated else [])
    return str(raised.value)


def test_gates_default_to_v1_36() -> None:
    gates = resolve_gates({})
    assert gates.is_enabled("SchedulerAsyncPreemption")
    assert gates.is_enabled("NodeDeclaredFeatures")
    assert not gates.is_enabled("SchedulerAsyncAPICalls")
    assert not gates.is_enabled("GenericWorkload")
    assert gates.explicit == {}


@pytest.mark.parametrize(
    ("version", "enabled"),
    [
        ("1.33", {"SchedulerPopFromBackoffQ": True, "DynamicResourceAllocation": False}),
        ("1.34", {"NominatedNodeNameForExpectation": False, "PodLevelResources": True}),
        ("1.35", {"NominatedNodeNameForExpectation": True, "NodeDeclaredFeatures": False}),
        ("1.36", {"NodeDeclaredFeatures": True, "ComponentFlagz": True}),
    ],
)
def test_an_emulated_version_has_its_own_defaults(version: str, enabled: dict[str, bool]) -> None:
    gates = resolve_gates({}, emulated_version=[version])
    assert {name: gates.is_enabled(name) for name in enabled} == enabled


def test_the_previous_version_is_compatible_by_default() -> None:
    assert str(resolve_gates({}).versions.min_compatibility) == "1.35"
    versions = resolve_gates({}, emulated_version=["1.34"]).versions
    assert str(versions.min_compatibility) == "1.33"
    versions = resolve_gates({}, emulated_version=["1.33"]).versions
    assert (str(versions.min_compatibility), versions.errors()) == ("1.33", [])


def test_a_gate_set_by_name_overrides_all_beta() -> None:
    gates = resolve_gates({"": ["SchedulerAsyncPreemption=true", "AllBeta=false"]})
    assert gates.is_enabled("SchedulerAsyncPreemption")
    assert not gates.is_enabled("SchedulerPopFromBackoffQ")
    assert gates.is_enabled("SchedulerQueueingHints")
    assert gates.was_set("SchedulerPopFromBackoffQ")
    assert not gates.was_set("SchedulerQueueingHints")


def test_all_alpha_sets_only_alpha_gates() -> None:
    gates = resolve_gates({"": ["AllAlpha=true"]})
    assert gates.is_enabled("GenericWorkload")
    assert not gates.is_enabled("SchedulerAsyncAPICalls")


def test_the_last_setting_of_a_gate_counts() -> None:
    settings = {"": ["SchedulerAsyncPreemption=true", "SchedulerAsyncPreemption=false"]}
    assert not resolve_gates(settings).is_enabled("SchedulerAsyncPreemption")


def test_errors_of_several_locked_gates_are_joined() -> None:
    text = rejection("SchedulerQueueingHints=false", "PodSchedulingReadiness=false")
    assert text == (
        "[cannot set feature gate SchedulerQueueingHints to false, feature is locked to true, "
        "cannot set feature gate PodSchedulingReadiness to false, feature is locked to true]"
    )


def test_a_gate_of_the_future_cannot_be_set() -> None:
    assert rejection("GenericWorkload=true", emulated="1.34") == (
        "cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated version "
        "1.34, min compatibility version 1.33"
    )


def test_every_gate_in_the_tables_exists() -> None:
    assert {*HONORED, *LACKING, *ALWAYS_ON} <= set(known_gates())
    assert not set(HONORED) & {*LACKING, *ALWAYS_ON}
    assert not set(LACKING) & set(ALWAYS_ON)


def test_lacking_features_are_disabled_by_default() -> None:
    gates = resolve_gates({})
    on = {name for name in LACKING if gates.is_enabled(name)}
    # Devices: enabled upstream; here pods with claims wait, with a message about it.
    assert all(name.startswith(("DRA", "DynamicResource")) for name in on)
    assert all(gates.is_enabled(name) for name in ALWAYS_ON)


def test_defaults_are_always_supported() -> None:
    for version in ("1.33", "1.34", "1.35", "1.36"):
        check_support(resolve_gates({}, emulated_version=[version]))


def test_features_that_emulation_cannot_disable_are_listed() -> None:
    assert emulation_differences(resolve_gates({})) == []
    old = resolve_gates({}, emulated_version=["1.33"])
    assert [name for name, _ in emulation_differences(old)] == [
        "InPlacePodLevelResourcesVerticalScaling",
        "PodLevelResources",
        "VolumeAttributesClass",
    ]
