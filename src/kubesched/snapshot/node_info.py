"""A parsed node: what does not fit a column, such as labels, taints, images and the object.

Upstream: pkg/scheduler/framework/types.go NodeInfo
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType

import msgspec

from kubesched.api.decode import decode_as
from kubesched.api.node import Node, NodeSpec, NodeStatus
from kubesched.api.resource_requests import PODS, as_integers, parse_quantities
from kubesched.api.tolerations import Taint
from kubesched.kit.read_only import ReadOnly
from kubesched.snapshot.pod_info import Resources, resources_of

_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_rule_fields = attrgetter(
    "labels",
    "annotations",
    "taints",
    "unschedulable",
    "allocatable",
    "allowed_pods",
    "images",
    "declared_features",
)
_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


class NodeInfo:
    """A parsed node; `spec` and `status` decode the whole object at their first use."""

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
        # No plugin reads these, but a change of them is an event.
        self.conditions = tuple({c.type: c.status for c in status.conditions or ()}.items())
        self.unschedulable = bool(spec.unschedulable)
        quantities = parse_quantities(status.allocatable)
        self.allocatable: Resources = resources_of(as_integers(quantities))
        self.allowed_pods = quantities[PODS].value() if PODS in quantities else 0
        # Reversed, because the first entry of a name wins.
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
        # Plugins may hold it: read-only from here on.
        self.__class__ = _ReadOnlyNodeInfo  # noqa: PLE0237  # Every object has one.

    def __repr__(self) -> str:
        return f"<NodeInfo {self.name}>"

    @property
    def object(self) -> Node:
        if self._object is None:
            assert self._raw is not None
            self._object = decode_as(Node, self._raw)
        return self._object

    @property
    def raw(self) -> bytes:
        return self._raw if self._raw is not None else msgspec.json.encode(self.object)

    @property
    def spec(self) -> NodeSpec:
        return self.object.spec

    @property
    def status(self) -> NodeStatus:
        return self.object.status

    def is_same_to_rules(self, other: NodeInfo) -> bool:
        """Return whether both states of the node are equal in all fields that plugins read."""
        return bool(_rule_fields(self) == _rule_fields(other))

    @property
    def zone_key(self) -> str:
        """Return region and zone, by which upstream interleaves nodes; empty if it has neither."""
        # Parity: component-helpers/node/topology/helpers.go GetZoneKey, v1.36.
        region = _first_label(self.labels, _REGION_LABELS)
        zone = _first_label(self.labels, _ZONE_LABELS)
        return f"{region}:\x00:{zone}" if region or zone else ""


def _first_label(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if key in labels), "")


class _ReadOnlyNodeInfo(ReadOnly, NodeInfo):
    """A node that is complete and read-only."""

    __slots__ = ()
