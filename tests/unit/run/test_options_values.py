"""Options from flags, precedence of flags and file, and values as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubesched.config.load import default_config
from kubesched.ops.serving import NamedCertKey, ServingSettings
from kubesched.run.options.parse import parse_options
from kubesched.run.options.scheduler_flags import scheduler_flags
from kubesched.run.options.values import LoggingOptions, Options

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_no_flags_mean_the_defaults() -> None:
    options = parse_options([])
    assert options.config == default_config()
    assert options.serving == ServingSettings()
    assert options.logging == LoggingOptions()
    assert options.warnings == ()
    assert (options.shadow, options.show_help, options.show_version) == (False, False, "")


@pytest.mark.parametrize(
    ("arguments", "path", "expected"),
    [
        (["--bind-address=::1"], "serving.bind_address", "::1"),
        (["--secure-port=0x10"], "serving.port", 16),
        (["--cert-dir", "/c"], "serving.cert_dir", "/c"),
        (["--tls-cert-file=/a"], "serving.tls_cert_file", "/a"),
        (["--tls-private-key-file=/a"], "serving.tls_private_key_file", "/a"),
        (
            ["--tls-cipher-suites=TLS_AES_128_GCM_SHA256", "--tls-cipher-suites="],
            "serving.tls_cipher_suites",
            ("TLS_AES_128_GCM_SHA256",),
        ),
        (
            ["--tls-curve-preferences=23,24", "--tls-curve-preferences=29"],
            "serving.tls_curve_preferences",
            (23, 24, 29),
        ),
        (["--tls-min-version=VersionTLS13"], "serving.tls_min_version", "VersionTLS13"),
        (
            ["--tls-sni-cert-key=a,b", "--tls-sni-cert-key", "c , d:*.x, y"],
            "serving.tls_sni_cert_keys",
            (NamedCertKey("a", "b"), NamedCertKey("c", "d", ("*.x", "y"))),
        ),
        (["--permit-port-sharing"], "serving.permit_port_sharing", True),
        (["--authentication-kubeconfig=k"], "serving.authentication.kubeconfig", "k"),
        (["--authentication-skip-lookup"], "serving.authentication.skip_lookup", True),
        (
            ["--authentication-tolerate-lookup-failure=false"],
            "serving.authentication.tolerate_lookup_failure",
            False,
        ),
        (
            ["--authentication-token-webhook-cache-ttl=1m30s"],
            "serving.authentication.token_cache_ttl_s",
            90.0,
        ),
        (["--client-ca-file=c"], "serving.authentication.client_ca_file", "c"),
        (
            ["--requestheader-client-ca-file=c"],
            "serving.authentication.requestheader_client_ca_file",
            "c",
        ),
        (
            ["--requestheader-allowed-names=a,b"],
            "serving.authentication.requestheader_allowed_names",
            ("a", "b"),
        ),
        (
            ["--requestheader-username-headers=X-Remote-User,b"],
            "serving.authentication.requestheader_username_headers",
            ("X-Remote-User", "b"),
        ),
        (
            ["--requestheader-group-headers=g"],
            "serving.authentication.requestheader_group_headers",
            ("g",),
        ),
        (
            ["--requestheader-extra-headers-prefix="],
            "serving.authentication.requestheader_extra_headers_prefix",
            (),
        ),
        (
            ["--requestheader-uid-headers=X-Remote-Uid"],
            "serving.authentication.requestheader_uid_headers",
            ("X-Remote-Uid",),
        ),
        (["--authorization-kubeconfig=k"], "serving.authorization.kubeconfig", "k"),
        (
            ["--authorization-webhook-cache-authorized-ttl=500ms"],
            "serving.authorization.allow_cache_ttl_s",
            0.5,
        ),
        (
            ["--authorization-webhook-cache-unauthorized-ttl=0"],
            "serving.authorization.deny_cache_ttl_s",
            0.0,
        ),
        (
            ["--authorization-always-allow-paths=/a,/b*"],
            "serving.authorization.always_allow_paths",
            ("/a", "/b*"),
        ),
        (["--disabled-metrics=a,b"], "disabled_metrics", ("a", "b")),
        (["-v3"], "logging.verbosity", 3),
        (["-v", "4"], "logging.verbosity", 4),
        (["--v=5"], "logging.verbosity", 5),
        (["--logging-format=json"], "logging.format", "json"),
        (["--vmodule=a=1", "--vmodule=b*=2"], "logging.vmodule", "a=1,b*=2"),
        (
            ["--pod-max-in-unschedulable-pods-duration=90s"],
            "pod_max_in_unschedulable_pods_duration_s",
            90.0,
        ),
        (["--master=http://m"], "master", "http://m"),
        (["--context=c"], "context", "c"),
        (["--plugin=a:B", "--plugin", "c,d.py:E"], "plugins", ("a:B", "c,d.py:E")),
        (["--shadow"], "shadow", True),
        (["--write-config-to=f"], "write_config_to", "f"),
        (["--version=v1.36.4-mine"], "reported_version", "v1.36.4-mine"),
        (["--kubeconfig=k"], "kubeconfig", "k"),
        (["--kube-api-qps=0.1"], "config.client_connection.qps", 0.1),
        (["--kube-api-burst=7"], "config.client_connection.burst", 7),
        (["--kube-api-content-type=t"], "config.client_connection.content_type", "t"),
        (["--profiling=false"], "config.enable_profiling", False),
        (["--contention-profiling=false"], "config.enable_contention_profiling", False),
        (["--leader-elect=0"], "config.leader_election.leader_elect", False),
        (
            ["--leader_elect_lease_duration=1m"],
            "config.leader_election.lease_duration_ns",
            60_000_000_000,
        ),
    ],
)
def test_a_flag_sets_its_option(arguments: list[str], path: str, expected: object) -> None:
    value: Any = parse_options(arguments)
    for name in path.split("."):
        value = getattr(value, name)
    assert value == expected


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        (["--disable-http2-serving"], "disable-http2-serving", True),
        (["--http2-max-streams-per-connection=7"], "http2-max-streams-per-connection", 7),
        (["--permit-address-sharing"], "permit-address-sharing", True),
        (["--show-hidden-metrics-for-version=1.35"], "show-hidden-metrics-for-version", "1.35"),
        (
            ['--allow-metric-labels="m,l=v1,v2","n,l=w"', "--allow-metric-labels=o,l=x"],
            "allow-metric-labels",
            {"m,l": "v1,v2", "n,l": "w", "o,l": "x"},
        ),
        (["--log-flush-frequency=2s"], "log-flush-frequency", 2_000_000_000),
    ],
)
def test_a_flag_without_an_option_is_accepted(
    arguments: list[str], name: str, expected: object
) -> None:
    flags = scheduler_flags()
    parse_options(arguments, flags)
    assert flags[name] == expected


def with_file(place: Path, text: str, *arguments: str) -> Options:
    path = place / "config.yaml"
    path.write_text(V1 + text)
    return parse_options([f"--config={path}", *arguments])


def test_flags_of_leader_election_override_the_file(tmp_path: Path) -> None:
    text = "leaderElection: {leaderElect: false, resourceName: file, leaseDuration: 30s}\n"
    options = with_file(tmp_path, text, "--leader-elect", "--leader-elect-resource-namespace=flags")
    election = options.config.leader_election
    assert (election.leader_elect, election.resource_namespace) == (True, "flags")
    assert (election.resource_name, election.lease_duration_ns) == ("file", 30_000_000_000)


def test_a_flag_with_the_default_value_overrides_the_file(tmp_path: Path) -> None:
    text = "leaderElection: {resourceName: file}\n"
    options = with_file(tmp_path, text, "--leader-elect-resource-name=kube-scheduler")
    assert options.config.leader_election.resource_name == "kube-scheduler"


def test_deprecated_flags_are_ignored_with_a_file(tmp_path: Path) -> None:
    text = "clientConnection: {kubeconfig: file, qps: 7, burst: 8}\nenableProfiling: true\n"
    options = with_file(
        tmp_path,
        text,
        "--kubeconfig=flag",
        "--kube-api-qps=1",
        "--kube-api-burst=1",
        "--profiling=false",
    )
    connection = options.config.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("file", 7.0, 8)
    assert options.config.enable_profiling
    assert options.kubeconfig == "file"


def test_the_deprecated_flag_without_a_field_is_always_used(tmp_path: Path) -> None:
    options = with_file(tmp_path, "", "--pod-max-in-unschedulable-pods-duration=7m")
    assert options.pod_max_in_unschedulable_pods_duration_s == 420.0


def test_every_flag_is_shown_with_its_value() -> None:
    flags = parse_options(["-v=2", "--disabled-metrics=a,b", "--feature-gates=kube:AllAlpha=false"])
    shown = flags.flags
    assert list(shown) == sorted(shown)
    assert (shown["v"], shown["disabled-metrics"]) == ("2", "[a,b]")
    assert shown["feature-gates"] == "kube:AllAlpha=false"
    assert shown["leader-elect-lease-duration"] == "15s"
    assert shown["kube-api-qps"] == "50"
    assert shown["requestheader-username-headers"] == "[x-remote-user]"
    assert (shown["version"], shown["help"], shown["tls-sni-cert-key"]) == ("false", "false", "[]")


def test_plugins_are_enabled_at_multi_point_without_a_file_only(tmp_path: Path) -> None:
    def names(options: Options) -> list[str]:
        enabled = options.config.profiles[0].plugins.multi_point.enabled
        return [plugin.name for plugin in enabled]

    alone = parse_options(["--plugin=a:Mine"])
    assert names(alone.enabling(["Mine"])) == [*names(alone), "Mine"]
    filed = with_file(tmp_path, "", "--plugin=a:Mine")
    assert names(filed.enabling(["Mine"])) == names(filed)


def test_setting_a_stable_gate_warns() -> None:
    options = parse_options(["--feature-gates=SchedulerQueueingHints=true"])
    (warning,) = options.warnings
    assert warning.message == (
        "Warning: setting GA feature gate. It will be removed in a future release."
    )
    assert warning.fields == {"featureGate": "SchedulerQueueingHints", "value": True}


def test_features_that_emulation_cannot_disable_warn() -> None:
    options = parse_options(["--emulated-version=1.34"])
    assert [w.fields["featureGate"] for w in options.warnings] == [
        "InPlacePodLevelResourcesVerticalScaling"
    ]
