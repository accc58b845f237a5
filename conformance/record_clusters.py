"""Records the clusters of the test kit: src/kubesched/testing/clusters/*.json.

Owns their content and the recording: real Kubernetes places the workloads, then the scheduler ends,
and additional pods stay pending. Needs the programs of `make control-plane`.

    python conformance/record_clusters.py            # all clusters
    python conformance/record_clusters.py gpu-pool   # one
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kubesched.cluster.launch.components import HEARTBEAT, Components, start_components
from kubesched.cluster.launch.http import Api
from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.cluster.playground.in_process import ObjectPaths
from kubesched.cluster.playground.snapshots import KINDS
from kubesched.testing import a_node, a_pod

Document = dict[str, Any]
DIRECTORY = Path(__file__).resolve().parent.parent / "src" / "kubesched" / "testing" / "clusters"
ZONE = "topology.kubernetes.io/zone"
TYPE = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
SKIPPED_KINDS = ("ControllerRevision", "CSIDriver", "CSIStorageCapacity")
MI = 1024 * 1024
IMAGES = {
    "registry.example.com/shop/web:3.2": 180 * MI,
    "registry.example.com/shop/api:7.0": 240 * MI,
    "registry.example.com/ml/train:12.4": 4200 * MI,
    "registry.example.com/ml/serve:2.1": 2600 * MI,
    "registry.example.com/edge/relay:1.9": 60 * MI,
}


def node(name: str, zone: str, kind: str, cpu: int, memory: int, **more: Any) -> Document:
    """Return a node of a cloud, with pulled images."""
    labels = {
        "kubernetes.io/arch": more.pop("arch", "amd64"),
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": zone[:-2],
        ZONE: zone,
        TYPE: kind,
        **more.pop("labels", {}),
    }
    pulled = more.pop("images", ())
    amounts = {"cpu": str(cpu), "memory": f"{memory}Gi", **more.pop("amounts", {})}
    made = a_node(
        name,
        labels=labels,
        annotations={HEARTBEAT: more.pop("heartbeat", "on")},
        capacity=amounts,
        images=[
            {"names": [image], "sizeBytes": size}
            for image, size in IMAGES.items()
            if any(name in image for name in pulled)
        ],
        **more,
    )
    # Reserved for the kubelet and the system.
    made["status"]["allocatable"] |= {"cpu": f"{cpu * 1000 - 80}m", "memory": f"{memory - 1}Gi"}
    return made


def workload(
    kind: str, key: str, replicas: int, image: str, requests: str, **spec: Any
) -> Document:
    """Return a Deployment, StatefulSet or DaemonSet; requests are `cpu memory [gpus]`."""
    namespace, _, name = key.partition("/")
    labels = {"app": name, **spec.pop("labels", {})}
    template = spec.pop("template", {})
    pod = {"containers": [container(image, requests, spec.pop("ports", ()))], **template}
    body: Document = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": labels, "annotations": spec.pop("annotations", {})},
            "spec": pod,
        },
        **spec,
    }
    if kind != "DaemonSet":
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body["serviceName"] = name
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def container(image: str, requests: str, ports: Iterable[Document] = ()) -> Document:
    """Return a container that requests `cpu memory [gpus]`."""
    cpu, memory, *gpus = requests.split()
    amounts = {"cpu": cpu, "memory": memory}
    resources: Document = {"requests": amounts}
    if gpus:
        resources = {"requests": {**amounts, GPU: gpus[0]}, "limits": {GPU: gpus[0]}}
    made: Document = {"name": "main", "image": image, "resources": resources}
    if ports:
        made["ports"] = list(ports)
    return made


def plain(kind: str, key: str, version: str = "v1", **fields: Any) -> Document:
    """Return any other object."""
    namespace, _, name = key.rpartition("/")
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def spread(app: str, key: str, when: str = "DoNotSchedule") -> Document:
    """Return a constraint that spreads an app's pods by a label of nodes."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}},
    }


