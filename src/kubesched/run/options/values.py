"""Options of `kubesched run`, and the error for an invalid command line.

Upstream: cmd/kube-scheduler/app/options/options.go Options
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import msgspec

from kubesched.config.feature_gates import FeatureGates
from kubesched.config.load import default_config
from kubesched.config.types import KubeSchedulerConfiguration, Plugin, Plugins, PluginSet
from kubesched.config.versions import KUBERNETES_VERSION
from kubesched.framework.sandbox.budget import Budgets
from kubesched.ops.serving import ServingSettings

Stage: TypeAlias = Literal["usage", "logging", "command"]
"""How an error is printed: with usage, plainly, or as the log line `command failed`."""
VersionForm: TypeAlias = Literal["", "text", "raw"]


class OptionsError(Exception):
    """An invalid command line; `str()` is upstream's text.

    `flag` is the flag of a syntax error, if there is one; `log_format` is the format in which an
    error of stage "command" is logged, `config_file` the file that it may be about.
    """

    def __init__(self, text: str, stage: Stage = "command", flag: str = "") -> None:
        super().__init__(text)
        self.stage: Stage = stage
        self.flag = flag
        self.log_format = "text"
        self.config_file = ""


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """Logging."""

    format: str = "text"
    verbosity: int = 0
    vmodule: str = ""


@dataclass(frozen=True, slots=True)
class OptionsWarning:
    """A warning to log once logging is set up."""

    message: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """All options of the command line."""

    config: KubeSchedulerConfiguration = field(default_factory=default_config)
    """The configuration of the file, or the default one, overridden by flags."""
    config_file: str = ""
    serving: ServingSettings = field(default_factory=ServingSettings)
    """Port 0 disables serving."""
    logging: LoggingOptions = LoggingOptions()
    disabled_metrics: tuple[str, ...] = ()
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
        """Return the options with plugins enabled at multiPoint, unless there is a file."""
        if self.config_file or not names:
            return self
        (profile,) = self.config.profiles
        enabled = profile.plugins.multi_point.enabled + tuple(map(Plugin, names))
        plugins = Plugins(multi_point=PluginSet(enabled))
        profiles = (msgspec.structs.replace(profile, plugins=plugins),)
        return replace(self, config=msgspec.structs.replace(self.config, profiles=profiles))
