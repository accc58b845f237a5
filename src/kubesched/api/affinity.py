"""Wire types of affinity, tolerations and topology spread constraints.

They are evaluated by the selectors and the plugins.
Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from kubesched.api.meta import LabelSelector
from kubesched.api.wire import NIL_STRINGS, Int32, Int64, Wire


class NodeSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One expression over node labels or fields."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = NIL_STRINGS


class NodeSelectorTerm(Wire, frozen=True, kw_only=True):
    """Expressions that must all match; an empty term matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True, kw_only=True):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True, kw_only=True):
    """A term and its weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True, kw_only=True):
    """Required and preferred nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Wire, frozen=True, kw_only=True):
    """Pods, selected by labels and namespaces, and a topology key."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True, kw_only=True):
    """A term and its weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True, kw_only=True):
    """Required and preferred affinity to pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Wire, frozen=True, kw_only=True):
    """Required and preferred anti-affinity to pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Wire, frozen=True, kw_only=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Wire, frozen=True, kw_only=True):
    """Taints that a pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Wire, frozen=True, kw_only=True):
    """A topology spread constraint."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class TopologySelectorLabelRequirement(Wire, frozen=True, kw_only=True):
    """A label and its allowed values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire, frozen=True, kw_only=True):
    """Labels that must all match, as in a storage class."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()
