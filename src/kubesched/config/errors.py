"""The one exception that loading a configuration raises.

Owns the error type and its stages. Never builds a message: whoever finds the fault does.
Upstream: cmd/kube-scheduler/app/options/configfile.go, whose errors are printed as they are.
"""

from typing import Literal

Stage = Literal["decode", "validate", "build"]


class ConfigError(Exception):
    """A configuration that kube-scheduler refuses; `str()` is exactly upstream's text."""

    def __init__(self, stage: Stage, text: str) -> None:
        super().__init__(stage, text)
        self.stage: Stage = stage
        self.text = text

    def __str__(self) -> str:
        return self.text

    def wrapped(self, prefix: str) -> "ConfigError":
        """Return the same error with a text put before it, as fmt.Errorf("...: %w") does."""
        return ConfigError(self.stage, prefix + self.text)
