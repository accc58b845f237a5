"""The pod subresources binding and eviction.

Upstream: pkg/registry/core/pod/storage/{storage,eviction}.go
"""

from __future__ import annotations

from typing import Any

from kubesched.api.field_errors import aggregate_text
from kubesched.cluster.apiserver.documents import (
    Document,
    copy_of,
    labels_of,
    name_of,
    namespace_of,
)
from kubesched.cluster.apiserver.errors import (
    ApiError,
    Problem,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_object,
    not_found,
    not_supported,
    required,
    too_many_requests,
)
from kubesched.cluster.apiserver.kinds.selectors import selects
from kubesched.cluster.apiserver.resources import Writer
from kubesched.cluster.apiserver.strategy import Request

_MAX_DISRUPTED = 2000
_REJECTED = "Cannot evict pod as it would violate the pod's disruption budget."
_TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
SUCCESS: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class BindingAction:
    """Binds a pod: POST pods/NAME/binding, and POST bindings, which names the pod in the body."""

    name = "binding"
    group = ""
    version = "v1"
    kind = "Binding"

    def create(self, body: Document, request: Request, writer: Writer) -> Document:
        """Bind the pod, or reject the binding."""
        name = name_of(body)
        if request.name and request.name != name:
            raise bad_request("name in URL does not match name in Binding object")
        if problems := _binding_problems(body):
            # Parity: upstream returns an aggregate, not a Status, which becomes an internal error.
            text = aggregate_text(str(problem) for problem in problems)
            raise ApiError(500, "", text)
        _add_topology_labels(body, request)
        pod = writer.get("", "pods", request.namespace, name)
        if pod is None:
            raise not_found("", "pods", name)
        _check_preconditions(body, pod, name)
        if reason := _cannot_bind(pod, name):
            raise conflict("", "pods/binding", name, reason)
        if not request.is_dry_run:
            writer.replace("", "pods", _bound(pod, body, request), request)
        return {**copy_of(SUCCESS), "code": 201}


def _binding_problems(binding: Document) -> list[Problem]:
    target = binding.get("target") or {}
    problems = []
    if target.get("kind") not in {None, "", "Node"}:
        problems.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        problems.append(required("target.name"))
    return problems


def _add_topology_labels(binding: Document, request: Request) -> None:
    # Parity: plugin/pkg/admission/podtopologylabels/admission.go admitBinding, v1.36
    target = binding.get("target") or {}
    if target.get("kind") != "Node" or request.resource == "bindings":
        return
    node = request.reader.get("", "nodes", "", target.get("name") or "")
    for key in _TOPOLOGY_LABELS:
        value = labels_of(node or {}).get(key)
        if value is not None:
            binding.setdefault("metadata", {}).setdefault("labels", {})[key] = value


def _check_preconditions(binding: Document, pod: Document, name: str) -> None:
    preconditions, metadata = binding.get("metadata") or {}, pod["metadata"]
    for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        expected, actual = preconditions.get(field), metadata.get(field)
        if expected and expected != actual:
            key = f"/registry/pods/{namespace_of(pod)}/{name}"
            reason = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: {title} in precondition: {expected}, "
                f"{title} in object meta: {actual}"
            )
            raise conflict("", "pods", name, reason)


def _cannot_bind(pod: Document, name: str) -> str:
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(pod: Document, binding: Document, request: Request) -> Document:
    bound: Document = copy_of(pod)
    bound["spec"]["nodeName"] = binding["target"]["name"]
    status = bound.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    metadata = binding.get("metadata") or {}
    for name in ("annotations", "labels"):
        if metadata.get(name):
            bound["metadata"][name] = {**(bound["metadata"].get(name) or {}), **metadata[name]}
    set_condition(status, {"type": "PodScheduled", "status": "True"}, request.now)
    return bound


class EvictionAction:
    """Evicts a pod if its disruption budgets allow it: POST pods/NAME/eviction."""

    name = "eviction"
    group = "policy"
    version = "v1"
    kind = "Eviction"

    def create(self, body: Document, request: Request, writer: Writer) -> Document:
        """Delete the pod, or reject the eviction."""
        name = name_of(body)
        if request.name != name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = _delete_options(body, request)
        pod = writer.get("", "pods", request.namespace, name)
        if pod is None:
            raise not_found("", "pods", name)
        if _can_ignore_budgets(pod):
            self._delete(pod, options, request, writer)
            return {**copy_of(SUCCESS), "code": 201}
        budgets = [
            budget
            for budget in writer.list("policy", "poddisruptionbudgets", request.namespace)
            if selects((budget.get("spec") or {}).get("selector"), labels_of(pod))
        ]
        if len(budgets) > 1:
            raise ApiError(
                500,
                "",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support.",
            )
        if budgets and not _is_unhealthy_and_free(pod, budgets[0]):
            taken = _decremented(budgets[0], name, request)
            if not _is_dry_run(options):
                writer.replace("policy", "poddisruptionbudgets", taken, request)
        self._delete(pod, options, request, writer)
        return {**copy_of(SUCCESS), "code": 201}

    def _delete(self, pod: Document, options: Document, request: Request, writer: Writer) -> None:
        name = name_of(pod)
        if not _is_dry_run(options):
            _check_delete_preconditions(pod, options)
            marked: Document = copy_of(pod)
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
            set_condition(marked.setdefault("status", {}), condition, request.now)
            stored = writer.replace("", "pods", marked, request)
            expected = (options.get("preconditions") or {}).get("resourceVersion")
            if expected is not None:
                version = stored["metadata"].get("resourceVersion")
                kept = {**options["preconditions"], "resourceVersion": version}
                options = {**options, "preconditions": kept}
        writer.delete("", "pods", request.namespace, name, options, request)


