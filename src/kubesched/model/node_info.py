"""A node as the scheduler sees it, beside its columns.

Owns the parsed parts that do not fit a column: labels, annotations, taints, images, the object.
Upstream: pkg/scheduler/framework/types.go NodeInfo
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from kubesched.model.pod_info import Resources, resources_of
from kubesched.model.resources import PODS, as_integers, parse_quantities
from kubesched.model.sealing import Sealed
from kubesched.model.tolerations import Taint
from kubesched.objects.decode import decode_as
from kubesched.objects.node import Node, NodeSpec, NodeStatus

_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


class NodeInfo:
    """One node's parsed parts; `spec` and `status` give the whole wire objects when asked for."""

    __slots__ = (
        "_object",
        "_raw",
        "allocatable",
        "allowed_pods",
        "annotations",
        "conditions",
        "declared_features",
        "images",
        "labels",
        "name",
        "taint_times",
        "taints",
        "uid",
        "unschedulable",
    )

    def __init__(self, node: Node, raw: bytes | None = None) -> None:
        meta, spec, status = node.metadata, node.spec, node.status
        self.name = meta.name
        self.uid = meta.uid
        self.labels: Mapping[str, str] = MappingProxyType(meta.labels or {})
        self.annotations: Mapping[str, str] = MappingProxyType(meta.annotations or {})
        self.taints = tuple(Taint(t.key, t.value or "", t.effect) for t in spec.taints or ())
        self.taint_times = tuple(t.time_added for t in spec.taints or ())
        # No rule reads these two; a change of them is an event all the same.
        self.conditions = tuple({c.type: c.status for c in status.conditions or ()}.items())
        self.unschedulable = bool(spec.unschedulable)
        quantities = parse_quantities(status.allocatable)
        self.allocatable: Resources = resources_of(as_integers(quantities))
        self.allowed_pods = quantities[PODS].value() if PODS in quantities else 0
        # The first entry of a name wins, hence the reversed walk.
        self.images: Mapping[str, int] = MappingProxyType(
            {
                name: image.size_bytes or 0
                for image in reversed(status.images or ())
                for name in image.names or ()
            }
        )
        self.declared_features = tuple(sorted(set(status.declared_features or ())))
        self._raw = raw
        self._object: Node | None = None if raw is not None else node
        # Plugins are handed it for as long as the node stays as it is.
        self.__class__ = _SealedNodeInfo  # noqa: PLE0237  # Every object has one.

    def __repr__(self) -> str:
        return f"<NodeInfo {self.name}>"

    @property
    def object(self) -> Node:
        """Return the whole wire object."""
        if self._object is None:
            assert self._raw is not None
            self._object = decode_as(Node, self._raw)
        return self._object

    @property
    def raw(self) -> bytes:
        """Return the whole object as JSON."""
        return self._raw if self._raw is not None else msgspec.json.encode(self.object)

    @property
    def spec(self) -> NodeSpec:
        """Return the whole spec."""
        return self.object.spec

    @property
    def status(self) -> NodeStatus:
        """Return the whole status."""
        return self.object.status

    def is_same_to_rules(self, other: NodeInfo) -> bool:
        """Return whether no rule over columns can tell the two states of the node apart."""
        return (
            self.labels == other.labels
            and self.annotations == other.annotations
            and self.taints == other.taints
            and self.unschedulable == other.unschedulable
            and self.allocatable == other.allocatable
            and self.allowed_pods == other.allowed_pods
            and self.images == other.images
            and self.declared_features == other.declared_features
        )

    @property
    def zone_key(self) -> str:
        """Return what upstream interleaves nodes by: region and zone, or nothing."""
        # Parity: component-helpers/node/topology/helpers.go GetZoneKey, v1.36.
        region = _first_label(self.labels, _REGION_LABELS)
        zone = _first_label(self.labels, _ZONE_LABELS)
        return f"{region}:\x00:{zone}" if region or zone else ""


def _first_label(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if key in labels), "")


class _SealedNodeInfo(Sealed, NodeInfo):
    """A node that is complete, and not changed any more."""

    __slots__ = ()
