"""`kubesched playground`: a small living cluster in one command.

Owns the command's options and its help. What it does is cli.playground_run's, which is imported
only when the command is given.
"""

from __future__ import annotations

from pathlib import Path

import click

from kubesched.cli.options import plugin_option, program_texts

_EPILOG = """\b
What runs:
  an API server that kubectl takes for Kubernetes v1.36,
  nodes whose kubelets run pods in name only: they start, have logs, end,
  controllers for Deployments, StatefulSets, DaemonSets, Jobs, volumes, budgets...,
  and kubesched itself, whose decisions you see as they are made.

\b
Examples:
  kubesched playground
  kubesched playground --plugin examples/plugins/spare_gpu.py:SpareGpu
  kubesched playground --nodes 20 --node-template node.yaml
  kubesched playground --data cluster.db          # goes on where it ended
  kubesched playground --from-cluster --snapshot shop.json
  kubesched playground --snapshot shop.json       # the same copy, later, offline

\b
Then, in another terminal, with the line that it prints:
  export KUBECONFIG=...
  kubectl create deployment web --image=nginx --replicas=3
  kubectl get pods -o wide --watch

\b
What pods and nodes do can be told by annotations:
  kubesched.dev/run-for: 2s          on a pod: its containers end after a while
  kubesched.dev/exit-code: "1"       on a pod: ... and so
  kubesched.dev/heartbeat: "off"     on a node: its kubelet is dead

docs/first-ten-minutes.md leads from here to a plugin of your own.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The scheduler's configuration (KubeSchedulerConfiguration).",
)
@plugin_option
@click.option("--no-scheduler", is_flag=True, help="Leave pods to a scheduler that you start.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="How many nodes there are at the start.  [default: 4]",
)
@click.option(
    "--node-template",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A Node that they look like: labels, taints, capacity. %d in its name is the number.",
)
@click.option(
    "--from-cluster",
    is_flag=True,
    help="Copy nodes, pods and what scheduling needs from the current kubeconfig context, "
    "which is only read.",
)
@click.option(
    "--snapshot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Begin with the copy in this file; with --from-cluster, keep the copy there.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the cluster in this file, and go on with it the next time.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Where the API server listens; 0 takes any port that is free.  "
    "[default: 6443, or any if that is taken]",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDR",
    help="Address to listen on.",
)
@click.option(
    "--write-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the kubeconfig.  [default: in the user's cache, by port]",
)
@click.option(
    "--control-plane",
    type=click.Choice(["embedded", "real"]),
    default="embedded",
    show_default=True,
    help="Our own API server, controllers and kubelets; or etcd, kube-apiserver, "
    "kube-controller-manager and KWOK, which `make control-plane` builds.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="How many times faster than usual pods start and end.",
)
@click.option(
    "-v",
    "--verbosity",
    type=click.IntRange(0, 10),
    default=2,
    show_default=True,
    metavar="N",
    help="How much the scheduler writes to its log.",
)
def playground(  # noqa: PLR0913  # One argument an option, as click hands them over.
    *,
    config: Path | None,
    plugins: tuple[str, ...],
    no_scheduler: bool,
    nodes: int | None,
    node_template: Path | None,
    from_cluster: bool,
    snapshot: Path | None,
    data: Path | None,
    port: int | None,
    bind_address: str,
    write_kubeconfig: Path | None,
    control_plane: str,
    speed: float,
    verbosity: int,
) -> int:
    """Run a small living cluster to try scheduling on: no Docker, no Go, no cluster needed."""
    from kubesched.cli.playground_run import Wanted, run_playground  # noqa: PLC0415

    return run_playground(
        Wanted(
            config=config,
            plugins=(*(program_texts() if not no_scheduler else ()), *plugins),
            has_scheduler=not no_scheduler,
            node_count=nodes,
            node_template=node_template,
            from_cluster=from_cluster,
            snapshot=snapshot,
            data=data,
            port=port,
            bind_address=bind_address,
            kubeconfig=write_kubeconfig,
            is_real=control_plane == "real",
            speed=speed,
            verbosity=verbosity,
        )
    )
