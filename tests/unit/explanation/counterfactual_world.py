"""A cluster as documents, which a test changes as a user would, and its counterfactuals."""

from functools import cache
from typing import Any

from kubesched.api.decode import decode_as, decode_object
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.config.load import load_config_object
from kubesched.explanation.attempt_record import attempt
from kubesched.explanation.counterfactual import changes_for
from kubesched.explanation.decision import decide
from kubesched.explanation.report import Change
from kubesched.profile.build import Built, build
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo, PodShapes
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_cluster, a_config, pod_wire

Wire = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
WEB = {"matchLabels": {"app": "web"}}
DB = {"matchLabels": {"app": "db"}}


def node_wire(name: str, zone: str = "a", *, cpu: str = "4", pods: str = "9", **spec: Any) -> Wire:
    labels = {HOST: name, ZONE: zone}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}},
    }


class World:
    """Nodes, bound pods, other objects, nominated pods, and the pod to explain."""

    def __init__(
        self,
        pod: Wire,
        nodes: list[Wire],
        bound: list[Wire] | None = None,
        objects: list[Wire] | None = None,
        nominated: dict[str, Wire] | None = None,
    ) -> None:
        self.pod = pod
        self.nodes = nodes
        self.bound = bound or []
        self.objects = objects or []
        self.nominated = nominated or {}

    def compiled(self) -> tuple[ClusterView, PodInfo]:
        """Return the cluster and the pod, which may share its shape with bound pods."""
        shapes = PodShapes()

        def info(wire: Wire) -> PodInfo:
            return shapes.pod_info(decode_as(Pod, wire))

        pods: dict[str, list[PodInfo]] = {}
        for wire in self.bound:
            pods.setdefault(wire["spec"]["nodeName"], []).append(info(wire))
        view = a_cluster(
            [NodeInfo(decode_as(Node, wire)) for wire in self.nodes],
            pods,
            [decode_object(wire) for wire in self.objects],
            {node: [info(wire)] for node, wire in self.nominated.items()},
        )
        return view, info(self.pod)

    def changes(self, node: str = "") -> tuple[Change, ...]:
        built, (view, pod) = scheduler(), self.compiled()
        profile = built.profiles["default-scheduler"]
        built.handles[profile.name].view = view
        return changes_for(attempt(profile, view, pod), node=node)

    def feasible(self, *without: str) -> set[str]:
        """Return the nodes that fit, by a scheduler without some filters."""
        built, (view, pod) = scheduler(without), self.compiled()
        profile = built.profiles["default-scheduler"]
        built.handles[profile.name].view = view
        return set(decide(profile, view, pod).feasible)


@cache
def scheduler(without: tuple[str, ...] = ()) -> Built:
    disabled = {"disabled": [{"name": name} for name in without]}
    return build(load_config_object(a_config({"preFilter": disabled, "filter": disabled})))


def a_pod(name: str = "new", cpu: int = 500, **spec: Any) -> Wire:
    return pod_wire(name, labels={"app": "web"}, requests={"cpu": f"{cpu}m"}, **spec)


def on(node: str, name: str, cpu: int = 100, app: str = "web", **spec: Any) -> Wire:
    return pod_wire(name, labels={"app": app}, requests={"cpu": f"{cpu}m"}, nodeName=node, **spec)


def spread(key: str, **rest: Any) -> Wire:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        **rest,
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Wire:
    return {"key": key, "value": value, "effect": effect}


def term(key: str, app: str = "web") -> Wire:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def expression(key: str, *values: str) -> Wire:
    return {"key": key, "operator": "In", "values": list(values)}


def node_terms(*terms: Wire) -> Wire:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def ported(*ports: int, at: tuple[str, ...] = (), **rest: Any) -> Wire:
    """Return a pod with host ports: some of any address, and port 80 of each of some addresses."""
    wire = a_pod(**rest)
    wire["spec"]["containers"][0]["ports"] = [
        *({"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports),
        *({"containerPort": 8, "hostPort": 80, "protocol": "TCP", "hostIP": ip} for ip in at),
    ]
    return wire


CLAIM: Wire = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "data",
        "namespace": "default",
        "uid": "data",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]},
    "status": {"phase": "Bound"},
}
VOLUME: Wire = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk", "uid": "disk"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
        "nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [expression(ZONE, "z")]}]}
        },
    },
    "status": {"phase": "Bound"},
}
OF_ONE_POD = [
    CLAIM | {"spec": {"volumeName": "disk", "accessModes": ["ReadWriteOncePod"]}},
    VOLUME | {"spec": {k: v for k, v in VOLUME["spec"].items() if k != "nodeAffinity"}},
]
AT_ONCE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "at-once"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "Immediate",
}


def unbound(name: str) -> Wire:
    """Return an unbound claim with immediate binding, so that PreFilter rejects its pod."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"storageClassName": "at-once", "accessModes": ["ReadWriteOnce"]},
    }


def claiming(*claims: str, **rest: Any) -> Wire:
    """Return a pod with a volume of each claim, named after it."""
    volumes = [{"name": f"v-{c}", "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return a_pod(volumes=volumes, **rest)


A, B = node_wire("a", "a"), node_wire("b", "b")
