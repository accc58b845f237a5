"""Sequences about pods that are unschedulable until something changes.

Owns the families `gates` and `fixed`. Never decides on a pod.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.side_by_side.generate.basic import some_pod
from conformance.side_by_side.generate.vocabulary import (
    GPU,
    HOSTNAME,
    ZONE,
    Draft,
    cordoned,
    priority_classes,
    required_nodes,
    taint,
    term,
    tolerating_more,
    with_amounts,
    with_gpus,
    with_labels,
    with_taints,
)
from conformance.side_by_side.generate.volumes import (
    STATIC,
    a_claim,
    a_csi_node,
    a_volume,
    more_volumes,
    storage_classes,
)
from conformance.side_by_side.steps import Obj, Op, create, patch, remove

_BIG = {"cpu": "1100m", "memory": "1200Mi"}


def gates(draft: Draft) -> None:
    """Gated pods whose gates are removed, one by one or together."""
    rng = draft.rng
    draft.nodes(rng.choice([2, 3, 5]), tight=True)
    if draft.chance(0.5):
        draft.do(*priority_classes())
    gated: list[tuple[str, list[str]]] = []
    for _ in range(rng.randrange(12, 20)):
        move = rng.random()
        if move < 0.35 or not gated:
            names = rng.sample(
                ["example.com/a", "example.com/b", "example.com/c"], rng.choice([1, 1, 2])
            )
            spec: Obj = {"schedulingGates": [{"name": name} for name in names]}
            if draft.chance(0.3):
                spec["nodeSelector"] = {"disk": "ssd"}
            gated.append((draft.pod(spec), names))
        elif move < 0.75:
            _open_gate(draft, gated)
        elif move < 0.85:
            name = rng.choice(gated)[0]
            change = {"metadata": {"labels": {"changed": str(len(draft.steps))}}}
            draft.do(patch("Pod", name, change, namespace="alpha"))
        elif move < 0.93:
            some_pod(draft)
        else:
            name, _ = gated.pop(rng.randrange(len(gated)))
            draft.do(remove("Pod", name, "alpha"))


def _open_gate(draft: Draft, gated: list[tuple[str, list[str]]]) -> None:
    position = draft.rng.randrange(len(gated))
    name, names = gated[position]
    left = [] if draft.chance(0.6) else names[1:]
    change: Obj = {"spec": {"schedulingGates": [{"name": gate} for gate in left]}}
    if draft.chance(0.3):
        # A pod's selector may be narrowed only while it is gated.
        change["spec"]["nodeSelector"] = {ZONE: "z1"}
    draft.do(patch("Pod", name, change, namespace="alpha"))
    if left:
        gated[position] = (name, left)
    else:
        gated.pop(position)


def fixed(draft: Draft) -> None:
    """Pods that fail for one reason each, changes that do not help, and changes that do."""
    rng = draft.rng
    draft.nodes(rng.choice([2, 3, 4]), tight=True)
    flows = rng.sample(_FLOWS, rng.choice([2, 3]))
    fixes: list[Op] = []
    for flow in flows:
        fixes.extend(flow(draft))
    rng.shuffle(fixes)
    for fix in fixes:
        if draft.chance(0.4):
            draft.do(_something_else(draft))
        draft.do(fix)


def _something_else(draft: Draft) -> Op:
    """Return a change that makes few or no pods schedulable."""
    rng = draft.rng
    return rng.choice(
        [
            with_labels(draft.some_node(), unrelated=str(len(draft.steps))),
            with_taints(draft.some_node(), taint("unrelated", "PreferNoSchedule")),
            patch("Node", draft.some_node(), {"metadata": {"annotations": {"a": "b"}}}),
            with_amounts(draft.some_node(), pods="111"),
        ]
    )


def _needs_label(draft: Draft) -> list[Op]:
    node = draft.some_node()
    draft.pod({"nodeSelector": {"special": "yes"}})
    return [with_labels(node, special="no"), with_labels(node, special="yes")]


def _needs_expression(draft: Draft) -> list[Op]:
    node = draft.some_node()
    draft.pod(required_nodes(term("generation", "Gt", "4")))
    return [with_labels(node, generation="4"), with_labels(node, generation="5")]


def _needs_capacity(draft: Draft) -> list[Op]:
    node = draft.some_node()
    draft.pod(requests={"cpu": "5500m", "memory": "100Mi"})
    return [with_amounts(node, cpu="5200m"), with_amounts(node, cpu="8300m")]


def _needs_device(draft: Draft) -> list[Op]:
    node = draft.some_node()
    draft.pod(requests={GPU: "2", "cpu": "30m"})
    return [with_gpus(node, 1), with_gpus(node, 3)]


def _needs_toleration(draft: Draft) -> list[Op]:
    draft.do(*(with_taints(node, taint("closed")) for node in draft.node_names))
    name = draft.pod()
    return draft.rng.choice(
        [
            [with_taints(draft.some_node())],
            [with_taints(draft.some_node(), taint("other")), with_taints(draft.some_node())],
            [tolerating_more(name, "alpha", "closed")],
        ]
    )


def _needs_uncordon(draft: Draft) -> list[Op]:
    draft.do(*(cordoned(node, yes=True) for node in draft.node_names))
    draft.pod()
    return [cordoned(node, yes=False) for node in draft.node_names]


def _needs_room(draft: Draft) -> list[Op]:
    number = len(draft.node_names) * 2 + 1
    names = [draft.pod(requests=_BIG) for _ in range(number)]
    gone = draft.rng.sample(names, 2)
    return [remove("Pod", name, "alpha") for name in gone]


def _needs_port(draft: Draft) -> list[Op]:
    container = {
        "name": "main",
        "image": "example.com/app:1",
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    }
    names = [draft.pod({"containers": [container]}) for _ in range(len(draft.node_names) + 1)]
    return [remove("Pod", draft.rng.choice(names), "alpha")]


def _needs_company(draft: Draft) -> list[Op]:
    near = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "company"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    draft.pod({"affinity": {"podAffinity": required}}, labels={"app": "lonely"})
    lone = draft.make_pod(labels={"app": "stranger"})
    change = {"metadata": {"labels": {"app": "company"}}}
    changed = patch("Pod", lone["metadata"]["name"], change, namespace="alpha")
    draft.do(create(lone))
    return [changed, create(draft.make_pod(labels={"app": "company"}))]


def _needs_distance(draft: Draft) -> list[Op]:
    apart = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "apart"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    spec = {"affinity": {"podAntiAffinity": required}}
    number = len(draft.node_names) + 1
    names = [draft.pod(spec, labels={"app": "apart"}) for _ in range(number)]
    return [remove("Pod", draft.rng.choice(names), "alpha")]


def _needs_balance(draft: Draft) -> list[Op]:
    even = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "even"}},
    }
    draft.do(cordoned(draft.node_names[0], yes=True))
    number = len(draft.node_names) + 1
    for _ in range(number):
        draft.pod({"topologySpreadConstraints": [even]}, labels={"app": "even"})
    return [cordoned(draft.node_names[0], yes=False)]


def _needs_claim(draft: Draft) -> list[Op]:
    rng = draft.rng
    claim = draft.name("late")
    spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}
    draft.pod(spec)
    fixes = [
        create(a_claim(claim, STATIC, 2)),
        create(storage_classes()[0]),
        create(a_volume(draft, size=3)),
        create(a_volume(draft, size=4)),
    ]
    rng.shuffle(fixes)
    return fixes


def _needs_volume_limit(draft: Draft) -> list[Op]:
    draft.do(*(create(a_csi_node(node, 1)) for node in draft.node_names))
    for _ in range(len(draft.node_names) + 1):
        claim = draft.name("c")
        volume = a_volume(draft, claim=claim, size=1, storage_class="")
        del volume["spec"]["storageClassName"]
        volume["spec"].pop("nodeAffinity", None)
        volume["metadata"]["labels"] = {}
        claimed = a_claim(claim, "", 1, volume=volume["metadata"]["name"])
        draft.do(create(volume), create(claimed))
        draft.pod({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]})
    return [more_volumes(draft.some_node(), 2), remove("Pod", draft.pods[-2][1], "alpha")]


def _needs_node(draft: Draft) -> list[Op]:
    draft.pod(requests={"cpu": "2900m", "memory": "2900Mi"})
    objs = [
        {"cpu": "2950m", "memory": "2100Mi", "pods": "10"},
        {"cpu": "3100m", "memory": "3300Mi", "pods": "10"},
    ]
    return [create(_node(draft.name("late-node"), amounts)) for amounts in objs]


def _node(name: str, amounts: dict[str, str]) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: "z0"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


_FLOWS: list[Callable[[Draft], list[Op]]] = [
    _needs_label,
    _needs_expression,
    _needs_capacity,
    _needs_device,
    _needs_toleration,
    _needs_uncordon,
    _needs_room,
    _needs_port,
    _needs_company,
    _needs_distance,
    _needs_balance,
    _needs_claim,
    _needs_volume_limit,
    _needs_node,
]
