"""Pod affinity terms, compiled.

Owns what a term demands of another pod: namespaces, labels, topology key. Never counts pods.
Upstream: staging/src/k8s.io/kube-scheduler/framework/types.go AffinityTerm
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubesched.objects.affinity import Affinity, PodAffinityTerm
from kubesched.objects.field_errors import aggregate_text
from kubesched.objects.selectors import Selector, label_selector

NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One term: which pods it speaks of, and over which topology key."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector
    weight: int = 0

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Return whether a pod of that namespace and those labels is meant."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False


@dataclass(frozen=True, slots=True)
class TermSet:
    """All pod affinity terms of a pod, by role; the unit in which existing pods are counted."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[AffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[AffinityTerm, ...] = ()
    # Whether the pod has a podAffinity or podAntiAffinity object at all, even an empty one.
    declared: bool = False
    error: str = field(default="", compare=False)


NO_TERMS = TermSet()


def compile_terms(namespace: str, affinity: Affinity | None) -> TermSet:
    """Return the compiled terms of a pod in a namespace; `error` tells what did not parse."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    pod, anti = affinity.pod_affinity, affinity.pod_anti_affinity
    problems: list[str] = []

    def compiled(
        role: str, terms: Sequence[tuple[PodAffinityTerm, int]]
    ) -> tuple[AffinityTerm, ...]:
        # Parity: framework/types.go PodInfo.Update, v1.36: one bad term voids its role.
        try:
            return tuple(_compile(namespace, term, weight) for term, weight in terms)
        except ValueError as problem:
            problems.append(f"{role}: {problem}")
            return ()

    required = "required_during_scheduling_ignored_during_execution"
    preferred = "preferred_during_scheduling_ignored_during_execution"
    required_affinity = compiled(
        "requiredAffinityTerms", [(t, 0) for t in getattr(pod, required, ())]
    )
    required_anti_affinity = compiled(
        "requiredAntiAffinityTerms", [(t, 0) for t in getattr(anti, required, ())]
    )
    preferred_affinity = compiled(
        "preferredAffinityTerms",
        [(t.pod_affinity_term, t.weight) for t in getattr(pod, preferred, ())],
    )
    preferred_anti_affinity = compiled(
        "preferredAntiAffinityTerms",
        [(t.pod_affinity_term, t.weight) for t in getattr(anti, preferred, ())],
    )
    return TermSet(
        required_affinity,
        required_anti_affinity,
        preferred_affinity,
        preferred_anti_affinity,
        declared=True,
        error=aggregate_text(problems) if problems else "",
    )


def _compile(namespace: str, term: PodAffinityTerm, weight: int) -> AffinityTerm:
    selector = label_selector(term.label_selector)
    names = frozenset(term.namespaces or ())
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    namespace_selector = label_selector(term.namespace_selector)
    return AffinityTerm(names, selector, term.topology_key, namespace_selector, weight)
