"""`check_plugin`: whether a plugin keeps the rules that a scheduler relies on.

Owns the rules: answers are of the right kind and within range, the same for the same question
whoever was asked before and in whichever order nodes come, what the plugin is handed stays as it
is, what may be kept of its answers stays right, and both spellings of a plugin decide alike. The
clusters are recorded ones unless others are
given. Never needs a running scheduler.

    def test_it_keeps_the_rules():
        report = check_plugin(SpareGpu, SpareGpuColumns)
        assert report.score_range == (0, 100)
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from kubesched.app.build import Built, build
from kubesched.app.explain import Subject as Chosen
from kubesched.app.explain import choose_pod, prepare
from kubesched.app.manifests import STDIN, read_manifests
from kubesched.app.outside_plugins import name_of, registry_given
from kubesched.columns.view import ClusterView
from kubesched.config.load import default_config, load_config_object
from kubesched.engine.explanation import attempt
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.interface import points_of
from kubesched.framework.registry import PluginFactory
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KubeObject
from kubesched.objects.pod import Pod
from kubesched.testing.builders import Document
from kubesched.testing.cluster_facts import changes_between, facts_of
from kubesched.testing.plugin_answers import Answers, Fault, Subject, ask, differing
from kubesched.testing.plugin_order import order_faults
from kubesched.testing.plugin_reads import reads_faults
from kubesched.testing.recordings import RECORDED, recorded

_PROFILE: Final = "default-scheduler"
_ALL: Final = 1_000_000
_ENDED: Final = ("Succeeded", "Failed")


class PluginCheckError(AssertionError):
    """A plugin that does not keep the rules; the text names each, with an example."""


@dataclass(slots=True)
class PluginReport:
    """What a plugin did while it was checked; a test may ask whether it did anything at all."""

    name: str
    points: tuple[str, ...]
    """The extension points it extends."""
    pod_count: int = 0
    """How many pods it was asked about."""
    refused_count: int = 0
    """How many times it refused a node, or a pod as a whole."""
    passed_count: int = 0
    """How many times it let a node pass."""
    score_range: tuple[int, int] | None = None
    """The lowest and the highest score, normalised; None if it gave none."""

    def add(self, answers: Answers, node_count: int) -> None:
        """Count what was said of one pod."""
        self.pod_count += 1
        self.refused_count += len(answers.verdicts)
        self.passed_count += node_count - len(answers.verdicts)
        if answers.scores:
            low, high = self.score_range or (_ALL, -_ALL)
            values = answers.scores.values()
            self.score_range = (min(low, *values), max(high, *values))


def check_plugin(
    plugin: PluginFactory,
    columns: PluginFactory | None = None,
    *,
    args: Mapping[str, Any] | None = None,
    clusters: Mapping[str, Sequence[Document]] | None = None,
) -> PluginReport:
    """Check a plugin, or both spellings of one.

    Args:
        plugin: a class, or a factory that takes `args` and `handle` as far as it wants them.
        columns: the same plugin over all nodes at once.
        args: what would stand under `pluginConfig`.
        clusters: by name, the objects to ask about, with the pods that wait or run there; the
            recorded clusters if none are given.

    Returns:
        What it did; a plugin that never refused and never scored may be asked the wrong things.

    Raises:
        PluginCheckError: It breaks a rule.
        ConfigError: It cannot be made: its args are refused.
        TypeError: It is no plugin: a method has another signature.
    """
    name = name_of(plugin)
    checked = _Check(name, [_Maker(name, one, args) for one in (plugin, columns) if one])
    if clusters is None:
        clusters = {one: recorded(one) for one in RECORDED}
    for cluster, documents in clusters.items():
        checked.begin(cluster)
        pods = [checked.pod(chosen) for chosen in _subjects(_objects(documents))]
        checked.order(pods)
    checked.finish()
    return checked.report


# -- what it is asked about -----------------------------------------------------------------------


def _objects(documents: Sequence[Document]) -> Sequence[KubeObject]:
    """Return objects as they are read from files: what has a namespace gets one."""
    whole = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    return read_manifests([STDIN], stdin=io.BytesIO(whole)).objects


def _subjects(objects: Sequence[KubeObject]) -> Iterator[Chosen]:
    """Yield each pod that waits, and one of each owner's that run, as if it waited."""
    seen: set[object] = set()
    for one in objects:
        if not isinstance(one, Pod) or one.status.phase in _ENDED:
            continue
        owners = tuple(owner.name for owner in one.metadata.owner_references or ())
        if one.spec.node_name and owners in seen:
            continue
        if one.spec.node_name and owners:
            seen.add(owners)
        chosen = choose_pod(objects, one.key)
        spec = replace(chosen.pod.spec, scheduler_name=_PROFILE)
        yield Chosen(replace(chosen.pod, spec=spec), chosen.others)


