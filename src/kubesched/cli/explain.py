"""`kubesched explain`: where a pod goes, and why there and not elsewhere.

Owns the options, and what is printed for which. The decision is the engine's, its look is
`render`'s.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import yaml

from kubesched.app.build import Built, build, config_enabling, never_enabled
from kubesched.app.explain import ExplainError, Prepared, Subject, prepare
from kubesched.app.manifests import STDIN, ManifestError
from kubesched.cli import progress
from kubesched.cli.live_options import live_options
from kubesched.cli.options import plugin_option, registry_of
from kubesched.cli.render import Sheet, show_comparison, show_explanation, show_node
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.comparison import compare, report_on
from kubesched.engine.counterfactual import changes_for
from kubesched.engine.decide import decide
from kubesched.engine.explanation import TOP, Attempt, attempt
from kubesched.framework.registry import Registry
from kubesched.model.pod_info import PodInfo, compile_shape
from kubesched.objects.errors import one_line
from kubesched.sim.scenario import read_scenario

if TYPE_CHECKING:
    from kubesched.cli.explain_live import Source
    from kubesched.scheduler.story import Story

_EXAMPLES_IN_TEXT = 10
_DEFAULTS = "the default configuration"

_EPILOG = """\b
Examples:
  kubesched explain -f cluster.yaml web-7
  kubesched explain -f nodes/ -f pods.yaml --config scheduler.yaml shop/web-7
  kubectl get nodes,pods -A -o json | kubesched explain -f - shop/web-7
  kubesched explain -f cluster.yaml -f web.yaml deployment/web
  kubesched explain -f cluster.yaml web-7 --node worker-3
  kubesched explain -f cluster.yaml web-7 --compare new-scheduler.yaml
  kubesched explain -f cluster.yaml --plugin spare_gpu.py:SpareGpu web-7
  kubesched explain --live shop/web-7
  kubesched explain --live shop/web-7 --endpoint https://10.0.0.5:10259
