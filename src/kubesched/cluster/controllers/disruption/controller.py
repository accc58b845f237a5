"""PodDisruptionBudgets: how many pods may be evicted now.

Owns the status of budgets, which evictions are checked against, and the removal of stale
DisruptionTarget conditions. Never evicts.
Upstream: pkg/controller/disruption/disruption.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from kubesched.api.documents import (
    Document,
    condition_of,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_of,
    seconds_of,
    selector_of,
)
from kubesched.api.label_selectors import Selector
from kubesched.api.times import time_text
from kubesched.client.errors import ApiError, ConflictError, TransportError
from kubesched.client.resources import POD_DISRUPTION_BUDGETS, PODS
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.disruption.scales import ExpectedPods, NoScaleError, ScaleFinder
from kubesched.cluster.controllers.disruption.status import disrupted_pods, failed_status
from kubesched.cluster.controllers.pod_control import condition_patch
from kubesched.golang.strconv import go_quote
from kubesched.workloads.disruption import (
    depends_on_scale,
    desired_healthy,
    healthy_count,
    new_status,
)

_BATCH_S: Final = 0.02
DISRUPTION_TARGET: Final = "DisruptionTarget"
_STALE_AFTER_S: Final = 120.0


class DisruptionController(Controller):
    """Updates the status of PodDisruptionBudgets."""

    name: ClassVar[str] = "disruption"
    component: ClassVar[str] = "controllermanager"
    workers: ClassVar[int] = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._budgets = self.informers.of(POD_DISRUPTION_BUDGETS)
        self._pods = self.informers.of(PODS)
        self._scale_finder = ScaleFinder(self.api)
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
        if not self._selectors or (
            old is not None and new is not None and _is_irrelevant_change(old, new)
        ):
            return
        if new is not None:
            budgets = self._budgets_of(new)
            if len(budgets) > 1:
                self._warn_multiple_budgets(new, budgets)
            self._enqueue(budgets)
        if old is not None and (new is None or labels_of(old) != labels_of(new)):
            self._enqueue(self._budgets_of(old))

    def _budgets_of(self, pod: Document) -> list[Document]:
        return [
            budget
            for budget in self._budgets.in_namespace(namespace_of(pod))
            if self._selectors[key_of(budget)].matches(labels_of(pod))
        ]

    def _enqueue(self, budgets: list[Document]) -> None:
        # Upstream enqueues only the first of several budgets; the others would stay outdated until
        # they change themselves. The delay batches pods that change together.
        for budget in budgets:
            self.queue.add_after(key_of(budget), _BATCH_S)

    def _warn_multiple_budgets(self, pod: Document, budgets: list[Document]) -> None:
        name = f"{go_quote(namespace_of(pod))}/{go_quote(name_of(pod))}"
        chosen = go_quote(name_of(budgets[0]))
        text = f"Pod {name} matches multiple PodDisruptionBudgets.  Chose {chosen} arbitrarily."
        self.event(pod, "Warning", "MultiplePodDisruptionBudgets", text)

    async def sync(self, key: str) -> None:
        """Update the status of a budget."""
        budget = self._budgets.get(key)
        if budget is None:
            return
        try:
            status = await self._status(budget)
        except ConflictError:
            raise
        except (NoScaleError, ValueError, ApiError, TransportError) as error:
            # Fail safe: no evictions while the budget cannot be computed.
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
        expected, desired = await self._expected_counts(budget, pods)
        now_s = self.clock.now_s()
        disrupted = disrupted_pods(budget, pods, now_s)
        for pod in disrupted.overdue:
            # Parity: disruption.go buildDisruptedPodMap, v1.36: the text has the namespace twice.
            name = f"{namespace_of(budget)}/{namespace_of(budget)}"
            text = f"Pod was expected by PDB {name} to be deleted but it wasn't"
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

    async def _expected_counts(self, budget: Document, pods: list[Document]) -> tuple[int, int]:
        """Return the expected number of pods, and how many of them must be healthy.

        Parity: disruption.go getExpectedPodCount, v1.36.
        """
        spec = budget["spec"]
        if depends_on_scale(spec):
            expected = (await self._expected(budget, pods)).count
        else:
            expected = 0 if spec.get("minAvailable") is None else len(pods)
        return expected, desired_healthy(spec, expected)

    async def _expected(self, budget: Document, pods: list[Document]) -> ExpectedPods:
        expected = await self._scale_finder.expected(pods)
        if expected.unmanaged:
            selector = _format_selector(budget["spec"].get("selector"))
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to "
                "be unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
                "which may result in undefined behavior. To account for these pods please set "
                '".spec.minAvailable" field of the PDB to an integer value.'
            )
            self.event(budget, "Warning", "UnmanagedPods", text)
        return expected


def _is_irrelevant_change(old: Document, new: Document) -> bool:
    """Return whether a pod change cannot affect any budget."""
    return (
        is_ready(old) == is_ready(new)
        and is_terminating(old) == is_terminating(new)
        and labels_of(old) == labels_of(new)
        and owner_of(old) == owner_of(new)
    )


def _format_selector(selector: Mapping[str, Any] | None) -> str:
    """Format a selector as upstream's messages do."""
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


class StaleDisruptionController(Controller):
    """Removes the DisruptionTarget condition of pods that were not deleted after all."""

    name: ClassVar[str] = "stale-pod-disruption"
    component: ClassVar[str] = "controllermanager"
    workers: ClassVar[int] = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.informers.of(PODS)
        self._pods.on_change(self._pod_changed)

    def _pod_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None and stale_at_s(new) is not None:
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        """Set the condition to False once it is stale."""
        pod = self._pods.get(key)
        at_s = None if pod is None else stale_at_s(pod)
        if pod is None or at_s is None:
            return
        now_s = self.clock.now_s()
        if at_s > now_s:
            self.queue.add_after(key, at_s - now_s)
            return
        condition = {
            "type": DISRUPTION_TARGET,
            "status": "False",
            "observedGeneration": pod["metadata"].get("generation"),
            "lastTransitionTime": time_text(now_s),
            "reason": None,
            "message": None,
        }
        patch = condition_patch(pod, condition)
        await self.api.patch_status(PODS, pod, patch)


def stale_at_s(pod: Document) -> float | None:
    """Return when a pod's DisruptionTarget condition becomes stale; None if it does not."""
    condition = condition_of(pod, DISRUPTION_TARGET)
    if condition is None or condition.get("status") != "True" or is_terminating(pod):
        return None
    # A kubelet may need time to terminate a pod; a finished pod no longer changes.
    is_terminal = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if condition.get("reason") == "TerminationByKubelet" or is_terminal:
        return None
    return seconds_of(condition.get("lastTransitionTime")) + _STALE_AFTER_S
