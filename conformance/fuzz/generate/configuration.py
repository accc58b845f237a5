"""Theme: the scheduler's configuration: profiles, plugin sets, weights, arguments.

Owns valid KubeSchedulerConfiguration documents. Never makes faulty ones: fuzz_config does.
Upstream: pkg/scheduler/apis/config (types, defaults, validation)
"""

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.node_affinity import added_affinity
from conformance.fuzz.generate.world import World

API = "kubescheduler.config.k8s.io/v1"
# Plugins whose Filter or Score reads the state of their PreFilter or PreScore: if only the latter
# is disabled, the cycle ends with an error.
PRE_FILTER = (
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
)
FILTER = ("NodeUnschedulable", "NodeName", "TaintToleration", *PRE_FILTER)
PRE_SCORE = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "VolumeBinding",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
)
POST_FILTER = ("DynamicResources", "DefaultPreemption")
POINTS = {
    "preFilter": PRE_FILTER,
    "filter": FILTER,
    "postFilter": POST_FILTER,
    "preScore": PRE_SCORE,
    "score": words.SCORE_PLUGINS,
}


def apply(world: World) -> None:
    """Configure the scheduler and let the pod name one of its profiles."""
    draw = world.draw
    if draw.chance(0.12):
        return
    count = draw.weighted([(1, 6), (2, 3), (3, 1)])
    profiles = [_profile(world, name) for name in _names(draw, count)]
    world.config = _document(draw, profiles)
    chosen = draw.pick(profiles)["schedulerName"]
    world.spec["schedulerName"] = chosen
    if draw.chance(0.06):
        world.spec["nodeName"] = draw.pick([*world.node_names, "ghost"])


def noise(world: World) -> None:
    """Configure a little, in one profile."""
    draw = world.draw
    if world.config is not None or not draw.chance(0.22):
        return
    profile: Obj = {"schedulerName": "default-scheduler"}
    if draw.chance(0.6):
        profile["pluginConfig"] = plugin_config(world, 0.3)
    if draw.chance(0.5):
        profile["plugins"] = _scores(draw)
    world.config = _document(draw, [profile])


def for_theme(world: World, plugin: str, probability: float) -> None:
    """Configure the one plugin the case is about."""
    if world.config is None and world.draw.chance(probability):
        args = _args(world, plugin)
        entry = {"name": plugin, "args": {"apiVersion": API, "kind": f"{plugin}Args", **args}}
        profile = {"schedulerName": "default-scheduler", "pluginConfig": [entry]}
        world.config = _document(world.draw, [profile])


def weigh(world: World, plugin: str, probability: float) -> None:
    """Raise the weight of the plugin the case is about."""
    if world.config is None and world.draw.chance(probability):
        enabled = [{"name": plugin, "weight": world.draw.pick([2, 5, 50])}]
        plugins = {"multiPoint": {"enabled": enabled}}
        profile = {"schedulerName": "default-scheduler", "plugins": plugins}
        world.config = _document(world.draw, [profile])


def disable(world: World, plugins: tuple[str, ...], probability: float) -> None:
    """Disable some of the plugins the case is about, as a whole or at one point only."""
    draw = world.draw
    if world.config is None and draw.chance(probability):
        names = [{"name": name} for name in draw.some(plugins, 1, 3)]
        point = draw.weighted([("multiPoint", 6.0), ("preFilter", 3.0), ("filter", 1.0)])
        plugin_sets = {point: {"disabled": names}}
        profile = {"schedulerName": "default-scheduler", "plugins": plugin_sets}
        world.config = _document(draw, [profile])


def disable_all(world: World, plugins: list[str]) -> None:
    """Disable these plugins, at every point."""
    names = [{"name": name} for name in plugins]
    plugin_sets = {"multiPoint": {"disabled": names}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugin_sets}
    world.config = _document(world.draw, [profile])


def plugin_config(world: World, probability: float) -> list[Obj]:
    """Return arguments of some plugins."""
    made: list[Obj] = []
    for plugin in world.draw.subset(sorted(ARGS), probability):
        args = _args(world, plugin)
        made.append({"name": plugin, "args": {"apiVersion": API, "kind": f"{plugin}Args", **args}})
    return world.draw.shuffled(made)


