"""`kubesched playground`: a small simulated cluster in one command.

Owns the command's options and help. `process` runs it and is imported on demand.
"""

from __future__ import annotations

from typing import Any

import click

from kubesched.cli.options import file_option, plugin_option, program_texts

_EPILOG = """\b
The cluster has:
  an API server compatible with Kubernetes v1.36,
  nodes with simulated kubelets: pods start, log and stop without containers,
  controllers for Deployments, StatefulSets, DaemonSets, Jobs, volumes and more,
  and kubesched, whose decisions are shown as they are made.

\b
Examples:
  kubesched playground
  kubesched playground --plugin examples/plugins/spare_gpu.py:SpareGpu
  kubesched playground --nodes 20 --node-template node.yaml
  kubesched playground --data cluster.db          # persistent cluster
  kubesched playground --from-cluster --snapshot shop.json
  kubesched playground --snapshot shop.json       # the same copy, offline

\b
Then, in another terminal, with the line that the command prints:
  export KUBECONFIG=...
  kubectl create deployment web --image=nginx --replicas=3
  kubectl get pods -o wide --watch

\b
Annotations control simulated pods and nodes:
  kubesched.dev/run-for: 2s          on a pod: containers exit after 2 s
  kubesched.dev/exit-code: "1"       on a pod: exit code of its containers
  kubesched.dev/heartbeat: "off"     on a node: stop its kubelet

See docs/first-ten-minutes.md for a tour that ends with your own plugin.
"""


@click.command(epilog=_EPILOG)
@file_option("--config", exists=True, help="Scheduler configuration (KubeSchedulerConfiguration).")
@plugin_option
@click.option("--no-scheduler", is_flag=True, help="Do not run a scheduler; start your own.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="Number of initial nodes.  [default: 4]",
)
@file_option(
    "--node-template",
    exists=True,
    help="Node manifest to copy labels, taints and capacity from. %d in its name is the number.",
)
@click.option(
    "--from-cluster",
    is_flag=True,
    help="Start with a copy of the cluster of the current kubeconfig context: nodes, pods and "
    "other objects that scheduling needs. That cluster is only read.",
)
@file_option(
    "--snapshot", help="Start with the copy in this file; with --from-cluster, save the copy to it."
)
@file_option("--data", help="Store the cluster in this file, and continue with it the next time.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port of the API server; 0 selects a free one.  "
    "[default: 6443, or a free one if that is taken]",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDR",
    help="Address to listen on.",
)
@file_option(
    "--write-kubeconfig",
    help="Write the kubeconfig to this file.  [default: in the user's cache, by port]",
)
@click.option(
    "--control-plane",
    type=click.Choice(["embedded", "real"]),
    default="embedded",
    show_default=True,
    help="Embedded API server, controllers and kubelets; or etcd, kube-apiserver, "
    "kube-controller-manager and KWOK, which `make control-plane` builds.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="Speed factor for the start and stop of pods.",
)
@click.option(
    "-v",
    "--verbosity",
    type=click.IntRange(0, 10),
    default=2,
    show_default=True,
    metavar="N",
    help="Log level of the scheduler.",
)
def playground(**options: Any) -> int:
    """Run a small simulated cluster to try scheduling on, without Docker, Go or a cluster."""
    from kubesched.cli.playground.process import PlaygroundOptions, run_playground  # noqa: PLC0415

    if not options["no_scheduler"]:
        options["plugins"] = (*program_texts(), *options["plugins"])
    return run_playground(PlaygroundOptions(**options))
