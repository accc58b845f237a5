"""What is refused beyond what upstream refuses, and faults that come late upstream."""

from __future__ import annotations

import pytest

from kubesched.app.options import OptionsError, parse_options


def refusal(*arguments: str) -> OptionsError:
    with pytest.raises(OptionsError) as raised:
        parse_options(arguments)
    return raised.value


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ("GenericWorkload", "kubesched schedules pods one by one and has no pod groups"),
        ("SchedulerAsyncAPICalls", "kubesched sends every call itself, without a queue between"),
        ("CoordinatedLeaderElection", "kubesched takes part in elections by lease only"),
        (
            "DRADeviceTaintRules",
            "kubesched does not allocate devices: pods with resource claims wait",
        ),
        ("StorageCapacityScoring", "kubesched does not score nodes by free storage"),
    ],
)
def test_a_feature_we_lack_is_refused_with_the_reason(gate: str, reason: str) -> None:
    refused = refusal(f"--feature-gates={gate}=true")
    assert str(refused) == f"cannot set feature gate {gate} to true: {reason}"
    assert refused.stage == "command"


def test_upstreams_own_refusal_goes_first() -> None:
    assert str(refusal("--feature-gates=GangScheduling=true")) == (
        "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"
    )


def test_a_feature_that_cannot_be_switched_off_is_refused() -> None:
    refused = refusal("--feature-gates=MatchLabelKeysInPodTopologySpread=false,"
                      "MatchLabelKeysInPodTopologySpreadSelectorMerge=false")  # fmt: skip
    assert str(refused) == (
        "cannot set feature gate MatchLabelKeysInPodTopologySpread to false: "
        "matchLabelKeys of spread constraints always count"
    )


def test_switches_of_many_gates_name_each_that_stands_in_the_way() -> None:
    text = str(refusal("--feature-gates=AllBeta=true"))
    assert text.startswith("[cannot set feature gate CoordinatedLeaderElection to true by AllBeta:")
    assert "cannot set feature gate SchedulerAsyncAPICalls to true by AllBeta:" in text


def test_a_gate_taken_out_of_many_is_no_obstacle() -> None:
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
def test_what_we_honour_or_does_not_concern_us_is_taken(setting: str) -> None:
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
def test_times_that_no_elector_takes_are_refused(arguments: list[str], problem: str) -> None:
    assert str(refusal(*arguments)) == f"couldn't create leader elector: {problem}"


def test_times_of_an_election_do_not_matter_without_one() -> None:
    options = parse_options(["--leader-elect=false", "--leader-elect-lease-duration=0"])
    assert options.config.leader_election.lease_duration_ns == 0


def test_a_fault_is_logged_in_the_form_asked_for() -> None:
    assert refusal("--secure-port=-1", "--logging-format=json").log_format == "json"
    assert refusal("--feature-gates=X=true", "--logging-format=json").log_format == "text"


def test_the_flag_that_was_meant_is_known() -> None:
    assert refusal("--leader-elct").flag == "leader-elct"
    assert refusal("--secure-port=x").flag == "secure-port"
    assert refusal("word").flag == ""
