"""Sequences about taints, affinity between pods and topology spread.

Owns the families `taints`, `affinity` and `spread`. Never decides on a pod.
"""

from __future__ import annotations

from conformance.side_by_side.generate.vocabulary import (
    APPS,
    HOSTNAME,
    ZONE,
    ZONES,
    Draft,
    an_object,
    taint,
    tolerates,
    tolerating_more,
    with_labels,
    with_taints,
)
from conformance.side_by_side.steps import Obj, create, patch

_EFFECTS = ("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute")


def taints(draft: Draft) -> None:
    """Changing taints, and pods that tolerate some."""
    rng = draft.rng
    draft.nodes(rng.choice([3, 4, 5, 7, 10]))
    draft.do(
        *(with_taints(node, *_some_taints(draft)) for node in draft.node_names if draft.chance(0.7))
    )
    for _ in range(rng.randrange(12, 20)):
        move = rng.random()
        if move < 0.6:
            draft.pod({"tolerations": _some_tolerations(draft)})
        elif move < 0.85:
            draft.do(with_taints(draft.some_node(), *_some_taints(draft)))
        elif move < 0.95 and draft.pods:
            # A pending pod may get another toleration.
            namespace, name = rng.choice(draft.pods)
            draft.do(tolerating_more(name, namespace, rng.choice(["", "gpu", "spot"])))
        else:
            draft.remove_pod()


def _some_taints(draft: Draft) -> list[Obj]:
    rng = draft.rng
    keys = rng.sample(["gpu", "spot", "old"], rng.choice([0, 1, 1, 2]))
    return [taint(key, rng.choice(_EFFECTS), rng.choice(["", "yes"])) for key in keys]


def _some_tolerations(draft: Draft) -> list[Obj]:
    rng = draft.rng
    keys = rng.sample(["gpu", "spot", "old", ""], rng.choice([0, 1, 1, 2]))
    return [
        tolerates(key, rng.choice(["", *_EFFECTS]), rng.choice(["", "yes"]) if key else "")
        for key in keys
    ]


def affinity(draft: Draft) -> None:
    """Pods with affinity and anti-affinity to others."""
    rng = draft.rng
    draft.nodes(rng.choice([3, 4, 6, 9]))
    for _ in range(rng.randrange(12, 20)):
        move = rng.random()
        if move < 0.8:
            spec: Obj = {}
            if draft.chance(0.75):
                side = rng.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
                spec = {"affinity": {side: _pod_terms(draft)}}
            namespace = rng.choice(["alpha", "alpha", "beta"])
            draft.pod(spec, namespace=namespace, labels={"app": rng.choice(APPS), "v": "1"})
        elif move < 0.88:
            draft.do(with_labels(draft.some_node(), **{ZONE: rng.choice([*ZONES, None])}))
        elif move < 0.94 and draft.pods:
            namespace, name = rng.choice(draft.pods)
            changed = {"metadata": {"labels": {"app": rng.choice(APPS)}}}
            draft.do(patch("Pod", name, changed, namespace=namespace))
        else:
            draft.remove_pod()


def _pod_terms(draft: Draft) -> Obj:
    rng = draft.rng
    term: Obj = {
        "topologyKey": rng.choice([HOSTNAME, ZONE, ZONE, "disk"]),
        "labelSelector": rng.choice(
            [
                {"matchLabels": {"app": rng.choice(APPS)}},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
                {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            ]
        ),
    }
    term |= rng.choice(
        [
            {},
            {},
            {"namespaces": ["beta"]},
            {"namespaceSelector": {"matchLabels": {"team": "blue"}}},
            {"namespaceSelector": {}},
            {"matchLabelKeys": ["v"]},
        ]
    )
    if draft.chance(0.65):
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    weighted = {"weight": rng.randrange(1, 101), "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}


def spread(draft: Draft) -> None:
    """Pods spread over zones and hosts, hard and soft."""
    rng = draft.rng
    draft.nodes(rng.choice([3, 4, 6, 9, 12]))
    if draft.chance(0.4):
        service = an_object(
            "Service", "web", "alpha", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}
        )
        draft.do(create(service))
    for _ in range(rng.randrange(12, 20)):
        move = rng.random()
        if move < 0.8:
            number = rng.choice([0, 1, 1, 2])
            drawn = [_spread_constraint(draft) for _ in range(number)]
            # The API server rejects two constraints of one kind on one key.
            distinct = {(one["topologyKey"], one["whenUnsatisfiable"]): one for one in drawn}
            draft.pod(
                {"topologySpreadConstraints": list(distinct.values())},
                labels={"app": rng.choice(APPS[:2]), "v": "1"},
            )
        elif move < 0.86:
            draft.do(with_taints(draft.some_node(), *_some_taints(draft)))
        elif move < 0.92:
            draft.do(with_labels(draft.some_node(), **{ZONE: rng.choice([*ZONES, None])}))
        else:
            draft.remove_pod()


def _spread_constraint(draft: Draft) -> Obj:
    rng = draft.rng
    is_hard = draft.chance(0.65)
    made: Obj = {
        "maxSkew": rng.choice([1, 1, 2, 3]),
        "topologyKey": rng.choice([ZONE, ZONE, HOSTNAME, "disk"]),
        "whenUnsatisfiable": "DoNotSchedule" if is_hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": rng.choice(APPS[:2])}},
    }
    if is_hard and draft.chance(0.25):
        made["minDomains"] = rng.choice([1, 3, 4])
    if draft.chance(0.25):
        made["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
    if draft.chance(0.2):
        made["nodeAffinityPolicy"] = rng.choice(["Honor", "Ignore"])
    if draft.chance(0.15):
        made["matchLabelKeys"] = ["v"]
    return made
