"""`kubesched explain`: where a pod goes, and why there and not elsewhere.

Owns the choice of pod, configuration and plugins from the command line. The decision is the
engine's, its look is `render`'s.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from kubesched.app.build import Built, build
from kubesched.app.cluster import load_objects
from kubesched.app.manifests import STDIN, ManifestError, read_manifests
from kubesched.cache.cache import TERMINAL_PHASES, Cache
from kubesched.cli.options import plugin_option, registry_of
from kubesched.cli.render import Explanation, show
from kubesched.config.errors import ConfigError
from kubesched.config.load import default_config, load_config, load_config_object
from kubesched.config.schema import GROUP, KIND, VERSION
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.decide import decide
from kubesched.framework.registry import Registry
from kubesched.objects.decode import KubeObject
from kubesched.objects.errors import one_line
from kubesched.objects.pod import Pod

_PODS_LISTED_MAX = 10


_EPILOG = """\b
Examples:
  kubesched explain -f cluster.yaml web-7
  kubesched explain -f nodes/ -f pods.yaml --config scheduler.yaml shop/web-7
  kubectl get nodes,pods -A -o json | kubesched explain -f - shop/web-7
  kubesched explain -f cluster.yaml --plugin spare_gpu.py:SpareGpu web-7
"""


@click.command(short_help="Explain where a pod goes, and why.", epilog=_EPILOG)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifests, YAML or JSON: a file, a directory, or - for stdin. May be repeated.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="A KubeSchedulerConfiguration, or - for stdin.  [default: kube-scheduler's own defaults]",
)
@plugin_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print: something to read, or the decision as JSON.",
)
@click.argument("pod", required=False)
def explain(
    files: tuple[str, ...],
    config_file: str | None,
    plugins: tuple[str, ...],
    output: str,
    pod: str | None,
) -> None:
    """Explain where kube-scheduler would put POD (name or namespace/name), and why.

    The cluster is what the files hold: nodes, pods, and whatever else scheduling reads. Objects
    may be written by hand or be the output of kubectl get -o yaml. Without POD, the only pending
    pod is explained.
    """
    if (*files, config_file).count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once")
    built = _build(config_file, plugins)
    try:
        manifests = read_manifests(files, stdin=sys.stdin.buffer)
    except ManifestError as problem:
        raise click.ClickException(str(problem)) from None
    for note in manifests.notes:
        _note(note)
    explanation = _explain(built, manifests.objects, pod, has_own_plugins=bool(plugins))
    if output == "json":
        encoded = msgspec.json.encode(explanation.decision.as_json())
        click.echo(msgspec.json.format(encoded, indent=2))
    else:
        show(explanation)


# -- the configuration ----------------------------------------------------------------------------


def _build(config_file: str | None, plugins: Sequence[str]) -> Built:
    registry = registry_of(plugins)
    where = "" if config_file is None else f"{_shown(config_file)}: "
    try:
        config = _config(config_file, registry)
        built = build(config, out_of_tree=registry)
    except (ConfigError, ValueError) as problem:
        raise click.ClickException(f"{where}{problem}") from None
    except Exception as problem:
        if registry is None:
            raise
        # A plugin's own constructor can raise anything.
        text = f"{where}cannot make the plugins: {type(problem).__name__}: {problem}"
        raise click.ClickException(text) from None
    if built.config.extenders:
        _note("the extenders of the configuration are not asked")
    for name in registry or ():
        if not any(name in profile.plugins for profile in built.profiles.values()):
            raise click.ClickException(
                f"{where}no profile enables the plugin {name} given with --plugin; "
                f"add it under plugins.multiPoint.enabled"
            )
    return built


def _config(config_file: str | None, registry: Registry | None) -> KubeSchedulerConfiguration:
    if config_file is not None:
        return load_config(_read(config_file))
    if registry is None:
        return default_config()
    _note(f"enabled at multiPoint of the default profile: {', '.join(registry)}")
    enabled = [{"name": name} for name in registry]
    return load_config_object(
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
        }
    )


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as problem:
        reason = problem.strerror or problem
        raise click.ClickException(f"{_shown(file)}: {reason}") from None


# -- the pod --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chosen:
    pod: Pod
    others: list[KubeObject]


def _explain(
    built: Built, objects: Sequence[KubeObject], name: str | None, *, has_own_plugins: bool
) -> Explanation:
    chosen = _choose(objects, name)
    keeps_pods = any(
        getattr(plugin, "reads_bound_pods", False)
        for profile in built.profiles.values()
        for plugin in profile.plugins.values()
    )
    cache = Cache(keep_whole_pods=keeps_pods)
    load_objects(cache, chosen.others, built.profiles)
    pod = cache.pod_info(chosen.pod)
    profile = built.profiles.get(pod.scheduler_name)
    if profile is None:
        names = ", ".join(map(repr, built.profiles))
        raise click.ClickException(
            f"pod {pod.key}: no profile has the scheduler name {pod.scheduler_name!r}; "
            f"the configuration has {names}"
        )
    held = profile.run_pre_enqueue_plugins(pod)
    if held is not None:
        _note(f"{held.plugin} keeps pod {pod.key} out of the queue for now: {held.message}")
    view = cache.snapshot()
    built.handles[profile.name].view = view
    try:
        decision = decide(profile, view, pod)
    except Exception as problem:
        if not has_own_plugins:
            raise
        # A plugin may hand back something the framework cannot work with.
        text = f"pod {pod.key}: a plugin failed: {type(problem).__name__}: {problem}"
        raise click.ClickException(text) from None
    return Explanation(
        pod.key, decision, node_count=view.node_count, nominated_node=pod.nominated_node_name
    )


def _choose(objects: Sequence[KubeObject], name: str | None) -> _Chosen:
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    pod = _only_pending(pods) if name is None else _by_name(pods, name)
    others = [obj for obj in objects if obj is not pod]
    if pod.status.phase in TERMINAL_PHASES:
        raise click.ClickException(
            f"pod {pod.key} has ended (phase {pod.status.phase}): no node is sought for it"
        )
    if pod.metadata.deletion_timestamp:
        _note(f"pod {pod.key} is being deleted; the scheduler passes over it")
    if pod.spec.node_name:
        _note(
            f"pod {pod.key} is bound to {pod.spec.node_name} already; "
            "explained as if it were pending and not there"
        )
        pod = replace(
            pod,
            spec=replace(pod.spec, node_name=""),
            status=replace(pod.status, nominated_node_name=""),
        )
    return _Chosen(pod, others)


def _only_pending(pods: Iterable[Pod]) -> Pod:
    pending = [
        pod for pod in pods if not pod.spec.node_name and pod.status.phase not in TERMINAL_PHASES
    ]
    if not pending:
        raise click.ClickException("no pod is pending in the files; name the pod to explain")
    if len(pending) > 1:
        raise click.ClickException(
            f"{len(pending)} pods are pending; name one of {_listed(pending)}"
        )
    return pending[0]


def _by_name(pods: Sequence[Pod], name: str) -> Pod:
    found = [pod for pod in pods if name in (pod.key, pod.metadata.name)]
    if len(found) > 1:
        raise click.ClickException(f"several pods have the name {name}: {_listed(found)}")
    if not found:
        hint = f"; there are {_listed(pods)}" if pods else "; they hold no pod at all"
        raise click.ClickException(f"pod {name} is not in the files{hint}")
    return found[0]


def _listed(pods: Sequence[Pod]) -> str:
    keys = sorted(pod.key for pod in pods)
    more = len(keys) - _PODS_LISTED_MAX
    shown = ", ".join(keys[:_PODS_LISTED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def _shown(file: str) -> str:
    return "standard input" if file == STDIN else file


def _note(text: str) -> None:
    click.echo(f"note: {one_line(text)}", err=True)
