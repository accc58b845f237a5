"""PodDisruptionBudgets: how many pods may be evicted now.

Owns the status of budgets, which the eviction of pods goes by. Never evicts.
Upstream: pkg/controller/disruption/disruption.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    Selector,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_of,
    selector_of,
)
from kubesched.client.errors import ApiError, ConflictError, TransportError
from kubesched.client.resources import POD_DISRUPTION_BUDGETS, PODS
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.disruption_counts import (
    desired_healthy,
    disrupted_pods,
    failed_status,
    goes_by_scale,
    healthy_count,
    new_status,
)
from kubesched.controllers.scales import ExpectedPods, NoScaleError, Scales
from kubesched.kit.go_text import go_quote

_BATCH_S: Final = 0.02


class DisruptionController(Controller):
    """Keeps the status of PodDisruptionBudgets."""

    name: ClassVar[str] = "disruption"
    component: ClassVar[str] = "controllermanager"
    workers: ClassVar[int] = 1

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._budgets = self.informers.of(POD_DISRUPTION_BUDGETS)
        self._pods = self.informers.of(PODS)
        self._scales = Scales(self.api)
        self._selectors: dict[str, Selector] = {}
        self._budgets.on_change(self._budget_changed)
        self._pods.on_change(self._pod_changed)

    def _budget_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            if old is not None:
                self._selectors.pop(key_of(old), None)
            return
        self._selectors[key_of(new)] = selector_of(new["spec"].get("selector"))
        self.queue.add(key_of(new))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if not self._selectors or (old is not None and new is not None and _is_same(old, new)):
            return
        if new is not None:
            covering = self._covering(new)
            if len(covering) > 1:
                self._warn_of_many(new, covering)
            self._wake(covering)
        if old is not None and (new is None or labels_of(old) != labels_of(new)):
            self._wake(self._covering(old))

    def _covering(self, pod: Document) -> list[Document]:
        return [
            budget
            for budget in self._budgets.in_namespace(namespace_of(pod))
            if self._selectors[key_of(budget)].matches(labels_of(pod))
        ]

    def _wake(self, budgets: list[Document]) -> None:
        # Upstream wakes only the first of several; the others would be wrong until they are
        # changed themselves. Pods tend to change together.
        for budget in budgets:
            self.queue.add_after(key_of(budget), _BATCH_S)

    def _warn_of_many(self, pod: Document, budgets: list[Document]) -> None:
        where = f"{go_quote(namespace_of(pod))}/{go_quote(name_of(pod))}"
        chosen = go_quote(name_of(budgets[0]))
        text = f"Pod {where} matches multiple PodDisruptionBudgets.  Chose {chosen} arbitrarily."
        self.event(pod, "Warning", "MultiplePodDisruptionBudgets", text)

    async def sync(self, key: str) -> None:
        """Write what a budget allows now."""
        budget = self._budgets.get(key)
        if budget is None:
            return
        try:
            status = await self._status(budget)
        except ConflictError:
            raise
        except (NoScaleError, ValueError, ApiError, TransportError) as error:
            # Nothing may be evicted while it is not known what may.
            self.log.error("Failed to sync PDB", err=str(error), podDisruptionBudget=key)
            text = f"Failed to calculate the number of expected pods: {error}"
            self.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            status = failed_status(budget, str(error), self.clock.now_s())
        if status is not None and status != budget.get("status"):
            await self.api.update_status(POD_DISRUPTION_BUDGETS, {**budget, "status": status})

    async def _status(self, budget: Document) -> Document | None:
        selector = self._selectors[key_of(budget)]
        pods = [
            pod
            for pod in self._pods.in_namespace(namespace_of(budget))
            if selector.matches(labels_of(pod))
        ]
        if not pods:
            self.event(budget, "Normal", "NoPods", "No matching pods found")
        expected, desired = await self._counts(budget, pods)
        now_s = self.clock.now_s()
        disrupted = disrupted_pods(budget, pods, now_s)
        for pod in disrupted.overdue:
            # Parity: disruption.go buildDisruptedPodMap, v1.36: it says the namespace twice.
            where = f"{namespace_of(budget)}/{namespace_of(budget)}"
            text = f"Pod was expected by PDB {where} to be deleted but it wasn't"
            self.event(pod, "Warning", "NotDeleted", text)
        if disrupted.recheck_s is not None:
            self.queue.add_after(key_of(budget), disrupted.recheck_s - now_s)
        return new_status(
            budget,
            healthy=healthy_count(pods, disrupted.awaited, now_s),
            desired=desired,
            expected=expected,
            disrupted=disrupted.awaited,
            now_s=now_s,
        )

    async def _counts(self, budget: Document, pods: list[Document]) -> tuple[int, int]:
        """Return how many pods there should be, and how many of them healthy.

        Parity: disruption.go getExpectedPodCount, v1.36.
        """
        spec = budget["spec"]
        if goes_by_scale(spec):
            expected = (await self._expected(budget, pods)).count
        else:
            expected = 0 if spec.get("minAvailable") is None else len(pods)
        return expected, desired_healthy(spec, expected)

    async def _expected(self, budget: Document, pods: list[Document]) -> ExpectedPods:
        expected = await self._scales.expected(pods)
        if expected.unmanaged:
            shown = _shown_selector(budget["spec"].get("selector"))
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {shown}) were found to be "
                "unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
                "which may result in undefined behavior. To account for these pods please set "
                '".spec.minAvailable" field of the PDB to an integer value.'
            )
            self.event(budget, "Warning", "UnmanagedPods", text)
        return expected


def _is_same(old: Document, new: Document) -> bool:
    """Return whether a change of a pod means nothing to any budget."""
    return (
        is_ready(old) == is_ready(new)
        and is_terminating(old) == is_terminating(new)
        and labels_of(old) == labels_of(new)
        and owner_of(old) == owner_of(new)
    )


def _shown_selector(selector: Mapping[str, Any] | None) -> str:
    """Return a selector as upstream's messages have it."""
    if selector is None:
        return "nil"
    labels = selector.get("matchLabels") or {}
    pairs = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{rule['key']},Operator:{rule['operator']},"
        f"Values:[{' '.join(rule.get('values') or ())}],}},"
        for rule in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )
