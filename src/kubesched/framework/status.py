"""The status that a plugin returns: a code, reasons, and the plugin's name.

Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go Status
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """The status codes, with upstream's numbers."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def wire_name(self) -> str:
        """Return the name users see in metrics, explanations and decisions."""
        words = self.name.split("_")
        return "".join("And" if word == "AND" else word.capitalize() for word in words)


_REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's verdict. Success may have reasons; `None` instead of a status is success."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        """Return whether the attempt continues."""
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        """Return whether the plugin is to be skipped in the rest of the attempt."""
        return self.code is Code.SKIP

    @property
    def is_rejected(self) -> bool:
        """Return whether the pod was rejected, as opposed to an error."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        """Return the reasons as one text."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return this status with the name of its plugin."""
        return self if self.plugin == plugin else Status(self.code, self.reasons, plugin)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a rejection that evicting pods may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a rejection that evicting pods cannot resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(reason: str) -> Status:
    """Return an internal error, which ends the attempt."""
    return Status(Code.ERROR, (reason,))


def wait(*reasons: str) -> Status:
    """Return the status of a Permit plugin that makes the pod wait."""
    return Status(Code.WAIT, reasons)


def pending(*reasons: str) -> Status:
    """Return the status of a plugin that waits for an external component."""
    return Status(Code.PENDING, reasons)


class StatusError(Exception):
    """Raised by a plugin to end its own call with a status, from any depth."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status
