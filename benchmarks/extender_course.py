"""Starts extenders on a real cluster, compares them, and races them behind kube-scheduler."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import msgspec

from benchmarks.race import Race, run_race
from benchmarks.race_cluster import NAMESPACE, RaceCluster
from kubesched.cluster.launch.ports import free_ports
from kubesched.testing import Api, Programs, RealCluster, SchedulerSettings, a_pod, usage_of

OURS: Final = "kubesched extender"
GO: Final = "Go extender"
NONE: Final = "no extender"
RACERS: Final = (GO, OURS, NONE)
SETTINGS: Final = {"names": True, "nodes": False}
"""nodeCacheCapable, by what kube-scheduler sends."""
_PLUGINS = Path(__file__).with_name("user_plugins.py")
_LABEL = "extender"
_AVOIDED = ("example.com/pool", "pool-7")
_START_S_MAX = 60.0
_CALLS = 30


class ExtenderRace(msgspec.Struct, kw_only=True):
    """The race of kube-scheduler with an extender, and the extender's usage."""

    racer: str
    setting: str
    round: int
    race: Race
    cpu_s: float
    """The extender's processor time, from before kube-scheduler started to the last event."""
    peak_mb: float
    avoided: int
    """Pods in the pool that the rule excludes; with an extender there may be none."""

    @property
    def cpu_ms(self) -> float:
        """Return the extender's processor time a pod."""
        return 1000 * self.cpu_s / self.race.bound if self.race.bound else 0.0


class Calls(msgspec.Struct, kw_only=True):
    """The median duration of a call over all nodes, per verb."""

    racer: str
    setting: str
    filter_ms: float
    prioritize_ms: float
    answers: tuple[Any, Any]
    """The results, in a form that is equal for both extenders."""


@dataclass(frozen=True, slots=True)
class RunningExtender:
    """An extender's URL and process."""

    url: str
    pid: int


@contextmanager
def extender(cluster: RealCluster, racer: str) -> Iterator[RunningExtender]:
    """Run an extender; wait until it is ready."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    process = cluster.group.start(_LABEL, _command(racer, address, cluster.kubeconfig))
    try:
        with Api(f"http://{address}") as api:
            ready = lambda: _is_ready(api)  # noqa: E731
            cluster.group.wait_until(ready, racer, timeout_s=_START_S_MAX)
        yield RunningExtender(f"http://{address}", process.pid)
    finally:
        cluster.group.stop(_LABEL)


def _command(racer: str, address: str, kubeconfig: Path) -> list[str | Path]:
    common = [f"--listen={address}", f"--kubeconfig={kubeconfig}"]
    if racer == GO:
        return [Programs.built().path("go-extender"), *common]
    installed = Path(sys.prefix) / "bin" / "kubesched"
    plugins = [f"--plugin={_PLUGINS}:{name}" for name in ("NotOnSpotByNode", "PreferLargeByNode")]
    return [installed, "extender", *plugins, *common]


def _is_ready(api: Api) -> bool:
    try:
        return api.get("/readyz").code == 200
    except OSError:
        return False


def scheduler_settings(url: str | None, setting: str) -> SchedulerSettings:
    """Return kube-scheduler's settings with an extender, or without one if there is no URL."""
    stanza = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "nodeCacheCapable": SETTINGS[setting],
        "enableHTTPS": False,
    }
    return SchedulerSettings(extenders=[stanza] if url else [])


def race_once(
    cluster: RealCluster, course: RaceCluster, setting: str, racer: str, **options: Any
) -> ExtenderRace:
    """Run kube-scheduler on a burst, with an extender."""
    pod_count = course.create_burst(options["pods"])
    if racer == NONE:
        race = _raced(cluster, pod_count, scheduler_settings(None, setting), options["timeout_s"])
        cpu_s = peak_mb = 0.0
    else:
        with extender(cluster, racer) as running:
            before = usage_of(running.pid)
            settings = scheduler_settings(running.url, setting)
            race = _raced(cluster, pod_count, settings, options["timeout_s"])
            after = usage_of(running.pid)
        cpu_s, peak_mb = after.cpu_s - before.cpu_s, after.peak_mb
    avoided = _avoided_count(cluster)
    course.remove_burst()
    return ExtenderRace(
        racer=racer,
        setting=setting,
        round=options["number"],
        race=race,
        cpu_s=cpu_s,
        peak_mb=peak_mb,
        avoided=avoided,
    )


def _raced(
    cluster: RealCluster, pod_count: int, settings: SchedulerSettings, timeout_s: float
) -> Race:
    return run_race(cluster, "kube-scheduler", pod_count, timeout_s, settings=settings)


def _avoided_count(cluster: RealCluster) -> int:
    """Return the number of the burst's pods in the pool that the rule excludes."""
    label, value = _AVOIDED
    with cluster.api() as api:
        listed = api.get("/api/v1/nodes", query={"labelSelector": f"{label}={value}"}).must(200)
        names = {node["metadata"]["name"] for node in listed.json["items"]}
        pods = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods").must(200).json["items"]
    burst = (pod for pod in pods if pod["metadata"]["labels"].get("app") == "burst")
    return sum(pod["spec"].get("nodeName") in names for pod in burst)


def measure_calls(cluster: RealCluster, racer: str, setting: str, *, calls: int = _CALLS) -> Calls:
    """Call an extender with all nodes of the cluster, like kube-scheduler."""
    with cluster.api() as api:
        nodes = api.get("/api/v1/nodes").must(200).json["items"]
    body: dict[str, Any] = {"Pod": a_pod("call"), "Nodes": None, "NodeNames": None}
    if SETTINGS[setting]:
        body["NodeNames"] = [node["metadata"]["name"] for node in nodes]
    else:
        body["Nodes"] = {"metadata": {}, "items": nodes}
    encoded = msgspec.json.encode(body)
    with extender(cluster, racer) as running, Api(running.url) as api:
        filtered, filter_ms = _timed(api, "/filter", encoded, calls)
        scored, prioritize_ms = _timed(api, "/prioritize", encoded, calls)
    return Calls(
        racer=racer,
        setting=setting,
        filter_ms=filter_ms,
        prioritize_ms=prioritize_ms,
        answers=(_plain_filter(filtered), {host["Host"]: host["Score"] for host in scored}),
    )


def _timed(api: Api, path: str, body: bytes, calls: int) -> tuple[Any, float]:
    times_ms = []
    for _ in range(calls):
        start = perf_counter()
        answer = api.post(path, body).must(200)
        times_ms.append((perf_counter() - start) * 1e3)
    return msgspec.json.decode(answer.body), median(times_ms)


def _plain_filter(result: Mapping[str, Any]) -> dict[str, Any]:
    nodes = result.get("Nodes")
    return {
        "nodes": nodes and [node["metadata"]["name"] for node in nodes["items"]],
        "names": result.get("NodeNames"),
        "failed": result.get("FailedNodes") or {},
        "unresolvable": result.get("FailedAndUnresolvableNodes") or {},
        "error": result.get("Error") or "",
    }
