"""Command line, configuration and mirror pod of the playground's scheduler process.

The process is `kubesched run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kubesched.cluster.playground.control_planes import PlaygroundLocation
from kubesched.config.types import KubeSchedulerConfiguration

Document = dict[str, Any]

NAMESPACE: Final = "kube-system"
_OPEN_PAGES: Final = "/healthz,/readyz,/livez,/metrics,/metrics/*,/debug/explain,/configz,/statusz"


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Options of the scheduler."""

    port: int
    """Its secure port."""
    config: KubeSchedulerConfiguration
    """Effective configuration, for its names; the scheduler reads the file."""
    config_file: Path | None = None
    plugins: Sequence[str] = ()
    verbosity: int = 2

    @property
    def names(self) -> list[str]:
        """Return the scheduler names that it serves."""
        return [profile.scheduler_name for profile in self.config.profiles]


def scheduler_arguments(options: SchedulerOptions, location: PlaygroundLocation) -> list[str]:
    """Return the command line; writes the configuration file that it names."""
    kubeconfig = location.scheduler_kubeconfig
    arguments = [
        "run",
        "--bind-address=127.0.0.1",
        f"--secure-port={options.port}",
        f"--cert-dir={location.directory / 'scheduler-certificates'}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--authorization-always-allow-paths={_OPEN_PAGES}",
        f"-v={options.verbosity}",
        *(f"--plugin={plugin}" for plugin in options.plugins),
    ]
    if options.config_file is None:
        return [
            *arguments,
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--kube-api-qps=5000",
            "--kube-api-burst=5000",
        ]
    path = location.directory / "scheduler.yaml"
    document = _with_connection(yaml.safe_load(options.config_file.read_text()), kubeconfig)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return [*arguments, f"--config={path}"]


def _with_connection(document: Document, kubeconfig: Path) -> Document:
    """Return a configuration that connects to the playground, without leader election."""
    connection = {"qps": 5000, "burst": 5000, **(document.get("clientConnection") or {})}
    election = document.get("leaderElection") or {}
    return {
        **document,
        "clientConnection": {**connection, "kubeconfig": str(kubeconfig)},
        "leaderElection": {**election, "leaderElect": False},
    }


def mirror_pod(arguments: Sequence[str]) -> Document:
    """Return the pod that represents the scheduler."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "kubesched",
            "namespace": NAMESPACE,
            "labels": {"component": "kube-scheduler", "tier": "control-plane"},
        },
        "spec": {
            "containers": [
                {
                    "name": "kubesched",
                    "image": "kubesched",
                    "command": ["kubesched", *arguments],
                }
            ],
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
    }


def mirror_on_node(pod: Document, node_name: str) -> Document:
    """Return the mirror pod on a node, as a kubelet creates it."""
    metadata = pod["metadata"]
    annotations = {
        "kubernetes.io/config.mirror": "kubesched",
        "kubernetes.io/config.source": "file",
    }
    return {
        **pod,
        "metadata": {
            **metadata,
            "name": f"{metadata['name']}-{node_name}",
            "annotations": annotations,
        },
        "spec": {**pod["spec"], "nodeName": node_name},
    }
