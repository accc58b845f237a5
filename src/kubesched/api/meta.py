"""Wire types that all kinds share: metadata, references and label selectors.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go
"""

from typing import ClassVar

from kubesched.api.wire import NIL_STRINGS, Int64, Time, Wire


class OwnerReference(Wire, frozen=True, kw_only=True):
    """A reference to an owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """Metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class KubeResource(Wire, frozen=True, kw_only=True):
    """The base of all top-level kinds."""

    api_version: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    namespaced: ClassVar[bool] = True

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """Return namespace/name, or the name if there is no namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    def __repr__(self) -> str:
        """Show kind and key only."""
        return f"{self.kind}({self.key})"


class LabelSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = NIL_STRINGS


class LabelSelector(Wire, frozen=True, kw_only=True):
    """Labels and expressions, all of which must match."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(Wire, frozen=True, kw_only=True):
    """A reference to an object."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class Condition(Wire, frozen=True, kw_only=True):
    """A condition of an object's status."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_probe_time: Time | None = None
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""
