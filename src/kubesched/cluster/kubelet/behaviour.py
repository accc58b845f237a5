"""Behaviour of a simulated container: how long it runs, its exit code and its output.

Annotations take precedence over the command, the command over the defaults of the pod. Never reads
a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.cluster.kubelet.annotations import EXIT_CODE, RUN_FOR, duration_s, exit_codes
from kubesched.cluster.kubelet.commands import FOREVER, outcome_of
from kubesched.cluster.kubelet.settings import KubeletSettings

Document = Mapping[str, Any]

_PAUSE: Final = "pause"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One run of a container."""

    run_s: float
    """How long it runs; infinity if it runs until it is stopped."""
    exit_code: int = 0
    lines: tuple[tuple[float, str], ...] = ()
    """Output lines with their offset in seconds."""

    @property
    def ends(self) -> bool:
        """Return whether it exits by itself."""
        return self.run_s != FOREVER


def behaviour_of(
    pod: Document,
    container: Document,
    *,
    is_init: bool,
    run_index: int,
    settings: KubeletSettings,
) -> Behaviour:
    """Return what a container does in a run, counted from 0."""
    annotated_s, codes = _annotated_run(pod, container, is_init=is_init)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    outcome = outcome_of(words)
    lines = outcome.lines if outcome else ()
    if annotated_s is not None or codes:
        code = codes[min(run_index, len(codes) - 1)] if codes else 0
        run_s = settings.run_s if annotated_s is None else annotated_s
        return Behaviour(run_s / settings.speed, code, lines)
    if outcome is not None:
        return Behaviour(outcome.run_s / settings.speed, outcome.exit_code, lines)
    if is_init:
        return Behaviour(0.0)
    if policy_of(pod, container) == "Always" or _runs_forever(pod, container, words):
        return Behaviour(FOREVER)
    return Behaviour(settings.run_s / settings.speed)


def policy_of(pod: Document, container: Document) -> str:
    """Return a container's restart policy: its own, else the pod's."""
    own = container.get("restartPolicy") or pod["spec"].get("restartPolicy")
    return str(own or "Always")


def should_restart(pod: Document, container: Document, exit_code: int) -> bool:
    """Return whether a container that exited is restarted.

    Parity: pkg/api/v1/pod/util.go ContainerShouldRestart, v1.36.
    """
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        is_in = exit_code in (codes.get("values") or ())
        if is_in == (codes.get("operator") == "In") and rule.get("action") == "Restart":
            return True
    policy = policy_of(pod, container)
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _annotated_run(
    pod: Document, container: Document, *, is_init: bool
) -> tuple[float | None, tuple[int, ...]]:
    """Return the run time and exit codes set by annotations."""
    name = container["name"]
    run_s = duration_s(pod, f"{RUN_FOR}.{name}")
    codes = exit_codes(pod, f"{EXIT_CODE}.{name}")
    if is_init:
        return run_s, codes
    if run_s is None:
        run_s = duration_s(pod, RUN_FOR)
    return run_s, codes or exit_codes(pod, EXIT_CODE)


def _runs_forever(pod: Document, container: Document, words: list[str]) -> bool:
    """Return whether a container without restart policy Always runs forever anyway.

    Pods of Jobs complete. What the image of another pod does by default is unknown.
    """
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2]
    if image.partition(":")[0] == _PAUSE or words == [_PAUSE]:
        return True
    owners = pod["metadata"].get("ownerReferences") or ()
    return not words and not any(owner.get("kind") == "Job" for owner in owners)
