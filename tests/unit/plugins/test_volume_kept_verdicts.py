"""Kept verdicts of the volume plugins: every attempt decides as if nothing were kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.decode import KubeObject
from kubesched.attempt.diagnosis import FitError
from kubesched.attempt.kept.verdicts import KeptVerdicts
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from kubesched.profile.build import Built
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_wire_node, a_wire_pod, built_with
from tests.unit.plugins.volume_objects import (
    HOSTNAME,
    a_claim,
    a_class,
    a_csi_node,
    a_volume,
    an_attachment,
    uses_claim,
)

NAME, DRIVER, ZONE = "default-scheduler", "csi.example.com", "topology.kubernetes.io/zone"
NODES, VOLUMES = ("n0", "n1", "n2", "n3"), ("v0", "v1", "v2")
Change = Callable[[Cache], object]


@cache
def profiles() -> tuple[Built, Built]:
    """Return the default profile twice: with kept verdicts, and without."""
    caching, uncaching = built_with(), built_with()
    uncaching.profiles[NAME].without_caching()
    return caching, uncaching


def a_bound_volume(name: str, zone: str | None, hosts: list[str], handle: str) -> KubeObject:
    labels = {} if zone is None else {ZONE: zone}
    source = {"driver": DRIVER, "volumeHandle": handle}
    return a_volume(name, labels=labels, hosts=hosts, csi=source, phase="Bound")


def a_cluster() -> Cache:
    cached = Cache()
    for number, name in enumerate(NODES):
        cached.add_node(a_wire_node(name, labels={HOSTNAME: name, ZONE: f"z{number % 2}"}))
        cached.put(a_csi_node(name, {DRIVER: 2}))
    cached.put(a_class())
    for number, name in enumerate(VOLUMES):
        cached.put(a_bound_volume(name, f"z{number % 2}", [], f"h{number}"))
        cached.put(a_claim(f"c{number}", volume=name))
    return cached


def attempt(built: Built, cached: Cache, pod: PodInfo) -> Any:
    view, profile = cached.snapshot(), built.profiles[NAME]
    built.handles[NAME].view = view
    state = CycleState()
    try:
        found = run_without_extenders(
            schedule_pod(profile, view, state, pod, Search(all_nodes=True))
        )
    except FitError as failure:
        return "", str(failure), dict(failure.diagnosis.node_to_status.items())
    rejected = profile.run_reserve_plugins_reserve(state, pod, found.suggested_host)
    return found.suggested_host, found.feasible_node_count, rejected


def pod_using(cached: Cache, name: str, *claims: str) -> PodInfo:
    volumes = [uses_claim(claim, f"v{place}") for place, claim in enumerate(claims)]
    return cached.pod_info(a_wire_pod(name, volumes=volumes))


def changes() -> st.SearchStrategy[Change]:
    names, claims = st.sampled_from(VOLUMES), st.sampled_from(("c0", "c1", "c2"))
    nodes, handles = st.sampled_from(NODES), st.sampled_from(("h0", "h1", "h2"))
    zones = st.sampled_from((None, "z0", "z1", "z0__z1", "z7"))
    limits = st.one_of(st.none(), st.integers(0, 3))

    def put(obj: KubeObject) -> Change:
        return lambda cached: cached.put(obj)

    def relabel(name: str, zone: str | None) -> Change:
        labels = {HOSTNAME: name} | ({} if zone is None else {ZONE: zone})
        return lambda cached: cached.add_node(a_wire_node(name, labels=labels))

    return st.one_of(
        st.builds(
            lambda v, z, h, n: put(a_bound_volume(v, z, h, n)),
            names,
            zones,
            st.lists(nodes, max_size=3, unique=True),
            handles,
        ),
        st.builds(lambda c, v: put(a_claim(c, volume=v)), claims, names),
        st.builds(lambda c: put(a_claim(c, metadata={"resourceVersion": "8"})), claims),
        st.builds(lambda n, m: put(a_csi_node(n, {DRIVER: m})), nodes, limits),
        st.builds(lambda n, v: put(an_attachment(f"{n}{v}", n, v, DRIVER)), nodes, names),
        st.builds(relabel, nodes, zones),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(changes(), min_size=1, max_size=8))
def test_every_attempt_decides_as_if_nothing_were_kept(steps: list[Change]) -> None:
    (caching, uncaching), cached = profiles(), a_cluster()
    for number, step in enumerate(steps):
        for turn, claims in enumerate((("c0",), ("c0", "c1"), ("c2",))):
            pod = pod_using(cached, f"p{number}-{turn}", *claims)
            kept = attempt(caching, cached, pod)
            assert kept == attempt(uncaching, cached, pod)
            if kept[0]:
                cached.assume_pod(pod, kept[0])
        step(cached)


def test_pods_of_one_template_with_bound_claims_share_verdicts(monkeypatch: Any) -> None:
    created: list[KeptVerdicts] = []
    create = KeptVerdicts.__init__

    def recording(self: KeptVerdicts, *args: Any) -> None:
        created.append(self)
        create(self, *args)

    monkeypatch.setattr(KeptVerdicts, "__init__", recording)
    built, cached = built_with(), a_cluster()
    hosts = []
    for number in range(6):
        pod = pod_using(cached, f"p{number}", "c0")
        hosts.append(attempt(built, cached, pod)[0])
        cached.assume_pod(pod, hosts[-1])
    assert set(hosts) == {"n0", "n2"}
    assert len(created) == 1
    assert {"NodeVolumeLimits", "VolumeBinding"} <= {f.plugin.name for f in created[0].filters}
    assert "VolumeZone" in {kept.plugin.name for kept in created[0].filters}
    cached.put(a_claim("c1", volume="v1"))
    attempt(built, cached, pod_using(cached, "last", "c0"))
    assert len(created) == 2
