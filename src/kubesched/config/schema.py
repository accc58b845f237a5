"""Schema of the v1 configuration types: field names, Go types, what the encoder omits.

Owns one table per wire struct, which decoding, defaulting and encoding follow. Defaults are those
of the internal types.
Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go, types_pluginargs.go;
component-base/config/v1alpha1/types.go; api/core/v1/types.go
"""

import re
from typing import NamedTuple, TypeAlias

import msgspec

from kubesched.config import types

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
    """A Go struct; messages use `name` for it and `go_type` for its type."""

    name: str
    go_type: str
    fields: "dict[str, Field]"
    internal: type[msgspec.Struct] | None = None
    """The internal type; None if the configuration keeps the wire form."""


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


def attribute_of(name: str, kind: Type) -> str:
    """Return the attribute of the internal type that holds a field."""
    attribute = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    elem = kind.elem if isinstance(kind, Slice) else kind
    if isinstance(elem, Struct) and elem.internal is None:
        return f"{attribute}_wire"
    return f"{attribute}_ns" if kind == DURATION else attribute


def _text(go_type: str) -> Scalar:
    return Scalar("string", go_type)


def _optional(kind: Type) -> Field:
    return Field(kind, omitempty=True)


def _pointer(kind: Type) -> Field:
    return Field(kind, omitempty=True, pointer=True)


def _struct(internal: type[msgspec.Struct], package: str = "v1", /, **fields: Field) -> Struct:
    name = internal.__name__
    return Struct(name, f"{package}.{name}", fields, internal)


def _wire(name: str, /, **fields: Field) -> Struct:
    return Struct(name, f"v1.{name}", fields)


TYPE_META = {
    "kind": Field(STRING, omitempty=True, embedded="TypeMeta"),
    "apiVersion": Field(STRING, omitempty=True, embedded="TypeMeta"),
}
_DEBUGGING = Field(BOOL, omitempty=True, pointer=True, embedded="DebuggingConfiguration")

LEADER_ELECTION = _struct(
    types.LeaderElectionConfiguration,
    "v1alpha1",
    leaderElect=Field(BOOL, pointer=True),
    leaseDuration=Field(DURATION),
    renewDeadline=Field(DURATION),
    retryPeriod=Field(DURATION),
    resourceLock=Field(STRING),
    resourceName=Field(STRING),
    resourceNamespace=Field(STRING),
)
CLIENT_CONNECTION = _struct(
    types.ClientConnectionConfiguration,
    "v1alpha1",
    kubeconfig=Field(STRING),
    acceptContentTypes=Field(STRING),
    contentType=Field(STRING),
    qps=Field(FLOAT32),
    burst=Field(INT32),
)
PLUGIN = _struct(types.Plugin, name=Field(STRING), weight=_pointer(INT32))
PLUGIN_SET = _struct(
    types.PluginSet, enabled=_optional(Slice(PLUGIN)), disabled=_optional(Slice(PLUGIN))
)
# Every extension point, in the order in which the type declares them.
POINTS = types.Plugins.__struct_encode_fields__
PLUGINS = _struct(types.Plugins, **dict.fromkeys(POINTS, Field(PLUGIN_SET)))
PLUGIN_CONFIG = _struct(types.PluginConfig, name=Field(STRING), args=Field(RAW))
PROFILE = _struct(
    types.KubeSchedulerProfile,
    schedulerName=_pointer(STRING),
    percentageOfNodesToScore=_pointer(INT32),
    plugins=_pointer(PLUGINS),
    pluginConfig=_optional(Slice(PLUGIN_CONFIG)),
)
TLS_CONFIG = _struct(
    types.ExtenderTLSConfig,
    insecure=_optional(BOOL),
    serverName=_optional(STRING),
    certFile=_optional(STRING),
    keyFile=_optional(STRING),
    caFile=_optional(STRING),
    certData=_optional(BYTES),
    keyData=_optional(BYTES),
    caData=_optional(BYTES),
)
MANAGED_RESOURCE = _struct(
    types.ExtenderManagedResource, name=Field(STRING), ignoredByScheduler=_optional(BOOL)
)
EXTENDER = _struct(
    types.Extender,
    urlPrefix=Field(STRING),
    filterVerb=_optional(STRING),
    preemptVerb=_optional(STRING),
    prioritizeVerb=_optional(STRING),
    weight=_optional(INT64),
    bindVerb=_optional(STRING),
    enableHTTPS=_optional(BOOL),
    tlsConfig=_pointer(TLS_CONFIG),
    # Go's encoder never treats a struct as empty, regardless of its tag.
    httpTimeout=Field(DURATION),
    nodeCacheCapable=_optional(BOOL),
    managedResources=_optional(Slice(MANAGED_RESOURCE)),
    ignorable=_optional(BOOL),
)
CONFIGURATION = _struct(
    types.KubeSchedulerConfiguration,
    **TYPE_META,
    parallelism=_pointer(INT32),
    leaderElection=Field(LEADER_ELECTION),
    clientConnection=Field(CLIENT_CONNECTION),
    enableProfiling=_DEBUGGING,
    enableContentionProfiling=_DEBUGGING,
    percentageOfNodesToScore=_pointer(INT32),
    podInitialBackoffSeconds=_pointer(INT64),
    podMaxBackoffSeconds=_pointer(INT64),
    profiles=_optional(Slice(PROFILE)),
    extenders=_optional(Slice(EXTENDER)),
    delayCacheUntilActive=_optional(BOOL),
)

