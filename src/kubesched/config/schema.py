"""The shape of the v1 configuration types: field names, Go types, what the encoder omits.

Owns one table per wire struct, used both to decode and to encode. Never holds a default.
Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go, types_pluginargs.go;
component-base/config/v1alpha1/types.go; api/core/v1/types.go
"""

from typing import NamedTuple, TypeAlias

GROUP = "kubescheduler.config.k8s.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "KubeSchedulerConfiguration"


class Scalar(NamedTuple):
    """A Go value that JSON writes as one literal."""

    kind: str
    go_type: str


class Slice(NamedTuple):
    """A Go slice."""

    elem: "Type"

    @property
    def go_type(self) -> str:
        """Return the type as Go prints it."""
        return "[]" + self.elem.go_type


class StringMap(NamedTuple):
    """A Go map[string]string."""

    go_type: str = "map[string]string"


class Struct(NamedTuple):
    """A Go struct; `name` is what messages call it, `go_type` what they call its type."""

    name: str
    go_type: str
    fields: "dict[str, Field]"


Type: TypeAlias = Scalar | Slice | StringMap | Struct


class Field(NamedTuple):
    """One field of a struct."""

    type: Type
    omitempty: bool = False
    pointer: bool = False
    embedded: str = ""


STRING = Scalar("string", "string")
BOOL = Scalar("bool", "bool")
INT32 = Scalar("int32", "int32")
INT64 = Scalar("int64", "int64")
FLOAT32 = Scalar("float32", "float32")
BYTES = Scalar("bytes", "[]uint8")
DURATION = Scalar("duration", "v1.Duration")
RAW = Scalar("raw", "runtime.RawExtension")


def _text(go_type: str) -> Scalar:
    return Scalar("string", go_type)


def _optional(kind: Type) -> Field:
    return Field(kind, omitempty=True)


def _pointer(kind: Type) -> Field:
    return Field(kind, omitempty=True, pointer=True)


def _struct(name: str, package: str, fields: dict[str, Field]) -> Struct:
    return Struct(name, f"{package}.{name}", fields)


_TYPE_META = {
    "kind": Field(STRING, omitempty=True, embedded="TypeMeta"),
    "apiVersion": Field(STRING, omitempty=True, embedded="TypeMeta"),
}

LEADER_ELECTION = _struct(
    "LeaderElectionConfiguration",
    "v1alpha1",
    {
        "leaderElect": Field(BOOL, pointer=True),
        "leaseDuration": Field(DURATION),
        "renewDeadline": Field(DURATION),
        "retryPeriod": Field(DURATION),
        "resourceLock": Field(STRING),
        "resourceName": Field(STRING),
        "resourceNamespace": Field(STRING),
    },
)
CLIENT_CONNECTION = _struct(
    "ClientConnectionConfiguration",
    "v1alpha1",
    {
        "kubeconfig": Field(STRING),
        "acceptContentTypes": Field(STRING),
        "contentType": Field(STRING),
        "qps": Field(FLOAT32),
        "burst": Field(INT32),
    },
)
PLUGIN = _struct("Plugin", "v1", {"name": Field(STRING), "weight": _pointer(INT32)})
PLUGIN_SET = _struct(
    "PluginSet",
    "v1",
    {"enabled": _optional(Slice(PLUGIN)), "disabled": _optional(Slice(PLUGIN))},
)
# Every extension point, in the order in which the type declares them.
POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
    "placementGenerate",
    "placementScore",
)
PLUGINS = _struct("Plugins", "v1", {point: Field(PLUGIN_SET) for point in POINTS})
PLUGIN_CONFIG = _struct("PluginConfig", "v1", {"name": Field(STRING), "args": Field(RAW)})
PROFILE = _struct(
    "KubeSchedulerProfile",
    "v1",
    {
        "schedulerName": _pointer(STRING),
        "percentageOfNodesToScore": _pointer(INT32),
        "plugins": _pointer(PLUGINS),
        "pluginConfig": _optional(Slice(PLUGIN_CONFIG)),
    },
)
TLS_CONFIG = _struct(
    "ExtenderTLSConfig",
    "v1",
    {
        "insecure": _optional(BOOL),
        "serverName": _optional(STRING),
        "certFile": _optional(STRING),
        "keyFile": _optional(STRING),
        "caFile": _optional(STRING),
        "certData": _optional(BYTES),
        "keyData": _optional(BYTES),
        "caData": _optional(BYTES),
    },
)
MANAGED_RESOURCE = _struct(
    "ExtenderManagedResource",
    "v1",
    {"name": Field(STRING), "ignoredByScheduler": _optional(BOOL)},
)
EXTENDER = _struct(
    "Extender",
    "v1",
    {
        "urlPrefix": Field(STRING),
        "filterVerb": _optional(STRING),
        "preemptVerb": _optional(STRING),
        "prioritizeVerb": _optional(STRING),
        "weight": _optional(INT64),
        "bindVerb": _optional(STRING),
        "enableHTTPS": _optional(BOOL),
        "tlsConfig": _pointer(TLS_CONFIG),
        # A struct is never empty to Go's encoder, whatever its tag says.
        "httpTimeout": Field(DURATION),
        "nodeCacheCapable": _optional(BOOL),
        "managedResources": _optional(Slice(MANAGED_RESOURCE)),
        "ignorable": _optional(BOOL),
    },
)
CONFIGURATION = _struct(
    KIND,
    "v1",
    {
        **_TYPE_META,
        "parallelism": _pointer(INT32),
        "leaderElection": Field(LEADER_ELECTION),
        "clientConnection": Field(CLIENT_CONNECTION),
        "enableProfiling": Field(
            BOOL, omitempty=True, pointer=True, embedded="DebuggingConfiguration"
        ),
        "enableContentionProfiling": Field(
            BOOL, omitempty=True, pointer=True, embedded="DebuggingConfiguration"
        ),
        "percentageOfNodesToScore": _pointer(INT32),
        "podInitialBackoffSeconds": _pointer(INT64),
        "podMaxBackoffSeconds": _pointer(INT64),
        "profiles": _optional(Slice(PROFILE)),
        "extenders": _optional(Slice(EXTENDER)),
        "delayCacheUntilActive": _optional(BOOL),
    },
)

