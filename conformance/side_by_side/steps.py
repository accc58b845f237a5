"""Changes of a cluster: sequences of steps, as data.

Owns their form and the paths of the kinds. Never sends a request.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from kubesched.cluster.launch.http import JSON_PATCH, MERGE_PATCH

Obj: TypeAlias = dict[str, Any]
Verb: TypeAlias = Literal["create", "delete", "remove", "patch", "finish"]

NAMESPACES = {"alpha": {"team": "red"}, "beta": {"team": "blue"}}
DEFAULT_NAMESPACE = "alpha"

_CORE = "/api/v1"
_STORAGE = "/apis/storage.k8s.io/v1"
_ROOTS = {
    "Node": (_CORE, "nodes"),
    "PersistentVolume": (_CORE, "persistentvolumes"),
    "StorageClass": (_STORAGE, "storageclasses"),
    "CSINode": (_STORAGE, "csinodes"),
    "CSIDriver": (_STORAGE, "csidrivers"),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
    "Pod": (_CORE, "pods"),
    "PersistentVolumeClaim": (_CORE, "persistentvolumeclaims"),
    "Service": (_CORE, "services"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"),
    "CSIStorageCapacity": (_STORAGE, "csistoragecapacities"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
}
CLUSTER_KINDS = frozenset(
    {"Node", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "PriorityClass"}
)
KINDS = tuple(_ROOTS)


def path_of(kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or of its collection if it has no name."""
    root, plural = _ROOTS[kind]
    inside = "" if kind in CLUSTER_KINDS or not namespace else f"/namespaces/{namespace}"
    return "/".join(part for part in (root + inside, plural, name, subresource) if part)


def api_version_of(kind: str) -> str:
    """Return the apiVersion of a kind."""
    return _ROOTS[kind][0].removeprefix("/apis/").removeprefix("/api/")


@dataclass(frozen=True, slots=True)
class Op:
    """One request.

    `remove` is an immediate deletion, without finalizers and grace period. `finish` removes every
    terminating pod, like its kubelet in the end.
    """

    verb: Verb
    kind: str = "Pod"
    name: str = ""
    namespace: str = ""
    body: Any = None
    subresource: str = ""
    content_type: str = ""

    @property
    def path(self) -> str:
        """Return the path of the request."""
        name = "" if self.verb == "create" else self.name
        return path_of(self.kind, self.namespace, name, self.subresource)

    def __str__(self) -> str:
        target = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {self.kind} {target}".strip()


@dataclass(frozen=True, slots=True)
class Step:
    """Requests that are sent in sequence, until the cluster is idle."""

    ops: tuple[Op, ...]

    def __str__(self) -> str:
        text = ", ".join(map(str, self.ops[:3]))
        return text if len(self.ops) <= 3 else f"{text} and {len(self.ops) - 3} more"


@dataclass(frozen=True, slots=True)
class Sequence:
    """The steps of one comparison; family and seed reproduce it."""

    family: str
    seed: int
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """Return its name in reports."""
        return f"{self.family}-{self.seed}"

    def document(self) -> Obj:
        """Return the sequence as a JSON document."""
        return asdict(self)


def create(obj: Obj) -> Op:
    """Return the creation of an object."""
    kind, metadata = obj["kind"], obj["metadata"]
    return Op("create", kind, metadata["name"], metadata.get("namespace", ""), obj)


def delete(kind: str, name: str, namespace: str = "") -> Op:
    """Return a deletion like kubectl's, with finalizers and grace period."""
    return Op("delete", kind, name, namespace)


def remove(kind: str, name: str, namespace: str = "") -> Op:
    """Return an immediate deletion."""
    return Op("remove", kind, name, namespace)


def patch(kind: str, name: str, body: Obj, *, namespace: str = "", subresource: str = "") -> Op:
    """Return a JSON merge patch."""
    return Op("patch", kind, name, namespace, body, subresource, MERGE_PATCH)


def append(kind: str, name: str, pointer: str, value: Any, *, namespace: str = "") -> Op:
    """Return a JSON patch that appends a value to a list."""
    body = [{"op": "add", "path": f"{pointer}/-", "value": value}]
    return Op("patch", kind, name, namespace, body, "", JSON_PATCH)


def finish() -> Op:
    """Return the step that ends all terminating pods."""
    return Op("finish")
