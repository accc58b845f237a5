"""The kinds that are written at random, and the values their fields take.

Owns the vocabulary of conformance/fuzz_patches.py. Never sends anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubesched.api.schema.load import named_schema, schema_for
from kubesched.api.schema.types import Field, ListOf, MapOf, Scalar, ScalarKind, Struct

Document = dict[str, Any]
Slots = list[tuple[tuple[str, ...], list[Any]]]
"""Paths, and the values that may stand there."""


@dataclass
class Kind:
    """A resource, and the values its fields take."""

    group: str
    version: str
    resource: str
    kind: str
    base: Document
    slots: Slots
    lists: list[tuple[tuple[str, ...], str, list[Document]]] = field(default_factory=list)
    """Lists merged by a key: path, key, elements."""
    namespaced: bool = True
    status_slots: Slots = field(default_factory=list)
    schema: Struct | None = None
    is_custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = "/namespaces/default" if self.namespaced else ""
        return f"{root}{place}/{self.resource}"


def _meta(*path: str) -> tuple[str, ...]:
    return ("metadata", *path)


META_SLOTS: Slots = [
    (_meta("labels", "a"), ["1", "2", "3"]),
    (_meta("labels", "b"), ["1", "x"]),
    (_meta("labels", "fuzz/c"), ["1", "y"]),
    (_meta("annotations", "n"), ["<&>", "é", ""]),
    (_meta("annotations", "m"), ["1", "2"]),
    (_meta("annotations"), [{}, {"z": "1"}]),
    (_meta("finalizers"), [["x/a"], ["x/b", "x/a"], []]),
]
POD_SLOTS: Slots = [
    (("restartPolicy",), ["Always"]),
    (("terminationGracePeriodSeconds",), [0, 5, 30]),
    (("nodeSelector", "z"), ["1", "2"]),
    (("nodeSelector",), [{}, {"q": "1"}]),
    (("securityContext",), [{}, {"runAsUser": 5}]),
    (("securityContext", "runAsUser"), [1, 2]),
    (("tolerations",), [[], [{"key": "a", "operator": "Exists"}]]),
    (("affinity",), [{"nodeAffinity": {}}, {}]),
    (("priorityClassName",), ["", "system-node-critical"]),
    (("hostAliases",), [[{"ip": "1.1.1.1", "hostnames": ["a"]}], []]),
    (("imagePullSecrets",), [[{"name": "a"}], [{"name": "b"}, {"name": "a"}]]),
]
CONTAINERS: list[Document] = [
    {"name": "c", "image": "i:1"},
    {"name": "c", "image": "i:2", "env": [{"name": "A", "value": "1"}, {"name": "B"}]},
    {"name": "c", "env": [{"name": "B", "value": "2"}], "image": "i"},
    {"name": "d", "image": "d", "ports": [{"containerPort": 80}, {"containerPort": 81}]},
    {"name": "d", "image": "d", "ports": [{"containerPort": 80, "protocol": "UDP", "name": "u"}]},
    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000m"}, "limits": {}}},
    {"name": "d", "image": "d", "volumeMounts": [{"name": "v", "mountPath": "/a"}]},
    {"name": "e", "image": "e", "args": ["a", "b"], "command": []},
    {"name": "e", "image": "e", "securityContext": {"privileged": True}},
]
VOLUMES: list[Document] = [
    {"name": "v", "emptyDir": {}},
    {"name": "v", "emptyDir": {"medium": "Memory"}},
    {"name": "v", "configMap": {"name": "x"}},
    {"name": "w", "hostPath": {"path": "/x"}},
]


def _below(prefix: tuple[str, ...], slots: list[Any]) -> list[Any]:
    return [((*prefix, *slot[0]), *slot[1:]) for slot in slots]


_TEMPLATE = ("spec", "template", "spec")
STRING = Scalar(ScalarKind.STRING)
NUMBER = Scalar(ScalarKind.INT64)


def _custom_schema() -> Struct:
    """Return the type of the CustomResourceDefinition below."""
    item = Struct(
        "item", {"name": Field(STRING), "n": Field(NUMBER), "tags": Field(ListOf(STRING))}
    )
    spec = Struct(
        "spec",
        {
            "size": Field(NUMBER),
            "text": Field(STRING),
            "set": Field(ListOf(STRING, "set")),
            "items": Field(ListOf(item, "map", ("name",))),
            "whole": Field(
                Struct("whole", {"a": Field(STRING), "b": Field(STRING)}, is_atomic=True)
            ),
            "map": Field(MapOf(STRING)),
            "free": Field(Struct("free", {}, keeps_unknown=True)),
        },
    )
    status = Struct("status", {"phase": Field(STRING), "count": Field(NUMBER)})
    metadata = named_schema("meta/v1.ObjectMeta")
    return Struct(
        "Widget",
        {
            "apiVersion": Field(STRING),
            "kind": Field(STRING),
            "metadata": Field(metadata),
            "spec": Field(spec, is_pointer=True),
            "status": Field(status, is_pointer=True),
        },
    )


def definition() -> Document:
    """Return the definition of the custom resource among the kinds."""
    text, number = {"type": "string"}, {"type": "integer"}
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": text, "n": number, "tags": {"type": "array", "items": text}},
    }
    spec = {
        "size": number,
        "text": text,
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "items": {
            "type": "array",
            "items": item,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "whole": {
            "type": "object",
            "properties": {"a": text, "b": text},
            "x-kubernetes-map-type": "atomic",
        },
        "map": {"type": "object", "additionalProperties": text},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    status = {"type": "object", "properties": {"phase": text, "count": number}}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": spec}, "status": status},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.fuzz.example.com"},
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    }


TOLERATIONS: list[Document] = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute",
     "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]  # fmt: skip
# What admission would add to a node when it is created, behind the back of managedFields.
NOT_READY: Document = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def kinds() -> list[Kind]:
    """Return the fuzzed kinds."""
    selector = {"matchLabels": {"app": "x"}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINERS[0]]}}
    found = [
        Kind(
            "", "v1", "configmaps", "ConfigMap", {},
            [*META_SLOTS, (("data", "a"), ["1", "2"]), (("data", "b"), ["", "x"]),
             (("data",), [{}, {"z": "1"}]), (("binaryData", "x"), ["AA=="]),
             (("immutable",), [False])],
        ),
        Kind(
            "apps", "v1", "deployments", "Deployment",
            {"spec": {"selector": selector, "template": template}},
            [*META_SLOTS, (("spec", "replicas"), [0, 1, 2]), (("spec", "paused"), [True, False]),
             (("spec", "strategy"), [{"type": "Recreate"}, {"type": "RollingUpdate"}, {}]),
             (("spec", "strategy", "rollingUpdate", "maxSurge"), [1, "20%"]),
             (("spec", "minReadySeconds"), [0, 4]), *_below(_TEMPLATE, POD_SLOTS),
             (("spec", "template", "metadata", "labels", "k"), ["1", "2"]),
             (("spec", "bogus"), [1])],
            [((*_TEMPLATE, "containers"), "name", CONTAINERS),
             ((*_TEMPLATE, "initContainers"), "name", CONTAINERS[:4]),
             ((*_TEMPLATE, "volumes"), "name", VOLUMES)],
            status_slots=[(("status", "replicas"), [0, 1, 2]),
                          (("status", "observedGeneration"), [1, 2]),
                          (("status", "conditions"),
                           [[{"type": "A", "status": "True"}], [{"type": "B", "status": "False"}]]),
                          (("metadata", "labels", "s"), ["1", "2"]),
                          (("metadata", "annotations", "s"), ["1", "2"])],
        ),
        Kind(
            "", "v1", "services", "Service",
            {"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"],
                      "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "name": "a"}]}},
            [*META_SLOTS, (("spec", "selector", "a"), ["1", "2"]), (("spec", "selector"), [{}]),
             (("spec", "publishNotReadyAddresses"), [True, False]),
             (("spec", "sessionAffinity"), ["None", "ClientIP"])],
            [(("spec", "ports"), "port",
              [{"port": 80, "name": "a"}, {"port": 81, "name": "b"},
               {"port": 80, "protocol": "UDP", "name": "c"},
               {"port": 81, "name": "b", "targetPort": "x"}])],
        ),
        Kind(
            "", "v1", "nodes", "Node", {"spec": {"taints": [NOT_READY]}},
            [*META_SLOTS, (("spec", "unschedulable"), [True, False]),
             (("spec", "providerID"), ["p"])],
            [(("spec", "taints"), "key",
              [NOT_READY, {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"},
               {"key": "b", "value": "1", "effect": "NoSchedule"}])],
            namespaced=False,
            status_slots=[
                (("status", "allocatable", "cpu"), ["1", "2000m"]),
                (("status", "phase"), ["Running"]),
                (("status", "addresses"), [[{"type": "InternalIP", "address": "1.1.1.1"}],
                                           [{"type": "Hostname", "address": "h"}]]),
                (("status", "conditions"), [[{"type": "Ready", "status": "True"}],
                                            [{"type": "Other", "status": "False"}]]),
                (("metadata", "labels", "s"), ["1", "2"])],
        ),
        Kind(
            "", "v1", "serviceaccounts", "ServiceAccount", {},
            [*META_SLOTS, (("automountServiceAccountToken",), [True, False]),
             (("imagePullSecrets",), [[{"name": "a"}], []])],
            [(("secrets",), "name", [{"name": "a"}, {"name": "b"}])],
        ),
        Kind(
            "", "v1", "pods", "Pod",
            {"spec": {"containers": [CONTAINERS[0]], "tolerations": TOLERATIONS,
                      "automountServiceAccountToken": False, "serviceAccountName": "default",
                      "serviceAccount": "default", "enableServiceLinks": True, "priority": 0,
                      "preemptionPolicy": "PreemptLowerPriority"}},
            [*META_SLOTS, (("spec", "activeDeadlineSeconds"), [9, 8]),
             (("spec", "terminationGracePeriodSeconds"), [30, 5])],
            [(("spec", "containers"), "name", CONTAINERS[:3])],
            status_slots=[
                (("status", "phase"), ["Running", "Pending"]), (("status", "message"), ["m", "n"]),
                (("status", "podIP"), ["1.1.1.1"]),
                (("status", "podIPs"), [[{"ip": "1.1.1.1"}]]),
                (("status", "conditions"), [[{"type": "Ready", "status": "True"}],
                                            [{"type": "A", "status": "False", "reason": "x"},
                                             {"type": "Ready", "status": "False"}]]),
                (("status", "containerStatuses"),
                 [[{"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0,
                    "state": {"running": {}}}]]),
                (("metadata", "labels", "s"), ["1", "2"])],
        ),
        Kind(
            "rbac.authorization.k8s.io", "v1", "roles", "Role", {},
            [*META_SLOTS, (("rules",), [[{"verbs": ["get"], "apiGroups": [""],
                                              "resources": ["pods"]}]])],
        ),
        Kind(
            "fuzz.example.com", "v1", "widgets", "Widget", {},
            [*META_SLOTS, (("spec", "size"), [1, 2]), (("spec", "text"), ["a", "b"]),
             (("spec", "set"), [["a"], ["b", "a"], []]), (("spec", "whole"), [{"a": "1"}, {}]),
             (("spec", "whole", "b"), ["1", "2"]), (("spec", "map", "k"), ["1", "2"]),
             (("spec", "map"), [{}, {"j": "1"}]), (("spec", "free", "x"), [1, "a", {"y": [1]}, {}]),
             (("spec", "free", "x", "y"), [1, [2], {"z": 1}]), (("spec", "free"), [{}])],
            [(("spec", "items"), "name", [{"name": "a", "n": 1}, {"name": "b"},
                                          {"name": "a", "tags": ["x"]}, {"name": "b", "n": 2}])],
            status_slots=[(("status", "phase"), ["A", "B"]), (("status", "count"), [1, 2])],
            schema=_custom_schema(), is_custom=True,
        ),
    ]  # fmt: skip
    for kind in found:
        kind.schema = kind.schema or schema_for(kind.group, kind.version, kind.kind)
    return found