NODE_SELECTOR_REQUIREMENT = _wire(
    "NodeSelectorRequirement",
    key=Field(STRING),
    operator=Field(_text("v1.NodeSelectorOperator")),
    values=_optional(Slice(STRING)),
)
NODE_SELECTOR_TERM = _wire(
    "NodeSelectorTerm",
    matchExpressions=_optional(Slice(NODE_SELECTOR_REQUIREMENT)),
    matchFields=_optional(Slice(NODE_SELECTOR_REQUIREMENT)),
)
NODE_SELECTOR = _wire("NodeSelector", nodeSelectorTerms=Field(Slice(NODE_SELECTOR_TERM)))
PREFERRED_SCHEDULING_TERM = _wire(
    "PreferredSchedulingTerm", weight=Field(INT32), preference=Field(NODE_SELECTOR_TERM)
)
NODE_AFFINITY = _wire(
    "NodeAffinity",
    requiredDuringSchedulingIgnoredDuringExecution=_pointer(NODE_SELECTOR),
    preferredDuringSchedulingIgnoredDuringExecution=_optional(Slice(PREFERRED_SCHEDULING_TERM)),
)
LABEL_SELECTOR_REQUIREMENT = _wire(
    "LabelSelectorRequirement",
    key=Field(STRING),
    operator=Field(_text("v1.LabelSelectorOperator")),
    values=_optional(Slice(STRING)),
)
LABEL_SELECTOR = _wire(
    "LabelSelector",
    matchLabels=_optional(StringMap()),
    matchExpressions=_optional(Slice(LABEL_SELECTOR_REQUIREMENT)),
)
TOPOLOGY_SPREAD_CONSTRAINT = _wire(
    "TopologySpreadConstraint",
    maxSkew=Field(INT32),
    topologyKey=Field(STRING),
    whenUnsatisfiable=Field(_text("v1.UnsatisfiableConstraintAction")),
    labelSelector=_pointer(LABEL_SELECTOR),
    minDomains=_pointer(INT32),
    nodeAffinityPolicy=_pointer(_text("v1.NodeInclusionPolicy")),
    nodeTaintsPolicy=_pointer(_text("v1.NodeInclusionPolicy")),
    matchLabelKeys=_optional(Slice(STRING)),
)
RESOURCE_SPEC = _struct(types.ResourceSpec, name=Field(STRING), weight=_optional(INT64))
SHAPE_POINT = _struct(types.UtilizationShapePoint, utilization=Field(INT32), score=Field(INT32))
REQUESTED_TO_CAPACITY_RATIO = _struct(
    types.RequestedToCapacityRatioParam, shape=_optional(Slice(SHAPE_POINT))
)
SCORING_STRATEGY = _struct(
    types.ScoringStrategy,
    type=_optional(_text("v1.ScoringStrategyType")),
    resources=_optional(Slice(RESOURCE_SPEC)),
    requestedToCapacityRatio=_pointer(REQUESTED_TO_CAPACITY_RATIO),
)


def _args(internal: type[msgspec.Struct], /, **fields: Field) -> Struct:
    return _struct(internal, **TYPE_META, **fields)


ARGS: dict[str, Struct] = {
    args.name: args
    for args in (
        _args(
            types.DefaultPreemptionArgs,
            minCandidateNodesPercentage=_pointer(INT32),
            minCandidateNodesAbsolute=_pointer(INT32),
        ),
        _args(
            types.DynamicResourcesArgs,
            filterTimeout=Field(DURATION, pointer=True),
            bindingTimeout=_pointer(DURATION),
        ),
        _args(
            types.InterPodAffinityArgs,
            hardPodAffinityWeight=_pointer(INT32),
            ignorePreferredTermsOfExistingPods=Field(BOOL),
        ),
        _args(types.NodeAffinityArgs, addedAffinity=_pointer(NODE_AFFINITY)),
        _args(types.NodeResourcesBalancedAllocationArgs, resources=_optional(Slice(RESOURCE_SPEC))),
        _args(
            types.NodeResourcesFitArgs,
            ignoredResources=_optional(Slice(STRING)),
            ignoredResourceGroups=_optional(Slice(STRING)),
            scoringStrategy=_pointer(SCORING_STRATEGY),
        ),
        _args(
            types.PodTopologySpreadArgs,
            defaultConstraints=_optional(Slice(TOPOLOGY_SPREAD_CONSTRAINT)),
            defaultingType=_optional(_text("v1.PodTopologySpreadConstraintsDefaulting")),
        ),
        _args(
            types.VolumeBindingArgs,
            bindTimeoutSeconds=_pointer(INT64),
            shape=_optional(Slice(SHAPE_POINT)),
        ),
    )
}

KINDS: dict[str, Struct] = {KIND: CONFIGURATION, **ARGS}
