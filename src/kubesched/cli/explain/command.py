"""`kubesched explain`: parse the options, call `kubesched.explanation`, print the result.

Owns the options. `explanation.explain` makes the attempt, `cli.explain.text` formats it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import yaml
from msgspec.structs import replace

from kubesched.cli.explain.text import show_comparison, show_explanation, show_node
from kubesched.cli.inputs import (
    CONFIG_HELP,
    FILE_HELP,
    config_prefix,
    file_title,
    load_scheduler,
    note,
    one_line_errors,
    read_files,
    reject_two_readers,
)
from kubesched.cli.options import format_option, plugin_option, registry_of
from kubesched.cli.printer import Printer, print_json
from kubesched.explanation.attempt_record import EXAMPLES, TOP, AttemptRecord
from kubesched.explanation.comparison import Comparison, NodeReport, compare, report_on
from kubesched.explanation.counterfactual import changes_for
from kubesched.explanation.decision import Decision, decision_of
from kubesched.explanation.explain import attempt_subject, explain_attempt
from kubesched.explanation.report import Explanation
from kubesched.manifests.scenario import ExplainError, Subject
from kubesched.profile.build import Built
from kubesched.snapshot.pod_info import PodInfo, compile_shape

if TYPE_CHECKING:
    from kubesched.cli.explain.live import Source
    from kubesched.explanation.report import PodReport

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
class ExplainOptions:
    """The parsed command line."""

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
    live: bool
    kubeconfig: str
    context: str
    endpoint: str
    token: str
    token_file: str
    certificate_authority: str
    insecure_skip_tls_verify: bool

    @property
    def needs_attempt(self) -> bool:
        """Return whether the result needs more than a scheduler's decision history."""
        is_special = self.node is not None or self.compare_file is not None
        return is_special or self.changes is True or self.output == "decision"

    @property
    def rows(self) -> int | None:
        """Return the number of ranked nodes to show, None for all."""
        return self.top or None

    def tests_changes(self, *, in_text: bool) -> bool:
        """Return whether to test changes; `in_text` is the default of text output."""
        if self.changes is not None:
            return self.changes
        return self.output != "text" or in_text


@click.command(epilog=_EPILOG)
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", help=FILE_HELP)
@click.option("--config", "config_file", metavar="FILE", help=CONFIG_HELP)
@plugin_option
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=TOP,
    show_default=True,
    metavar="N",
    help="Rank the N best fitting nodes; 0 ranks all.",
)
@click.option("--node", metavar="NAME", help="Show every plugin's verdict and scores for a node.")
@click.option(
    "--compare",
    "compare_file",
    metavar="FILE",
    help="Compare with the decision under another configuration.",
)
@click.option(
    "--changes/--no-changes",
    default=None,
    help="Show tested changes that would make more nodes fit.  [default: if no node fits]",
)
@click.option("--wide", is_flag=True, help="Show every plugin's column; do not wrap lines.")
@format_option(
    "--output",
    ("text", "json", "yaml", "decision"),
    help="Print text, JSON or YAML; or `decision`, JSON with every node's verdict and scores.",
)
@click.option("--live", is_flag=True, help="Explain a pod of a running cluster.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="With --live: the kubeconfig of the cluster.  [default: as in kubectl]",
)
@click.option(
    "--context", default="", metavar="NAME", help="With --live: the context of the kubeconfig."
)
@click.option(
    "--endpoint",
    default="",
    metavar="URL",
    help="With --live: query the running kubesched at URL for its last decision.",
)
@click.option(
    "--token",
    default="",
    metavar="TOKEN",
    help="The bearer token for the endpoint.  [default: the kubeconfig's credentials]",
)
@click.option("--token-file", default="", metavar="FILE", help="Read the bearer token from FILE.")
@click.option(
    "--certificate-authority",
    default="",
    metavar="FILE",
    help="The CA certificates that signed the endpoint's certificate.",
)
@click.option(
    "--insecure-skip-tls-verify",
    is_flag=True,
    help="Do not verify the endpoint's certificate; only --token is sent to it.",
)
@click.argument("pod", required=False)
def explain(**options: Any) -> None:
    """Explain where kube-scheduler would place POD (name or namespace/name), and why.

    The files describe the cluster: nodes, pods and the other objects that scheduling reads, written
    by hand or by kubectl get -o json. Without POD, the only pending pod is explained. POD may also
    name a workload (deployment/web, cronjob/report): its next pod is explained; for a DaemonSet,
    the pod for the first node that lacks one.

    With --live, the cluster is a running one. If --endpoint names a running kubesched, its report
    of the pod and of the last decision is shown; otherwise the decision is computed from the
    objects of the API server.
    """
    parsed = ExplainOptions(**options)
    _check(parsed)
    source = None
    if parsed.live:
        from kubesched.cli.explain.live import Source  # noqa: PLC0415 - loads a client

        source = Source(parsed)
    if source is not None and not parsed.needs_attempt:
        fetched = source.report(note)
        if fetched is not None:
            _print_pod_report(parsed, fetched)
            return
    registry = registry_of(parsed.plugins)
    built = load_scheduler(parsed.config_file, registry, must_enable=True)
    other = None
    if parsed.compare_file is not None:
        # One of the two configurations may leave the plugins out.
        other = load_scheduler(parsed.compare_file, registry)
    if source is None:
        subject, report = _subject(parsed), None
    else:
        subject, report = _live_subject(source, built)
    if report is not None and report.state == "foreign" and not parsed.needs_attempt:
        _print_pod_report(parsed, report)
        return
    with one_line_errors(has_own_plugins=bool(parsed.plugins), about=f"pod {subject.pod.key}: "):
        first = _attempt(built, subject, parsed.config_file)
        if other is not None:
            result: Explanation | NodeReport | Comparison | Decision = _compare(
                parsed, first, _attempt(other, subject, parsed.compare_file)
            )
        else:
            result = _result(parsed, first)
    if report is not None and isinstance(result, Explanation):
        _print_pod_report(parsed, replace(report, explanation=result))
    else:
        _print_result(parsed, result)


