"""Theme: affinity and anti-affinity between pods, the incoming one's and the existing ones'.

Owns pod affinity terms. Never touches node affinity.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity
"""

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Obj
from conformance.fuzz.generate.label_selectors import namespace_selector, pod_selector
from conformance.fuzz.generate.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHTS = (1, 5, 10, 33, 50, 100)


def apply(world: World) -> None:
    """Give the incoming pod and many existing pods affinity terms."""
    draw = world.draw
    like = world.pod["metadata"].get("labels")
    if draw.chance(0.35):
        _add(world, world.pod, "podAffinity", REQUIRED, draw.pick([1, 1, 1, 2, 3]), like)
    if draw.chance(0.3):
        _add(world, world.pod, "podAntiAffinity", REQUIRED, draw.pick([1, 1, 2]), None)
    if draw.chance(0.45):
        _add(world, world.pod, "podAffinity", PREFERRED, draw.number(1, 3), None)
    if draw.chance(0.5):
        _add(world, world.pod, "podAntiAffinity", PREFERRED, draw.number(1, 3), None)
    if draw.chance(0.12):
        make_lonely(world)
    decorate_existing(world, draw.pick([0.1, 0.3, 0.5, 0.8]))


def noise(world: World) -> None:
    """Add a term of the pod and terms of few existing pods."""
    draw = world.draw
    if draw.chance(0.1):
        _add(world, world.pod, "podAntiAffinity", PREFERRED, draw.number(1, 2), None)
    if draw.chance(0.07):
        _add(world, world.pod, "podAffinity", PREFERRED, 1, None)
    if draw.chance(0.04):
        _add(world, world.pod, "podAntiAffinity", REQUIRED, 1, None)
    if draw.chance(0.03):
        labels = world.pod["metadata"].get("labels")
        _add(world, world.pod, "podAffinity", REQUIRED, 1, labels)
    decorate_existing(world, 0.05)


def decorate_existing(world: World, probability: float) -> None:
    """Give existing pods terms, some of them about the incoming pod."""
    draw = world.draw
    for pod in draw.subset(world.pods, probability):
        like = world.pod["metadata"].get("labels") if draw.chance(0.5) else None
        kind, strength = draw.weighted(
            [
                (("podAntiAffinity", REQUIRED), 2.5),
                (("podAntiAffinity", PREFERRED), 3.0),
                (("podAffinity", PREFERRED), 3.0),
                (("podAffinity", REQUIRED), 1.5),
            ]
        )
        _add(world, pod, kind, strength, draw.pick([1, 1, 2]), like)


def make_lonely(world: World) -> None:
    """Give the pod an affinity that only the pod itself matches."""
    draw = world.draw
    name = draw.pick(["solo", "solo2"])
    if draw.chance(0.7):
        world.pod["metadata"].setdefault("labels", {})["app"] = name
    keys = draw.some([words.ZONE, words.HOSTNAME, "rack"], 1, 2)
    terms = [{"topologyKey": k, "labelSelector": {"matchLabels": {"app": name}}} for k in keys]
    affinity = world.spec.setdefault("affinity", {}).setdefault("podAffinity", {})
    affinity[REQUIRED] = terms


def term(world: World, like: dict[str, str] | None) -> Obj:
    """Return one pod affinity term."""
    draw = world.draw
    made: Obj = {"topologyKey": draw.weighted(words.TOPOLOGY_KEYS)}
    selector = pod_selector(draw, like)
    if selector is not None:
        made["labelSelector"] = selector
    if draw.chance(0.22):
        made["namespaces"] = draw.some(words.NAMESPACES[:4], 1, 2)
    if draw.chance(0.16):
        made["namespaceSelector"] = namespace_selector(draw)
    if selector is not None and draw.chance(0.1):
        made["matchLabelKeys"] = draw.some(["pod-template-hash", "absent"], 1, 2)
    if selector is not None and draw.chance(0.07):
        made["mismatchLabelKeys"] = [draw.pick(["version", "absent"])]
    return made


def _add(
    world: World, pod: Obj, kind: str, strength: str, count: int, like: dict[str, str] | None
) -> None:
    made: list[Obj] = []
    for _ in range(count):
        one = term(world, like)
        if strength == PREFERRED:
            one = {"weight": world.draw.pick(WEIGHTS), "podAffinityTerm": one}
        made.append(one)
    affinity = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    affinity.setdefault(strength, []).extend(made)