def _delete_options(body: Document, request: Request) -> Document:
    options: Document = copy_of(body.get("deleteOptions") or {})
    if options.get("ignoreStoreReadErrorWithClusterBreakingPotential"):
        path = "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential"
        text = "can not be set for pod eviction, try after removing the option"
        raise invalid_object("policy", "Eviction", name_of(body), [invalid(path, True, text)])
    if request.is_dry_run and not options.get("dryRun"):
        options["dryRun"] = ["All"]
    return options


def _is_dry_run(options: Document) -> bool:
    return bool(options.get("dryRun"))


def _can_ignore_budgets(pod: Document) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    is_leaving = bool(pod["metadata"].get("deletionTimestamp"))
    return phase in {"Succeeded", "Failed", "Pending"} or is_leaving


def _is_unhealthy_and_free(pod: Document, budget: Document) -> bool:
    ready = find_condition(pod.get("status") or {}, "Ready")
    if ready is not None and ready.get("status") == "True":
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired


def _check_delete_preconditions(pod: Document, options: Document) -> None:
    preconditions, metadata = options.get("preconditions") or {}, pod["metadata"]
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if uid and uid != metadata.get("uid"):
        text = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({metadata.get('uid')}). The object might have been deleted and then recreated"
        )
        raise conflict("", "Pod", name_of(pod), text)
    if version and version != metadata.get("resourceVersion"):
        text = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({metadata.get('resourceVersion')}). The object might "
            "have been modified"
        )
        raise conflict("", "Pod", name_of(pod), text)


def _rejection(message: str, retry_after_s: int) -> ApiError:
    error = too_many_requests(_REJECTED, retry_after_s)
    if not retry_after_s:
        error.details.pop("retryAfterSeconds", None)
    error.details["causes"] = [{"reason": "DisruptionBudget", "message": message}]
    return error


def _decremented(budget: Document, pod_name: str, request: Request) -> Document:
    """Return the budget with one allowed disruption less, or reject the eviction."""
    name = name_of(budget)
    status: dict[str, Any] = budget.get("status") or {}
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _rejection(text, 10)
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        raise forbidden(
            "policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative"
        )
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", name, text)
    if allowed == 0:
        raise _rejection(_why_not(name, status), 0)
    taken: Document = copy_of(budget)
    new = taken["status"]
    new["disruptionsAllowed"] = allowed - 1
    new["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: request.now}
    if allowed == 1:
        _set_insufficient_pods(taken, request.now)
    return taken


def _why_not(name: str, status: Document) -> str:
    condition = find_condition(status, "DisruptionAllowed") or {}
    message = condition.get("message") if condition.get("status") == "False" else ""
    start = f"The disruption budget {name}"
    if message and condition.get("reason") == "SyncFailed":
        why = f"because it failed sync: {message}"
        return f"{start} does not allow evicting pods currently {why}"
    desired, current = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
    if current <= desired:
        return f"{start} needs {desired} healthy pods and has {current} currently"
    if message:
        why = f"({condition.get('reason') or ''}): {message}"
        return f"{start} does not allow evicting pods currently {why}"
    return f"{start} does not allow evicting pods currently"


def _set_insufficient_pods(budget: Document, now: str) -> None:
    # Parity: component-helpers/apps/poddisruptionbudget UpdateDisruptionAllowedCondition, v1.36
    conditions = budget["status"].setdefault("conditions", [])
    fresh = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": budget["status"].get("observedGeneration") or 0,
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    for index, old in enumerate(conditions):
        if old.get("type") == "DisruptionAllowed":
            if old.get("status") == "False":
                fresh["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[index] = fresh
            return
    conditions.append(fresh)


def find_condition(status: Document, kind: str) -> Document | None:
    """Return a condition; None if the status has none of that type."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            found: Document = condition
            return found
    return None


def set_condition(status: Document, condition: Document, now: str) -> None:
    """Set a condition; lastTransitionTime becomes `now` if the status changes."""
    conditions = status.setdefault("conditions", [])
    fresh = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            if old.get("status") == condition["status"]:
                fresh["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[index] = fresh
            return
    conditions.append(fresh)
