"""How many pods each ReplicaSet of a deployment should have.

Owns the sums of rolling updates and of scaling in the middle of one. Never writes anything: who
asks gets numbers.
Upstream: pkg/controller/deployment/util/deployment_util.go, sync.go scale, rolling.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kubesched.client.cached.documents import Document, name_of
from kubesched.controllers.replica_set_status import replicas_of

DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

_INT32_MAX: Final = 2**31 - 1

Scaling: TypeAlias = tuple[Document, int]
"""A ReplicaSet and the size it should have."""


def is_rolling_update(deployment: Mapping[str, Any]) -> bool:
    """Return whether pods are replaced few by few."""
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


def fenceposts(deployment: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many pods may be too many, and how many may be missing.

    Parity: deployment_util.go ResolveFenceposts, v1.36: never both 0, for nothing could move then.
    """
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    desired = replicas_of(deployment)
    surge = scaled_value(rolling.get("maxSurge"), desired, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable"), desired, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def max_surge(deployment: Mapping[str, Any]) -> int:
    """Return how many pods there may be beyond those asked for."""
    return fenceposts(deployment)[0] if is_rolling_update(deployment) else 0


def max_unavailable(deployment: Mapping[str, Any]) -> int:
    """Return how many of the pods asked for may be missing."""
    desired = replicas_of(deployment)
    if not is_rolling_update(deployment) or desired == 0:
        return 0
    return min(fenceposts(deployment)[1], desired)


def wanted_total(sets: Iterable[Document]) -> int:
    """Return how many pods ReplicaSets are to have together."""
    return sum(replicas_of(one) for one in sets)


def counted(sets: Iterable[Document], field: str) -> int:
    """Return a number of the status of ReplicaSets, summed up."""
    return sum(int((one.get("status") or {}).get(field) or 0) for one in sets)


def active(sets: Iterable[Document]) -> list[Document]:
    """Return the ReplicaSets that are to have pods."""
    return [one for one in sets if replicas_of(one) > 0]


def by_age(replica_set: Document) -> tuple[str, str]:
    """Return what sorts ReplicaSets from old to new."""
    return replica_set["metadata"].get("creationTimestamp") or "", name_of(replica_set)


def new_replicas(deployment: Mapping[str, Any], sets: Iterable[Document], new: Document) -> int:
    """Return what the new ReplicaSet should have, by what the others have.

    Parity: deployment_util.go NewRSNewReplicas, v1.36.
    """
    desired = replicas_of(deployment)
    if not is_rolling_update(deployment):
        return desired
    # The surge by itself, which may be 0 without anything being put in its place.
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge"), desired, round_up=True)
    room = desired + surge - wanted_total(sets)
    size = replicas_of(new)
    return size if room <= 0 else size + min(room, desired - size)


def desired_replicas_noted(replica_set: Document) -> int | None:
    """Return what the deployment asked for when it last scaled a ReplicaSet."""
    return _count_in_annotation(replica_set, DESIRED_REPLICAS)


def is_saturated(deployment: Mapping[str, Any], replica_set: Document | None) -> bool:
    """Return whether a ReplicaSet has all pods of its deployment, and all are available.

    Parity: deployment_util.go IsSaturated, v1.36.
    """
    if replica_set is None:
        return False
    desired = replicas_of(deployment)
    return (
        replicas_of(replica_set) == desired
        and desired_replicas_noted(replica_set) == desired
        and counted([replica_set], "availableReplicas") == desired
    )


def active_or_latest(new: Document | None, old: Sequence[Document]) -> Document | None:
    """Return the one active ReplicaSet, or the newest if none is; None if several are.

    Parity: deployment_util.go FindActiveOrLatest, v1.36.
    """
    newest_first = sorted(old, key=by_age, reverse=True)
    every = newest_first if new is None else [*newest_first, new]
    if not every:
        return None
    acting = active(every)
    if len(acting) > 1:
        return None
    return acting[0] if acting else new or newest_first[0]


def proportional_sizes(deployment: Document, sets: Iterable[Document]) -> list[Scaling]:
    """Return active ReplicaSets with their share of what a scaling adds or takes away.

    The larger get their share first; of two of one size, the newer when pods are added and the
    older when they are taken away. What rounding leaves over is the largest one's.

    Parity: sync.go scale, v1.36.
    """
    acting = active(sets)
    desired = replicas_of(deployment)
    allowed = desired + max_surge(deployment) if desired > 0 else 0
    to_add = allowed - wanted_total(acting)
    if to_add:
        acting.sort(key=by_age, reverse=to_add > 0)
        acting.sort(key=replicas_of, reverse=True)
    sizes: list[Scaling] = []
    added = 0
    for one in acting:
        share = _proportion(one, deployment, to_add, added)
        added += share
        sizes.append((one, replicas_of(one) + share))
    if to_add and sizes:
        largest, size = sizes[0]
        sizes[0] = (largest, max(size + to_add - added, 0))
    return sizes


def unhealthy_to_go(old: Iterable[Document], count_max: int) -> tuple[list[Scaling], bool]:
    """Return how old ReplicaSets shrink by pods that are not available anyway.

    And whether more may follow: not while one has more available pods than it is to have, for it
    has been scaled down just now and its status says nothing of what will be left.

    Parity: rolling.go cleanupUnhealthyReplicas, v1.36.
    """
    sizes: list[Scaling] = []
    left = count_max
    for one in sorted(active(old), key=by_age):
        if left <= 0:
            break
        unhealthy = replicas_of(one) - counted([one], "availableReplicas")
        if unhealthy < 0:
            return sizes, False
        count = min(left, unhealthy)
        if count:
            sizes.append((one, replicas_of(one) - count))
            left -= count
    return sizes, True


def old_to_go(
    deployment: Mapping[str, Any], sets: Iterable[Document], old: Iterable[Document]
) -> list[Scaling]:
    """Return how old ReplicaSets shrink by pods that the new ones have made up for.

    Parity: rolling.go scaleDownOldReplicaSetsForRollingUpdate, v1.36.
    """
    left = counted(sets, "availableReplicas")
    left -= replicas_of(deployment) - max_unavailable(deployment)
    sizes: list[Scaling] = []
    for one in sorted(active(old), key=by_age):
        if left <= 0:
            break
        count = min(left, replicas_of(one))
        sizes.append((one, replicas_of(one) - count))
        left -= count
    return sizes


def scale_down_max(deployment: Mapping[str, Any], sets: Iterable[Document], new: Document) -> int:
    """Return how many old pods may go, those of the new ReplicaSet that do not work yet counted.

    Parity: rolling.go reconcileOldReplicaSets, v1.36.
    """
    least = replicas_of(deployment) - max_unavailable(deployment)
    new_unavailable = replicas_of(new) - counted([new], "availableReplicas")
    return wanted_total(sets) - least - new_unavailable


def _proportion(one: Document, deployment: Document, to_add: int, added: int) -> int:
    """Return the share of one ReplicaSet, never beyond what is still to be given.

    Parity: deployment_util.go GetReplicaSetProportion, v1.36.
    """
    if to_add in (0, added):
        return 0
    share, allowed = _fraction(one, deployment), to_add - added
    return min(share, allowed) if to_add > 0 else max(share, allowed)


def _fraction(one: Document, deployment: Document) -> int:
    """Return by how much a ReplicaSet changes if all of them change alike.

    Parity: deployment_util.go getReplicaSetFraction, v1.36.
    """
    desired, size = replicas_of(deployment), replicas_of(one)
    if desired == 0:
        return -size
    before = _count_in_annotation(one, MAX_REPLICAS)
    if not before:
        # Somebody took the annotation away: what there is now stays within the limits as well.
        before = int((deployment.get("status") or {}).get("replicas") or 0)
        if before == 0:
            return 0
    return int(size * (desired + max_surge(deployment)) / before + 0.5) - size


def _count_in_annotation(replica_set: Document, key: str) -> int | None:
    text = (replica_set["metadata"].get("annotations") or {}).get(key, "")
    if not (text.isascii() and text.isdigit()):
        return None
    count = int(text)
    return count if count <= _INT32_MAX else None
