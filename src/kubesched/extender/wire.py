"""The messages between a scheduler and its extenders, v1, as both sides read and write them.

Owns their fields and their JSON, which is Go's: keys are the names of Go's fields, nothing is left
out, and reading minds neither case nor unknown keys. Never looks into a pod or a node: those are
bytes that pass through.
Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from kubesched.extender.go_json import (
    INT64,
    TEXT,
    GoType,
    Map,
    Scalar,
    Slice,
    Struct,
    WireError,
    normalized,
    respelled,
)

__all__ = [
    "MAX_EXTENDER_PRIORITY",
    "ExtenderArgs",
    "ExtenderBindingArgs",
    "ExtenderBindingResult",
    "ExtenderFilterResult",
    "ExtenderPreemptionArgs",
    "ExtenderPreemptionResult",
    "HostPriority",
    "MetaPod",
    "MetaVictims",
    "NodeList",
    "Victims",
    "WireError",
    "decode_args",
    "decode_binding_args",
    "decode_binding_result",
    "decode_filter_result",
    "decode_host_priorities",
    "decode_preemption_args",
    "decode_preemption_result",
    "encode",
]

MAX_EXTENDER_PRIORITY: Final = 10
NULL: Final = Raw(b"null")
_OBJECT: Final = ord("{")
_NO_METADATA: Final = Raw(b"{}")
_INITIALS: Final = {"uid": "UID", "pdb": "PDB"}
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


def _go_name(name: str) -> str:
    """Return a field's name as Go has it."""
    return "".join(_INITIALS.get(word) or word.capitalize() for word in name.split("_"))


class _Message(msgspec.Struct, rename=_go_name, forbid_unknown_fields=True, kw_only=True):
    """A part of the protocol; whatever a strict reader does not take is read Go's way."""


class NodeList(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=False, kw_only=True):
    """Nodes as they are in the API; a scheduler does not say of what kind the list is."""

    kind: str | UnsetType = UNSET
    api_version: str | UnsetType = msgspec.field(name="apiVersion", default=UNSET)
    metadata: Raw = _NO_METADATA
    items: list[Raw] | None = None


class ExtenderArgs(_Message):
    """Asks to filter or to prioritize; either nodes or their names are given."""

    pod: Raw = NULL
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(_Message):
    """Which nodes are left, and why the others are not."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(_Message):
    """What one node is worth, from 0 to 10 by custom."""

    host: str = ""
    score: Int64 = 0


class ExtenderBindingArgs(_Message):
    """Asks to bind a pod."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = ""
    node: str = ""


class ExtenderBindingResult(_Message):
    """Whether the pod is bound."""

    error: str = ""


class MetaPod(_Message):
    """A pod, by its identifier."""

    uid: str = ""


class MetaVictims(_Message):
    """Who would have to go from a node, by identifier."""

    pods: list[MetaPod | None] | None = None
    num_pdb_violations: Int64 = 0


class Victims(_Message):
    """Who would have to go from a node, whole."""

    pods: list[Raw] | None = None
    num_pdb_violations: Int64 = 0


class ExtenderPreemptionArgs(_Message):
    """Asks which of these nodes are to be freed of whom; one of the two forms is given."""

    pod: Raw = NULL
    node_name_to_victims: dict[str, Victims | None] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


class ExtenderPreemptionResult(_Message):
    """Which nodes may be freed, and of whom."""

    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def encode(message: object) -> bytes:
    """Return a message, or a list of them, as JSON; the keys of maps are in order as Go's are."""
    return _ENCODER.encode(message)


# -- reading ---------------------------------------------------------------------------------------


def _opaque(name: str) -> Struct:
    return Struct(name, f"v1.{name}", {}, opaque=True)


def _struct(name: str, **fields: GoType) -> Struct:
    return Struct(name, f"v1.{name}", {_go_name(field): of for field, of in fields.items()})


_NODES: Final = Struct(
    "NodeList",
    "v1.NodeList",
    {
        "kind": TEXT,
        "apiVersion": TEXT,
        "metadata": _opaque("ListMeta"),
        "items": Slice("[]v1.Node", _opaque("Node")),
    },
)
_NAMES: Final = Slice("[]string", TEXT)
_FAILED: Final = Map("v1.FailedNodesMap", TEXT)
_META_PODS: Final = Slice("[]*v1.MetaPod", _struct("MetaPod", uid=TEXT))
_META_VICTIMS: Final = Map(
    "map[string]*v1.MetaVictims",
    _struct("MetaVictims", pods=_META_PODS, num_pdb_violations=INT64),
)
_VICTIMS: Final = Map(
    "map[string]*v1.Victims",
    _struct("Victims", pods=Slice("[]*v1.Pod", _opaque("Pod")), num_pdb_violations=INT64),
)


