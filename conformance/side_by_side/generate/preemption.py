"""Sequences about priorities: victims, budgets, nominations.

Owns the family `preemption`. Never decides on a pod.
"""

from __future__ import annotations

from conformance.side_by_side.generate.vocabulary import (
    APPS,
    HOSTNAME,
    ZONE,
    Draft,
    an_object,
    priority_classes,
    with_labels,
)
from conformance.side_by_side.steps import Obj, create, finish, patch


def preemption(draft: Draft) -> None:
    """Small nodes full of pods of low priority, and new pods."""
    rng = draft.rng
    draft.do(*priority_classes())
    draft.nodes(rng.choice([2, 3, 3, 4, 6]), tight=True)
    for _ in range(rng.randrange(0, 3)):
        add_budget(draft)
    grace_s = rng.choice([0, 0, 30])
    for _ in range(len(draft.node_names) * 3):
        priority = rng.choice(["low", "low", "middle", "middle", "high", ""])
        create_victim(draft, priority, grace_s)
    for _ in range(rng.randrange(7, 12)):
        move = rng.random()
        if move < 0.6:
            create_preemptor(draft, grace_s)
        elif move < 0.85 or not grace_s:
            draft.do(finish())
        elif move < 0.93:
            draft.remove_pod()
        else:
            draft.do(with_labels(draft.some_node(), changed="yes"))
    draft.do(finish())


def create_victim(draft: Draft, priority: str, grace_s: int) -> None:
    """Create a potential victim."""
    rng = draft.rng
    spec: Obj = {"terminationGracePeriodSeconds": grace_s}
    if priority:
        spec["priorityClassName"] = priority
    draft.pod(spec, labels={"app": rng.choice(APPS)}, prefers=False)


def create_preemptor(draft: Draft, grace_s: int) -> None:
    """Create a potential preemptor."""
    rng = draft.rng
    priority = rng.choice(["high", "high", "highest", "highest", "polite", "middle"])
    spec: Obj = {"priorityClassName": priority, "terminationGracePeriodSeconds": grace_s}
    constraint = rng.random()
    if constraint < 0.2:
        spec["nodeSelector"] = {HOSTNAME: draft.some_node()}
    elif constraint < 0.35:
        apart = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        spec["affinity"] = {"podAntiAffinity": required}
    elif constraint < 0.45:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "api"}},
            }
        ]
    elif constraint < 0.55:
        spec["containers"] = [
            {
                "name": "main",
                "image": "example.com/app:1",
                "ports": [{"containerPort": 80, "hostPort": 8080}],
            }
        ]
    requests = None
    if "containers" not in spec:
        cpu, memory = rng.randrange(250, 900), rng.randrange(250, 1200)
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    draft.pod(spec, requests=requests, labels={"app": rng.choice(["web", "api"])}, prefers=False)


def add_budget(draft: Draft) -> None:
    """Create a budget with a status like the disruption controller's."""
    name = draft.name("budget")
    selector = {"matchLabels": {"app": draft.rng.choice(APPS)}}
    budget = an_object(
        "PodDisruptionBudget", name, "alpha", spec={"selector": selector, "minAvailable": 1}
    )
    allowed = draft.rng.choice([0, 1, 2])
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
        "observedGeneration": 1,
    }
    status_patch = patch(
        "PodDisruptionBudget", name, {"status": status}, namespace="alpha", subresource="status"
    )
    draft.do(create(budget), status_patch)
