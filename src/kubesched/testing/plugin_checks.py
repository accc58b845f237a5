"""`check_plugin`: checks whether a plugin follows the rules that the scheduler relies on.

Results have the right type and range; repeated calls, a new instance and another order of nodes
give the same result; arguments stay unchanged; kept results stay right; both forms of a plugin
decide the same. Uses recorded clusters by default, and needs no running scheduler.

    def test_it_follows_the_rules():
        report = check_plugin(SpareGpu, SpareGpuColumns)
        assert report.score_range == (0, 100)
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.api.builders import Document
from kubesched.api.pod import Pod
from kubesched.config.load import default_config, load_config_object
from kubesched.explanation.explain import attempt_subject
from kubesched.framework.handle import Handle
from kubesched.framework.interface import points_of
from kubesched.framework.runtime.registry import PluginFactory
from kubesched.manifests.documents import STDIN
from kubesched.manifests.objects import read_manifests
from kubesched.manifests.scenario import Subject as PodInCluster
from kubesched.manifests.scenario import choose_pod
from kubesched.profile.build import Built, build
from kubesched.profile.plugin_loading import name_of, registry_with
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from kubesched.testing.cluster_facts import facts_of
from kubesched.testing.plugin_calls import (
    Fault,
    Results,
    Subject,
    call_plugin,
    differing,
    order_faults,
)
from kubesched.testing.plugin_reads import pod_fields_read, reads_faults
from kubesched.testing.recordings import RECORDED, recorded

_PROFILE: Final = "default-scheduler"
_ALL: Final = 1_000_000
_ENDED: Final = ("Succeeded", "Failed")


class PluginCheckError(AssertionError):
    """A plugin breaks rules; the message has an example of each."""


@dataclass(slots=True)
class PluginReport:
    """The results of a plugin during the check; a test should assert that there are some."""

    name: str
    points: tuple[str, ...]
    """The extension points it extends."""
    pod_count: int = 0
    """The number of pods it was called for."""
    rejected_count: int = 0
    """The number of rejected nodes."""
    passed_count: int = 0
    """The number of nodes that passed."""
    score_range: tuple[int, int] | None = None
    """The lowest and the highest normalized score; None without scores."""
    pod_fields: tuple[str, ...] = ()
    """What it reads of pods besides their template, if it declares `reads`: its results are kept
    for pods that agree in these fields. Nothing is kept for a name, a uid or the status."""

    def add(self, results: Results, node_count: int) -> None:
        """Count the results for one pod."""
        self.pod_count += 1
        self.rejected_count += len(results.verdicts)
        self.passed_count += node_count - len(results.verdicts)
        if results.scores:
            scores = (*results.scores.values(), *(self.score_range or ()))
            self.score_range = (min(scores), max(scores))


def check_plugin(
    plugin: PluginFactory,
    columns: PluginFactory | None = None,
    *,
    args: Mapping[str, Any] | None = None,
    clusters: Mapping[str, Sequence[Document]] | None = None,
) -> PluginReport:
    """Check a plugin, or both forms of it.

    Args:
        plugin: A class, or a factory with the optional parameters `args` and `handle`.
        columns: The same plugin over all nodes at once.
        args: Its arguments, as under `pluginConfig`.
        clusters: The objects of clusters by name, with pending or running pods; the recorded
            clusters if None.

    Returns:
        A report; if the plugin never rejected and never scored, use other pods and nodes.

    Raises:
        PluginCheckError: It breaks a rule.
        ConfigError: It cannot be constructed: its arguments are invalid.
        TypeError: It is no plugin: a method has another signature.
    """
    name = name_of(plugin)
    check = _Check(name, [_Form(name, form, args) for form in (plugin, columns) if form])
    if clusters is None:
        clusters = {recording: recorded(recording) for recording in RECORDED}
    for cluster, documents in clusters.items():
        check.cluster(cluster, documents)
    check.finish()
    return check.report


# -- pods and plugins -----------------------------------------------------------------------------


def _subjects(documents: Sequence[Document]) -> Iterator[PodInCluster]:
    """Yield each pending pod, and one running pod of each owner, as if it were pending."""
    items = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    objects = read_manifests([STDIN], stdin=io.BytesIO(items)).objects
    seen: set[object] = set()
    for pod in objects:
        if not isinstance(pod, Pod) or pod.status.phase in _ENDED:
            continue
        owners = tuple(owner.name for owner in pod.metadata.owner_references or ())
        if pod.spec.node_name and owners in seen:
            continue
        if pod.spec.node_name and owners:
            seen.add(owners)
        chosen = choose_pod(objects, pod.key)
        spec = replace(chosen.pod.spec, scheduler_name=_PROFILE)
        yield PodInCluster(replace(chosen.pod, spec=spec), chosen.others)


class _Handle(Handle):
    """A handle that never runs background tasks: there is nothing to fetch here."""

    def start_task(self, name: str, run: Any) -> None:
        """Ignore the task."""


@dataclass(slots=True)
class _Form:
    """One form of the plugin: for one node, or over columns."""

    name: str
    factory: PluginFactory
    args: Mapping[str, Any] | None
    built: Built = field(init=False)

    def __post_init__(self) -> None:
        self.built = self.build()

    def plugin(self, built: Built | None = None, view: ClusterView | None = None) -> Any:
        """Return the plugin, with a view of the cluster in its handle."""
        built = built or self.built
        if view is not None:
            built.handles[_PROFILE].view = view
        return built.profiles[_PROFILE].plugins[self.name]

    def build(self) -> Built:
        """Build a new default profile with the plugin."""
        registry = registry_with([(self.name, self.factory)])
        plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": self.name}]}}
        if "queueSort" in points_of(self.factory):
            plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": [{"name": self.name}]}
        profile: dict[str, Any] = {"schedulerName": _PROFILE, "plugins": plugins}
        if self.args is not None:
            profile["pluginConfig"] = [{"name": self.name, "args": dict(self.args)}]
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        return build(load_config_object(config), out_of_tree=registry, make_handle=_Handle)


# -- rules ----------------------------------------------------------------------------------------


class _Check:
    """Calls the plugin, compares results, and collects faults."""

    def __init__(self, name: str, forms: Sequence[_Form]) -> None:
        self._forms = forms
        # The nodes to score must not depend on a plugin that may be wrong.
        self._in_tree = build(default_config())
        self.report = PluginReport(name, tuple(sorted(points_of(forms[0].plugin()))))
        self._faults: dict[str, list[str]] = {}
        self._about = ""

    def cluster(self, name: str, documents: Sequence[Document]) -> None:
        """Check the plugin on the pods of a cluster."""
        fresh = [form.build() for form in self._forms]
        pods = []
        for chosen in _subjects(documents):
            self._about = f"{name}, pod {chosen.pod.key}"
            pods.append(self._pod(chosen, fresh))
        self._about = name
        for form in self._forms:
            self._add(order_faults(form.plugin(), pods))

    def _pod(self, chosen: PodInCluster, fresh: Sequence[Built]) -> PodInfo:
        """Check every rule for one pod, and return it."""
        attempted = attempt_subject(self._in_tree, chosen)
        view, pod = attempted.view, attempted.pod
        fitting = attempted.fitting_rows()
        subject = Subject(view, pod, view.all_nodes(), fitting)
        pairs = zip(self._forms, fresh, strict=True)
        results = [self._form(form, built, subject) for form, built in pairs]
        self.report.add(results[0], view.node_count)
        names = [view.name_of(row) for row in fitting.tolist()]
        for form in self._forms:
            fields = pod_fields_read(form.plugin(view=view), subject)
            self.report.pod_fields = tuple(sorted({*self.report.pod_fields, *fields}))
            handle = form.built.handles[_PROFILE]
            self._add(reads_faults(form.plugin(), handle, chosen, names))
        if len(results) > 1:
            rule = "both forms return the same"
            self._compare(rule, results[0], results[1], "one node", "columns")
            one, other = (_decision(form, chosen) for form in self._forms)
            for key in differing(one, other)[:1]:
                text = f"{key}: {one.get(key)} (one node), {other.get(key)} (columns)"
                self._add([Fault("both forms decide the same", text)])
        return pod

    def _form(self, form: _Form, fresh: Built, subject: Subject) -> Results:
        """Call one form twice, and a new instance of it with reversed nodes."""
        view, pod = subject.view, subject.pod
        before = facts_of(view, pod)
        plugin = form.plugin(view=view)
        first = call_plugin(plugin, subject)
        self._add(first.faults)
        again = call_plugin(plugin, subject)
        self._compare("repeated calls return the same", first, again, "first", "again")
        reversed_nodes = view.nodes_at(subject.nodes.rows[::-1].copy())
        other = call_plugin(form.plugin(fresh, view), subject._replace(nodes=reversed_nodes))
        rule = "a new instance and reversed nodes return the same"
        self._compare(rule, first, other, "first", "new instance, nodes reversed")
        for changed in differing(before, facts_of(view, pod))[:1]:
            self._add([Fault("arguments stay unchanged", f"it changed {changed}")])
        return first

    def _compare(
        self, rule: str, first: Results, second: Results, first_name: str, second_name: str
    ) -> None:
        for attribute, text in _TEXTS.items():
            pair = [getattr(results, attribute) for results in (first, second)]
            if not isinstance(pair[0], dict):  # One result for all nodes.
                pair = [{"": value} for value in pair]
            for node in differing(*pair)[:1]:
                one, other = (_shown(values.get(node)) for values in pair)
                about = text.format(node=node)
                self._add([Fault(rule, f"{about} {one} ({first_name}), {other} ({second_name})")])

    def _add(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self._faults.setdefault(fault.rule, []).append(f"{self._about}: {fault.example}")

    def finish(self) -> None:
        """Raise if a rule is broken."""
        if not self.report.pod_count:
            raise ValueError("no cluster has a pod to check the plugin with")
        if not self._faults:
            return
        lines = [f"{self.report.name} breaks the rules:"]
        for rule, examples in self._faults.items():
            lines += [f"  {rule}:", f"    {examples[0]}"]
            if len(examples) > 1:
                lines.append(f"    and {len(examples) - 1} more times")
        raise PluginCheckError("\n".join(lines))


_TEXTS: Final = {
    "pre_enqueue": "pre_enqueue() returns",
    "pre_filter": "pre_filter() returns",
    "verdicts": "on node {node}:",
    "raw": "raw score of node {node}:",
    "scores": "score of node {node}:",
}


def _decision(form: _Form, chosen: PodInCluster) -> dict[str, Any]:
    """Return the parts of a whole decision; the choice between equal nodes is random."""
    explanation = attempt_subject(form.built, chosen).explanation(top=None, examples=_ALL)
    return {
        "outcome": explanation.outcome,
        "event": "" if explanation.outcome == "placed" else explanation.event.message,
        "rejected on all nodes": explanation.rejected_whole,
        "preemption": explanation.preemption,
        **{
            f"{plugin} of node {row.node}": points
            for row in explanation.ranking
            for plugin, points in row.scores.items()
        },
        **{
            f"node {node}": (rejection.plugin, rejection.code, rejection.reasons)
            for rejection in explanation.rejections
            for node in rejection.nodes
        },
    }


def _shown(result: Any) -> str:
    if result is None:
        return "nothing"
    if isinstance(result, int):
        return str(result)
    if len(result) == 2 and isinstance(result[1], tuple):
        code, reasons = result
        return f"{code} {', '.join(reasons)!r}" if reasons else str(code)
    return f"only {', '.join(result)}"