# Not JSON, not UTF-8, not as a strict reader has it, or nested without end.
_UNREADABLE: Final = (ValueError, RecursionError)


class _Reader:
    """Reads one kind of message: strictly, which is quick, and if that fails the way Go does."""

    def __init__(self, kind: Any, shape: GoType) -> None:
        self._strict = msgspec.json.Decoder(kind)
        self._shape = shape

    def read(self, data: bytes) -> Any:
        try:
            return self._strict.decode(data)
        except _UNREADABLE:
            return self._read_respelled(data)

    def _read_respelled(self, data: bytes) -> Any:
        try:
            return self._strict.decode(respelled(data, self._shape))
        except _UNREADABLE:
            return self.read_slowly(data)

    def read_slowly(self, data: bytes) -> Any:
        return self._strict.decode(normalized(data, self._shape))


_ARGS: Final = _Reader(
    ExtenderArgs, _struct("ExtenderArgs", pod=_opaque("Pod"), nodes=_NODES, node_names=_NAMES)
)
_FILTER_RESULT: Final = _Reader(
    ExtenderFilterResult,
    _struct(
        "ExtenderFilterResult",
        nodes=_NODES,
        node_names=_NAMES,
        failed_nodes=_FAILED,
        failed_and_unresolvable_nodes=_FAILED,
        error=TEXT,
    ),
)
_PRIORITIES: Final = _Reader(
    list[HostPriority],
    Slice("v1.HostPriorityList", _struct("HostPriority", host=TEXT, score=INT64)),
)
_BINDING_ARGS: Final = _Reader(
    ExtenderBindingArgs,
    _struct(
        "ExtenderBindingArgs",
        pod_name=TEXT,
        pod_namespace=TEXT,
        pod_uid=Scalar("types.UID"),
        node=TEXT,
    ),
)
_BINDING_RESULT: Final = _Reader(
    ExtenderBindingResult, _struct("ExtenderBindingResult", error=TEXT)
)
_PREEMPTION_ARGS: Final = _Reader(
    ExtenderPreemptionArgs,
    _struct(
        "ExtenderPreemptionArgs",
        pod=_opaque("Pod"),
        node_name_to_victims=_VICTIMS,
        node_name_to_meta_victims=_META_VICTIMS,
    ),
)
_PREEMPTION_RESULT: Final = _Reader(
    ExtenderPreemptionResult,
    _struct("ExtenderPreemptionResult", node_name_to_meta_victims=_META_VICTIMS),
)


def decode_args(data: bytes) -> ExtenderArgs:
    """Read a question to filter or to prioritize; WireError if it is none."""
    message: ExtenderArgs = _ARGS.read(data)
    return message


def decode_filter_result(data: bytes) -> ExtenderFilterResult:
    """Read which nodes are left; WireError if that cannot be read."""
    message: ExtenderFilterResult = _FILTER_RESULT.read(data)
    nodes = message.nodes
    if nodes is not None:
        parts = (nodes.metadata, *(nodes.items or ()))
        if any(memoryview(part)[0] != _OBJECT for part in parts):
            message = _FILTER_RESULT.read_slowly(data)
    return message


def decode_host_priorities(data: bytes) -> list[HostPriority]:
    """Read what nodes are worth; WireError if that cannot be read."""
    message: list[HostPriority] = _PRIORITIES.read(data)
    return message


def decode_binding_args(data: bytes) -> ExtenderBindingArgs:
    """Read a question to bind; WireError if it is none."""
    message: ExtenderBindingArgs = _BINDING_ARGS.read(data)
    return message


def decode_binding_result(data: bytes) -> ExtenderBindingResult:
    """Read whether a pod was bound; WireError if that cannot be read."""
    message: ExtenderBindingResult = _BINDING_RESULT.read(data)
    return message


def decode_preemption_args(data: bytes) -> ExtenderPreemptionArgs:
    """Read a question to choose victims; WireError if it is none."""
    message: ExtenderPreemptionArgs = _PREEMPTION_ARGS.read(data)
    return message


def decode_preemption_result(data: bytes) -> ExtenderPreemptionResult:
    """Read which victims were chosen; WireError if that cannot be read."""
    message: ExtenderPreemptionResult = _PREEMPTION_RESULT.read(data)
    return message