def _check(options: ExplainOptions) -> None:
    if options.live:
        _check_live(options)
    elif not options.files:
        is_file = options.pod is not None and Path(options.pod).exists()
        hint = f" Did you mean -f {options.pod}?" if is_file else ""
        raise click.UsageError(f"Missing option '-f' / '--file'.{hint}")
    elif any(
        (options.endpoint, options.kubeconfig, options.context, options.token, options.token_file)
    ):
        raise click.UsageError("--endpoint, --kubeconfig, --context and --token require --live")
    reject_two_readers(*options.files, options.config_file, options.compare_file)
    if options.node is not None and options.compare_file is not None:
        raise click.UsageError("--node and --compare are mutually exclusive")
    if options.output == "decision" and (options.node or options.compare_file or options.changes):
        raise click.UsageError(
            "-o decision cannot be combined with --node, --compare or --changes; "
            "use -o json or -o yaml"
        )


def _check_live(options: ExplainOptions) -> None:
    if options.files:
        raise click.UsageError("-f and --live are mutually exclusive")
    if options.pod is None:
        raise click.UsageError("--live requires a pod: NAMESPACE/NAME")
    if options.token and options.token_file:
        raise click.UsageError("--token and --token-file are mutually exclusive")


# -- attempts -------------------------------------------------------------------------------------


def _attempt(built: Built, subject: Subject, config_file: str | None) -> AttemptRecord:
    try:
        return attempt_subject(built, subject)
    except ExplainError as problem:
        raise click.ClickException(f"{config_prefix(config_file)}{problem}") from None


def _result(
    options: ExplainOptions, attempted: AttemptRecord
) -> Explanation | NodeReport | Decision:
    if options.output == "decision":
        # The decision format has no field for held pods.
        for held in attempted.held() or ():
            pod = attempted.pod.key
            note(f"{held.plugin} keeps pod {pod} out of the queue: {held.message}")
        return decision_of(attempted)
    if options.node is not None:
        try:
            return report_on(attempted, options.node, changes=options.changes is not False)
        except LookupError as problem:
            raise click.ClickException(str(problem)) from None
    return explain_attempt(
        attempted,
        top=options.rows,
        examples=_EXAMPLES_IN_TEXT if options.output == "text" else EXAMPLES,
        changes=options.tests_changes(
            in_text=attempted.failure is not None and not attempted.is_error
        ),
    )


def _compare(options: ExplainOptions, first: AttemptRecord, second: AttemptRecord) -> Comparison:
    compared = compare(first, second, top=options.rows)
    if not options.tests_changes(in_text=False):
        return compared
    return replace(
        compared,
        first=replace(compared.first, changes=changes_for(first)),
        second=replace(compared.second, changes=changes_for(second)),
    )


def _subject(options: ExplainOptions) -> Subject:
    scenario = read_files(options.files)
    for text in scenario.notes:
        note(text)
    with one_line_errors():
        subject = scenario.subject(options.pod)
    for text in subject.notes:
        note(text)
    return subject


def _live_subject(source: Source, built: Built) -> tuple[Subject, PodReport]:
    """Return the pod and its cluster from the API server, and the report of its state."""
    from kubesched.cli.explain.live_cluster import pod_report_of  # noqa: PLC0415 - loads a client

    cluster = source.cluster(built.profiles.values())
    with one_line_errors():
        subject = cluster.subject()
    for text in subject.notes:
        note(text)
    info = PodInfo(cluster.pod, compile_shape(cluster.pod))
    return subject, pod_report_of(cluster.pod, info, built.profiles)


# -- output ---------------------------------------------------------------------------------------


def _print_result(
    options: ExplainOptions, result: Explanation | NodeReport | Comparison | Decision
) -> None:
    if isinstance(result, Decision):
        print_json(result.as_json())
    elif options.output != "text":
        _print_object(options, result)
    elif isinstance(result, Explanation):
        show_explanation(result, Printer(is_wide=options.wide))
    elif isinstance(result, NodeReport):
        show_node(result, Printer(is_wide=options.wide))
    else:
        config_file = options.config_file
        first = _DEFAULTS if config_file is None else file_title(config_file)
        names = (first, file_title(options.compare_file or ""))
        show_comparison(result, names, Printer(is_wide=options.wide))


def _print_pod_report(options: ExplainOptions, report: PodReport) -> None:
    from kubesched.cli.explain.live import show_pod_report  # noqa: PLC0415 - loads a client

    if options.output == "text":
        # A scheduler's decision history is truncated already.
        show_pod_report(report, Printer(is_wide=options.wide, has_all=report.source == "api"))
    else:
        _print_object(options, report)


def _print_object(options: ExplainOptions, value: msgspec.Struct) -> None:
    if options.output == "yaml":
        tree = msgspec.to_builtins(value)
        click.echo(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100), nl=False)
    else:
        print_json(value)
