"""Texts that `kubesched playground` prints: introduction, warnings and summary.

Owns the texts and the first commands to try, which tests run as well. Never prints.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubesched.kit.text import counted, joined

if TYPE_CHECKING:
    from kubesched.cli.playground.process import PlaygroundSession

_PODS_SHOWN_MAX: Final = 3
KUBECTL_PAGE: Final = "https://kubernetes.io/docs/tasks/tools"


def tour_commands(nodes: Sequence[str], mirror_pod: str = "") -> list[str]:
    """Return the first commands to try, in order; they clean up after themselves."""
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


def introduction_lines(session: PlaygroundSession, seconds: float) -> list[str]:
    """Return the text printed once everything runs, after a start of so many seconds."""
    nodes = [node.name for node in session.overview.shown_nodes]
    plane, bootstrap = session.control_plane, session.bootstrap_result
    lines = [
        f"A cluster of {counted(len(nodes), 'node')}, ready in {seconds:.1f} s:",
        f"  API server   {plane.url}  ({plane.describe()})",
    ]
    if plane.needs_machinery:
        lines.append("  controllers  and a simulated kubelet for each node")
    lines += _scheduler_lines(session)
    if bootstrap.copied:
        lines.append(f"  copied       {bootstrap.copied}")
    lines.append(f"  logs         {session.location.directory}")
    lines += ["", "Try it in another terminal:", f"  {export_line(session.location.kubeconfig)}"]
    if bootstrap.has_new_nodes and session.scheduler_options is not None:
        lines += [f"  {line}" for line in tour_commands(nodes, session.mirror_pod)]
    else:
        lines += ["  kubectl get nodes", "  kubectl get pods --all-namespaces -o wide"]
    if shutil.which("kubectl") is None:
        lines.append(f"(kubectl is not on your PATH: {KUBECTL_PAGE})")
    return [*lines, "", "Press Ctrl-C to stop.", ""]


def _scheduler_lines(session: PlaygroundSession) -> list[str]:
    scheduler, plugins = session.scheduler_options, session.options.plugins
    if scheduler is None:
        return ["  scheduler    none: start your own"]
    names = ", ".join(scheduler.names) + (f", with {', '.join(plugins)}" if plugins else "")
    lines = [f"  scheduler    {names}; metrics: https://127.0.0.1:{scheduler.port}/metrics"]
    if session.mirror_pod:
        lines.append(f"               kubectl -n kube-system logs -f {session.mirror_pod}")
    return lines


def export_line(kubeconfig: Path) -> str:
    """Return the line that points kubectl to the cluster."""
    return f"export KUBECONFIG={shlex.quote(str(kubeconfig))}"


def unserved_line(scheduler: str, pods: Sequence[str], running: Sequence[str]) -> str:
    """Return the warning about pods whose scheduler does not run."""
    running_text = f"running: {', '.join(running)}" if running else "no scheduler is running"
    shown = joined(pods[:_PODS_SHOWN_MAX], len(pods))
    return (
        f"{shown} {'waits' if len(pods) == 1 else 'wait'} for the scheduler {scheduler!r}, "
        f"which is not running ({running_text}). Set spec.schedulerName to a running scheduler, or "
        f"start one with a profile of that name: {command_name()} run"
    )


_IN_A_CLONE: Final = (
    ("docs/first-ten-minutes.md", "a tour that ends with your own plugin"),
    ("kubesched playground --plugin examples/plugins/spare_gpu.py:SpareGpu", ""),
    ("kubesched explain -f examples/cluster default/web-7", ""),
)
_INSTALLED: Final = (
    ("kubesched new-plugin NAME", "create a plugin with tests"),
    ("kubectl get nodes,pods -A -o json | kubesched explain -f - NAMESPACE/POD", ""),
)
_ANYWHERE: Final = (
    ("kubesched playground --from-cluster", "try a copy of your cluster"),
    ("kubesched run --shadow", "compare with your scheduler"),
)


def summary_lines(*, bound_count: int, pending_count: int, data: Path | None) -> list[str]:
    """Return the text printed at the end; files are named only if they exist."""
    is_clone = Path("docs/first-ten-minutes.md").is_file()
    pending = f", {pending_count} still pending" if pending_count else ""
    lines = [f"Playground stopped: {counted(bound_count, 'pod')} bound{pending}."]
    command = command_name()
    if data is not None:
        lines.append(f"To continue: {command} playground --data {data}")
    suggestions = (*(_IN_A_CLONE if is_clone else _INSTALLED), *_ANYWHERE)
    lines += ["", "Next steps:"]
    for suggestion, description in suggestions:
        text = suggestion.replace("kubesched ", f"{command} ")
        lines.append(f"  {text:<49}  {description}".rstrip())
    return lines


def command_name() -> str:
    """Return how to invoke this command: by name, or by the path it was started with."""
    if shutil.which("kubesched") is not None:
        return "kubesched"
    program = Path(sys.argv[0])
    if program.name != "kubesched":
        return "kubesched"
    directory = Path.cwd()
    return str(program.relative_to(directory) if program.is_relative_to(directory) else program)