NODE_SELECTOR_REQUIREMENT = _struct(
    "NodeSelectorRequirement",
    "v1",
    {
        "key": Field(STRING),
        "operator": Field(_text("v1.NodeSelectorOperator")),
        "values": _optional(Slice(STRING)),
    },
)
NODE_SELECTOR_TERM = _struct(
    "NodeSelectorTerm",
    "v1",
    {
        "matchExpressions": _optional(Slice(NODE_SELECTOR_REQUIREMENT)),
        "matchFields": _optional(Slice(NODE_SELECTOR_REQUIREMENT)),
    },
)
NODE_SELECTOR = _struct(
    "NodeSelector", "v1", {"nodeSelectorTerms": Field(Slice(NODE_SELECTOR_TERM))}
)
PREFERRED_SCHEDULING_TERM = _struct(
    "PreferredSchedulingTerm",
    "v1",
    {"weight": Field(INT32), "preference": Field(NODE_SELECTOR_TERM)},
)
NODE_AFFINITY = _struct(
    "NodeAffinity",
    "v1",
    {
        "requiredDuringSchedulingIgnoredDuringExecution": _pointer(NODE_SELECTOR),
        "preferredDuringSchedulingIgnoredDuringExecution": _optional(
            Slice(PREFERRED_SCHEDULING_TERM)
        ),
    },
)
LABEL_SELECTOR_REQUIREMENT = _struct(
    "LabelSelectorRequirement",
    "v1",
    {
        "key": Field(STRING),
        "operator": Field(_text("v1.LabelSelectorOperator")),
        "values": _optional(Slice(STRING)),
    },
)
LABEL_SELECTOR = _struct(
    "LabelSelector",
    "v1",
    {
        "matchLabels": _optional(StringMap()),
        "matchExpressions": _optional(Slice(LABEL_SELECTOR_REQUIREMENT)),
    },
)
TOPOLOGY_SPREAD_CONSTRAINT = _struct(
    "TopologySpreadConstraint",
    "v1",
    {
        "maxSkew": Field(INT32),
        "topologyKey": Field(STRING),
        "whenUnsatisfiable": Field(_text("v1.UnsatisfiableConstraintAction")),
        "labelSelector": _pointer(LABEL_SELECTOR),
        "minDomains": _pointer(INT32),
        "nodeAffinityPolicy": _pointer(_text("v1.NodeInclusionPolicy")),
        "nodeTaintsPolicy": _pointer(_text("v1.NodeInclusionPolicy")),
        "matchLabelKeys": _optional(Slice(STRING)),
    },
)
RESOURCE_SPEC = _struct("ResourceSpec", "v1", {"name": Field(STRING), "weight": _optional(INT64)})
SHAPE_POINT = _struct(
    "UtilizationShapePoint", "v1", {"utilization": Field(INT32), "score": Field(INT32)}
)
REQUESTED_TO_CAPACITY_RATIO = _struct(
    "RequestedToCapacityRatioParam", "v1", {"shape": _optional(Slice(SHAPE_POINT))}
)
SCORING_STRATEGY = _struct(
    "ScoringStrategy",
    "v1",
    {
        "type": _optional(_text("v1.ScoringStrategyType")),
        "resources": _optional(Slice(RESOURCE_SPEC)),
        "requestedToCapacityRatio": _pointer(REQUESTED_TO_CAPACITY_RATIO),
    },
)


def _args(name: str, fields: dict[str, Field]) -> Struct:
    return _struct(name, "v1", {**_TYPE_META, **fields})


ARGS: dict[str, Struct] = {
    args.name: args
    for args in (
        _args(
            "DefaultPreemptionArgs",
            {
                "minCandidateNodesPercentage": _pointer(INT32),
                "minCandidateNodesAbsolute": _pointer(INT32),
            },
        ),
        _args(
            "DynamicResourcesArgs",
            {
                "filterTimeout": Field(DURATION, pointer=True),
                "bindingTimeout": _pointer(DURATION),
            },
        ),
        _args(
            "InterPodAffinityArgs",
            {
                "hardPodAffinityWeight": _pointer(INT32),
                "ignorePreferredTermsOfExistingPods": Field(BOOL),
            },
        ),
        _args("NodeAffinityArgs", {"addedAffinity": _pointer(NODE_AFFINITY)}),
        _args(
            "NodeResourcesBalancedAllocationArgs", {"resources": _optional(Slice(RESOURCE_SPEC))}
        ),
        _args(
            "NodeResourcesFitArgs",
            {
                "ignoredResources": _optional(Slice(STRING)),
                "ignoredResourceGroups": _optional(Slice(STRING)),
                "scoringStrategy": _pointer(SCORING_STRATEGY),
            },
        ),
        _args(
            "PodTopologySpreadArgs",
            {
                "defaultConstraints": _optional(Slice(TOPOLOGY_SPREAD_CONSTRAINT)),
                "defaultingType": _optional(_text("v1.PodTopologySpreadConstraintsDefaulting")),
            },
        ),
        _args(
            "VolumeBindingArgs",
            {"bindTimeoutSeconds": _pointer(INT64), "shape": _optional(Slice(SHAPE_POINT))},
        ),
    )
}

KINDS: dict[str, Struct] = {KIND: CONFIGURATION, **ARGS}
