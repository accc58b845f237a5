"""Pods and nodes as extenders are sent them: the JSON that was watched, without what Go drops.

Owns what is left out: kind and apiVersion, which decoded objects do not have, and the managedFields
of pods, which are never kept. Never looks into a spec or a status.
Upstream: pkg/scheduler/extender.go Filter, pkg/scheduler/scheduler.go NewInformerFactory
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from kubesched.columns.pod_columns import BoundPod
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo

_NODE_HEAD: Final = b'{"kind":"Node","apiVersion":"v1",'
_TYPE_KEYS: Final = ("kind", "apiVersion")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


def pod_json(pod: PodInfo) -> Raw:
    """Return a pod as extenders are sent it."""
    return stored_pod_json(pod.raw)


def stored_pod_json(raw: bytes) -> Raw:
    """Return a pod as extenders are sent it, from how the API server writes it."""
    fields = _OBJECT.decode(raw)
    for key in _TYPE_KEYS:
        fields.pop(key, None)
    if "metadata" in fields:
        metadata = _OBJECT.decode(fields["metadata"])
        metadata.pop("managedFields", None)
        fields["metadata"] = Raw(msgspec.json.encode(metadata))
    return Raw(msgspec.json.encode(fields))


def bound_pod_json(pod: BoundPod) -> Raw:
    """Return a bound pod as extenders are sent it; LookupError if it is not kept whole."""
    found = stored_pod_json(pod.raw)
    fields = _OBJECT.decode(found)
    spec = _OBJECT.decode(fields.get("spec", Raw(b"{}")))
    if "nodeName" in spec:
        return found
    # One that is only assumed: upstream's copy of it has the node that it is on its way to.
    spec["nodeName"] = Raw(msgspec.json.encode(pod.node_name))
    fields["spec"] = Raw(msgspec.json.encode(spec))
    return Raw(msgspec.json.encode(fields))


def node_json(node: NodeInfo) -> Raw:
    """Return a node as extenders are sent it."""
    raw = node.raw
    # Every node goes to every extender at every attempt: how API servers write is read at a glance.
    return Raw(b"{" + raw[len(_NODE_HEAD) :] if raw.startswith(_NODE_HEAD) else raw)
