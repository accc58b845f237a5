"""What the playground says: at its start, when a pod waits for nobody, and at its end.

Owns the texts, and the first commands to try; each of them is a test, too. Never prints.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PODS_NAMED: Final = 3
KUBECTL_PAGE: Final = "https://kubernetes.io/docs/tasks/tools"


@dataclass(frozen=True, slots=True)
class Started:
    """What a playground is made of."""

    seconds: float
    """How long it took."""
    url: str
    plane: str
    """What the API server is, in a few words."""
    has_own_machinery: bool
    nodes: Sequence[str]
    kubeconfig: Path
    scheduler_names: Sequence[str] = ()
    """Empty if there is no scheduler."""
    scheduler_url: str = ""
    plugins: Sequence[str] = ()
    mirror_pod: str = ""
    copied: str = ""
    """What was copied from another cluster; empty if nothing was."""
    is_new: bool = True
    """Whether nothing is in the cluster yet but its nodes."""
    logs: Path = Path()


def tour(nodes: Sequence[str], mirror_pod: str = "") -> list[str]:
    """Return the first commands to try, in order; they leave everything as it was."""
    if len(nodes) < 2:
        return ["kubectl get nodes"]
    first, second = nodes[0], nodes[1]
    lines = [
        "kubectl get nodes",
        "kubectl create deployment web --image=nginx --replicas=3",
        "kubectl rollout status deployment web",
        "kubectl get pods -o wide",
        "kubectl scale deployment web --replicas=6",
        f"kubectl cordon {first}",
        "kubectl taint nodes --all team=blue:NoSchedule",
        "kubectl scale deployment web --replicas=7",
        "kubectl get events --field-selector reason=FailedScheduling",
        "kubectl taint nodes --all team-",
        "kubectl rollout status deployment web",
        f"kubectl uncordon {first}",
        f"kubectl drain {second} --ignore-daemonsets",
        f"kubectl uncordon {second}",
    ]
    if mirror_pod:
        lines.append(f"kubectl -n kube-system logs {mirror_pod} --tail=5")
    return [*lines, "kubectl delete deployment web"]


def introduction(started: Started) -> list[str]:
    """Return what is said once everything runs."""
    count = len(started.nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    lines = [
        f"A cluster of {nodes}, ready in {started.seconds:.1f} s:",
        f"  API server   {started.url}  ({started.plane})",
    ]
    if started.has_own_machinery:
        lines.append("  controllers  and a kubelet for every node; pods run in name only")
    if started.scheduler_names:
        lines += _scheduler_lines(started)
    else:
        lines.append("  scheduler    none: pods wait for the one that you start")
    if started.copied:
        lines.append(f"  copied       {started.copied}")
    lines.append(f"  logs         {started.logs}")
    lines += ["", "Try it, in another terminal:", f"  {export_line(started.kubeconfig)}"]
    if started.is_new and started.scheduler_names:
        lines += [f"  {line}" for line in tour(started.nodes, started.mirror_pod)]
    else:
        lines += ["  kubectl get nodes", "  kubectl get pods --all-namespaces -o wide"]
    if shutil.which("kubectl") is None:
        lines.append(f"(kubectl is not on your PATH: {KUBECTL_PAGE})")
    return [*lines, "", "Ctrl-C ends it.", ""]


def _scheduler_lines(started: Started) -> list[str]:
    names = ", ".join(started.scheduler_names)
    plugins = f", with {', '.join(started.plugins)}" if started.plugins else ""
    lines = [f"  scheduler    {names}{plugins}; its pages: {started.scheduler_url}/metrics"]
    if started.mirror_pod:
        lines.append(f"               kubectl -n kube-system logs -f {started.mirror_pod}")
    return lines


def export_line(kubeconfig: Path) -> str:
    """Return the line that leads kubectl here."""
    return f"export KUBECONFIG={shlex.quote(str(kubeconfig))}"


def unserved_line(scheduler: str, pods: Sequence[str], own: Sequence[str]) -> str:
    """Return what is said of pods that wait for a scheduler nobody runs."""
    served = f"here runs {', '.join(own)}" if own else "no scheduler runs here"
    shown = ", ".join(pods[:_PODS_NAMED])
    more = f" and {len(pods) - _PODS_NAMED} more" if len(pods) > _PODS_NAMED else ""
    return (
        f"{shown}{more} {'waits' if len(pods) == 1 else 'wait'} for the scheduler {scheduler!r}, "
        f"which nobody runs: {served}. Name one that runs in spec.schedulerName, or start one: "
        f"{command_name()} run with a profile of that name"
    )


_IN_A_CLONE: Final = (
    ("docs/first-ten-minutes.md", "from here to a plugin of your own"),
    ("kubesched playground --plugin examples/plugins/spare_gpu.py:SpareGpu", ""),
    ("kubesched explain -f examples/cluster default/web-7", ""),
)
_INSTALLED: Final = (
    ("kubesched new-plugin NAME", "a plugin of your own, with tests"),
    ("kubectl get nodes,pods -A -o json | kubesched explain -f - NAMESPACE/POD", ""),
)
_ANYWHERE: Final = (
    ("kubesched playground --from-cluster", "a copy of your cluster, to try on"),
    ("kubesched run --shadow", "beside your scheduler, without risk"),
)


def farewell(*, bound_count: int, waiting_count: int, data: Path | None) -> list[str]:
    """Return what is said at the end: files are named only where they are."""
    is_clone = Path("docs/first-ten-minutes.md").is_file()
    placed = "1 pod was" if bound_count == 1 else f"{bound_count} pods were"
    left = f"; {waiting_count} still waited" if waiting_count else ""
    lines = [f"The playground has ended: {placed} given a node{left}."]
    command = command_name()
    if data is not None:
        lines.append(f"It goes on where it ended with: {command} playground --data {data}")
    ways = (*(_IN_A_CLONE if is_clone else _INSTALLED), *_ANYWHERE)
    shown = [_line(what, meaning, command) for what, meaning in ways]
    return [*lines, "", "Where to go next:", *shown]


def _line(what: str, meaning: str, command: str) -> str:
    return f"  {what.replace('kubesched ', f'{command} '):<49}  {meaning}".rstrip()


def command_name() -> str:
    """Return how the shell finds this command: by its name, or as it was started."""
    if shutil.which("kubesched") is not None:
        return "kubesched"
    started = Path(sys.argv[0])
    if started.name != "kubesched":
        return "kubesched"
    here = Path.cwd()
    return str(started.relative_to(here) if started.is_relative_to(here) else started)
