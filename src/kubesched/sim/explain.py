"""The library call `kubesched.explain`: files or objects in, an explanation out.

Owns the way from what a program has at hand to a pod and its scheduler, the same way that the
command goes. The decision and its explanation are the engine's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from kubesched.app.build import Built
from kubesched.app.explain import prepare
from kubesched.app.outside_plugins import GivenPlugins, registry_given
from kubesched.engine.counterfactual import changes_for
from kubesched.engine.explanation import TOP, Explanation, attempt
from kubesched.framework.registry import Registry
from kubesched.sim.configured import ConfiguredError, configured
from kubesched.sim.scenario import Scenario, read_scenario, scenario_of

File: TypeAlias = str | os.PathLike[str]
Object: TypeAlias = Mapping[str, Any]
Cluster: TypeAlias = File | Iterable[File] | Object | Iterable[Object]


def explain(
    pod: str | None,
    cluster: Cluster,
    *,
    config: File | Object | None = None,
    plugins: GivenPlugins | None = None,
    top: int | None = TOP,
    changes: bool = True,
) -> Explanation:
    """Explain where kube-scheduler would put a pod, and why there and not elsewhere.

    Args:
        pod: `name` or `namespace/name`; or a workload (`deployment/web`), whose next pod is
            explained; None for the only pending pod, or the only workload beside the cluster.
        cluster: a file or directory of manifests, or several; or the objects as `kubectl get
            -o json` has them, in its list or in one of Python's.
        config: a KubeSchedulerConfiguration, or the file of one; without one, kube-scheduler's
            defaults.
        plugins: plugin classes of your own, in a list or by name; the configuration enables them,
            or, without one, they are enabled at multiPoint.
        top: how many rows of the ranking to give, 0 or None for all.
        changes: also try out what would have to change.

    Raises:
        ValueError: In one line, what is wrong with the pod, the cluster or the configuration.
    """
    if top is not None and top < 0:
        raise ValueError(f"top: expected a number of rows, or 0 for all, got {top}")
    built = _built(config, None if plugins is None else registry_given(plugins))
    one = attempt(*prepare(built, _scenario(cluster).subject(pod)))
    explanation = one.explanation(top=top or None)
    return replace(explanation, changes=changes_for(one)) if changes else explanation


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
    given = [cluster] if isinstance(cluster, Mapping) else list(cluster)
    if given and all(isinstance(one, str | os.PathLike) for one in given):
        return read_scenario([os.fspath(one) for one in cast("list[File]", given)])
    return scenario_of(given)
