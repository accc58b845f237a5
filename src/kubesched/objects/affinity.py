"""Affinity, tolerations and spreading as pods write them.

Owns the wire types of what ties pods to nodes and to each other. Never evaluates them: selectors
does, and the plugins.
Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from kubesched.objects.meta import LabelSelector
from kubesched.objects.wire import NIL_STRINGS, Int32, Int64, Wire


class NodeSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One expression over node labels or fields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = NIL_STRINGS


class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """Expressions that must all hold; none at all match nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True, kw_only=True):
    """A term and what it is worth."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True, kw_only=True):
    """The nodes a pod needs and those it likes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Wire, frozen=True, kw_only=True):
    """Pods, chosen by labels and namespaces, and the topology they share."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True, kw_only=True):
    """A term and what it is worth."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True, kw_only=True):
    """The pods a pod wants to be near to."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Wire, frozen=True, kw_only=True):
    """The pods a pod wants to be away from."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Wire, frozen=True, kw_only=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Wire, frozen=True, kw_only=True):
    """Taints a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Wire, frozen=True, kw_only=True):
    """How evenly pods spread over a topology."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class TopologySelectorLabelRequirement(Wire, frozen=True, kw_only=True):
    """A label and the values it may have."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire, frozen=True, kw_only=True):
    """Labels that must all hold, as a storage class writes them."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()
