"""Themes: images on nodes, and the features nodes declare.

Owns image lists and the pod's images. Never sets image pull policies.
Upstream: pkg/scheduler/framework/plugins/imagelocality,
pkg/scheduler/framework/plugins/nodedeclaredfeatures
"""

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Obj
from conformance.fuzz.generate.world import World


def apply(world: World) -> None:
    """Spread large images over nodes and let the pod use several."""
    draw = world.draw
    probability = draw.pick([0.2, 0.5, 0.9])
    for node in world.nodes:
        if draw.chance(0.1):
            node["status"].pop("images", None)
            continue
        chosen = draw.subset(words.NODE_IMAGES, probability)
        images = [{"names": list(names), "sizeBytes": size} for names, size in chosen]
        if draw.chance(0.05):
            images.append({"names": [], "sizeBytes": 500000000})
        node["status"]["images"] = draw.shuffled(images)
    _use_images(world)
    add_image_volume(world, 0.25)
    if draw.chance(0.3):
        world.spec["initContainers"] = [
            {"name": f"i{index}", "image": draw.pick(words.POD_IMAGES)}
            for index in range(draw.number(1, 2))
        ]


def noise(world: World) -> None:
    """Add an image volume now and then."""
    add_image_volume(world, 0.03)


def add_image_volume(world: World, probability: float) -> None:
    """Mount an image as a volume."""
    draw = world.draw
    if draw.chance(probability):
        source: Obj = {"reference": draw.pick(words.POD_IMAGES)}
        world.spec.setdefault("volumes", []).append({"name": "img", "image": source})


def require_features(world: World) -> None:
    """Let the pod need a declared feature which some nodes have."""
    draw = world.draw
    spec = world.spec
    if draw.chance(0.6):
        action = draw.pick(["RestartAllContainers", "RestartAllContainers", "Restart"])
        rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
        target = draw.pick(spec["containers"] + spec.get("initContainers", []))
        if target.get("restartPolicy") != "Always":
            target["restartPolicy"] = "Never"
        target["restartPolicyRules"] = [rule]
        spec["restartPolicy"] = "Never"
    if draw.chance(0.5):
        spec["hostNetwork"] = True
        spec["hostUsers"] = draw.pick([False, False, True])
    for node in draw.subset(world.nodes, 0.6):
        node["status"]["declaredFeatures"] = sorted(draw.subset(words.FEATURES, 0.6))


def _use_images(world: World) -> None:
    draw = world.draw
    present = [
        name
        for node in world.nodes
        for image in node["status"].get("images", [])
        for name in image["names"]
    ]
    for container in world.spec["containers"]:
        if present and draw.chance(0.7):
            container["image"] = draw.pick(present).removesuffix(":latest")
        else:
            container["image"] = draw.pick(words.POD_IMAGES)
