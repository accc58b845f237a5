"""The programs beside an API server that make a whole cluster: controllers, scheduler, kubelets.

Owns their flags. Never knows whether the API server is the real or the embedded one, but for the
wire format it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubesched.testing.http import Api
from kubesched.testing.ports import free_ports
from kubesched.testing.processes import ProcessGroup
from kubesched.testing.programs import Programs
from kubesched.testing.schedulers import SchedulerName, scheduler_command
from kubesched.testing.server import ADMIN, CONTROLLER_MANAGER, SCHEDULER, ApiServer

HEARTBEAT = "kubesched.dev/heartbeat"
"""The annotation by which a node is alive or dead."""
COMPANION_PROGRAMS = ("kube-controller-manager", "kube-scheduler", "kwok")


@dataclass(frozen=True, slots=True)
class Companions:
    """What runs beside the API server."""

    nodes: int = 3
    scheduler: bool | SchedulerName = True
    """Which scheduler runs, kube-scheduler if True; False leaves pods to whoever is tested."""
    json_only: bool = False
    """Whether to tell them to speak JSON instead of protobuf."""
    node_grace_s: float | None = None
    """How long a node may be silent before it counts as lost; upstream's 50 s if None."""
    only_annotated: bool = False
    """Whether only nodes that say so by annotation are alive, so that others can be dead."""
    some_dead: bool = False
    """Whether nodes that say so by annotation when they are made never come to life."""
    system_log: Path | None = None
    """What `kubectl logs` shows of pods in kube-system, in the form of container runtimes."""


def start_companions(
    server: ApiServer, programs: Programs, processes: ProcessGroup, wanted: Companions
) -> None:
    """Start the programs and wait until every node is Ready."""
    wire = ["--kube-api-content-type=application/json"] if wanted.json_only else []
    processes.start(
        "kube-controller-manager",
        [
            programs.path("kube-controller-manager"),
            *_controller_manager_flags(server, wanted.node_grace_s),
            *wire,
        ],
    )
    if wanted.scheduler:
        name: SchedulerName = "kube-scheduler" if wanted.scheduler is True else wanted.scheduler
        processes.start(
            name,
            [
                *scheduler_command(name, programs),
                f"--kubeconfig={server.kubeconfigs[SCHEDULER.name]}",
                "--leader-elect=false",
                "--secure-port=0",
                *wire,
            ],
        )
    processes.start("kwok", [programs.path("kwok"), *_kwok_flags(server, programs, wanted)])
    with server.api() as api:
        for number in range(1, wanted.nodes + 1):
            api.post("/api/v1/nodes", a_ready_to_be_node(number)).must(201)
        processes.wait_until(lambda: _is_up(api, wanted.nodes), "the cluster", timeout_s=60)


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
        # Upstream's 60 s are as much more than its 50 s.
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


def _kwok_flags(server: ApiServer, programs: Programs, wanted: Companions) -> list[str]:
    (port,) = free_ports(1)
    flags = [
        f"--kubeconfig={server.kubeconfigs[ADMIN.name]}",
        _managed_nodes(wanted),
        "--node-ip=10.200.0.99",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
        *(f"--config={stage}" for stage in _stages(server, programs, wanted)),
    ]
    if wanted.system_log is None:
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
                    "logs": [{"logsFile": str(wanted.system_log), "follow": True}],
                },
            }
        )
    )
    return [*flags, f"--config={logs}", f"--node-port={port}"]


def _managed_nodes(wanted: Companions) -> str:
    # KWOK never matches a node that has no annotations at all, whatever is selected.
    return (
        f"--manage-nodes-with-annotation-selector={HEARTBEAT}=on"
        if wanted.only_annotated
        else "--manage-all-nodes=true"
    )


def _stages(server: ApiServer, programs: Programs, wanted: Companions) -> list[Path]:
    if not wanted.some_dead:
        return programs.stages()
    return [_sparing_the_dead(stage, server.directory) for stage in programs.stages()]


def _sparing_the_dead(stage: Path, directory: Path) -> Path:
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
    written = directory / f"kwok-{stage.name}"
    written.write_text(yaml.safe_dump(document))
    return written


def a_ready_to_be_node(number: int) -> dict[str, Any]:
    """Return a node that KWOK takes over."""
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
    """Return whether nodes can take pods, and pods can be created."""
    nodes = api.get("/api/v1/nodes").must(200).json["items"]
    ready = sum(
        any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions", [])
        )
        and not node["spec"].get("taints")
        for node in nodes
    )
    # Pods are refused until their namespace has its account.
    account = api.get("/api/v1/namespaces/default/serviceaccounts/default")
    return ready >= node_count and account.code == 200