def _document(draw: Draw, profiles: list[Obj]) -> Obj:
    made: Obj = {"apiVersion": API, "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    if draw.chance(0.15):
        made["parallelism"] = draw.pick([1, 8, 16, 32])
    if draw.chance(0.1):
        made["percentageOfNodesToScore"] = draw.pick([0, 10, 50, 100])
    return made


def _names(draw: Draw, count: int) -> list[str]:
    names = ["default-scheduler" if draw.chance(0.75) else "sched-0"]
    return names + [f"sched-{index}" for index in range(1, count)]


def _profile(world: World, name: str) -> Obj:
    draw = world.draw
    made: Obj = {"schedulerName": name}
    if draw.chance(0.7):
        made["pluginConfig"] = plugin_config(world, 0.3)
    if draw.chance(0.7):
        made["plugins"] = _plugins(draw)
    if draw.chance(0.1):
        made["percentageOfNodesToScore"] = draw.pick([0, 50, 100])
    return made


def _plugins(draw: Draw) -> Obj:
    kind = draw.weighted([("scores", 4), ("weights", 4), ("less", 3), ("chosen", 3), ("halves", 5)])
    if kind == "scores":
        return _scores(draw)
    if kind == "weights":
        return {"multiPoint": {"enabled": _weighted(draw, words.SCORE_PLUGINS, 1, 4)}}
    if kind == "less":
        disabled = draw.some(words.PLUGINS, 1, 4)
        return {"multiPoint": {"disabled": [{"name": name} for name in disabled]}}
    if kind == "chosen":
        return {"multiPoint": _chosen(draw)}
    return _halves(draw)


def _scores(draw: Draw) -> Obj:
    disabled = draw.some(words.SCORE_PLUGINS[:7], 1, 4)
    if draw.chance(0.25):
        disabled = ["*"]
    made: Obj = {"disabled": [{"name": name} for name in disabled]}
    if disabled == ["*"] or draw.chance(0.4):
        options = words.SCORE_PLUGINS if disabled == ["*"] else tuple(disabled)
        made["enabled"] = _weighted(draw, options, 1, 3)
    if disabled == ["*"] and draw.chance(0.1):
        del made["enabled"]  # no plugin scores at all
    return {"score": made}


def _chosen(draw: Draw) -> Obj:
    names = [*draw.some(words.PLUGINS, 2, 9), "PrioritySort", "DefaultBinder"]
    enabled: list[Obj] = []
    for name in draw.shuffled(names):
        one: Obj = {"name": name}
        if name in words.SCORE_PLUGINS and draw.chance(0.6):
            one["weight"] = draw.pick([1, 2, 3, 4, 5, 8, 20])
        enabled.append(one)
    return {"disabled": [{"name": "*"}], "enabled": enabled}


def _halves(draw: Draw) -> Obj:
    made: Obj = {}
    points = [
        draw.weighted(
            [("preScore", 3), ("preFilter", 3), ("filter", 1), ("score", 1), ("postFilter", 2)]
        )
    ]
    for point in sorted({*points, *draw.some(sorted(POINTS), 0, 1)}):
        plugins = POINTS[point]
        names = draw.some(plugins, 1, 2)
        entry: Obj = {"disabled": [{"name": name} for name in names]}
        if draw.chance(0.2):
            # Disabled and enabled again: it moves to the end of the point.
            entry["enabled"] = [{"name": names[0]}]
        made[point] = entry
    return made


def _weighted(draw: Draw, options: tuple[str, ...], least: int, most: int) -> list[Obj]:
    weights = [1, 2, 3, 4, 5, 7, 9, 10, 18, 20, 50]
    return [
        {"name": name, "weight": draw.pick(weights)} for name in draw.some(options, least, most)
    ]


def _fit_args(world: World) -> Obj:
    draw = world.draw
    made: Obj = {}
    if draw.chance(0.85):
        kind = draw.pick(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
        strategy: Obj = {"type": kind, "resources": _scored(draw)}
        made["scoringStrategy"] = strategy
        if kind == "RequestedToCapacityRatio":
            strategy["requestedToCapacityRatio"] = {"shape": _shape(draw)}
    if draw.chance(0.3):
        made["ignoredResources"] = draw.some(words.EXTENDED, 1, 2)
    if draw.chance(0.2):
        made["ignoredResourceGroups"] = draw.some(["example.com", "vendor.io", "nvidia.com"], 1, 2)
    return made


def _scored(draw: Draw) -> list[Obj]:
    names = ["cpu", "memory"]
    if draw.chance(0.15):
        names = [draw.pick(names)]
    names += draw.subset([*words.EXTENDED, "ephemeral-storage", "hugepages-2Mi"], 0.15)
    return [{"name": name, "weight": draw.pick([1, 2, 3, 5, 10, 100])} for name in names]


def _shape(draw: Draw) -> list[Obj]:
    points = sorted(draw.some([0, 10, 33, 50, 75, 100], 1, 4))
    return [{"utilization": point, "score": draw.number(0, 10)} for point in points]


def _balanced_args(world: World) -> Obj:
    draw = world.draw
    names = ["cpu", "memory"] if draw.chance(0.85) else [draw.pick(["cpu", "memory"])]
    names += draw.subset([*words.EXTENDED, "ephemeral-storage"], 0.25)
    return {"resources": [{"name": name, "weight": 1} for name in names]}


def _affinity_args(world: World) -> Obj:
    return {"addedAffinity": added_affinity(world)}


def _preemption_args(world: World) -> Obj:
    draw = world.draw
    return {
        "minCandidateNodesPercentage": draw.pick([0, 1, 10, 50, 100]),
        "minCandidateNodesAbsolute": draw.pick([1, 1, 2, 3, 100]),
    }


def _pod_affinity_args(world: World) -> Obj:
    draw = world.draw
    made: Obj = {}
    if draw.chance(0.8):
        made["hardPodAffinityWeight"] = draw.pick([0, 1, 10, 50, 100])
    if draw.chance(0.4):
        made["ignorePreferredTermsOfExistingPods"] = draw.chance(0.7)
    return made


def _spread_args(world: World) -> Obj:
    draw = world.draw
    if draw.chance(0.15):
        return {"defaultingType": "System"}
    keys = draw.some([words.ZONE, words.HOSTNAME, "pool", "rack"], 0, 2)
    constraints = [
        {
            "maxSkew": draw.pick([1, 1, 2, 3]),
            "topologyKey": key,
            "whenUnsatisfiable": draw.pick(["ScheduleAnyway", "ScheduleAnyway", "DoNotSchedule"]),
        }
        for key in keys
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}


def _volume_args(world: World) -> Obj:
    return {"bindTimeoutSeconds": world.draw.pick([30, 1200])}


ARGS = {
    "NodeResourcesFit": _fit_args,
    "NodeResourcesBalancedAllocation": _balanced_args,
    "NodeAffinity": _affinity_args,
    "DefaultPreemption": _preemption_args,
    "InterPodAffinity": _pod_affinity_args,
    "PodTopologySpread": _spread_args,
    "VolumeBinding": _volume_args,
}


def _args(world: World, plugin: str) -> Obj:
    return ARGS[plugin](world)
