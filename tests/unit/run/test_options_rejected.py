"""Rejected options: those that only kubesched rejects, and errors that upstream finds late."""

from __future__ import annotations

import pytest

from kubesched.run.options.parse import OptionsError, parse_options


def rejection(*arguments: str) -> OptionsError:
    with pytest.raises(OptionsError) as raised:
        parse_options(arguments)
    return raised.value


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ("GenericWorkload", "kubesched schedules pods one by one and has no pod groups"),
        ("SchedulerAsyncAPICalls", "kubesched has no queue of API calls"),
        ("CoordinatedLeaderElection", "kubesched elects leaders by lease only"),
        (
            "DRADeviceTaintRules",
            "kubesched does not allocate devices: pods with resource claims wait",
        ),
        ("StorageCapacityScoring", "kubesched does not score nodes by free storage"),
    ],
)
def test_a_lacking_feature_is_rejected_with_the_reason(gate: str, reason: str) -> None:
    rejected = rejection(f"--feature-gates={gate}=true")
    assert str(rejected) == f"cannot set feature gate {gate} to true: {reason}"
    assert rejected.stage == "command"


def test_upstreams_own_error_comes_first() -> None:
    assert str(rejection("--feature-gates=GangScheduling=true")) == (
        "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"
    )


def test_disabling_a_permanent_feature_is_rejected() -> None:
    rejected = rejection("--feature-gates=MatchLabelKeysInPodTopologySpread=false,"
                      "MatchLabelKeysInPodTopologySpreadSelectorMerge=false")  # fmt: skip
    assert str(rejected) == (
        "cannot set feature gate MatchLabelKeysInPodTopologySpread to false: "
        "matchLabelKeys of spread constraints always count"
    )


def test_all_alpha_and_all_beta_list_each_unsupported_gate() -> None:
    text = str(rejection("--feature-gates=AllBeta=true"))
    assert text.startswith("[cannot set feature gate CoordinatedLeaderElection to true by AllBeta:")
    assert "cannot set feature gate SchedulerAsyncAPICalls to true by AllBeta:" in text


def test_a_gate_excluded_from_all_alpha_is_no_error() -> None:
    options = parse_options(
        [
            "--feature-gates=AllBeta=true,CoordinatedLeaderElection=false",
            "--feature-gates=SchedulerAsyncAPICalls=false,DRADeviceTaintRules=false",
        ]
    )
    assert options.feature_gates.is_enabled("StorageVersionMigrator")
    assert not options.feature_gates.is_enabled("SchedulerAsyncAPICalls")


@pytest.mark.parametrize(
    "setting",
    [
        "SchedulerAsyncPreemption=false",
        "SchedulerPopFromBackoffQ=false",
        "NominatedNodeNameForExpectation=false",
        "OpportunisticBatching=false",
        "ComponentStatusz=false",
        "DRAExtendedResource=false",
        "KubeletSeparateDiskGC=false",
        "PodsAPI=true",
        "GenericWorkload=false",
        "DynamicResourceAllocation=true",
    ],
)
def test_honoured_and_unrelated_gates_are_accepted(setting: str) -> None:
    name, _, value = setting.partition("=")
    gates = parse_options([f"--feature-gates={setting}"]).feature_gates
    assert gates.is_enabled(name) is (value == "true")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--leader-elect-lease-duration=10s"], "leaseDuration must be greater than renewDeadline"),
        (
            ["--leader-elect-retry-period=9s"],
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (
            ["--leader-elect-renew-deadline=-1s", "--leader-elect-retry-period=-1s"],
            "renewDeadline must be greater than zero",
        ),
        (["--leader-elect-retry-period=0"], "retryPeriod must be greater than zero"),
    ],
)
def test_invalid_durations_of_leader_election_are_rejected(
    arguments: list[str], problem: str
) -> None:
    assert str(rejection(*arguments)) == f"couldn't create leader elector: {problem}"


def test_durations_are_ignored_without_leader_election() -> None:
    options = parse_options(["--leader-elect=false", "--leader-elect-lease-duration=0"])
    assert options.config.leader_election.lease_duration_ns == 0


def test_an_error_is_logged_in_the_requested_format() -> None:
    assert rejection("--secure-port=-1", "--logging-format=json").log_format == "json"
    assert rejection("--feature-gates=X=true", "--logging-format=json").log_format == "text"


def test_an_error_has_the_name_of_its_flag() -> None:
    assert rejection("--leader-elct").flag == "leader-elct"
    assert rejection("--secure-port=x").flag == "secure-port"
    assert rejection("word").flag == ""
