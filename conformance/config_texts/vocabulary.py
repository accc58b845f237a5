"""Vocabulary of configuration files: names, durations, labels, ambiguous scalars.

Owns the vocabulary of the configuration fuzzer. Never marks words as valid or invalid.
Upstream: pkg/scheduler/framework/plugins/names/names.go for the plugin names
"""


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
IN_TREE = words(
    """
    DynamicResources ImageLocality TaintToleration NodeName NodePorts NodeAffinity
    NodeDeclaredFeatures PodTopologySpread NodeUnschedulable NodeResourcesFit
    NodeResourcesBalancedAllocation VolumeBinding VolumeRestrictions VolumeZone NodeVolumeLimits
    InterPodAffinity PrioritySort DefaultBinder DefaultPreemption SchedulingGates GangScheduling
    TopologyPlacementGenerator PodGroupPodsCount
    """
)
FOREIGN = words(
    """
    Coscheduling EBSLimits GCEPDLimits CinderLimits AzureDiskLimits SelectorSpread Gang
    """
)
POINTS = words(
    """
    preEnqueue queueSort preFilter filter postFilter preScore score reserve permit preBind bind
    postBind multiPoint placementGenerate placementScore
    """
)
SUITED = {
    "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption GangScheduling",
    "queueSort": "PrioritySort",
    "preFilter": "NodeAffinity NodePorts NodeResourcesFit VolumeBinding InterPodAffinity",
    "filter": "NodeName NodePorts TaintToleration NodeResourcesFit VolumeZone NodeUnschedulable",
    "postFilter": "DynamicResources DefaultPreemption",
    "preScore": "TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread",
    "score": "ImageLocality TaintToleration NodeAffinity NodeResourcesFit InterPodAffinity",
    "reserve": "VolumeBinding DynamicResources",
    "permit": "GangScheduling",
    "preBind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "postBind": "NodePorts",
    "multiPoint": " ".join(IN_TREE),
    "placementGenerate": "TopologyPlacementGenerator",
    "placementScore": "NodeResourcesFit PodGroupPodsCount",
}
DURATIONS = words(
    """
    15s 10s 2s 1m 1h30m 250ms 0.5s 1.5h 0 0s -3s +4s 100us 3ns 1h2m3.5s 25s .5s 1.s 16s 5 5x abc
    1d 1e3s 1m1 9223372036854775807ns 9223372036854775808ns 1s1 s . - + 1µs 3000000h
    2562047h47m16.854775807s 2562047h47m16.854775808s 1.0000000000000000001s 0.1ns 1S
    """
)
LABELS = [
    *words(
        """
        cpu memory example.com/gpu nvidia.com/gpu kubernetes.io/x requests.cpu a/b a/b/c /x x/
        -bad bad- my_name UPPER.com/x example.com/ ephemeral-storage hugepages-2Mi foo.bar/baz
        requests.example.com/x x.kubernetes.io/y
        """
    ),
    *("", "my rack", "a" * 64, "b" * 254 + "/x", "é", 'quo"te', "<b>", "example.com/" + "c" * 63),
]
AMBIGUOUS_SCALARS = words(
    r"""
    yes no on off y n Yes NO True FALSE ~ null Null 0x1F 017 08 0b11 0o17 1_000 1e3 1e-3 1.0 1.
    .5 -.5 +1 +1.5 -0 0.0 .inf -.inf .nan .NaN 1e400 1:30 190:20:30 2001-01-01
    2001-01-01T10:00:00Z 9223372036854775807 9223372036854775808 18446744073709551615
    18446744073709551616 -9223372036854775808 -9223372036854775809 4294967296 2147483648
    -2147483649 99999999999999999999999 12.5 1e2 0x 0b 1__0 _1 - + . .. ... !!str&x !!int&7
    !!float&3 !!bool&yes !!null& !!binary&aGk= !!binary&*** !foo&x !!int&x !!float&1.5
    !!timestamp&2001-01-01 !&5 '5' "5" '' "" 'true' "a\tb" "\u00e9" "\x41" =x
    """
)