def apart(app: str) -> Document:
    """Return a preferred anti-affinity between the pods of an app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def web_shop() -> list[Document]:
    """Three zones, a shop and its databases; one node is cordoned, one is a spot node."""
    nodes = []
    for number, zone in enumerate(("north-a", "north-b", "north-c") * 3, start=1):
        large = number > 6
        nodes.append(
            node(
                f"worker-{number}",
                zone,
                "large" if large else "medium",
                8 if large else 4,
                32 if large else 16,
                images=("web",) if number % 2 else ("api",),
                unschedulable=number == 5,
                taints=["example.com/spot:PreferNoSchedule"] if number == 9 else (),
                labels={"example.com/lifecycle": "spot"} if number == 9 else {},
            )
        )
    web, api = "registry.example.com/shop/web:3.2", "registry.example.com/shop/api:7.0"
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "standard",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    selector = {"matchLabels": {"app": "web"}}
    return [
        *(plain("Namespace", name) for name in ("shop", "data", "monitoring")),
        plain(
            "PriorityClass", "shop-critical", "scheduling.k8s.io/v1", value=10_000, description=""
        ),
        plain(
            "StorageClass",
            "standard",
            "storage.k8s.io/v1",
            provisioner="kubernetes.io/host-path",
            volumeBindingMode="Immediate",
        ),
        *nodes,
        workload("DaemonSet", "monitoring/agent", 0, "agent:1.4", "50m 64Mi"),
        workload(
            "Deployment",
            "shop/web",
            6,
            web,
            "500m 512Mi",
            template={"topologySpreadConstraints": [spread("web", ZONE)]},
        ),
        workload(
            "Deployment",
            "shop/api",
            4,
            api,
            "1 2Gi",
            template={"affinity": apart("api"), "priorityClassName": "shop-critical"},
        ),
        workload("Deployment", "shop/cart", 3, api, "250m 1Gi"),
        workload("StatefulSet", "data/orders", 3, "db:16", "1 4Gi", volumeClaimTemplates=[claim]),
        plain("Service", "shop/web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
        plain(
            "PodDisruptionBudget",
            "shop/web",
            "policy/v1",
            spec={"minAvailable": 5, "selector": selector},
        ),
        pending(
            "shop/web-canary",
            web,
            "500m 512Mi",
            labels={"app": "web", "track": "canary"},
            topologySpreadConstraints=[spread("web", ZONE)],
        ),
        pending("shop/import", api, "3 8Gi", nodeSelector={TYPE: "large"}),
        pending("data/warehouse", "db:16", "12 48Gi"),
        pending("monitoring/probe", "probe:1", "10m 16Mi", nodeSelector={ZONE: "north-b"}),
    ]


def gpu_pool() -> list[Document]:
    """A tainted pool of GPUs, nearly full of workloads of low priority."""
    nodes = [node(f"cpu-{n}", f"west-{'ab'[n % 2]}", "c8", 8, 32) for n in range(1, 6)]
    nodes += [
        node(
            f"gpu-{n}",
            f"west-{'ab'[n % 2]}",
            "g32",
            32,
            128,
            amounts={GPU: "8" if n == 4 else "4"},
            labels={"example.com/gpu": "h100" if n == 4 else "l4"},
            taints=[f"{GPU}=present:NoSchedule"],
            images=("train", "serve") if n < 3 else (),
        )
        for n in range(1, 5)
    ]
    train, serve = "registry.example.com/ml/train:12.4", "registry.example.com/ml/serve:2.1"
    tolerates = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    trainers = {"tolerations": tolerates, "priorityClassName": "batch"}
    return [
        plain("Namespace", "ml"),
        plain("PriorityClass", "batch", "scheduling.k8s.io/v1", value=-100, description=""),
        plain("PriorityClass", "serving", "scheduling.k8s.io/v1", value=1000, description=""),
        *nodes,
        workload(
            "Deployment",
            "ml/inference",
            4,
            serve,
            "2 8Gi 1",
            template={
                "tolerations": tolerates,
                "priorityClassName": "serving",
                "affinity": apart("inference"),
            },
        ),
        workload("StatefulSet", "ml/trainer", 5, train, "8 24Gi 2", template=trainers),
        workload("Deployment", "ml/features", 4, train, "3 6Gi"),
        workload("Deployment", "ml/gateway", 2, "gateway:5", "500m 512Mi"),
        workload(
            "Deployment",
            "ml/housekeeping",
            2,
            "tools:1",
            "100m 128Mi",
            template={"tolerations": [{"operator": "Exists"}]},
        ),
        plain(
            "PodDisruptionBudget",
            "ml/trainer",
            "policy/v1",
            spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "trainer"}}},
        ),
        pending("ml/notebook", train, "1 4Gi 1", tolerations=tolerates),
        pending(
            "ml/finetune",
            train,
            "16 48Gi 3",
            tolerations=tolerates,
            priorityClassName="serving",
            nodeSelector={"example.com/gpu": "l4"},
        ),
        pending("ml/etl", "etl:2", "2 4Gi"),
        pending("ml/forgot-toleration", train, "1 4Gi 1"),
    ]


def edge_sites() -> list[Document]:
    """A small cloud and five small edge sites, of two architectures, one unreachable."""
    nodes = [node(f"cloud-{n}", f"core-{'ab'[n % 2]}", "m8", 8, 32) for n in range(1, 4)]
    for number, (site, arch) in enumerate(
        (
            ("ship", "amd64"),
            ("ship", "arm64"),
            ("mast", "arm64"),
            ("sat1", "arm64"),
            ("sat2", "arm64"),
        ),
        start=1,
    ):
        is_satellite = site.startswith("sat")
        nodes.append(
            node(
                f"edge-{number}",
                f"{site}-a",
                "tiny",
                2,
                4,
                arch=arch,
                labels={
                    "kubernetes.io/role": "edge",
                    **({"satellite": site} if is_satellite else {}),
                },
                taints=["example.com/edge:NoSchedule"] if is_satellite else (),
                images=("relay",),
                heartbeat="off" if site == "mast" else "on",
            )
        )
    relay = "registry.example.com/edge/relay:1.9"
    edge: Document = {
        "nodeSelector": {"kubernetes.io/role": "edge"},
        "tolerations": [{"key": "example.com/edge", "operator": "Exists"}],
    }
    on_arm = [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]
    arm = {"nodeSelectorTerms": [{"matchExpressions": on_arm}]}
    return [
        plain("Namespace", "field"),
        *nodes,
        workload(
            "DaemonSet",
            "field/relay",
            0,
            relay,
            "100m 128Mi",
            template=edge,
            ports=[{"containerPort": 8443, "hostPort": 8443}],
        ),
        workload("Deployment", "field/hub", 3, "hub:4", "1 2Gi"),
        workload("Deployment", "field/archive", 2, "archive:1", "2 8Gi"),
        pending("field/ingest", "hub:4", "500m 512Mi"),
        pending("field/telescope", relay, "500m 256Mi", annotations={"type": "space"}, **edge),
        pending(
            "field/uplink",
            relay,
            "250m 128Mi",
            annotations={"type": "space", "satellite": "sat2"},
            **edge,
        ),
        pending(
            "field/firmware",
            relay,
            "1 1Gi",
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": arm}},
        ),
        pending("field/port-taken", relay, "50m 64Mi", host_port=8443, **edge),
    ]


def pending(key: str, image: str, requests: str, *, host_port: int = 0, **more: Any) -> Document:
    """Return a pending pod."""
    namespace, _, name = key.partition("/")
    made = a_pod(name, namespace=namespace, **more)
    ports = [{"containerPort": host_port, "hostPort": host_port}] if host_port else ()
    made["spec"]["containers"] = [container(image, requests, ports)]
    return made


CLUSTERS: Mapping[str, Callable[[], list[Document]]] = {
    "web-shop": web_shop,
    "gpu-pool": gpu_pool,
    "edge-sites": edge_sites,
}


def record(objects: list[Document]) -> list[Document]:
    """Run a cluster, and return the objects that schedulers read."""
    programs = Programs.built()
    with real_cluster("without-controllers") as cluster, cluster.api() as api:
        components = Components(nodes=0, only_annotated_nodes=True, node_grace_s=12)
        start_components(cluster, programs, cluster.group, components)
        create = Creator(api)
        nodes = [one for one in objects if one["kind"] == "Node"]
        create.all(one for one in objects if one["kind"] in ("Namespace", "PriorityClass", "Node"))
        cluster.group.wait_until(
            lambda: ready_count(api) >= alive_count(nodes), "nodes", timeout_s=90
        )
        others = [
            one for one in objects if one["kind"] not in ("Namespace", "PriorityClass", "Node")
        ]
        create.all(one for one in others if one["kind"] != "Pod")
        cluster.group.wait_until(lambda: is_placed(api, others), "the workloads", timeout_s=90)
        cluster.group.wait_until(
            lambda: lost_count(api) >= len(nodes) - alive_count(nodes), "lost nodes", timeout_s=90
        )
        cluster.group.stop("kube-scheduler")
        create.all(one for one in others if one["kind"] == "Pod")
        return list(dump(api))


class Creator:
    """Creates objects."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._paths = ObjectPaths(api)

    def all(self, objects: Iterable[Document]) -> None:
        """Create objects in their order."""
        for one in objects:
            if one["kind"] == "Pod":
                account = (
                    f"/api/v1/namespaces/{one['metadata']['namespace']}/serviceaccounts/default"
                )
                self._api.get(account).must(200)
            self._api.post(self._paths.of(one), one).must(201)


