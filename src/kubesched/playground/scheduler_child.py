"""The scheduler of a playground, as a process: `kubesched run` with a user's configuration.

Owns its command line, the configuration file it is given, and the pod that shows it in the cluster.
What it does is `kubesched run`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.playground.control_planes import Place

Document = dict[str, Any]

NAMESPACE: Final = "kube-system"
_OPEN_PAGES: Final = "/healthz,/readyz,/livez,/metrics,/metrics/*,/debug/explain,/configz,/statusz"


@dataclass(frozen=True, slots=True)
class SchedulerWanted:
    """What a user asks of the scheduler."""

    port: int
    """Of its pages."""
    config: KubeSchedulerConfiguration
    """What is in effect, for its names; the file itself is what the scheduler reads."""
    config_file: Path | None = None
    plugins: Sequence[str] = ()
    verbosity: int = 2

    @property
    def names(self) -> list[str]:
        """Return the scheduler names that it serves."""
        return [profile.scheduler_name for profile in self.config.profiles]


def scheduler_arguments(wanted: SchedulerWanted, place: Place) -> list[str]:
    """Return the command line; writes the configuration file it names."""
    who = place.scheduler_kubeconfig
    arguments = [
        "run",
        "--bind-address=127.0.0.1",
        f"--secure-port={wanted.port}",
        f"--cert-dir={place.directory / 'scheduler-certificates'}",
        f"--authentication-kubeconfig={who}",
        f"--authorization-kubeconfig={who}",
        f"--authorization-always-allow-paths={_OPEN_PAGES}",
        f"-v={wanted.verbosity}",
        *(f"--plugin={plugin}" for plugin in wanted.plugins),
    ]
    if wanted.config_file is None:
        return [
            *arguments,
            f"--kubeconfig={who}",
            "--leader-elect=false",
            "--kube-api-qps=5000",
            "--kube-api-burst=5000",
        ]
    written = place.directory / "scheduler.yaml"
    document = _led_here(yaml.safe_load(wanted.config_file.read_text()), who)
    written.write_text(yaml.safe_dump(document, sort_keys=False))
    return [*arguments, f"--config={written}"]


def _led_here(document: Document, kubeconfig: Path) -> Document:
    """Return a configuration that leads to the playground; nobody else runs for leader there."""
    connection = {"qps": 5000, "burst": 5000, **(document.get("clientConnection") or {})}
    election = document.get("leaderElection") or {}
    return {
        **document,
        "clientConnection": {**connection, "kubeconfig": str(kubeconfig)},
        "leaderElection": {**election, "leaderElect": False},
    }


def mirror_pod(arguments: Sequence[str]) -> Document:
    """Return the pod that stands for the scheduler, as a static pod of a node."""
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


def on_node(pod: Document, node_name: str) -> Document:
    """Return the mirror of a static pod, as a kubelet makes it."""
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
