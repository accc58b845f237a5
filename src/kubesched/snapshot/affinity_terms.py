"""Compiled pod affinity and anti-affinity terms: namespaces, label selector, topology key.

Never counts pods.
Upstream: staging/src/k8s.io/kube-scheduler/framework/types.go AffinityTerm
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kubesched.api.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    WeightedPodAffinityTerm,
)
from kubesched.api.field_errors import aggregate_text
from kubesched.api.label_selectors import Selector, label_selector

NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One term: the pods that it selects, and its topology key."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector
    weight: int = 0

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Return whether the term selects a pod of that namespace and those labels."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False


@dataclass(frozen=True, slots=True)
class TermSet:
    """All pod affinity terms of a pod, by role; pods with equal term sets are counted together."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[AffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[AffinityTerm, ...] = ()
    # Whether the pod has a podAffinity or podAntiAffinity object at all, even an empty one.
    declared: bool = False
    error: str = field(default="", compare=False)


NO_TERMS = TermSet()


def compile_terms(namespace: str, affinity: Affinity | None) -> TermSet:
    """Return the compiled terms of a pod in a namespace; `error` names those that do not parse."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    pod = affinity.pod_affinity or PodAffinity()
    anti = affinity.pod_anti_affinity or PodAntiAffinity()
    problems: list[str] = []

    def compiled(
        role: str, terms: Iterable[PodAffinityTerm | WeightedPodAffinityTerm]
    ) -> tuple[AffinityTerm, ...]:
        # Parity: framework/types.go PodInfo.Update, v1.36: one bad term voids its role.
        try:
            return tuple(_compile(namespace, term) for term in terms)
        except ValueError as problem:
            problems.append(f"{role}: {problem}")
            return ()

    terms = TermSet(
        compiled("requiredAffinityTerms", pod.required_during_scheduling_ignored_during_execution),
        compiled(
            "requiredAntiAffinityTerms", anti.required_during_scheduling_ignored_during_execution
        ),
        compiled(
            "preferredAffinityTerms", pod.preferred_during_scheduling_ignored_during_execution
        ),
        compiled(
            "preferredAntiAffinityTerms", anti.preferred_during_scheduling_ignored_during_execution
        ),
        declared=True,
    )
    return replace(terms, error=aggregate_text(problems)) if problems else terms


def _compile(namespace: str, term: PodAffinityTerm | WeightedPodAffinityTerm) -> AffinityTerm:
    weight = 0
    if isinstance(term, WeightedPodAffinityTerm):
        weight, term = term.weight, term.pod_affinity_term
    selector = label_selector(term.label_selector)
    names = frozenset(term.namespaces or ())
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    namespace_selector = label_selector(term.namespace_selector)
    return AffinityTerm(names, selector, term.topology_key, namespace_selector, weight)
