"""Messages of the extender protocol v1, for the client and the server.

Owns their fields and their JSON, which is Go's: keys are the names of Go's fields, no field is
omitted, and reading ignores the case of keys and unknown keys. Never decodes a pod or a node: they
are passed on as bytes.
Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go
"""

from __future__ import annotations

from typing import Annotated, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from kubesched.golang.json_unmarshal import (
    INT64,
    TEXT,
    GoType,
    Map,
    Scalar,
    Slice,
    Struct,
    normalized,
    respelled,
)

MAX_EXTENDER_PRIORITY: Final = 10
NULL: Final = Raw(b"null")
_OBJECT: Final = ord("{")
_NO_METADATA: Final = Raw(b"{}")
_INITIALS: Final = {"uid": "UID", "pdb": "PDB"}
MessageT = TypeVar("MessageT")
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


def _go_name(name: str) -> str:
    """Return the Go name of a field."""
    return "".join(_INITIALS.get(word) or word.capitalize() for word in name.split("_"))


class _Message(msgspec.Struct, rename=_go_name, forbid_unknown_fields=True, kw_only=True):
    """A message; what the strict decoder rejects is decoded as Go does."""


class NodeList(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=False, kw_only=True):
    """A list of nodes, without kind and apiVersion."""

    kind: str | UnsetType = UNSET
    api_version: str | UnsetType = msgspec.field(name="apiVersion", default=UNSET)
    metadata: Raw = _NO_METADATA
    items: list[Raw] | None = None


class ExtenderArgs(_Message):
    """Arguments of filter and prioritize, with nodes or their names."""

    pod: Raw = NULL
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(_Message):
    """The kept nodes, and the reasons for the others."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(_Message):
    """The score of a node, by convention from 0 to 10."""

    host: str = ""
    score: Int64 = 0


class ExtenderBindingArgs(_Message):
    """Arguments of bind."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = ""
    node: str = ""


class ExtenderBindingResult(_Message):
    """The result of bind."""

    error: str = ""


class MetaPod(_Message):
    """The uid of a pod."""

    uid: str = ""


class MetaVictims(_Message):
    """Victims on a node, by uid."""

    pods: list[MetaPod | None] | None = None
    num_pdb_violations: Int64 = 0


class Victims(_Message):
    """Victims on a node, as whole pods."""

    pods: list[Raw] | None = None
    num_pdb_violations: Int64 = 0


class ExtenderPreemptionArgs(_Message):
    """Arguments of preempt, with one of the two forms of victims."""

    pod: Raw = NULL
    node_name_to_victims: dict[str, Victims | None] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


class ExtenderPreemptionResult(_Message):
    """The accepted nodes with their victims."""

    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


encode: Final = msgspec.json.Encoder(order="deterministic").encode
"""Encode a message as JSON, with sorted keys of maps as in Go."""


# -- decoding --------------------------------------------------------------------------------------


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


# Malformed JSON or UTF-8, an unexpected type, or endless nesting.
_UNREADABLE: Final = (ValueError, RecursionError)


class _Decoder(Generic[MessageT]):
    """Decodes one type of message: strictly, which is fast, and otherwise as Go does."""

    def __init__(self, kind: type[MessageT], shape: GoType) -> None:
        self._strict = msgspec.json.Decoder(kind)
        self._shape = shape

    def __call__(self, data: bytes) -> MessageT:
        """Decode a message; WireError if it is malformed."""
        try:
            return self._strict.decode(data)
        except _UNREADABLE:
            pass
        try:
            return self._strict.decode(respelled(data, self._shape))
        except _UNREADABLE:
            return self.decode_as_go(data)

    def decode_as_go(self, data: bytes) -> MessageT:
        """Decode a message by Go's rules; WireError if it is malformed."""
        return self._strict.decode(normalized(data, self._shape))


decode_args: Final = _Decoder(
    ExtenderArgs, _struct("ExtenderArgs", pod=_opaque("Pod"), nodes=_NODES, node_names=_NAMES)
)
decode_host_priorities: Final = _Decoder(
    list[HostPriority],
    Slice("v1.HostPriorityList", _struct("HostPriority", host=TEXT, score=INT64)),
)
decode_binding_args: Final = _Decoder(
    ExtenderBindingArgs,
    _struct(
        "ExtenderBindingArgs",
        pod_name=TEXT,
        pod_namespace=TEXT,
        pod_uid=Scalar("types.UID"),
        node=TEXT,
    ),
)
decode_binding_result: Final = _Decoder(
    ExtenderBindingResult, _struct("ExtenderBindingResult", error=TEXT)
)
decode_preemption_args: Final = _Decoder(
    ExtenderPreemptionArgs,
    _struct(
        "ExtenderPreemptionArgs",
        pod=_opaque("Pod"),
        node_name_to_victims=_VICTIMS,
        node_name_to_meta_victims=_META_VICTIMS,
    ),
)
decode_preemption_result: Final = _Decoder(
    ExtenderPreemptionResult,
    _struct("ExtenderPreemptionResult", node_name_to_meta_victims=_META_VICTIMS),
)
_FILTER_RESULT: Final = _Decoder(
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


def decode_filter_result(data: bytes) -> ExtenderFilterResult:
    """Decode the result of filter; WireError if it is malformed."""
    message = _FILTER_RESULT(data)
    if message.nodes is not None:
        parts = (message.nodes.metadata, *(message.nodes.items or ()))
        if any(memoryview(part)[0] != _OBJECT for part in parts):
            return _FILTER_RESULT.decode_as_go(data)
    return message
