"""How many replicas each ReplicaSet of a Deployment should have.

Pure arithmetic of rolling updates and of proportional scaling. Never writes.
Upstream: pkg/controller/deployment/util/deployment_util.go, sync.go scale, rolling.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kubesched.api.documents import Document, name_of
from kubesched.cluster.controllers.replica_set.status import replicas_of

DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

_INT32_MAX: Final = 2**31 - 1

Scaling: TypeAlias = tuple[Document, int]
"""A ReplicaSet and its target size."""


def is_rolling_update(deployment: Mapping[str, Any]) -> bool:
    """Return whether the strategy is RollingUpdate."""
    return bool(deployment["spec"]["strategy"].get("type") == "RollingUpdate")


def scaled_value(value: int | str | None, total: int, *, round_up: bool) -> int:
    """Return a number, or a percentage of a total.

    Parity: apimachinery/pkg/util/intstr/intstr.go GetScaledValueFromIntOrPercent, v1.36.
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    hundredths = int(value[:-1]) * total
    return -(-hundredths // 100) if round_up else hundredths // 100


def resolve_fenceposts(deployment: Mapping[str, Any]) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable as numbers.

    Parity: deployment_util.go ResolveFenceposts, v1.36: never both 0, or nothing could progress.
    """
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    desired = replicas_of(deployment)
    surge = scaled_value(rolling.get("maxSurge"), desired, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable"), desired, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def max_surge(deployment: Mapping[str, Any]) -> int:
    """Return how many pods may exist above the desired number."""
    return resolve_fenceposts(deployment)[0] if is_rolling_update(deployment) else 0


def max_unavailable(deployment: Mapping[str, Any]) -> int:
    """Return how many of the desired pods may be unavailable."""
    desired = replicas_of(deployment)
    if not is_rolling_update(deployment) or desired == 0:
        return 0
    return min(resolve_fenceposts(deployment)[1], desired)


def total_replicas(sets: Iterable[Document]) -> int:
    """Return the sum of spec.replicas."""
    return sum(replicas_of(replica_set) for replica_set in sets)


def status_total(sets: Iterable[Document], field: str) -> int:
    """Return the sum of a status field."""
    return sum(int((replica_set.get("status") or {}).get(field) or 0) for replica_set in sets)


def active(sets: Iterable[Document]) -> list[Document]:
    """Return the ReplicaSets with replicas > 0."""
    return [replica_set for replica_set in sets if replicas_of(replica_set) > 0]


def age_order(replica_set: Document) -> tuple[str, str]:
    """Sort key: oldest first."""
    return replica_set["metadata"].get("creationTimestamp") or "", name_of(replica_set)


def new_replicas(deployment: Mapping[str, Any], sets: Iterable[Document], new: Document) -> int:
    """Return the size of the new ReplicaSet.

    Parity: deployment_util.go NewRSNewReplicas, v1.36.
    """
    desired = replicas_of(deployment)
    if not is_rolling_update(deployment):
        return desired
    # The raw maxSurge: unlike resolve_fenceposts, both limits may be 0 here.
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge"), desired, round_up=True)
    room = desired + surge - total_replicas(sets)
    size = replicas_of(new)
    return size if room <= 0 else size + min(room, desired - size)


def desired_replicas_annotation(replica_set: Document) -> int | None:
    """Return the Deployment's size when it last scaled a ReplicaSet."""
    return _count_in_annotation(replica_set, DESIRED_REPLICAS)


def is_saturated(deployment: Mapping[str, Any], replica_set: Document | None) -> bool:
    """Return whether a ReplicaSet has all pods of its Deployment, all available.

    Parity: deployment_util.go IsSaturated, v1.36.
    """
    if replica_set is None:
        return False
    desired = replicas_of(deployment)
    return (
        replicas_of(replica_set) == desired
        and desired_replicas_annotation(replica_set) == desired
        and status_total([replica_set], "availableReplicas") == desired
    )


def active_or_latest(new: Document | None, old: Sequence[Document]) -> Document | None:
    """Return the only active ReplicaSet, or the latest if none is active; None if several.

    Parity: deployment_util.go FindActiveOrLatest, v1.36.
    """
    newest_first = sorted(old, key=age_order, reverse=True)
    candidates = newest_first if new is None else [*newest_first, new]
    if not candidates:
        return None
    active_sets = active(candidates)
    if len(active_sets) > 1:
        return None
    return active_sets[0] if active_sets else new or newest_first[0]


def proportional_sizes(deployment: Document, sets: Iterable[Document]) -> list[Scaling]:
    """Return the active ReplicaSets with their proportional sizes.

    Larger ones come first; of equal ones the newer when scaling up, the older when scaling down.
    The largest gets what rounding leaves over.

    Parity: sync.go scale, v1.36.
    """
    active_sets = active(sets)
    desired = replicas_of(deployment)
    allowed = desired + max_surge(deployment) if desired > 0 else 0
    to_add = allowed - total_replicas(active_sets)
    if to_add:
        active_sets.sort(key=age_order, reverse=to_add > 0)
        active_sets.sort(key=replicas_of, reverse=True)
    sizes: list[Scaling] = []
    added = 0
    for replica_set in active_sets:
        share = _proportion(replica_set, deployment, to_add, added)
        added += share
        sizes.append((replica_set, replicas_of(replica_set) + share))
    if to_add and sizes:
        largest, size = sizes[0]
        sizes[0] = (largest, max(size + to_add - added, 0))
    return sizes


def unhealthy_old_sizes(old: Iterable[Document], count_max: int) -> tuple[list[Scaling], bool]:
    """Return the sizes of old ReplicaSets without their unavailable pods.

    The flag says whether scaling down may continue: not while a ReplicaSet has more available pods
    than replicas, since it was just scaled down and its status is outdated.

    Parity: rolling.go cleanupUnhealthyReplicas, v1.36.
    """
    sizes: list[Scaling] = []
    remaining = count_max
    for one in sorted(active(old), key=age_order):
        if remaining <= 0:
            break
        unhealthy = replicas_of(one) - status_total([one], "availableReplicas")
        if unhealthy < 0:
            return sizes, False
        count = min(remaining, unhealthy)
        if count:
            sizes.append((one, replicas_of(one) - count))
            remaining -= count
    return sizes, True


def surplus_old_sizes(
    deployment: Mapping[str, Any], sets: Iterable[Document], old: Iterable[Document]
) -> list[Scaling]:
    """Return the sizes of old ReplicaSets without the pods that new ones have replaced.

    Parity: rolling.go scaleDownOldReplicaSetsForRollingUpdate, v1.36.
    """
    remaining = status_total(sets, "availableReplicas")
    remaining -= replicas_of(deployment) - max_unavailable(deployment)
    sizes: list[Scaling] = []
    for one in sorted(active(old), key=age_order):
        if remaining <= 0:
            break
        count = min(remaining, replicas_of(one))
        sizes.append((one, replicas_of(one) - count))
        remaining -= count
    return sizes


def max_scale_down(deployment: Mapping[str, Any], sets: Iterable[Document], new: Document) -> int:
    """Return how many old pods may be removed, given the unavailable new ones.

    Parity: rolling.go reconcileOldReplicaSets, v1.36.
    """
    min_available = replicas_of(deployment) - max_unavailable(deployment)
    new_unavailable = replicas_of(new) - status_total([new], "availableReplicas")
    return total_replicas(sets) - min_available - new_unavailable


def _proportion(one: Document, deployment: Document, to_add: int, added: int) -> int:
    """Return the share of one ReplicaSet, at most what remains to be distributed.

    Parity: deployment_util.go GetReplicaSetProportion, v1.36.
    """
    if to_add in (0, added):
        return 0
    share, allowed = _fraction(one, deployment), to_add - added
    return min(share, allowed) if to_add > 0 else max(share, allowed)


def _fraction(one: Document, deployment: Document) -> int:
    """Return by how much a ReplicaSet changes under proportional scaling.

    Parity: deployment_util.go getReplicaSetFraction, v1.36.
    """
    desired, size = replicas_of(deployment), replicas_of(one)
    if desired == 0:
        return -size
    previous_max = _count_in_annotation(one, MAX_REPLICAS)
    if not previous_max:
        # The annotation was removed: the current replica count is within the limits as well.
        previous_max = int((deployment.get("status") or {}).get("replicas") or 0)
        if previous_max == 0:
            return 0
    return int(size * (desired + max_surge(deployment)) / previous_max + 0.5) - size


def _count_in_annotation(replica_set: Document, key: str) -> int | None:
    text = (replica_set["metadata"].get("annotations") or {}).get(key, "")
    if not (text.isascii() and text.isdigit()):
        return None
    count = int(text)
    return count if count <= _INT32_MAX else None