def alive_count(nodes: list[Document]) -> int:
    """Return the number of nodes that should be ready."""
    return sum(one["metadata"]["annotations"][HEARTBEAT] == "on" for one in nodes)


def ready_count(api: Api) -> int:
    """Return the number of ready nodes."""
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"]["conditions"])
        and not any(t["key"].endswith("not-ready") for t in one["spec"].get("taints", ()))
        for one in api.get("/api/v1/nodes").must(200).json["items"]
        if one["status"].get("conditions")
    )


def lost_count(api: Api) -> int:
    """Return the number of unreachable nodes."""
    return sum(
        any(t["key"].endswith("unreachable") for t in one["spec"].get("taints", ()))
        for one in api.get("/api/v1/nodes").must(200).json["items"]
    )


def is_placed(api: Api, objects: list[Document]) -> bool:
    """Return whether every workload has all its pods, bound and running."""
    pods = api.get("/api/v1/pods").must(200).json["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    for one in objects:
        if one["kind"] in ("Deployment", "StatefulSet"):
            name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
            mine = [
                pod
                for pod in running
                if pod["metadata"]["namespace"] == namespace
                and pod["metadata"]["labels"].get("app") == name
            ]
            if len(mine) < one["spec"]["replicas"]:
                return False
    return True


def dump(api: Api) -> Iterable[Document]:
    """Return the objects without fields that schedulers ignore."""
    for resource in KINDS:
        if resource.kind in SKIPPED_KINDS:
            continue
        items = api.get(f"{resource.root}{resource.plural}").must(200).json["items"]
        for item in items:
            item["metadata"].pop("managedFields", None)
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def write(name: str, objects: Iterable[Document]) -> None:
    """Write a List with one object per line, for readable diffs."""
    lines = ",\n".join(json.dumps(one, sort_keys=True) for one in objects)
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [\n{lines}\n]}}\n'
    (DIRECTORY / f"{name}.json").write_text(text)


def main() -> int:
    """Record the named clusters, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[*CLUSTERS, []], metavar="NAME")
    names = parser.parse_args().names or list(CLUSTERS)
    for name in names:
        objects = record(CLUSTERS[name]())
        write(name, objects)
        print(f"{name}: {len(objects)} objects")
    return 0


if __name__ == "__main__":
    sys.exit(main())
