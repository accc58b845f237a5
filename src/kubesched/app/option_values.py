"""What a command line of `kubesched run` says, as plain values.

Owns the options and the error that refuses a command line. Never reads a flag or a file.
Upstream: cmd/kube-scheduler/app/options/options.go Options
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import msgspec

from kubesched.app.flag_values import NamedCertKey
from kubesched.app.option_groups import PORT
from kubesched.config.feature_gates import FeatureGates
from kubesched.config.load import default_config
from kubesched.config.types import KubeSchedulerConfiguration, Plugin
from kubesched.config.versions import KUBERNETES_VERSION
from kubesched.framework.fence import Budgets

Stage: TypeAlias = Literal["usage", "logging", "command"]
"""How a fault is told: with usage, plainly, or as the log line `command failed`."""
VersionForm: TypeAlias = Literal["", "text", "raw"]


class OptionsError(Exception):
    """A command line that is refused; `str()` is upstream's text.

    `flag` is the flag that was meant, if the fault is about the syntax of one; `log_format` is the
    form in which a fault of stage "command" is logged, `config_file` the file it may be about.
    """

    def __init__(self, text: str, stage: Stage = "command", flag: str = "") -> None:
        super().__init__(text)
        self.stage: Stage = stage
        self.flag = flag
        self.log_format = "text"
        self.config_file = ""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Where and how to serve; port 0 serves nothing."""

    bind_address: str = "0.0.0.0"
    secure_port: int = PORT
    disable_http2_serving: bool = False
    http2_max_streams_per_connection: int = 0
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[int, ...] = ()
    tls_min_version: str = ""
    tls_sni_cert_keys: tuple[NamedCertKey, ...] = ()
    permit_port_sharing: bool = False
    permit_address_sharing: bool = False


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """How to find out who a caller is."""

    kubeconfig: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    token_cache_ttl_s: float = 10.0
    client_ca_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """How to find out what a caller may do."""

    kubeconfig: str = ""
    allow_cache_ttl_s: float = 10.0
    deny_cache_ttl_s: float = 10.0
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Which metrics to show, and with which labels."""

    show_hidden_metrics_for_version: str = ""
    disabled_metrics: tuple[str, ...] = ()
    allow_metric_labels: Mapping[str, str] | None = None
    allow_metric_labels_manifest: str = ""


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """How to log."""

    format: str = "text"
    verbosity: int = 0
    vmodule: str = ""
    flush_frequency_s: float = 5.0


@dataclass(frozen=True, slots=True)
class OptionsWarning:
    """Something to log when logging has begun."""

    message: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """Everything the command line says."""

    config: KubeSchedulerConfiguration = field(default_factory=default_config)
    """The file's configuration with the flags that go before it; without a file the default one."""
    config_file: str = ""
    serving: ServingOptions = ServingOptions()
    authentication: AuthenticationOptions = AuthenticationOptions()
    authorization: AuthorizationOptions = AuthorizationOptions()
    metrics: MetricsOptions = MetricsOptions()
    logging: LoggingOptions = LoggingOptions()
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    pod_max_in_unschedulable_pods_duration_s: float = 300.0
    master: str = ""
    context: str = ""
    plugins: tuple[str, ...] = ()
    plugin_budgets: Budgets = field(default_factory=Budgets)
    write_config_to: str = ""
    reload: bool = False
    shadow: bool = False
    shadow_report: str = ""
    show_help: bool = False
    show_version: VersionForm = ""
    reported_version: str = KUBERNETES_VERSION
    flags: Mapping[str, str] = field(default_factory=dict)
    """Every flag with its value as text, in name order: what `/flagz` and `-v=1` show."""
    warnings: tuple[OptionsWarning, ...] = ()

    @property
    def kubeconfig(self) -> str:
        """Return the kubeconfig in effect."""
        return self.config.client_connection.kubeconfig

    def enabling(self, names: Sequence[str]) -> Options:
        """Return the options with plugins enabled at every point, unless a file says which are."""
        if self.config_file or not names:
            return self
        added = tuple(Plugin(name) for name in names)
        profiles = tuple(
            msgspec.structs.replace(
                profile,
                plugins=msgspec.structs.replace(
                    profile.plugins,
                    multi_point=msgspec.structs.replace(
                        profile.plugins.multi_point,
                        enabled=profile.plugins.multi_point.enabled + added,
                    ),
                ),
            )
            for profile in self.config.profiles
        )
        return replace(self, config=msgspec.structs.replace(self.config, profiles=profiles))