class _Handle(OfflineHandle):
    """A handle that has background tasks wait for ever: there is nothing to fetch here."""

    def start_task(self, name: str, run: Any) -> None:
        """Leave it."""


@dataclass(slots=True)
class _Maker:
    """One spelling of the plugin."""

    name: str
    factory: PluginFactory
    args: Mapping[str, Any] | None
    built: Built = field(init=False)
    new: Built = field(init=False)
    """Another, made for this cluster."""

    def __post_init__(self) -> None:
        self.built = self.new = self.make()

    def over(self, built: Built, view: ClusterView) -> Any:
        """Return the plugin, with a cluster to see through its handle."""
        built.handles[_PROFILE].view = view
        return built.profiles[_PROFILE].plugins[self.name]

    def make(self) -> Built:
        """Return the default profile with the plugin enabled, all of it new."""
        registry = registry_given([(self.name, self.factory)])
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


# -- the rules ------------------------------------------------------------------------------------


class _Check:
    """Asks, compares, and keeps what is wrong."""

    def __init__(self, name: str, makers: Sequence[_Maker]) -> None:
        self._makers = makers
        # Which nodes are scored is not to hang on a plugin that may be at fault.
        self._without = build(default_config())
        plugin = makers[0].built.profiles[_PROFILE].plugins[name]
        self.report = PluginReport(name, tuple(sorted(points_of(plugin))))
        self._faults: dict[str, list[str]] = {}
        self._cluster = self._about = ""

    def begin(self, cluster: str) -> None:
        """Go on to another cluster."""
        self._cluster = cluster
        for maker in self._makers:
            maker.new = maker.make()

    def pod(self, chosen: Chosen) -> PodInfo:
        """Check everything about one pod, and return it."""
        self._about = f"{self._cluster}, pod {chosen.pod.key}"
        prepared = prepare(self._without, chosen)
        view, pod = prepared.view, prepared.pod
        fitting = attempt(*prepared).fitting_rows()
        subject = Subject(view, pod, view.all_nodes(), fitting)
        answers = [self._spelling(maker, subject) for maker in self._makers]
        self.report.add(answers[0], view.node_count)
        for maker in self._makers:
            self._reads(maker, chosen, [view.name_of(row) for row in fitting.tolist()])
        if len(answers) > 1:
            self._compare("both spellings agree", answers[0], answers[1], ("one node", "columns"))
            self._compare_decisions(*(_decision(maker, chosen) for maker in self._makers))
        return pod

    def order(self, pods: Sequence[PodInfo]) -> None:
        """Check how the pods of a cluster are sorted, if they are."""
        self._about = self._cluster
        for maker in self._makers:
            plugin = maker.built.profiles[_PROFILE].plugins[maker.name]
            for fault in order_faults(plugin, pods):
                self._fault(fault)

    def _spelling(self, maker: _Maker, subject: Subject) -> Answers:
        """Check one spelling, asked twice, and once more made anew and with nodes reversed."""
        view, pod = subject.view, subject.pod
        before = facts_of(view, pod)
        plugin = maker.over(maker.built, view)
        first = self._noted(ask(plugin, subject))
        again = ask(plugin, subject)
        self._compare("asked again it answers the same", first, again, ("first", "again"))
        turned = subject._replace(nodes=view.nodes_at(subject.nodes.rows[::-1].copy()))
        other = ask(maker.over(maker.new, view), turned)
        how = ("so", "made anew, nodes reversed")
        self._compare("made anew or with nodes reversed it answers the same", first, other, how)
        for changed in changes_between(before, facts_of(view, pod))[:1]:
            self._fault(Fault("what it is handed stays as it is", f"it changed {changed}"))
        return first

    def _reads(self, maker: _Maker, chosen: Chosen, fitting: list[str]) -> None:
        """Check that what may be kept of its answers stays right."""
        handle = maker.built.handles[_PROFILE]
        plugin = maker.built.profiles[_PROFILE].plugins[maker.name]
        for fault in reads_faults(plugin, handle, chosen, fitting):
            self._fault(fault)

    def _noted(self, answers: Answers) -> Answers:
        for fault in answers.faults:
            self._fault(fault)
        return answers

    def _compare(self, rule: str, first: Answers, second: Answers, names: tuple[str, str]) -> None:
        for point in ("pre_enqueue", "pre_filter"):
            one, other = getattr(first, point), getattr(second, point)
            if one != other:
                text = f"{point}() says {_told(one)} ({names[0]}), {_told(other)} ({names[1]})"
                self._fault(Fault(rule, text))
        for what in ("verdicts", "raw", "scores"):
            pair = getattr(first, what), getattr(second, what)
            for node in differing(*pair)[:1]:
                one, other = (_told(one.get(node)) for one in pair)
                text = f"{_WORDS[what]} node {node}: {one} ({names[0]}), {other} ({names[1]})"
                self._fault(Fault(rule, text))

    def _compare_decisions(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        for what in differing(one, other)[:1]:
            text = f"{what}: {one.get(what)} (one node), {other.get(what)} (columns)"
            self._fault(Fault("both spellings decide alike", text))

    def _fault(self, fault: Fault) -> None:
        self._faults.setdefault(fault.rule, []).append(f"{self._about}: {fault.example}")

    def finish(self) -> None:
        """Raise if something is wrong."""
        if not self.report.pod_count:
            raise ValueError("no cluster has a pod to ask about")
        if not self._faults:
            return
        lines = [f"{self.report.name} does not keep the rules:"]
        for rule, examples in self._faults.items():
            lines += [f"  {rule}:", f"    {examples[0]}"]
            if len(examples) > 1:
                lines.append(f"    and {len(examples) - 1} more times")
        raise PluginCheckError("\n".join(lines))


_WORDS: Final = {"verdicts": "on", "raw": "raw score of", "scores": "score of"}


def _decision(maker: _Maker, chosen: Chosen) -> dict[str, Any]:
    """Return what a whole attempt comes to; which of equal nodes is taken is chance."""
    explanation = attempt(*prepare(maker.built, chosen)).explanation(top=None, examples=_ALL)
    return {
        "outcome": explanation.outcome,
        "event": "" if explanation.outcome == "placed" else explanation.event.message,
        "refused as a whole": explanation.refused_whole,
        "preemption": explanation.preemption,
        **{
            f"{plugin} of node {row.node}": points
            for row in explanation.ranking
            for plugin, points in row.scores.items()
        },
        **{
            f"node {node}": (refusal.plugin, refusal.code, refusal.reasons)
            for refusal in explanation.refusals
            for node in refusal.nodes
        },
    }


def _told(said: Any) -> str:
    if said is None:
        return "nothing"
    if isinstance(said, np.integer | int):
        return str(said)
    if len(said) == 2 and isinstance(said[1], tuple):
        code, reasons = said
        return f"{code} {', '.join(reasons)!r}" if reasons else str(code)
    return f"only {', '.join(said)}"
