"""The exception for invalid configurations.

Upstream: cmd/kube-scheduler/app/options/configfile.go, whose errors are printed as they are.
"""

from typing import Literal

Stage = Literal["decode", "validate", "build"]


class ConfigError(Exception):
    """A configuration that kube-scheduler rejects; `str()` is exactly upstream's text."""

    def __init__(self, stage: Stage, text: str) -> None:
        super().__init__(stage, text)
        self.stage: Stage = stage
        self.text = text

    def __str__(self) -> str:
        return self.text