"""


@dataclass(frozen=True, slots=True)
class _Options:
    """The command line, as it was given."""

    files: tuple[str, ...]
    config_file: str | None
    plugins: tuple[str, ...]
    top: int
    node: str | None
    compare_file: str | None
    changes: bool | None
    wide: bool
    output: str
    pod: str | None
    live: bool = False
    kubeconfig: str = ""
    context: str = ""
    endpoint: str = ""
    token: str = ""
    token_file: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False

    @property
    def wants_attempt(self) -> bool:
        """Return whether more is wanted than what a scheduler remembers of a decision."""
        asks = self.node is not None or self.compare_file is not None or self.changes is True
        return asks or self.output == "decision"

    @property
    def rows(self) -> int | None:
        """Return how many rows of the ranking are wanted, None for all."""
        return self.top or None


@click.command(short_help="Explain where a pod goes, and why.", epilog=_EPILOG)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
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
    "--top",
    type=click.IntRange(min=0),
    default=TOP,
    show_default=True,
    metavar="N",
    help="How many of the fitting nodes to rank; 0 for all.",
)
@click.option("--node", metavar="NAME", help="What every plugin says of this node, and its scores.")
@click.option(
    "--compare",
    "compare_file",
    metavar="FILE",
    help="Another configuration: what it would decide, and why it differs.",
)
@click.option(
    "--changes/--no-changes",
    default=None,
    help="What would open more nodes, tried out.  [default: if the pod fits nowhere]",
)
@click.option("--wide", is_flag=True, help="Every plugin's column, and lines of any length.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "decision"]),
    default="text",
    show_default=True,
    help="Something to read; the same for machines; or every node's verdict and scores (decision).",
)
@live_options
@click.argument("pod", required=False)
def explain(**options: Any) -> None:
    """Explain where kube-scheduler would put POD (name or namespace/name), and why.

    The cluster is what the files hold: nodes, pods, and whatever else scheduling reads. Objects
    may be written by hand or be the output of kubectl get -o json. Without POD, the only pending
    pod is explained. POD may also be a workload (deployment/web, cronjob/report): the next pod of
    its template is explained; of a DaemonSet, the one for the first node that lacks it.

    With --live the cluster is a running one. If --endpoint names a running kubesched, it tells
    where the pod is and what it decided last; else the decision is worked out from what the API
    server shows.
    """
    asked = _Options(**options)
    _check(asked)
    source = _live_source(asked) if asked.live else None
    if source is not None and _is_told(asked, source):
        return
    built = _build(asked.config_file, asked.plugins)
    other = None
    if asked.compare_file is not None:
        # It may well be the one without the plugins.
        other = _build(asked.compare_file, asked.plugins, must_enable=False)
    subject, story = (_subject(asked), None) if source is None else _live_subject(source, built)
    if story is not None and story.state == "foreign" and not asked.wants_attempt:
        _show_story(asked, story)
        return
    prepared = _prepare(built, subject, asked.config_file)
    try:
        if other is not None:
            second = _prepare(other, subject, asked.compare_file)
            _show_comparison(asked, attempt(*prepared), attempt(*second))
        else:
            _show_one(asked, prepared, story)
    except (click.ClickException, OSError):
        raise
    except Exception as problem:
        if not asked.plugins:
            raise
        # A plugin may hand back something the framework cannot work with.
        text = f"pod {prepared.pod.key}: a plugin failed: {type(problem).__name__}: {problem}"
        raise click.ClickException(text) from None


def _is_told(asked: _Options, source: Source) -> bool:
    """Show what a running scheduler says; return whether it does."""
    told = None if asked.wants_attempt else source.story(_note)
    if told is not None:
        _show_story(asked, told)
    return told is not None


def _check(asked: _Options) -> None:
    if asked.live:
        _check_live(asked)
    elif not asked.files:
        is_file = asked.pod is not None and Path(asked.pod).exists()
        hint = f" Did you mean -f {asked.pod}?" if is_file else ""
        raise click.UsageError(f"Missing option '-f' / '--file'.{hint}")
    elif asked.endpoint or asked.kubeconfig or asked.context or asked.token or asked.token_file:
        raise click.UsageError("--endpoint, --kubeconfig, --context and --token go with --live")
    if (*asked.files, asked.config_file, asked.compare_file).count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once")
    if asked.node is not None and asked.compare_file is not None:
        raise click.UsageError("--node and --compare cannot be given together")
    if asked.output == "decision" and (asked.node or asked.compare_file or asked.changes):
        raise click.UsageError(
            "-o decision prints the decision alone; "
            "with --node, --compare or --changes use -o json or -o yaml"
        )


def _check_live(asked: _Options) -> None:
    if asked.files:
        raise click.UsageError("-f and --live cannot be given together")
    if asked.pod is None:
        raise click.UsageError("--live: which pod? Name it as NAMESPACE/NAME")
    if asked.token and asked.token_file:
        raise click.UsageError("--token and --token-file cannot be given together")


# -- what is shown --------------------------------------------------------------------------------


def _show_one(asked: _Options, prepared: Prepared, story: Story | None) -> None:
    if asked.output == "decision":
        _note_hold(prepared)
        _print_json(decide(*prepared).as_json())
    elif asked.node is not None:
        _show_node(asked, attempt(*prepared))
    else:
        _show(asked, attempt(*prepared), story)


def _note_hold(prepared: Prepared) -> None:
    """Say of a pod that is held what a decision has no place for."""
    held = prepared.profile.run_pre_enqueue_plugins(prepared.pod)
    if held is not None:
        _note(
            f"{held.plugin} keeps pod {prepared.pod.key} out of the queue for now: {held.message}"
        )


def _show(asked: _Options, one: Attempt, story: Story | None) -> None:
    in_text = asked.output == "text"
    examples = _EXAMPLES_IN_TEXT if in_text else 3
    explanation = one.explanation(top=asked.rows, examples=examples)
    if _wants_changes(asked, is_wanted=explanation.outcome == "unschedulable"):
        explanation = msgspec.structs.replace(explanation, changes=changes_for(one))
    if story is not None:
        _show_story(asked, msgspec.structs.replace(story, explanation=explanation))
    elif in_text:
        show_explanation(explanation, _sheet(asked))
    else:
        _print_object(asked, explanation)


def _show_story(asked: _Options, story: Story) -> None:
    from kubesched.cli.explain_live import show_story  # noqa: PLC0415 - loads a client

    if asked.output == "text":
        # A scheduler remembers no more than it tells.
        show_story(story, Sheet(is_wide=asked.wide, has_all=story.source == "api"))
    else:
        _print_object(asked, story)


def _wants_changes(asked: _Options, *, is_wanted: bool) -> bool:
    """Return whether to try out what would open nodes; `is_wanted` in a text unless it says."""
    if asked.changes is not None:
        return asked.changes
    return asked.output != "text" or is_wanted


def _show_node(asked: _Options, one: Attempt) -> None:
    assert asked.node is not None
    try:
        report = report_on(one, asked.node, changes=asked.changes is not False)
    except LookupError as problem:
        raise click.ClickException(str(problem)) from None
    if asked.output == "text":
        show_node(report, _sheet(asked))
    else:
        _print_object(asked, report)


def _show_comparison(asked: _Options, first: Attempt, second: Attempt) -> None:
    comparison = compare(first, second, top=asked.rows)
    if _wants_changes(asked, is_wanted=False):
        comparison = msgspec.structs.replace(
            comparison,
            first=msgspec.structs.replace(comparison.first, changes=changes_for(first)),
            second=msgspec.structs.replace(comparison.second, changes=changes_for(second)),
        )
    if asked.output == "text":
        named = _DEFAULTS if asked.config_file is None else _shown(asked.config_file)
        names = (named, _shown(asked.compare_file or ""))
        show_comparison(comparison, names, _sheet(asked))
    else:
        _print_object(asked, comparison)


def _sheet(asked: _Options) -> Sheet:
    return Sheet(is_wide=asked.wide)


def _print_object(asked: _Options, value: msgspec.Struct) -> None:
    if asked.output == "yaml":
        tree = msgspec.to_builtins(value)
        click.echo(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100), nl=False)
    else:
        _print_json(value)


def _print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


# -- what is read ---------------------------------------------------------------------------------


def _live_source(asked: _Options) -> Source:
    from kubesched.cli.explain_live import Source  # noqa: PLC0415 - loads a client

    return Source(
        asked.pod or "",
        kubeconfig=asked.kubeconfig,
        context=asked.context,
        endpoint=asked.endpoint,
        token=asked.token,
        token_file=asked.token_file,
        authority_file=asked.certificate_authority,
        is_insecure=asked.insecure_skip_tls_verify,
    )


def _live_subject(source: Source, built: Built) -> tuple[Subject, Story]:
    """Return the pod as the API server shows it, with what is around it, and where it is."""
    from kubesched.app.explain_live import story_of  # noqa: PLC0415 - loads a client

    cluster = source.cluster(built.profiles.values())
    try:
        subject = cluster.subject()
    except ExplainError as problem:
        raise click.ClickException(str(problem)) from None
    for note in subject.notes:
        _note(note)
    info = PodInfo(cluster.pod, compile_shape(cluster.pod))
    return subject, story_of(cluster.pod, info, built.profiles)


def _subject(asked: _Options) -> Subject:
    try:
        with progress.reading(asked.files):
            scenario = read_scenario(asked.files, stdin=sys.stdin.buffer)
        for note in scenario.notes:
            _note(note)
        subject = scenario.subject(asked.pod)
    except (ManifestError, ExplainError) as problem:
        raise click.ClickException(str(problem)) from None
    for note in subject.notes:
        _note(note)
    return subject


def _prepare(built: Built, subject: Subject, config_file: str | None) -> Prepared:
    try:
        return prepare(built, subject)
    except ExplainError as problem:
        raise click.ClickException(f"{_prefix(config_file)}{problem}") from None


def _build(config_file: str | None, plugins: tuple[str, ...], *, must_enable: bool = True) -> Built:
    registry = registry_of(plugins)
    where = _prefix(config_file)
    try:
        built = build(_config(config_file, registry), out_of_tree=registry)
    except (ConfigError, ValueError) as problem:
        raise click.ClickException(f"{where}{problem}") from None
    if built.config.extenders:
        _note("the extenders of the configuration are not asked")
    for name in never_enabled(built, registry) if must_enable else ():
        raise click.ClickException(
            f"{where}no profile enables the plugin {name} given with --plugin; "
            f"add it under plugins.multiPoint.enabled"
        )
    return built


def _config(config_file: str | None, registry: Registry | None) -> KubeSchedulerConfiguration:
    if config_file is not None:
        return load_config(_read(config_file))
    if registry is not None:
        _note(f"enabled at multiPoint of the default profile: {', '.join(registry)}")
    return config_enabling(registry)


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as problem:
        reason = problem.strerror or problem
        raise click.ClickException(f"{_shown(file)}: {reason}") from None


def _shown(file: str) -> str:
    return "standard input" if file == STDIN else file


def _prefix(config_file: str | None) -> str:
    """Return what stands before a complaint about a configuration."""
    return "" if config_file is None else f"{_shown(config_file)}: "


def _note(text: str) -> None:
    click.echo(f"note: {one_line(text)}", err=True)
