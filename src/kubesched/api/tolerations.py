"""Taints and tolerations.

Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubesched.api.affinity import Toleration


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint without its time, in which nodes may differ without effect."""

    key: str
    value: str
    effect: str


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether a taint is tolerated."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def untolerated(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], effects: Iterable[str]
) -> list[Taint]:
    """Return the taints with some effects that are not tolerated, in the node's order."""
    relevant = tuple(effects)
    return [t for t in taints if t.effect in relevant and not tolerates(tolerations, t)]


def _covers(toleration: Toleration, taint: Taint) -> bool:
    # Parity: api/core/v1/toleration.go ToleratesTaint, v1.36, comparison operators off.
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in (None, "", "Equal"):
        return (toleration.value or "") == taint.value
    return toleration.operator == "Exists"
