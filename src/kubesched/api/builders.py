"""Builders of pods and nodes for tests, as documents that `kubectl get -o json` would print.

The documents go to an API server (`playground.create`), to the engine alone (`cluster.add`) or into
a file. No default affects a decision: a pod requests nothing, a node has ample resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import signature
from typing import Any, Final

from kubesched.api.schema.load import schema_for
from kubesched.api.schema.types import Struct

Document = dict[str, Any]

ROOM: Final = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def a_pod(  # noqa: PLR0913  # What tests of scheduling vary.
    name: str = "pod",
    *,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    image: str = "app:1",
    node: str = "",
    scheduler: str = "",
    **spec: Any,
) -> Document:
    """Return a pod of one container.

    Args:
        name: Its name.
        namespace: Its namespace; if empty, the namespace it is created in.
        labels: Its labels.
        annotations: Its annotations; `kubesched.dev/run-for` and others control its simulated run.
        requests: The requests of its container: `{"cpu": "500m", "memory": "1Gi"}`.
        image: Its container's image.
        node: Its node; pending if empty.
        scheduler: The name of its scheduler; the default scheduler if empty.
        spec: More fields of the spec, by their names in documents: `nodeSelector`, `affinity`...

    Raises:
        TypeError: A name is neither an argument nor a field of the spec.
    """
    _check_names(a_pod, "Pod", "spec", spec, 'requests={"cpu": "1"}')
    container: Document = {"name": "main", "image": image}
    if requests is not None:
        container["resources"] = {"requests": dict(requests)}
    body: Document = {"containers": [container], **spec}
    if node:
        body["nodeName"] = node
    if scheduler:
        body["schedulerName"] = scheduler
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": body,
    }


def a_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    unschedulable: bool = False,
    **status: Any,
) -> Document:
    """Return a node.

    Args:
        name: Its name, and its label `kubernetes.io/hostname`.
        labels: More labels.
        annotations: Its annotations; `kubesched.dev/heartbeat: "off"` stops its heartbeat.
        capacity: Its capacity; other resources have ample defaults.
        taints: In the notation of kubectl: `team=blue:NoSchedule`, `gpu:NoExecute`.
        unschedulable: Whether it is cordoned.
        status: More fields of the status, by their names in documents: `images`...

    Raises:
        TypeError: A name is neither an argument nor a field of the status.
    """
    _check_names(a_node, "Node", "status", status, 'capacity={"cpu": "4"}')
    room = {**ROOM, **(capacity or {})}
    spec: Document = {}
    if wire_taints := [_taint(taint) for taint in taints]:
        spec["taints"] = wire_taints
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(
            name, "", {"kubernetes.io/hostname": name, **(labels or {})}, annotations
        ),
        "spec": spec,
        "status": {"capacity": room, "allocatable": dict(room), **status},
    }


def _check_names(
    builder: Callable[..., Document], kind: str, field: str, names: Iterable[str], amounts: str
) -> None:
    """Raise TypeError for a field that does not exist: it would be ignored silently."""
    known = _fields_of(kind, field)
    for name in names:
        if name in known:
            continue
        text = f"{builder.__name__}() has no argument {name!r}, and a {kind} has no {field}.{name}"
        if name in ROOM or "/" in name:
            raise TypeError(f"{text}: amounts go into {amounts}")
        close = get_close_matches(name, [*known, *signature(builder).parameters], n=1)
        raise TypeError(f"{text}: did you mean {close[0]!r}?" if close else text)


@cache
def _fields_of(kind: str, field: str) -> frozenset[str]:
    schema = schema_for("", "v1", kind)
    assert schema is not None, "core kinds have schemas"
    struct = schema.fields[field].type
    assert isinstance(struct, Struct)
    return frozenset(struct.fields)


def _metadata(
    name: str,
    namespace: str,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
) -> Document:
    metadata: Document = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata


def _taint(text: str) -> Document:
    key_and_value, colon, effect = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a taint such as team=blue:NoSchedule")
    key, _, value = key_and_value.partition("=")
    return (
        {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}
    )
