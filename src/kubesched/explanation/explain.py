"""Explain where a pod goes: the entry point of `kubesched.explain` and `kubesched explain`.

Owns the path from manifests or objects in memory to one scheduling attempt and its explanation.
`attempt_record` makes the attempt, `counterfactual` tests changes, `report` holds the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from kubesched.cache.cache import Cache, load_objects
from kubesched.explanation.attempt_record import EXAMPLES, TOP, AttemptRecord, attempt
from kubesched.explanation.counterfactual import changes_for
from kubesched.explanation.report import Explanation
from kubesched.framework.runtime.registry import Registry
from kubesched.manifests.scenario import ExplainError, Scenario, Subject
from kubesched.manifests.scenario_reader import read_scenario, scenario_of
from kubesched.profile.build import Built, ConfiguredError, configured
from kubesched.profile.plugin_loading import ExtraPlugins, registry_with

File: TypeAlias = str | os.PathLike[str]
Object: TypeAlias = Mapping[str, Any]
Cluster: TypeAlias = File | Iterable[File] | Object | Iterable[Object]


def explain(
    pod: str | None,
    cluster: Cluster,
    *,
    config: File | Object | None = None,
    plugins: ExtraPlugins | None = None,
    top: int | None = TOP,
    changes: bool = True,
) -> Explanation:
    """Explain on which node kube-scheduler would place a pod, and why.

    Args:
        pod: `name` or `namespace/name`; or a workload (`deployment/web`), whose next pod is
            explained; None for the only pending pod, or the only workload outside the cluster's
            files.
        cluster: Manifest files or directories, one or several; or objects in the form of
            `kubectl get -o json`, as its list or as a Python list.
        config: A KubeSchedulerConfiguration or its file; kube-scheduler's defaults if None.
        plugins: Out-of-tree plugin classes, in a list or by name. The configuration enables them;
            without a configuration they are enabled at multiPoint.
        top: Number of ranked nodes to return; 0 or None for all.
        changes: Also test which changes would make the pod fit on more nodes.

    Raises:
        ValueError: The pod, the cluster or the configuration is invalid; the message is one line.
    """
    if top is not None and top < 0:
        raise ValueError(f"top: expected a number of rows, or 0 for all, got {top}")
    built = _built(config, None if plugins is None else registry_with(plugins))
    subject = _scenario(cluster).subject(pod)
    return explain_attempt(attempt_subject(built, subject), top=top or None, changes=changes)


def explain_attempt(
    attempted: AttemptRecord, *, top: int | None = TOP, examples: int = EXAMPLES, changes: bool
) -> Explanation:
    """Return the explanation of an attempt, with tested changes if `changes` is set."""
    explanation = attempted.explanation(top=top, examples=examples)
    return replace(explanation, changes=changes_for(attempted)) if changes else explanation


def attempt_subject(built: Built, subject: Subject) -> AttemptRecord:
    """Load the cluster into a snapshot, and make one scheduling attempt for the pod.

    Raises:
        ExplainError: No profile has the pod's scheduler name.
    """
    cache = Cache(keep_whole_pods=built.reads_bound_pods)
    load_objects(cache, subject.others, built.profiles)
    pod = cache.pod_info(subject.pod)
    profile = built.profiles.get(pod.scheduler_name)
    if profile is None:
        raise ExplainError(
            f"pod {pod.key}: no profile has the scheduler name {pod.scheduler_name!r}; "
            f"the configuration has {', '.join(map(repr, built.profiles))}"
        )
    view = built.handles[profile.name].view = cache.snapshot()
    return attempt(profile, view, pod)


def _built(config: File | Object | None, registry: Registry | None) -> Built:
    if config is None:
        return configured(registry=registry)
    where = os.fspath(config) if isinstance(config, str | os.PathLike) else "config"
    try:
        content = config if isinstance(config, Mapping) else Path(config).read_bytes()
        return configured(content, registry=registry)
    except OSError as problem:
        raise ConfiguredError(f"{where}: {problem.strerror or problem}") from None
    except ConfiguredError as problem:
        raise ConfiguredError(f"{where}: {problem}") from None


def _scenario(cluster: Cluster) -> Scenario:
    if isinstance(cluster, str | os.PathLike):
        return read_scenario([os.fspath(cluster)])
    items = [cluster] if isinstance(cluster, Mapping) else list(cluster)
    if items and all(isinstance(item, str | os.PathLike) for item in items):
        return read_scenario([os.fspath(item) for item in cast("list[File]", items)])
    return scenario_of(items)
