"""Taints, and what tolerates them.

Owns the rule for one taint and for a set of taints. Never knows a node.
Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubesched.objects.affinity import Toleration


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint without its time: two nodes that differ only there are equal to every rule."""

    key: str
    value: str
    effect: str


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether any of the tolerations covers the taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def untolerated(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], effects: Iterable[str]
) -> list[Taint]:
    """Return the taints of the given effects that nothing tolerates, in the node's order."""
    wanted = tuple(effects)
    return [t for t in taints if t.effect in wanted and not tolerates(tolerations, t)]


def _covers(toleration: Toleration, taint: Taint) -> bool:
    # Parity: api/core/v1/toleration.go ToleratesTaint, v1.36, comparison operators off.
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in (None, "", "Equal"):
        return (toleration.value or "") == taint.value
    return toleration.operator == "Exists"
