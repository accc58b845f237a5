"""A scheduler on a clock that a test moves, whose rules are replaced while it runs.

Owns the seam between such a scheduler and its replacement: configuration in, swap or refusal out.
Expected values are never computed here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kubesched.app.generation import Generation
from kubesched.app.swap import Swap
from kubesched.config.load import load_config_object
from kubesched.framework.registry import Registry
from kubesched.testing.cluster import Cluster

ResultT = TypeVar("ResultT")


def run(cluster: Cluster, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Return what work in the scheduler's own loop comes to."""
    return cluster._loop.run_until_complete(work)


def config_of(*profiles: Mapping[str, Any]) -> Any:
    """Return a configuration of such profiles."""
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
) -> Generation:
    """Have other plugins decide, in the default profile or in these; SwapError if refused."""
    settings = replace(
        cluster.live.settings,
        config=config_of(*(profiles or [profile("default-scheduler", *plugins)])),
        out_of_tree=Registry({vars(plugin)["name"]: plugin for plugin in plugins}),
    )
    return run(cluster, Swap(cluster.live).put_in_force(settings))
