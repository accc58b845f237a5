"""Real components beside an API server: kube-controller-manager, a scheduler and KWOK.

Owns their flags. The API server may be real or embedded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubesched.cluster.launch.http import Api
from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.launch.schedulers import SchedulerName, scheduler_command
from kubesched.cluster.launch.server import ADMIN, CONTROLLER_MANAGER, SCHEDULER, ApiServer

HEARTBEAT = "kubesched.dev/heartbeat"
"""Annotation that says whether a node is alive."""
COMPONENT_PROGRAMS = ("kube-controller-manager", "kube-scheduler", "kwok")


@dataclass(frozen=True, slots=True)
class Components:
    """The components to run."""

    nodes: int = 3
    scheduler: bool | SchedulerName = True
    """The scheduler; kube-scheduler if True, none if False."""
    json_only: bool = False
    """Whether components must use JSON instead of protobuf."""
    node_grace_s: float | None = None
    """node-monitor-grace-period; upstream's 50 s if None."""
    only_annotated_nodes: bool = False
    """Whether KWOK manages only nodes with the annotation `on`."""
    skip_dead_nodes: bool = False
    """Whether KWOK ignores nodes created with the annotation `off`."""
    system_log: Path | None = None
    """Log file of the pods in kube-system, in the CRI format."""


def start_components(
    server: ApiServer, programs: Programs, processes: ProcessGroup, components: Components
) -> None:
    """Start the components and wait until all nodes are ready."""
    content_type_flags = (
        ["--kube-api-content-type=application/json"] if components.json_only else []
    )
    processes.start(
        "kube-controller-manager",
        [
            programs.path("kube-controller-manager"),
            *_controller_manager_flags(server, components.node_grace_s),
            *content_type_flags,
        ],
    )
    if components.scheduler:
        name: SchedulerName = (
            "kube-scheduler" if components.scheduler is True else components.scheduler
        )
        processes.start(
            name,
            [
                *scheduler_command(name, programs),
                f"--kubeconfig={server.kubeconfigs[SCHEDULER.name]}",
                "--leader-elect=false",
                "--secure-port=0",
                *content_type_flags,
            ],
        )
    processes.start("kwok", [programs.path("kwok"), *_kwok_flags(server, programs, components)])
    with server.api() as api:
        for number in range(1, components.nodes + 1):
            api.post("/api/v1/nodes", kwok_node(number)).must(201)
        processes.wait_until(lambda: _is_up(api, components.nodes), "the cluster", timeout_s=60)


def _controller_manager_flags(server: ApiServer, node_grace_s: float | None) -> list[str]:
    flags = [
        f"--kubeconfig={server.kubeconfigs[CONTROLLER_MANAGER.name]}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--enable-hostpath-provisioner=true",
    ]
    if node_grace_s is not None:
        flags.append(f"--node-monitor-grace-period={node_grace_s}s")
        # The ratio of upstream's defaults, 60 s and 50 s.
        flags.append(f"--node-startup-grace-period={node_grace_s * 1.2:g}s")
        flags.append("--node-monitor-period=1s")
    if server.service_account_key:
        flags.append(f"--service-account-private-key-file={server.service_account_key}")
    if server.ca_file:
        flags.append(f"--root-ca-file={server.ca_file}")
    if server.ca_file and server.authority_key:
        flags.append(f"--cluster-signing-cert-file={server.ca_file}")
        flags.append(f"--cluster-signing-key-file={server.authority_key}")
    return flags


def _kwok_flags(server: ApiServer, programs: Programs, components: Components) -> list[str]:
    (port,) = free_ports(1)
    flags = [
        f"--kubeconfig={server.kubeconfigs[ADMIN.name]}",
        _managed_nodes(components),
        "--node-ip=10.200.0.99",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
        *(f"--config={stage}" for stage in _stages(server, programs, components)),
    ]
    if components.system_log is None:
        return flags
    logs = server.directory / "kwok-logs.yaml"
    logs.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kwok.x-k8s.io/v1alpha1",
                "kind": "ClusterLogs",
                "metadata": {"name": "system"},
                "spec": {
                    "selector": {"matchNamespaces": ["kube-system"]},
                    "logs": [{"logsFile": str(components.system_log), "follow": True}],
                },
            }
        )
    )
    return [*flags, f"--config={logs}", f"--node-port={port}"]


def _managed_nodes(components: Components) -> str:
    # KWOK never selects a node that has no annotations at all.
    return (
        f"--manage-nodes-with-annotation-selector={HEARTBEAT}=on"
        if components.only_annotated_nodes
        else "--manage-all-nodes=true"
    )


def _stages(server: ApiServer, programs: Programs, components: Components) -> list[Path]:
    if not components.skip_dead_nodes:
        return programs.stages()
    return [_without_dead_nodes(stage, server.directory) for stage in programs.stages()]


def _without_dead_nodes(stage: Path, directory: Path) -> Path:
    document = yaml.safe_load(stage.read_text())
    if document["spec"]["resourceRef"]["kind"] != "Node":
        return stage
    document["spec"]["selector"]["matchExpressions"].append(
        {
            "key": f'.metadata.annotations["{HEARTBEAT}"]',
            "operator": "NotIn",
            "values": ["off"],
        }
    )
    path = directory / f"kwok-{stage.name}"
    path.write_text(yaml.safe_dump(document))
    return path


def kwok_node(number: int) -> dict[str, Any]:
    """Return a node for KWOK to manage."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    name = f"n{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"z{number % 3}",
            },
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": f"10.200.0.{number}"},
                {"type": "Hostname", "address": name},
            ],
            "allocatable": amounts,
            "capacity": amounts,
        },
    }


def _is_up(api: Api, node_count: int) -> bool:
    """Return whether nodes are ready and pods can be created."""
    nodes = api.get("/api/v1/nodes").must(200).json["items"]
    ready = sum(
        any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions", [])
        )
        and not node["spec"].get("taints")
        for node in nodes
    )
    # Pods are rejected until the namespace has its service account.
    account = api.get("/api/v1/namespaces/default/serviceaccounts/default")
    return ready >= node_count and account.code == 200
