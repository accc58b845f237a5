"""Whole cases: a family's theme at full strength, the others as noise.

Owns `case(seed, index)`. Never remembers anything between two cases.
Upstream: none; the format is kube-scheduler's objects, a configuration and a pod.
"""

from collections.abc import Callable

from conformance.fuzz.generate import (
    configuration,
    images,
    messages,
    node_affinity,
    nodes,
    pod_affinity,
    pods,
    ports,
    preemption,
    resources,
    spread,
    taints,
    volumes,
)
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.vocabulary import FAMILIES
from conformance.fuzz.generate.world import World

Theme = Callable[[World], None]


def case_id(family: str, seed: int, index: int) -> str:
    """Return the name of a case, which reproduces it."""
    return f"fuzz-{family}-{seed}:{index}"


def case(seed: int, index: int, families: tuple[str, ...] = FAMILIES) -> Obj:
    """Return case `seed:index`; families take turns by index."""
    family = families[index % len(families)]
    world = World(draw=Draw(seed, index), family=family)
    _frame(world)
    for theme in NOISE:
        if theme is not NOISE_OF.get(family):
            theme(world)
    THEMES[family](world)
    configuration.noise(world)
    objects = [*world.nodes, *world.pods, *world.others]
    return {
        "id": case_id(family, seed, index),
        "family": family,
        "config": world.config,
        "objects": world.draw.shuffled(objects),
        "pod": world.pod,
    }


def _frame(world: World) -> None:
    nodes.add_nodes(world)
    pods.add_namespaces(world)
    pods.add_priority_classes(world)
    pods.add_incoming(world)
    pods.add_bound_pods(world)


def _resources(world: World) -> None:
    configuration.for_theme(world, "NodeResourcesFit", 0.25)
    configuration.for_theme(world, "NodeResourcesBalancedAllocation", 0.12)
    resources.apply(world)


def _node_affinity(world: World) -> None:
    configuration.for_theme(world, "NodeAffinity", 0.25)
    node_affinity.apply(world)


def _pod_affinity(world: World) -> None:
    configuration.for_theme(world, "InterPodAffinity", 0.2)
    pod_affinity.apply(world)


def _spread(world: World) -> None:
    configuration.for_theme(world, "PodTopologySpread", 0.2)
    spread.apply(world)


def _images(world: World) -> None:
    configuration.weigh(world, "ImageLocality", 0.4)
    images.apply(world)


def _config(world: World) -> None:
    if world.draw.chance(0.25):
        images.require_features(world)
    for theme in world.draw.some(MIXABLE, 0, 2):
        theme(world)
    if world.draw.chance(0.12):
        preemption.apply(world)
    configuration.apply(world)


def _volumes(world: World) -> None:
    if world.draw.chance(0.12):
        # The remaining plugin alone must reject what another one would have rejected before.
        others = world.draw.some(VOLUME_PLUGINS, 2, 3)
        configuration.disable_all(world, others)
        world.draw.pick([volumes.broken, volumes.ephemeral])(world, "claim-8")
    configuration.disable(world, VOLUME_PLUGINS, 0.15)
    volumes.apply(world)


def _preemption(world: World) -> None:
    configuration.for_theme(world, "DefaultPreemption", 0.25)
    preemption.apply(world)


def _mixed(world: World) -> None:
    for theme in world.draw.some(MIXABLE, 2, 3):
        theme(world)
    if world.draw.chance(0.15):
        preemption.apply(world)
    if world.draw.chance(0.35):
        configuration.apply(world)
    if world.draw.chance(0.08):
        images.require_features(world)


VOLUME_PLUGINS = ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits")
NOISE: tuple[Theme, ...] = (
    taints.noise,
    resources.noise,
    node_affinity.noise,
    pod_affinity.noise,
    spread.noise,
    ports.noise,
    images.noise,
    volumes.noise,
    preemption.noise,
    messages.noise,
)
NOISE_OF: dict[str, Theme] = {
    "taints": taints.noise,
    "resources": resources.noise,
    "nodeaffinity": node_affinity.noise,
    "interpodaffinity": pod_affinity.noise,
    "topologyspread": spread.noise,
    "ports": ports.noise,
    "images": images.noise,
    "volumes": volumes.noise,
    "preemption": preemption.noise,
    "messages": messages.noise,
}
MIXABLE: tuple[Theme, ...] = (
    taints.apply,
    resources.apply,
    node_affinity.apply,
    pod_affinity.apply,
    spread.apply,
    ports.apply,
    images.apply,
    volumes.apply,
)
THEMES: dict[str, Theme] = {
    "resources": _resources,
    "taints": taints.apply,
    "nodeaffinity": _node_affinity,
    "interpodaffinity": _pod_affinity,
    "topologyspread": _spread,
    "ports": ports.apply,
    "images": _images,
    "volumes": _volumes,
    "config": _config,
    "preemption": _preemption,
    "messages": messages.apply,
    "mixed": _mixed,
}
