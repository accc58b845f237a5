"""A scheduler on a test clock whose profile set is swapped while it runs.

Owns the seam between such a scheduler and its replacement: a configuration is swapped or rejected.
Expected values are never computed here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kubesched.config.load import load_config_object
from kubesched.framework.runtime.registry import Registry
from kubesched.run.profile_set import ProfileSet
from kubesched.run.swap import Swap
from kubesched.testing.cluster import Cluster

ResultT = TypeVar("ResultT")


def run(cluster: Cluster, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run work in the scheduler's event loop and return its result."""
    return cluster._loop.run_until_complete(work)


def config_of(*profiles: Mapping[str, Any]) -> Any:
    """Return a configuration with these profiles."""
    return load_config_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
        }
    )


def profile(name: str = "default-scheduler", *plugins: type, **points: Any) -> dict[str, Any]:
    """Return a profile with plugins enabled at every point they have."""
    enabled = [{"name": vars(plugin)["name"]} for plugin in plugins]
    return {"schedulerName": name, "plugins": {"multiPoint": {"enabled": enabled}, **points}}


def swap(
    cluster: Cluster, *plugins: type, profiles: Sequence[Mapping[str, Any]] = ()
) -> ProfileSet:
    """Swap in other plugins, in the default profile or in `profiles`; SwapError if rejected."""
    settings = replace(
        cluster.live.settings,
        config=config_of(*(profiles or [profile("default-scheduler", *plugins)])),
        out_of_tree=Registry({vars(plugin)["name"]: plugin for plugin in plugins}),
    )
    return run(cluster, Swap(cluster.live).apply(settings))
