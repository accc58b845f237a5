"""What a container does once it runs: how long, how it ends, what it prints.

Owns the order of who has a say: annotations, then the command, then what the pod is for. Never
keeps time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.kubelet import wishes
from kubesched.kubelet.commands import FOREVER, outcome_of
from kubesched.kubelet.settings import KubeletSettings

Document = Mapping[str, Any]

_PAUSE: Final = "pause"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One run of a container."""

    run_s: float
    """How long it runs; infinity until it is told to end."""
    exit_code: int = 0
    lines: tuple[tuple[float, str], ...] = ()
    """What it prints, and after how many seconds."""

    @property
    def ends(self) -> bool:
        """Return whether it ends by itself."""
        return self.run_s != FOREVER


def behaviour_of(
    pod: Document,
    container: Document,
    *,
    is_init: bool,
    run_index: int,
    settings: KubeletSettings,
) -> Behaviour:
    """Return what the container does in its run of this number, counted from 0."""
    asked_s, codes = _asked(pod, container, is_init=is_init)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    outcome = outcome_of(words)
    lines = outcome.lines if outcome else ()
    if asked_s is not None or codes:
        code = codes[min(run_index, len(codes) - 1)] if codes else 0
        run_s = settings.run_s if asked_s is None else asked_s
        return Behaviour(run_s / settings.speed, code, lines)
    if outcome is not None:
        return Behaviour(outcome.run_s / settings.speed, outcome.exit_code, lines)
    if is_init:
        return Behaviour(0.0)
    if policy_of(pod, container) == "Always" or _waits(pod, container, words):
        return Behaviour(FOREVER)
    return Behaviour(settings.run_s / settings.speed)


def policy_of(pod: Document, container: Document) -> str:
    """Return the restart policy of a container: its own, else the pod's."""
    own = container.get("restartPolicy") or pod["spec"].get("restartPolicy")
    return str(own or "Always")


def should_restart(pod: Document, container: Document, exit_code: int) -> bool:
    """Return whether a container that has ended is started again.

    Parity: pkg/api/v1/pod/util.go ContainerShouldRestart, v1.36.
    """
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        is_in = exit_code in (codes.get("values") or ())
        if is_in == (codes.get("operator") == "In") and rule.get("action") == "Restart":
            return True
    policy = policy_of(pod, container)
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _asked(
    pod: Document, container: Document, *, is_init: bool
) -> tuple[float | None, tuple[int, ...]]:
    """Return for how long it shall run and how it shall end, as far as annotations say."""
    name = container["name"]
    run_s = wishes.duration_s(pod, f"{wishes.RUN_FOR}.{name}")
    codes = wishes.exit_codes(pod, f"{wishes.EXIT_CODE}.{name}")
    if is_init:
        return run_s, codes
    if run_s is None:
        run_s = wishes.duration_s(pod, wishes.RUN_FOR)
    return run_s, codes or wishes.exit_codes(pod, wishes.EXIT_CODE)


def _waits(pod: Document, container: Document, words: list[str]) -> bool:
    """Return whether a container that need not run for ever does all the same.

    A Job is there to complete. Of another pod nobody knows what its image does by itself.
    """
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2]
    if image.partition(":")[0] == _PAUSE or words == [_PAUSE]:
        return True
    owners = pod["metadata"].get("ownerReferences") or ()
    return not words and not any(owner.get("kind") == "Job" for owner in owners)
